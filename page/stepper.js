// The stepper: one row swept tile by tile, everything carried shown with its numbers, beside it two famous mistakes.

const valueColumns = [
  { name: "ones", of: () => 1, about: "1 for every key, so the answer is the sum of the weights" },
  { name: "place", of: (key) => key + 1, about: "1 to 16, so the answer is where the attention lies" },
  { name: "parity", of: (key) => key % 2 ? 1 : -1, about: "−1 and 1 in turn" },
  { name: "wave", of: (key) => [0, 1, 0, -1][key % 4], about: "0, 1, 0, −1 in turn" },
];

const presets = [
  { name: "Largest last", scores: [0.8, 2, -0.5, 1.1, 0.3, 1.6, -1.2, 0.9, 1.4, -0.3, 1.8, 0.2, 0.6, 4, 1, -0.8] },
  { name: "Largest first", scores: [0.8, 4, -0.5, 1.1, 0.3, 1.6, -1.2, 0.9, 1.4, -0.3, 1.8, 0.2, 0.6, 2, 1, -0.8] },
  { name: "All equal", scores: Array(16).fill(1.5) },
  { name: "Rising", scores: Array.from({ length: 16 }, (_, i) => (i + 1) / 4) },
  { name: "Huge values", scores: [700, 860, 640, 820, 800, 790, 850, 700, 690, 870, 780, 860, 740, 900, 880, 600] },
  { name: "−inf: first tile and others masked", scores: [-Infinity, -Infinity, -Infinity, -Infinity, 0.3, 1.6, -Infinity, 0.9, 1.4, -Infinity, 1.8, -Infinity, 0.6, 4, 1, -Infinity] },
  { name: "A NaN in the third tile", scores: [0.8, 2, -0.5, 1.1, 0.3, 1.6, -1.2, 0.9, 1.4, NaN, 1.8, 0.2, 0.6, 4, 1, -0.8] },
];

const ways = [
  { id: "truth", name: "plain softmax, the truth", kind: "truth", dash: "dotted", shape: "none" },
  { id: "online", name: "online", kind: "online", dash: "", shape: "circle" },
  { id: "rescale", name: "output not rescaled", kind: "rescale", dash: "dashed", shape: "triangle" },
  { id: "pertile", name: "normalised per tile", kind: "pertile", dash: "dashed", shape: "square" },
];

