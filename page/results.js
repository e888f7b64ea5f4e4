// Results: what the records say, as figures, charts and tables. Reports of one run are this section alone.

const paths = {
  naive: { name: "naive", kind: "naive", shape: "square", dash: "" },
  online: { name: "online, the lesson's kernel", kind: "online", shape: "circle", dash: "dashed" },
  runmax: { name: "runmax, the engine's pick", kind: "runmax", shape: "diamond", dash: "" },
};
const pathOf = (id) => paths[id] ?? { name: id, kind: "truth", shape: "triangle", dash: "dotted" };

// Headings follow the section's own: h3 and h4 below the page's h2, h2 and h3 below a report's h1.
const heading = (level, text) => html(`h${level - (byId("results-title").tagName === "H1" ? 1 : 0)}`, { class: level === 4 ? "part" : null }, text);

const isTime = (x) => typeof x === "number" && x > 0;

// Where a line through points, straight on log axes, crosses 1 for the first time from below; null if it never does.
function crossover(points) {
  for (let i = 1; i < points.length; ++i) {
    const [a, b] = [points[i - 1], points[i]];
    if (a.y < 1 && b.y >= 1) return a.x * (b.x / a.x) ** (Math.log(1 / a.y) / Math.log(b.y / a.y));
  }
  return null;
}

