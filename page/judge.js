// Records of `runmax judge`: the verdict on somebody's kernel, every case, where it is wrong, and how long it takes.

const verdictWords = { accepted: "accepted", rejected: "rejected", "build-failed": "does not build", crashed: "crashed or hung", "not-run": "not run" };

// Cells of the output, darker where the error is larger; a digit is the power of ten of the bound, 9 is not finite.
function errorMap({ rows, columns, digits, rows_per_cell: tall, columns_per_cell: wide }) {
  const size = 9, left = 46, top = 18, width = left + columns * size + 2, height = top + rows * size + 2;
  const worst = [...digits].reduce((a, b) => Math.max(a, Number(b)), 0), wrong = [...digits].filter((d) => d !== "0").length;
  const places = [0, Math.floor((rows - 1) / 2), rows - 1].filter((r, i, all) => all.indexOf(r) === i);
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Error map" },
    svg("svg", { class: "error-map", viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": `${wrong} of ${rows * columns} cells are wrong; the largest error is ${worst === 9 ? "not finite or beyond" : "within"} ${whole(10 ** Math.min(worst, 8))} times its bound` },
      svg("text", { x: left, y: 11 }, `head dimensions 0 to ${columns * wide - 1}`),
      places.map((r) => svg("text", { x: left - 5, y: top + r * size + 8, "text-anchor": "end" }, String(r * tall))),
      [...digits].map((digit, i) => svg("rect", { x: left + (i % columns) * size, y: top + Math.floor(i / columns) * size, width: size - 1, height: size - 1,
        class: digit === "0" ? "right" : "wrong", "fill-opacity": digit === "0" ? 1 : (0.25 + 0.75 * Math.min(Number(digit), 6) / 6).toFixed(2) }))));
}

const failures = (list) => html("ul", { class: "verdicts" }, list.map((c) => html("li", {}, html("span", { class: "tag no" }, `✕ ${c.outcome}`),
  html("div", {}, html("div", {}, `${c.name}: ${c.message}`), html("div", { class: "detail" }, html("code", {}, c.repeat))))));