// A typed score; null if it is none.
function readScore(text) {
  const plain = text.trim().toLowerCase().replace("−", "-").replace(",", ".");
  if (/^[+-]?(inf|infinity|∞)$/.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  if (plain === "nan") return NaN;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(plain) ? Math.fround(Number(plain)) : null;
}

function makeStepper(core, onRowChange) {
  valueColumns.forEach((column, c) => {
    for (let key = 0; key < maxKeys; ++key) core.values[key * valueDim + c] = column.of(key);
  });
  let scores = [...presets[0].scores], tile = 4, at = 0, chosen = 13, column = 0, swept = null, timer = null;

  const preset = byId("preset"), keyValue = byId("key-value"), tileRange = byId("tile");
  const buttons = { reset: byId("reset"), back: byId("back"), step: byId("step"), play: byId("play") };
  const speed = byId("speed"), columnSelect = byId("column");
  preset.append(...presets.map((p, i) => html("option", { value: i }, p.name)), html("option", { value: "own", disabled: true }, "Your own"));
  columnSelect.append(...valueColumns.map((c, i) => html("option", { value: i }, c.name)));
  const showState = html("div");
  const bars = barChart(byId("bars"), {
    onChange: (key, score) => { chosen = key; setScore(key, score); },
    onChoose: (key) => { if (chosen !== key) { chosen = key; show(); } },
  });
  const drift = lineChart(byId("drift"));

  const keysText = (from, to) => to - from === 1 ? `key ${from + 1}` : `keys ${from + 1}–${to}`;
  const vector = (v) => `(${v.map((x) => figure(x, 3)).join(", ")})`;

  function compute() {
    core.scores.set(scores);
    swept = core.sweep(tile);
    at = Math.min(at, swept.count);
  }

  function setScore(key, score) {
    scores[key] = Math.fround(score);
    preset.value = "own";
    compute();
    show();
    onRowChange();
  }

  function go(to) {
    at = Math.max(0, Math.min(to, swept.count));
    show();
  }

  function play(on) {
    clearTimeout(timer);
    timer = null;
    buttons.play.setAttribute("aria-pressed", on);
    buttons.play.textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (at === swept.count) go(0);
    const tick = () => {
      go(at + 1);
      if (at === swept.count) play(false);
      else timer = setTimeout(tick, 1400 / 2 ** Number(speed.value));
    };
    timer = setTimeout(tick, 350);
  }

  function said(step, from, to) {
    if (!step) return "Nothing is seen yet: m = −∞, d = 0, o = 0. That state is neutral, so no tile is special.";
    const largest = Number.isFinite(step.tileMax) ? `its largest score is ${figure(step.tileMax)}` : step.tileMax > 0 ? "its largest score is ∞" : "no key in it is visible";
    const who = `Tile ${at}, ${keysText(from, to)}: ${largest}. `;
    if (Number.isNaN(step.sum)) return who + "A NaN never becomes the maximum, but it enters the sum and the output: a visible NaN shows, it is never lost.";
    if (step.max === -Infinity) return who + "Nothing has been visible yet, so the state stays neutral and the answer is 0, not NaN.";
    if (step.oldMax === -Infinity) return who + `The maximum rises from −∞ to ${figure(step.max)}; exp(−∞) = 0 wipes the initial state.`;
    if (step.max === step.oldMax) return who + `The maximum stays at ${figure(step.max)}: the factor is 1, and the tile is only added.`;
    const huge = step.max > 88.7 && Number.isFinite(step.max) ? ` exp(${figure(step.max)}) alone would be ∞ in FP32.` : "";
    return who + `The maximum rises from ${figure(step.oldMax)} to ${figure(step.max)}: everything carried is multiplied by ${figure(step.rescale)}, then the tile is added.${huge}`;
  }

  function line(name, symbols, figures, kind = "") {
    return html("div", { class: `line ${kind}` }, html("p", { class: "name" }, name),
      html("p", { class: "symbols" }, symbols), (Array.isArray(figures[0]) ? figures : [figures]).map((row) => html("p", { class: "figures" }, row)));
  }
  const factor = (x) => html("span", { class: "factor" }, figure(x));
  const result = (x) => html("b", {}, x);

  function identity(step, from, to) {
    if (!step) {
      const waits = "step once to fill in the numbers";
      return [
        line("The past moves to the new maximum by one factor", "exp(x − m′) = exp(x − m) · exp(m − m′)", waits, "key"),
        line("New maximum", "m′ = max(m, tile)", waits), line("Factor for everything carried", "c = exp(m − m′)", waits),
        line("Sum", "d′ = c·d + Σ exp(x − m′)", waits, "sum"), line("Output, four value columns", "o′ = c·o + Σ exp(x − m′)·v", waits, "out"),
      ];
    }
    const f = figure, terms = step.weights.slice(0, to - from).map((w) => f(w, 3));
    const shown = terms.length > 6 ? [...terms.slice(0, 4), "…", terms.at(-1)] : terms;
    const past = scores.slice(0, from).map((x, key) => ({ x, key })).filter((k) => Number.isFinite(k.x));
    const pick = past.find((k) => k.key === chosen) ?? past.reduce((a, b) => b.x > (a?.x ?? -Infinity) ? b : a, null);
    const first = !pick || step.oldMax === -Infinity
      ? ["there is no past yet: exp(−∞ − m′) = ", factor(step.rescale)]
      : [[`key ${pick.key + 1}: exp(${f(pick.x)} − ${f(step.max)}) = exp(${f(pick.x)} − ${f(step.oldMax)}) · `, html("span", { class: "factor" }, `exp(${f(step.oldMax)} − ${f(step.max)})`)],
        [`${f(core.weight(pick.x, step.max))} = ${f(core.weight(pick.x, step.oldMax))} · `, factor(step.rescale)]];
    return [
      line("The past moves to the new maximum by one factor", "exp(x − m′) = exp(x − m) · exp(m − m′)", first, "key"),
      line("New maximum", "m′ = max(m, tile)", [`max(${f(step.oldMax)}, ${f(step.tileMax)}) = `, result(f(step.max))]),
      line("Factor for everything carried", "c = exp(m − m′)", [`exp(${f(step.oldMax)} − ${step.max === -Infinity ? "0" : f(step.max)}) = `, factor(step.rescale)]),
      line("Sum", "d′ = c·d + Σ exp(x − m′)", [factor(step.rescale), ` · ${f(step.oldSum)} + (${shown.join(" + ")}) = `, result(f(step.sum))], "sum"),
      line("Output, four value columns", "o′ = c·o + Σ exp(x − m′)·v", [factor(step.rescale), ` · ${vector(step.oldOut)} + ${vector(step.tileOut)} = `, result(vector(step.out))], "out"),
    ];
  }

  function stateTable(step) {
    const s = step ?? { oldMax: -Infinity, tileMax: null, max: -Infinity, rescale: null, oldSum: 0, tileSum: null, sum: 0,
      oldOut: [0, 0, 0, 0], tileOut: [null, null, null, null], out: [0, 0, 0, 0], result: [0, 0, 0, 0] };
    // A narrow screen has room for three digits.
    const f = (x) => figure(x, byId("state").clientWidth < 400 ? 3 : 4);
    const strong = (x) => ({ text: f(x), kind: "strong" });
    const scaled = (x) => f(step ? Math.fround(x * s.rescale) : null);
    return table("State before and after this tile", ["", "before", "× c", "+ tile", "after", "answer"], [
      ["m", f(s.oldMax), "", f(s.tileMax), strong(s.max), ""],
      ["d", f(s.oldSum), scaled(s.oldSum), f(s.tileSum), strong(s.sum), ""],
      ...valueColumns.map((c, i) => [`o ${c.name}`, f(s.oldOut[i]), scaled(s.oldOut[i]), f(s.tileOut[i]), strong(s.out[i]), f(s.result[i])]),
    ]);
  }

  const answer = (way, i) => way.id === "truth" ? swept.truth[i] : swept[way.id][i].result;
  const distance = (way, i) => Math.max(...answer(way, i).map((x, c) => Math.abs(x - swept.truth[i][c])));

  function fourWays() {
    const i = at - 1, rows = [];
    for (const way of ways) {
      const off = i < 0 ? null : distance(way, i), wrong = off !== null && !(off < 1e-3) && way.id !== "online" && way.id !== "truth";
      rows.push([{ node: html("span", {}, swatch(way), way.name) }, { text: i < 0 ? "–" : figure(answer(way, i)[column]), kind: "strong" },
        { text: i < 0 ? "–" : way.id === "truth" ? "" : figure(off, 2), kind: wrong ? "wrong" : null }]);
    }
    byId("ways").replaceChildren(table(`Answers after this tile, column ${valueColumns[column].name}`, ["", "answer", "any column off by"], rows));
    byId("ways-said").textContent = waysSaid(i);
    const every = ways.flatMap((way) => swept.truth.map((_, n) => answer(way, n)[column])).filter(Number.isFinite);
    const low = Math.min(0, ...every), high = Math.max(...every, low + 0.5), pad = (high - low) * 0.09;
    drift({
      title: `The answer after each tile, column “${valueColumns[column].name}”`, height: 240,
      summary: "Online lies on plain softmax; each mistake leaves it.",
      hint: `${valueColumns[column].name}: ${valueColumns[column].about}. Lines appear as you step.`,
      x: { name: "tiles seen", low: 0.6, high: Math.max(swept.count, 2) + 0.4, ticks: Array.from({ length: swept.count }, (_, n) => n + 1) },
      y: { name: "answer", low: low - pad, high: high + pad },
      series: ways.map((way) => ({ ...way, points: swept.truth.map((_, n) => ({ x: n + 1, y: n < at ? answer(way, n)[column] : NaN,
        say: `${figure(answer(way, n)[column], 6)} after tile ${n + 1}, ${figure(distance(way, n), 2)} from plain softmax at most` })) })),
    });
  }

  function waysSaid(i) {
    if (i < 0) return "Step, and each way answers from what it has seen. Off by: the largest difference from plain softmax over the four columns.";
    if (Number.isNaN(swept.truth[i][0])) return "A NaN is visible, so the definition itself gives NaN, and so does every way.";
    const [rescale, pertile] = [distance(ways[2], i), distance(ways[3], i)];
    const bad = (x) => !(x < 1e-3);
    if (bad(rescale) && bad(pertile)) return "Both mistakes are off now. Without the factor, old output keeps weights against an old maximum; per tile, every tile is divided as if it were the row's end.";
    if (bad(pertile)) return "The missing rescale does not show as long as the maximum stands: a test whose largest score comes early never sees it. Dividing per tile is off already.";
    if (bad(rescale)) return "The output that was not rescaled is off; dividing per tile is right only where one tile holds nearly all of the weight.";
    return "All four agree so far: neither mistake can show in the first tile.";
  }

  function show() {
    const step = at > 0 ? swept.online[at - 1] : null, from = (at - 1) * tile, to = Math.min(at * tile, maxKeys);
    bars.show({ scores, tile, at, chosen, steps: swept.online, weight: core.weight });
    byId("where").textContent = at === 0 ? "Nothing seen yet" : `Tile ${at} of ${swept.count}`;
    byId("said").textContent = said(step, from, to);
    byId("identity").replaceChildren(...identity(step, from, to));
    byId("state").replaceChildren(stateTable(step));
    byId("lse").textContent = figure(step ? step.lse : -Infinity, 6);
    fourWays();
    byId("tile-out").textContent = tile;
    byId("key-number").textContent = chosen + 1;
    if (document.activeElement !== keyValue) {
      keyValue.value = figure(scores[chosen], 7).replace("∞", "inf");
      keyValue.removeAttribute("aria-invalid");
    }
    buttons.back.disabled = at === 0;
    buttons.step.disabled = at === swept.count;
  }

  preset.addEventListener("change", () => {
    play(false);
    scores = presets[Number(preset.value)].scores.map(Math.fround);
    at = 0;
    compute();
    show();
    onRowChange();
  });
  tileRange.addEventListener("input", () => {
    play(false);
    const seen = at * tile;
    tile = Number(tileRange.value);
    at = Math.floor(seen / tile);
    compute();
    show();
    onRowChange();
  });
  keyValue.addEventListener("input", () => {
    const score = readScore(keyValue.value);
    if (score === null) return keyValue.setAttribute("aria-invalid", true);
    keyValue.removeAttribute("aria-invalid");
    setScore(chosen, score);
  });
  keyValue.addEventListener("blur", show);
  keyValue.addEventListener("keydown", (event) => {
    if (event.key === "Enter") keyValue.blur(), bars.focus(chosen);
  });
  for (const [id, by] of [["key-previous", -1], ["key-next", 1]])
    byId(id).addEventListener("click", () => { chosen = (chosen + by + maxKeys) % maxKeys; show(); });
  buttons.step.addEventListener("click", () => { play(false); go(at + 1); if (buttons.step.disabled) buttons.back.focus(); });
  buttons.back.addEventListener("click", () => { play(false); go(at - 1); if (buttons.back.disabled) buttons.step.focus(); });
  buttons.reset.addEventListener("click", () => { play(false); go(0); });
  buttons.play.addEventListener("click", () => play(timer === null));
  speed.addEventListener("input", () => {
    const text = `${2 ** Number(speed.value)} ×`;
    byId("speed-out").textContent = text;
    speed.setAttribute("aria-valuetext", text);
  });
  columnSelect.addEventListener("change", () => { column = Number(columnSelect.value); show(); });
  // Arrows and space belong to whatever takes them; elsewhere in the section, or on the page's ground, they step.
  document.addEventListener("keydown", (event) => {
    const target = event.target, here = target === document.body || byId("stepper").contains(target);
    if (!here || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (target.matches("input, select, textarea, [role=slider], .plot, .scroll")) return;
    const action = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0) }[event.key];
    if (action) event.preventDefault(), play(false), action();
    else if (event.key === " " && !target.matches("button, summary, a")) event.preventDefault(), play(timer === null);
  });

  compute();
  show();
  return { row: () => ({ scores, tile, swept }) };
}
