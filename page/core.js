// The arithmetic of the page: online_softmax.hpp as WebAssembly. JavaScript only places numbers and reads them.

const maxKeys = 16, valueDim = 4, stepFloats = 40, nodeFloats = 12;
const rules = ["online", "rescale", "pertile"];

async function loadCore(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0));
  const { exports } = (await WebAssembly.instantiate(bytes)).instance;
  const floats = (at, count) => new Float32Array(exports.memory.buffer, at, count);
  const doubles = (at, count) => new Float64Array(exports.memory.buffer, at, count);
  const scores = floats(exports.page_scores(), maxKeys);
  const values = floats(exports.page_values(), maxKeys * valueDim);
  const steps = floats(exports.page_steps(), rules.length * maxKeys * stepFloats);
  const truth = doubles(exports.page_truth(), maxKeys * valueDim);
  const nodes = floats(exports.page_nodes(), (2 * maxKeys - 1) * nodeFloats);
  const costs = doubles(exports.page_cost_figures(), 9);

  const readStep = (rule, tile) => {
    const at = (rule * maxKeys + tile) * stepFloats;
    const run = (from, count) => Array.from(steps.subarray(at + from, at + from + count));
    const [oldMax, tileMax, max, rescale, oldSum, tileSum, sum, lse] = run(0, 8);
    return { oldMax, tileMax, max, rescale, oldSum, tileSum, sum, lse, oldOut: run(8, 4), tileOut: run(12, 4),
      out: run(16, 4), result: run(20, 4), weights: run(24, maxKeys) };
  };

  return {
    scores, values, steps, truth, nodes,

    // Every rule's steps over the first `keys` scores, and plain softmax of all keys up to the end of each tile.
    sweep(tile, keys = maxKeys) {
      const count = exports.page_sweep(keys, tile);
      const each = (read) => Array.from({ length: count }, (_, i) => read(i));
      const swept = { count, truth: each((i) => Array.from(truth.subarray(i * valueDim, (i + 1) * valueDim))) };
      rules.forEach((name, rule) => { swept[name] = each((i) => readStep(rule, i)); });
      return swept;
    },

    weight: (score, max) => exports.page_weight(score, max),

    // The tree over the pieces between cuts: bit j of `cuts` separates keys j and j + 1. Neighbours merge level by
    // level; an odd one is carried up.
    tree(cuts, tile, keys = maxKeys) {
      let next = 0, level = [];
      const read = (index) => {
        const f = Array.from(nodes.subarray(index * nodeFloats, (index + 1) * nodeFloats));
        return { max: f[0], sum: f[1], out: f.slice(2, 6), result: f.slice(6, 10), scaleLeft: f[10], scaleRight: f[11] };
      };
      for (let begin = 0; begin < keys;) {
        let end = begin + 1;
        while (end < keys && !(cuts >> (end - 1) & 1)) ++end;
        exports.page_leaf(next, begin, end, tile);
        level.push({ index: next, begin, end, left: null, right: null, state: read(next++) });
        begin = end;
      }
      const levels = [level];
      while (level.length > 1) {
        const merged = [];
        for (let i = 0; i + 1 < level.length; i += 2) {
          const [left, right] = [level[i], level[i + 1]];
          exports.page_merge(left.index, right.index, next);
          merged.push({ index: next, begin: left.begin, end: right.end, left, right, state: read(next++) });
        }
        if (level.length % 2) merged.push(level.at(-1));
        levels.push(level = merged);
      }
      return { levels, root: level[0], count: next };
    },

    // One FP32 head of n queries and keys of width d, by the formulas of lesson/costs.hpp.
    costs(n, d) {
      exports.page_costs(n, d);
      const [score, naive, floor, skipped, online, ratio, flops, naiveIntensity, onlineIntensity] = costs;
      return { score, naive, floor, skipped, online, ratio, flops, naiveIntensity, onlineIntensity };
    },
  };
}