function labRecord(record) {
  const { device, limits, method } = record, gpu = device.kind === "cuda";
  const lengths = [...new Set(record.results.map((r) => r.n))].sort((a, b) => a - b);
  const ids = [...new Set(record.results.map((r) => r.path))];
  const of = (path, n, cache) => record.results.find((r) => r.path === path && r.n === n && r.cache === cache);
  const axis = { name: "tokens N", log: true, ticks: lengths, format: whole };
  const timesOf = (r) => `${timeText(r.time_ms)} ± ${percent(r.spread ?? 0, 2)}`;
  const chart = (spec) => { const box = html("div", { class: "chart" }); queueMicrotask(() => lineChart(box)(spec)); return box; };

  const measured = (cache) => ids.map((path) => ({ ...pathOf(path), points: lengths.map((n) => {
    const r = of(path, n, cache);
    if (!r || !isTime(r.time_ms)) return { x: n, y: NaN };
    const spread = r.time_ms * (r.spread ?? 0);
    return { x: n, y: r.time_ms, low: r.time_ms - spread, high: r.time_ms + spread,
      say: `${timesOf(r)}, ${cache}, at N = ${whole(n)} by ${r.kernel} (median of ${whole(r.samples)}, ± half of the interquartile range). ${method[cache]}.` };
  }) }));
  const ratio = (path, cache) => lengths.map((n) => {
    const a = of("naive", n, cache), b = of(path, n, cache);
    return { x: n, y: isTime(a?.time_ms) && isTime(b?.time_ms) ? a.time_ms / b.time_ms : NaN };
  });
  const ratios = ids.filter((path) => path !== "naive").map((path) => ({ ...pathOf(path), points: ratio(path, "warm").map((p) => ({ ...p,
    say: `naive takes ${figure(p.y, 4)} times as long at N = ${whole(p.x)}: medians, warm, of the same run` })) }));
  const gates = ids.map((path) => ({ ...pathOf(path), points: lengths.map((n) => {
    const r = of(path, n, "warm");
    return { x: n, y: r?.gate_fraction ?? NaN, say: r && `${figure(r.gate_fraction, 3)} of what the gate allows at N = ${whole(n)}: error ${figure(r.max_abs_error, 3)} at most, ` +
      `rtol ${figure(r.rtol, 2)}, ${whole(r.rows_gated)} query rows against double precision` };
  }) }));
  const crossed = ids.filter((path) => path !== "naive").map((path) => {
    const points = ratio(path, "warm").filter((p) => Number.isFinite(p.y)), at = crossover(points);
    if (!points.length) return `${pathOf(path).name}: did not run beside naive`;
    if (at) return `${pathOf(path).name}: overtakes naive near N = ${whole(at)}`;
    return `${pathOf(path).name}: ${points.every((p) => p.y >= 1) ? "faster than naive at every N" : points.every((p) => p.y < 1) ? "slower than naive at every N" : "does not stay ahead of naive"}`;
  });

  const best = record.results.filter((r) => r.path === "runmax" && r.cache === "warm" && isTime(r.time_ms)).at(-1);
  const tiles = [
    ["copy, measured", rateText(limits.copy_bytes_per_second, "B/s")], ["FP32 FMA, measured", rateText(limits.fma_flops_per_second, "FLOP/s")],
    ["ridge", `${figure(limits.ridge_flops_per_byte, 3)} FLOP/B`],
    best ? [`runmax at N = ${whole(best.n)}`, timeText(best.time_ms)] : null,
    ["gates", record.passed ? "all passed" : "a gate failed"],
  ].filter(Boolean);

  const resultRows = record.results.filter((r) => r.cache === "warm").map((r) => {
    const cold = of(r.path, r.n, "cold");
    return [whole(r.n), r.path, r.kernel || "–", { text: r.status === "ok" ? "passed" : r.status, kind: r.status === "failed" ? "wrong" : null },
      figure(r.max_abs_error, 4), figure(r.gate_fraction, 3), figure(r.gate_fraction_vs_naive, 3), bytesText(r.peak_bytes),
      isTime(r.time_ms) ? { text: timesOf(r), kind: "strong" } : "–", isTime(cold?.time_ms) ? timesOf(cold) : "–"];
  });
  const reasons = record.results.filter((r) => r.cache === "warm" && r.reason).map((r) => html("li", {}, `N = ${whole(r.n)}, ${r.path}: ${r.reason}`));

  const occupancy = record.resources.length ? [
    heading(4, "Occupancy"),
    table("Resources of the lesson's kernels, measured and predicted", ["", "occupancy", "of 100 %", "predicted", "blocks per SM", "registers", "shared memory", "limited by"], record.resources.map((r) => {
      const bar = html("i");
      bar.style.width = `${Math.min(100, Math.max(0, 100 * r.occupancy))}%`;
      return [r.kernel, { text: percent(r.occupancy), kind: "strong" }, { node: html("span", { class: "magnitude" }, bar) }, percent(r.predicted_occupancy), r.blocks_per_multiprocessor,
        r.registers, `${whole(r.shared_bytes)} B`, r.limited_by];
    })),
  ] : [heading(4, "Occupancy"), html("p", { class: "hint" }, gpu ? "The record names no kernel." : "A CPU has no multiprocessors, blocks or shared memory.")];

  const tag = (outcome, yes, no) => html("span", { class: `tag ${outcome === null ? "none" : outcome ? "yes" : "no"}` },
    outcome === null ? "– not here" : outcome ? `✓ ${yes}` : `✕ ${no}`);
  const list = (items) => html("ul", { class: "verdicts" }, items.map(([mark, name, ...details]) =>
    html("li", {}, mark, html("div", {}, html("div", {}, name), details.filter(Boolean).map((d) => html("div", { class: "detail" }, d))))));

  return html("article", { class: "card record" },
    html("header", {}, heading(3, device.name), html("p", {}, `runmax ${record.runmax}, commit ${record.commit}, ${record.date.slice(0, 10)}, ${record.compiler}`)),
    html("dl", { class: "tiles" }, tiles.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)))),
    html("p", { class: "prose" }, record.meaning),
    html("div", { class: "split tight charts" },
      [["warm", "Time against N, warm"], ["cold", "Time against N, cold"]].map(([cache, title]) => chart({
        title, height: 270, x: axis, y: { name: "time", log: true, format: timeText }, series: measured(cache),
        hint: `One FP32 head, d = 64. Whiskers are half of the interquartile range. How: ${method[cache]}.` })),
      chart({ title: "naive over path, warm", height: 270, x: axis, y: { name: "times faster than naive", log: true, format: (v) => figure(v, 3) }, series: ratios,
        references: [{ y: 1, name: "as fast as naive" }], hint: `${crossed.join(". ")}. Between lengths the line is straight on log axes.` }),
      chart({ title: "Error as a fraction of the gate", height: 270, x: axis, y: { name: "gate fraction", low: 0, high: Math.max(1.12, 1.1 * Math.max(...gates.flatMap((g) => g.points.map((p) => p.y)).filter(Number.isFinite), 0)) }, series: gates,
        references: [{ y: 1, name: "the gate" }], hint: "Largest error of any output element over what the gate allows there; above 1 is rejected." })),
    heading(4, "Every figure"),
    table("Results by length and path", ["N", "path", "kernel", "gates", "max abs error", "gate fraction", "against naive", "memory", "warm", "cold"], resultRows, ["path", "kernel"]),
    reasons.length ? html("ul", { class: "hint" }, reasons) : null,
    occupancy,
    record.predictions.length ? [heading(4, "Predictions"), list(record.predictions.map((p) => [tag(p.held, "held", "failed"), p.name, p.figures, p.reason]))] : null,
    record.pitfalls?.length ? [heading(4, "The lesson's mistakes, made on purpose"), list(record.pitfalls.map((p) => [tag(p.shown, "harm shown", "no harm seen"), p.name, p.figures, p.meaning]))] : null,
    html("details", {}, html("summary", {}, "How it was measured"), html("dl", { class: "method" },
      Object.entries(method).map(([name, text]) => [html("dt", {}, name.replaceAll("_", " ")), html("dd", {}, text)]),
      html("dt", {}, "device"), html("dd", {}, `${device.why}; ${device.driver}; seed ${record.seed}`),
      record.kernel_sources.map((s) => [html("dt", {}, s.folder), html("dd", {}, html("code", {}, `SHA-256 ${s.sha256.slice(0, 16)}…`))]))),
  );
}

// How a record of each schema is shown.
const recordViews = { "runmax.lab": labRecord, "runmax.bench": benchRecord, "runmax.judge": judgeRecord };
const recordName = (r) => `${r.schema.replace("runmax.", "")}: ${(r.device ?? r.machine).name}, ${r.date.replace("T", " ").replace("Z", " UTC")}, commit ${r.commit}`;

function makeResultsView(records) {
  const root = byId("records"), body = html("div");
  const show = (i) => body.replaceChildren(recordViews[records[i].schema](records[i]));
  if (records.length > 1) {
    const select = html("select", { id: "record" }, records.map((r, i) => html("option", { value: i }, recordName(r))));
    select.addEventListener("change", () => show(Number(select.value)));
    root.append(html("div", { class: "controls record-choice" }, html("label", { class: "field" }, html("span", {}, "Record"), select)));
  }
  root.append(body);
  if (records.length) show(0);
  else body.append(html("p", { class: "hint" }, "No record was given."));
}
