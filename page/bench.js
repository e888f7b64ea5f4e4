// Records of `runmax bench`: every implementation on every problem, beside what the machine can do.

const isFigure = (x) => typeof x === "number" && Number.isFinite(x);
const benchStyles = [
  { kind: "runmax", shape: "diamond", dash: "" }, { kind: "naive", shape: "square", dash: "" }, { kind: "online", shape: "circle", dash: "dashed" },
  { kind: "pertile", shape: "triangle", dash: "dashed" }, { kind: "truth", shape: "circle", dash: "dotted" }, { kind: "floor", shape: "square", dash: "dotted" },
];

function benchRecord(record) {
  const { machine, limits, results } = record;
  const threadsText = (n) => `${n} thread${n === 1 ? "" : "s"}`;
  // On a GPU there are no threads to count, and a graph is a way of its own.
  const wayOf = (r) => r.clock === "graph" ? "graph" : r.cache;
  const nameOf = (r) => [r.implementation === "runmax" ? r.kernel : r.implementation, r.threads ? threadsText(r.threads) : "", wayOf(r)].filter(Boolean).join(", ");
  const peak = limits.fma.reduce((a, b) => b.flops_per_s > (a?.flops_per_s ?? 0) ? b : a, null);
  const timed = results.filter((r) => isFigure(r.time_us) && r.time_us > 0);
  const tiles = [
    ["pass", [...new Set(results.map((r) => r.pass))].join(", ") || "–"], ["instructions", machine.simd], [peak ? `FP32 FMA, ${threadsText(peak.threads)}` : "", peak ? rateText(peak.flops_per_s, "FLOP/s") : ""],
    ...[["FP32 FMA", limits.fma_flops_per_s], ["fp16 tensor cores", limits.tensor_flops_per_s]].map(([name, rate]) => rate > 0 ? [name, rateText(rate, "FLOP/s")] : null),
    limits.copy_bytes_per_s > 0 ? ["copy, measured", rateText(limits.copy_bytes_per_s, "B/s")] : null,
    ["problems", new Set(results.map((r) => r.problem)).size], ["rounds", record.rounds], ["gates", record.passed ? "all passed" : "one failed"],
  ].filter((tile) => tile && tile[0]);
  const say = (r) => `${timeText(r.time_us / 1000)} ± ${percent(r.spread ?? 0, 2)}, ${rateText(r.flops / r.time_us * 1e6, "FLOP/s")}, ` +
    `${percent(r.share_of_limit)} of the ${r.limit} limit measured beside it, on ${r.problem}. ${record.method}`;

  // A sweep over lengths makes a chart: one line for each implementation, length from the problem's own text.
  const lengthOf = (r) => Number(/(?:^|:)q(\d+)/.exec(r.problem)?.[1] ?? NaN);
  const names = [...new Set(timed.map(nameOf))];
  const lengths = [...new Set(timed.map(lengthOf))].filter(Number.isFinite).sort((a, b) => a - b);
  const chart = (title, y, figureOf, references = []) => {
    const box = html("div", { class: "chart" });
    queueMicrotask(() => lineChart(box)({
      title, height: 290, x: { name: "queries", log: true, ticks: lengths, format: whole }, y, references, hint: "Median of the rounds; the share is of the limit measured in the same round.",
      series: names.map((name, i) => ({ name, ...benchStyles[i % benchStyles.length], points: timed.filter((r) => nameOf(r) === name)
        .map((r) => ({ x: lengthOf(r), y: figureOf(r), say: say(r) })).sort((a, b) => a.x - b.x) })),
    }));
    return box;
  };
  const charts = lengths.length < 2 ? null : html("div", { class: "split tight charts" },
    chart("Arithmetic rate against length", { name: "FLOP/s", log: true, format: (v) => rateText(v, "") }, (r) => r.flops / r.time_us * 1e6,
      peak ? [{ y: peak.flops_per_s, name: `FMA, ${rateText(peak.flops_per_s, "FLOP/s")}`, atLeft: true }] : []),
    chart("Share of the limit", { name: "share", low: 0, high: 1.12 }, (r) => r.share_of_limit, [{ y: 1, name: "the limit", atLeft: true }]));

  const rows = results.map((r) => {
    const bar = html("i");
    bar.style.width = `${Math.min(100, Math.max(0, 100 * (r.share_of_limit ?? 0)))}%`;
    return [r.problem, r.implementation === "runmax" ? r.kernel : r.implementation, r.threads || "–", wayOf(r),
      isFigure(r.time_us) ? { text: `${timeText(r.time_us / 1000)} ± ${percent(r.spread ?? 0, 2)}`, kind: "strong" } : { text: r.status, kind: "wrong" },
      isFigure(r.time_us) ? rateText(r.flops / r.time_us * 1e6, "FLOP/s") : "–", isFigure(r.bytes_per_s) ? rateText(r.bytes_per_s, "B/s") : "–",
      isFigure(r.share_of_limit) ? `${percent(r.share_of_limit)} of ${r.limit}` : "–", { node: html("span", { class: "magnitude" }, bar) },
      isFigure(r.gate_fraction) ? figure(r.gate_fraction, 3) : r.gate_fraction, isFigure(r.time_over_first) ? `${figure(r.time_over_first, 4)} ×` : "–"];
  });
  const reasons = results.filter((r) => r.reason).map((r) => `${r.problem}, ${nameOf(r)}: ${r.status}: ${r.reason}`);

  return html("article", { class: "card record" },
    html("header", {}, heading(3, machine.name), html("p", {}, `runmax ${record.runmax}, commit ${record.commit}, ${record.date.slice(0, 10)}, ${record.compiler}`)),
    html("dl", { class: "tiles" }, tiles.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, String(value))))),
    charts,
    heading(4, "Every figure"),
    table("Times and rates by problem and implementation", ["problem", "kernel", "threads", "cache", "time", "arithmetic", "memory", "share of limit", "of 100 %", "gate", "over first"], rows, ["kernel", "cache"]),
    reasons.length ? html("ul", { class: "hint" }, [...new Set(reasons)].map((reason) => html("li", {}, reason))) : null,
    html("details", {}, html("summary", {}, "How it was measured"), html("dl", { class: "method" },
      html("dt", {}, "method"), html("dd", {}, record.method), html("dt", {}, "flops"), html("dd", {}, record.flops_formula),
      html("dt", {}, "bytes"), html("dd", {}, record.bytes_formula),
      limits.fma.map((f) => [html("dt", {}, `FMA on ${threadsText(f.threads)}`), html("dd", {}, `${rateText(f.flops_per_s, "FLOP/s")}, ${figure(f.scaling, 3)} × one thread${f.scales ? "" : ": does not scale, threads share a core or others use it"}`)]),
      record.kernel_sources.map((s) => [html("dt", {}, s.folder), html("dd", {}, html("code", {}, `SHA-256 ${s.sha256.slice(0, 16)}…`))]))),
  );
}