function judgeRecord(record) {
  const { candidate, device, cases, timing, isolation, error_map: map } = record;
  const fraction = (x) => typeof x === "number" ? figure(x, 4) : x === null ? "–" : { inf: "∞", "-inf": "−∞", nan: "NaN" }[x] ?? x;
  const passed = cases.filter((c) => c.outcome === "passed").length;
  const cores = `${device.threads} core${device.threads === 1 ? "" : "s"}`;
  const tiles = [
    ["verdict", verdictWords[record.verdict] ?? record.verdict], ["gate fraction against naive, N = 1024", fraction(record.gate_fraction_vs_naive_1024)],
    ["starts to win at", record.crossover_n !== null ? `N = ${whole(record.crossover_n)}` : record.largest_n !== null ? `nowhere up to ${whole(record.largest_n)}` : "not timed"],
    ["cases", cases.length ? `${passed} of ${cases.length} passed` : "–"], record.diagnosis ? ["finding", record.diagnosis] : null,
  ].filter(Boolean);

  const ticks = timing.map((t) => t.n), x = { name: "tokens N", log: true, ticks, format: whole };
  const chart = (spec) => { const box = html("div", { class: "chart" }); queueMicrotask(() => lineChart(box)(spec)); return box; };
  const line = (name, style, us, spread, how) => ({ name, ...style, points: timing.map((t) => {
    const ms = t[us] / 1000, around = spread ? ms * t[spread] : 0;
    return { x: t.n, y: ms, low: ms - around, high: ms + around, say: `${timeText(ms)}${spread ? ` ± ${percent(t[spread], 2)}` : ""} at N = ${whole(t.n)}${how(t)}` };
  }) });
  const charts = timing.length < 2 ? null : html("div", { class: "split tight charts" },
    chart({ title: "Time of one call against N", height: 290, x, y: { name: "time", log: true, format: timeText },
      series: [
        line("candidate", { kind: "runmax", shape: "diamond", dash: "" }, "candidate_us", "candidate_spread", (t) => `, median of ${t.rounds} rounds, ${percent(t.share_of_limit)} of the limit, ${whole(t.outputs_checked)} outputs checked`),
        line("naive", { kind: "naive", shape: "square", dash: "" }, "naive_us", "naive_spread", (t) => `, median of ${t.rounds} rounds`),
        line("limit of this machine", { kind: "truth", shape: "none", dash: "dotted" }, "floor_us", null, () => `: the arithmetic at the measured ${rateText(record.fma_flops_per_second, "FLOP/s")}`)],
      hint: `One FP32 head, d = 64, on ${cores} each. Whiskers are half of the interquartile range.` }),
    chart({ title: "naive over candidate", height: 290, x, y: { name: "times faster than naive", log: true, format: (v) => figure(v, 3) },
      series: [{ name: "candidate", kind: "runmax", shape: "diamond", dash: "", points: timing.map((t) => ({ x: t.n, y: t.naive_over_candidate, say: `naive takes ${figure(t.naive_over_candidate, 4)} times as long at N = ${whole(t.n)}` })) }],
      references: [{ y: 1, name: "as fast as naive" }], hint: record.crossover_n !== null ? `From N = ${whole(record.crossover_n)} on the candidate is ahead at every length tried.` : "The candidate is ahead nowhere to the end." }));

  const caseRows = cases.map((c) => [c.name, c.reason, { text: c.outcome, kind: c.outcome === "passed" ? null : "wrong" }, fraction(c.gate_fraction), fraction(c.gate_fraction_vs_naive),
    c.counts ? "all" : `all but ${c.blind_to}`]);
  const failed = cases.filter((c) => c.outcome !== "passed");
  return html("article", { class: "card record" },
    html("header", {}, heading(3, candidate.file.split("/").at(-1)), html("p", {}, `${candidate.tier} tier, ${device.name}, runmax ${record.runmax}, commit ${record.commit}, ${record.date.slice(0, 10)}, ${record.effort}, seed ${record.seed}`)),
    html("dl", { class: "tiles" }, tiles.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, String(value))))),
    html("p", { class: "prose" }, record.reason),
    record.explanation ? html("pre", { class: "prose explanation", tabindex: 0 }, record.explanation) : null,
    map.rows > 0 ? [heading(4, `Where the output of case ${map.case} is wrong`), errorMap(map),
      html("p", { class: "hint" }, `A cell is ${map.rows_per_cell} quer${map.rows_per_cell === 1 ? "y" : "ies"} by ${map.columns_per_cell} head dimension${map.columns_per_cell === 1 ? "" : "s"}; the darker, the larger the error beside its bound.`)] : null,
    charts,
    failed.length ? [heading(4, "What failed"), failures(failed.slice(0, 5)),
      failed.length > 5 ? html("details", {}, html("summary", {}, `${failed.length - 5} more`), failures(failed.slice(5))) : null] : null,
    cases.length ? [heading(4, "Every case"), table("Cases", ["case", "why it is asked", "outcome", "gate fraction", "against naive", "counts against"], caseRows, ["why it is asked", "counts against"])] : null,
    timing.length ? [heading(4, "Every time"), table("Times", ["N", "candidate", "naive", "naive/candidate", "of the limit", "outputs checked"], timing.map((t) => [whole(t.n),
      { text: `${timeText(t.candidate_us / 1000)} ± ${percent(t.candidate_spread, 2)}`, kind: "strong" }, `${timeText(t.naive_us / 1000)} ± ${percent(t.naive_spread, 2)}`, figure(t.naive_over_candidate, 4), percent(t.share_of_limit), whole(t.outputs_checked)]))] : null,
    html("details", {}, html("summary", {}, "How it was judged"), html("dl", { class: "method" },
      record.timing_method ? [html("dt", {}, "timing"), html("dd", {}, record.timing_method)] : null,
      record.why_stopped ? [html("dt", {}, "end"), html("dd", {}, record.why_stopped)] : null,
      html("dt", {}, "claim"), html("dd", {}, `lengths ${candidate.lengths}, multiples of ${candidate.multiple_of}, heads: ${candidate.heads}`),
      isolation.map((g) => [html("dt", {}, g.name), html("dd", {}, `${g.purpose}: ${g.enforced ? "enforced" : `not enforced here, ${g.why}`}`)]),
      html("dt", {}, "candidate"), html("dd", {}, html("code", {}, `SHA-256 ${candidate.sha256}`)))));
}
