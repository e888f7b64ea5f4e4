// The costs view: exact bytes of one attention call with and without the score matrix, and where both lie on a roofline.

const elementTypes = [
  { id: "f32", name: "FP32, 4 bytes", bytes: 4 }, { id: "f64", name: "FP64, 8 bytes", bytes: 8 }, { id: "f16", name: "FP16, 2 bytes", bytes: 2 },
  { id: "bf16", name: "BF16, 2 bytes", bytes: 2 }, { id: "f8", name: "FP8, 1 byte", bytes: 1 },
];

// The makers' published peaks, dense: flops a second by type, bytes a second, bytes of memory.
const publishedMachines = [
  { name: "T4, published peaks", peak: { f64: 0.254e12, f32: 8.1e12, f16: 65e12 }, rate: 320e9, memory: 16e9 },
  { name: "A100 80 GB, published peaks", peak: { f64: 9.7e12, f32: 19.5e12, f16: 312e12, bf16: 312e12 }, rate: 2.039e12, memory: 80e9 },
  { name: "H200, published peaks", peak: { f64: 34e12, f32: 67e12, f16: 989e12, bf16: 989e12, f8: 1979e12 }, rate: 4.8e12, memory: 141e9 },
];

// What a record measured of its machine.
function measuredMachine(record) {
  const { limits } = record, { name, memory_bytes: memory } = record.device ?? record.machine;
  const [flops, rate] = record.schema === "runmax.lab" ? [limits.fma_flops_per_second, limits.copy_bytes_per_second]
    : [Math.max(0, ...limits.fma.map((f) => f.flops_per_s)), limits.copy_bytes_per_s];
  return flops > 0 && rate > 0 ? { name: `${name}, measured ${record.date.slice(0, 10)}`, peak: { f32: flops }, rate, memory } : null;
}

// All figures of `heads` heads of n queries and keys and head size d. lesson/costs.hpp counts four bytes an element;
// every byte count is proportional to that.
function attentionCosts(core, { n, d, heads, bytes }) {
  const one = core.costs(n, d), by = heads * bytes / 4, per = 4 / bytes;
  return { score: one.score * by, naive: one.naive * by, floor: one.floor * by, online: one.online * by, flops: one.flops * heads,
    ratio: one.ratio, naiveIntensity: one.naiveIntensity * per, onlineIntensity: one.onlineIntensity * per,
    askedIntensity: one.flops / one.online * per };
}

const costLines = [
  { id: "score", name: "score matrix", kind: "matrix", dash: "dotted", shape: "diamond", formula: "b·N²" },
  { id: "naive", name: "naive moves", kind: "naive", dash: "", shape: "square", formula: "5·b·N² + 4·b·N·d" },
  { id: "online", name: "online asks for", kind: "online", dash: "dashed", shape: "circle", formula: "2·b·N·d + ⌈N/64⌉·2·b·N·d" },
  { id: "floor", name: "floor: Q, K, V, O once", kind: "floor", dash: "", shape: "triangle", formula: "4·b·N·d" },
];

