// The merge view: the row cut anywhere, a state for each piece, and the tree that merges neighbours to the whole row.

const cutsOf = {
  middle: 1 << 7, quarters: 1 << 3 | 1 << 7 | 1 << 11, uneven: 1 << 0 | 1 << 4 | 1 << 5 | 1 << 12, all: (1 << 15) - 1, none: 0,
};

// row() gives {scores, tile, swept}; call the returned function when it changed.
function makeMergeView(core, row) {
  const root = byId("tree"), detail = byId("node");
  let cuts = cutsOf.quarters, chosen = null;
  const keys = html("div", { class: "keys", "aria-hidden": "true" });
  const cutRow = html("div", { class: "cuts", role: "group", "aria-label": "Cuts between keys" });
  const levels = html("div");
  root.replaceChildren(keys, cutRow, levels);
  const cutButtons = Array.from({ length: maxKeys - 1 }, (_, i) => {
    const button = html("button", { type: "button", "aria-label": `Cut between keys ${i + 1} and ${i + 2}` });
    button.style.left = `${100 * (i + 1) / maxKeys}%`;
    button.addEventListener("click", () => { cuts ^= 1 << i; chosen = null; show(); });
    return button;
  });
  cutRow.append(...cutButtons);
  document.querySelectorAll("[data-cuts]").forEach((button) =>
    button.addEventListener("click", () => { cuts = cutsOf[button.dataset.cuts]; chosen = null; show(); }));

  const range = (n) => n.end - n.begin === 1 ? `key ${n.begin + 1}` : `keys ${n.begin + 1}–${n.end}`;
  const vector = (v) => `(${v.map((x) => figure(x, 3)).join(", ")})`;
  const figures = (...parts) => html("p", { class: "figures" }, parts);

  const agree = (off) => Number.isNaN(off) ? "a NaN is visible, so both are NaN." : off === 0 ? "the same bits, here."
    : `they differ by ${figure(off, 2)}, the rounding of two orders of adding.`;

  function describe(node) {
    const { state: s, left, right } = node, f = figure;
    if (!left) return [html("h3", {}, `${range(node)[0].toUpperCase()}${range(node).slice(1)}, alone`), figures(`m = ${f(s.max)}`), figures(`d = ${f(s.sum)}`), figures(`o = ${vector(s.out)}`),
      html("p", { class: "hint" }, "A piece needs nothing from its neighbours: the same sweep, over its own keys only.")];
    const l = left.state, r = right.state, shift = s.max === -Infinity ? "0" : f(s.max);
    const { swept } = row(), whole = swept.online.at(-1);
    const off = Math.max(...s.result.map((x, c) => Math.abs(x - whole.result[c])));
    return [
      html("h3", {}, node.begin === 0 && node.end === maxKeys ? `The whole row: ${range(left)} with ${range(right)}` : `${range(left)} with ${range(right)}`.replace("keys", "Keys").replace(/^key/, "Key")),
      figures(`m = max(${f(l.max)}, ${f(r.max)}) = `, html("b", {}, f(s.max))),
      figures(`left by exp(${f(l.max)} − ${shift}) = ${f(s.scaleLeft)}, right by exp(${f(r.max)} − ${shift}) = ${f(s.scaleRight)}`),
      figures(`d = ${f(l.sum)} · ${f(s.scaleLeft)} + ${f(r.sum)} · ${f(s.scaleRight)} = `, html("b", {}, f(s.sum))),
      figures(`o = ${vector(l.out)} · ${f(s.scaleLeft)} + ${vector(r.out)} · ${f(s.scaleRight)} = `, html("b", {}, vector(s.out))),
      html("p", { class: "hint" }, node.begin === 0 && node.end === maxKeys
        ? `Answer o / d = ${vector(s.result)}. One sweep from left to right gives ${vector(whole.result)}: ${agree(off)}`
        : "The side with the larger maximum keeps its scale; the other is multiplied by one factor."),
    ];
  }

  function show() {
    const { scores, tile } = row();
    core.scores.set(scores);
    const tree = core.tree(cuts, tile), column = root.clientWidth / maxKeys;
    if (chosen === null) chosen = tree.root.index;
    const largest = Math.max(...scores.filter((x) => !Number.isNaN(x)));
    keys.replaceChildren(...scores.map((x) => html("span", { class: x === largest ? "largest" : null },
      column < 32 ? figure(x, 1).replace(/^(−?)0\./, "$1.") : figure(x, 3))));
    cutButtons.forEach((button, i) => button.setAttribute("aria-pressed", Boolean(cuts >> i & 1)));
    const nodes = [];
    levels.replaceChildren(...tree.levels.map((level, depth) => html("div", { class: "level", role: "group", "aria-label": depth ? `Merges, level ${depth}` : "Pieces" }, level.map((n) => {
      const place = `grid-column: ${n.begin + 1} / ${n.end + 1}`, room = (n.end - n.begin) * column;
      const carried = depth > 0 && tree.levels[depth - 1].includes(n);
      let node;
      if (carried) {
        node = html("div", { class: "carried" }, room > 90 ? "carried on" : "↓");
      } else {
        const m = figure(n.state.max, room > 60 ? 3 : 2), d = figure(n.state.sum, room > 60 ? 3 : 2);
        const lines = room > 66 ? [`m ${m}`, html("small", {}, `d ${d}`)] : room > 34 ? [m, html("small", {}, d)] : ["·"];
        node = html("button", { type: "button", class: n.left ? "merged" : null, "aria-pressed": n.index === chosen,
          "aria-label": `${range(n)}: m ${figure(n.state.max)}, d ${figure(n.state.sum)}` }, lines);
        node.addEventListener("click", () => { chosen = n.index; show(); nodes[chosen]?.focus(); });
        nodes[n.index] = node;
      }
      node.style = place;
      return node;
    }))));
    const every = tree.levels.flat();
    detail.replaceChildren(...describe(every.find((n) => n.index === chosen) ?? tree.root));
  }

  let width = 0;
  new ResizeObserver(() => { if (root.clientWidth !== width) width = root.clientWidth, show(); }).observe(root);
  return { show };
}