function makeCostsView(core, records) {
  const ranges = { n: byId("cost-n"), d: byId("cost-d"), heads: byId("cost-heads") };
  const typeSelect = byId("cost-type"), machineSelect = byId("cost-machine");
  const seen = new Set(), machines = [...publishedMachines];
  for (const record of records) {
    const machine = measuredMachine(record);
    if (machine && !seen.has(machine.name)) seen.add(machine.name), machines.push(machine);
  }
  typeSelect.append(...elementTypes.map((t, i) => html("option", { value: i }, t.name)));
  machineSelect.append(...machines.map((m, i) => html("option", { value: i }, m.name)));
  machineSelect.value = machines.length > 3 ? 3 : 0;
  const growth = lineChart(byId("cost-growth")), roofline = lineChart(byId("cost-roofline"));

  function show() {
    const n = 2 ** Number(ranges.n.value), d = Number(ranges.d.value), heads = 2 ** Number(ranges.heads.value);
    const type = elementTypes[Number(typeSelect.value)], machine = machines[Number(machineSelect.value)];
    for (const [id, value] of [["n", n], ["d", d], ["heads", heads]]) {
      byId(`cost-${id}-out`).textContent = whole(value);
      ranges[id].setAttribute("aria-valuetext", whole(value));
    }
    const c = attentionCosts(core, { n, d, heads, bytes: type.bytes });
    const peak = machine.peak[type.id] ?? machine.peak.f32, borrowed = machine.peak[type.id] === undefined;
    const most = Math.log(c.naive), least = Math.log(c.floor) - 1.5;
    byId("cost-table").replaceChildren(table("Bytes of this attention call", ["", "bytes", "log scale", "by formula", "at least"], costLines.map((line) => {
      const bar = html("i");
      bar.style.width = `${Math.max(2, 100 * (Math.log(c[line.id]) - least) / (most - least))}%`;
      bar.style.background = `var(--${{ matrix: "pertile", floor: "soft" }[line.kind] ?? line.kind})`;
      return [{ node: html("span", {}, swatch(line), line.name) }, { text: bytesText(c[line.id]), kind: "strong" },
        { node: html("span", { class: "magnitude" }, bar) }, line.formula, timeText(c[line.id] / machine.rate * 1e3)];
    })));
    const ridge = peak / machine.rate, naiveSide = c.naiveIntensity < ridge;
    byId("cost-said").textContent =
      `Naive moves ${figure(c.ratio, 3)} times the floor. At ${figure(c.naiveIntensity, 3)} FLOP/B, whatever N is, it stays ` +
      `${naiveSide ? "below" : "above"} this machine's ridge of ${figure(ridge, 3)} and is limited by ${naiveSide ? "memory" : "arithmetic"}; without the matrix the limit is ` +
      `${figure(c.onlineIntensity, 3)} FLOP/B and grows with N. ${c.score > machine.memory ? `The scores alone (${bytesText(c.score)}) do not fit this machine's ${rateText(machine.memory, "B")}. ` : ""}` +
      `“At least” is bytes over ${rateText(machine.rate, "B/s")}; the arithmetic alone takes ${timeText(c.flops / peak * 1e3)} at ${rateText(peak, "FLOP/s")}` +
      `${borrowed ? `, the FP32 rate: no ${type.id} rate is known for this machine` : ""}.`;

    const lengths = Array.from({ length: 8 }, (_, i) => 4 ** (i + 3));
    growth({
      title: "Bytes against N", height: 290, summary: "Matrix and naive traffic grow with N squared, the floor with N.",
      hint: `${whole(heads)} head${heads > 1 ? "s" : ""}, d = ${d}, ${type.name}. Both axes are logarithmic.`,
      x: { name: "tokens N", log: true, ticks: [64, 1024, 16384, 131072, 1048576], format: whole },
      y: { name: "bytes", log: true, ticks: Array.from({ length: 7 }, (_, i) => 1024 ** i), format: bytesText },
      references: [{ x: n, name: `N = ${whole(n)}` }, { y: machine.memory, name: `memory, ${rateText(machine.memory, "B")}`, atLeft: true }],
      series: costLines.map((line) => ({ ...line, points: lengths.map((length) => {
        const bytes = attentionCosts(core, { n: length, d, heads, bytes: type.bytes })[line.id];
        return { x: length, y: bytes, say: `${bytesText(bytes)} at N = ${whole(length)}; ${line.formula} with b = ${type.bytes}${heads > 1 ? `, times ${heads} heads` : ""}` };
      }) })),
    });

    const points = [
      { ...costLines[1], name: "naive", x: c.naiveIntensity, how: "4·N²·d over five passes of the matrix" },
      { ...costLines[2], name: "online, as asked", x: c.askedIntensity, how: "over what blocks of 64 queries ask for, if no cache helps" },
      { ...costLines[3], name: "online, at the floor", x: c.onlineIntensity, how: "over Q, K, V and O once" },
    ];
    const low = Math.min(1, ...points.map((p) => p.x)) / 2, high = Math.max(4 * ridge, ...points.map((p) => 2 * p.x));
    const reach = (x) => Math.min(peak, x * machine.rate);
    roofline({
      title: `Roofline of ${machine.name}`, height: 290, summary: "Below the ridge memory limits, above it arithmetic.",
      hint: `Ridge ${figure(ridge, 3)} FLOP/B: ${rateText(peak, "FLOP/s")} over ${rateText(machine.rate, "B/s")}.`,
      x: { name: "FLOP per byte", log: true, low, high, format: (v) => figure(v, 3) },
      y: { name: "attainable FLOP/s", log: true, high: peak * 2.5, format: (v) => rateText(v, "") },
      references: [{ kind: "roof", from: [low, reach(low)], to: [ridge, peak] }, { kind: "roof", from: [ridge, peak], to: [high, peak], name: rateText(peak, "FLOP/s") }],
      series: points.map((p) => ({ name: p.name, kind: p.kind, shape: p.shape, curve: false, points: [{ x: p.x, y: reach(p.x),
        say: `${figure(p.x, 3)} FLOP/B, at most ${rateText(reach(p.x), "FLOP/s")}: ${timeText(c.flops / reach(p.x) * 1e3)} (${p.how})` }] })),
    });
  }

  for (const control of [...Object.values(ranges), typeSelect, machineSelect]) control.addEventListener("input", show);
  show();
}
