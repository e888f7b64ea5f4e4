// The row as bars: sixteen sliders over bands of tiles, lines for the old and the new maximum, and below them the
// weight that every seen key has against the maximum of the moment.

// onChange(key, score) while a bar is dragged or moved by keys; onChoose(key) when one takes the focus.
function barChart(container, { onChange, onChoose }) {
  const picture = svg("svg", { role: "group", "aria-label": "Scores of the row's sixteen keys" });
  container.replaceChildren(picture);
  const bands = svg("g"), weights = svg("g"), lines = svg("g"), bars = [];
  const zero = svg("line", { class: "zero" }), weightZero = svg("line", { class: "zero" });
  const weightName = svg("text", {}, "weight of each seen key, exp(x − m)");
  const oldLine = svg("line", { class: "max-line old" }), line = svg("line", { class: "max-line" });
  const oldName = svg("text", { class: "max-name" }), name = svg("text", { class: "max-name" });
  lines.append(oldLine, line);
  picture.append(bands, zero, lines, weights, weightZero, weightName);
  let view = null, range = [-2, 5], dragging = null, frame = {};

  const nice = (x, steps = [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) => {
    const power = 10 ** Math.floor(Math.log10(x));
    return steps.find((u) => u * power >= x * 0.9999) * power;
  };
  // What one arrow key changes, and to what dragging rounds.
  const stepOf = () => nice((range[1] - range[0]) / 100, [1, 2, 5, 10]);
  const rounded = (score) => {
    const unit = stepOf();
    return Number((Math.round(score / unit) * unit).toPrecision(6));
  };
  const findRange = (scores) => {
    const finite = scores.filter(Number.isFinite);
    const high = Math.max(...finite, 1), low = Math.min(...finite, 0);
    const reach = nice(Math.max(high, -low, 2) * 1.12);
    range = [low < 0 ? -Math.min(reach, nice(Math.max(-low, reach / 5))) : -reach / 10, reach];
  };

  for (let key = 0; key < maxKeys; ++key) {
    const parts = { hit: svg("rect", { class: "hit" }), body: svg("rect", { class: "body", rx: 2 }), ring: svg("rect", { class: "ring", rx: 4 }), text: svg("text") };
    const node = svg("g", { class: "bar", tabindex: key === 0 ? 0 : -1, role: "slider", "aria-orientation": "vertical", "data-key": key },
      parts.ring, parts.body, parts.text, parts.hit);
    node.addEventListener("focus", () => onChoose(key));
    node.addEventListener("keydown", (event) => {
      const score = view.scores[key], base = Number.isFinite(score) ? score : 0;
      const move = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
      const to = { ArrowRight: Math.min(key + 1, maxKeys - 1), ArrowLeft: Math.max(key - 1, 0), Home: 0, End: maxKeys - 1 }[event.key];
      if (move === undefined && to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      if (move !== undefined) onChange(key, rounded(base + move * stepOf()));
      else bars[to].node.focus();
    });
    const drag = (event) => {
      const y = event.clientY - picture.getBoundingClientRect().top;
      const score = range[1] + (y - frame.top) / (frame.bottom - frame.top) * (range[0] - range[1]);
      onChange(key, rounded(Math.min(range[1], Math.max(range[0], score))));
    };
    node.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      dragging = key;
      node.setPointerCapture(event.pointerId);
      node.focus({ preventScroll: true });
      event.preventDefault();
    });
    node.addEventListener("pointermove", (event) => { if (dragging === key) drag(event); });
    // The scale stands still under the pointer and settles when it lets go.
    const release = () => { if (dragging === key) dragging = null, draw(); };
    node.addEventListener("pointerup", release);
    node.addEventListener("pointercancel", release);
    picture.append(node);
    bars.push({ node, ...parts, weight: svg("rect", { class: "weight" }) });
    weights.append(bars[key].weight);
  }
  picture.append(oldName, name);

  const attributes = (node, values) => { for (const [key, value] of Object.entries(values)) node.setAttribute(key, value); };
  const set = (node, values) => { for (const [key, value] of Object.entries(values)) node.style[key] = `${value}px`; };

  function draw() {
    if (!view) return;
    const { scores, tile, at, chosen, steps } = view;
    if (dragging === null) findRange(scores);
    const width = container.clientWidth, height = container.clientHeight;
    if (width < 100) return;  // not laid out
    attributes(picture, { width, height, viewBox: `0 0 ${width} ${height}` });
    const slot = width / maxKeys, bar = Math.min(slot * 0.62, 34), small = slot < 30;
    frame = { top: 26, bottom: height - 128 };
    const y = (score) => frame.top + (range[1] - score) / (range[1] - range[0]) * (frame.bottom - frame.top);
    const now = at - 1, step = now >= 0 ? steps[now] : null;
    const seen = Math.min(at * tile, maxKeys), nowFrom = now * tile;

    const count = Math.ceil(maxKeys / tile);
    while (bands.childElementCount > count) bands.lastChild.remove();
    while (bands.childElementCount < count) bands.append(svg("g", {}, svg("rect", { rx: 8 }), svg("text")));
    for (let i = 0; i < count; ++i) {
      const [box, text] = bands.children[i].children;
      const from = i * tile, to = Math.min(from + tile, maxKeys), state = i === now ? "now" : i < at ? "seen" : "";
      box.setAttribute("class", `band ${state}`);
      attributes(box, { x: from * slot + 1, y: 1, width: (to - from) * slot - 2, height: height - 84 });
      text.setAttribute("class", `band-name ${state}`);
      attributes(text, { x: (from + to) / 2 * slot, y: height - 92 });
      text.textContent = (to - from) * slot < 46 ? i + 1 : `tile ${i + 1}`;
    }
    attributes(zero, { x1: 0, x2: width, y1: y(0), y2: y(0) });

    const weightTop = height - 62, weightBottom = height - 18;
    for (let key = 0; key < maxKeys; ++key) {
      const { node, body, hit, ring, text, weight } = bars[key], score = scores[key];
      const middle = (key + 0.5) * slot, finite = Number.isFinite(score);
      const bound = Number.isNaN(score) ? 0 : Math.min(range[1], Math.max(range[0], score));
      const [top, bottom] = [Math.min(y(bound), y(0)), Math.max(y(bound), y(0))];
      node.setAttribute("class", `bar${key === chosen ? " chosen" : ""}${key < seen ? key >= nowFrom ? " now" : " seen" : ""}`);
      node.setAttribute("tabindex", key === chosen ? 0 : -1);
      attributes(node, { "aria-label": `Score of key ${key + 1}`, "aria-valuemin": figure(range[0]).replace("−", "-"), "aria-valuemax": figure(range[1]),
        "aria-valuenow": finite ? score : 0, "aria-valuetext": figure(score) });
      attributes(body, { x: middle - bar / 2, width: bar });
      set(body, { y: top, height: Math.max(bottom - top, finite ? 1.5 : 0) });
      attributes(hit, { x: key * slot, y: 2, width: slot, height: height - 104 });
      attributes(ring, { x: key * slot + 1.5, y: 4, width: slot - 3, height: height - 110 });
      const above = Number.isNaN(score) || score >= 0 || score < range[0];
      attributes(text, { x: middle, y: !finite && score < 0 ? y(0) - 6 : above ? top - 6 : bottom + 14 });
      text.textContent = small ? figure(score, finite && Math.abs(score) >= 10 ? 2 : Math.abs(score) < 1 ? 1 : 2).replace(/^(−?)0\./, "$1.") : figure(score, 3);
      const mass = key < seen && step ? view.weight(score, step.max) : 0;
      const tall = Number.isFinite(mass) ? Math.min(mass, 1) * (weightBottom - weightTop) : 0;
      attributes(weight, { x: middle - bar / 2, width: bar });
      set(weight, { y: weightBottom - tall, height: tall });
    }
    attributes(weightZero, { x1: 0, x2: width, y1: weightBottom, y2: weightBottom });
    attributes(weightName, { x: 2, y: height - 3 });

    const place = (stroke, label, max, words, low) => {
      const shown = Number.isFinite(max);
      stroke.style.visibility = label.style.visibility = shown ? "visible" : "hidden";
      if (!shown) return;
      attributes(stroke, { x1: 0, x2: width, y1: 0, y2: 0 });
      stroke.style.transform = `translateY(${y(max)}px)`;
      attributes(label, { x: 4, y: y(max) + (low ? 15 : -6) });
      label.textContent = words;
    };
    const moved = step && step.max !== step.oldMax;
    place(line, name, step ? step.max : NaN, step ? `m ${moved && now > 0 ? "= new max " : "="} ${figure(step.max, 3)}` : "", false);
    place(oldLine, oldName, moved ? step.oldMax : NaN, step ? `old m = ${figure(step.oldMax, 3)}` : "", true);
  }

  new ResizeObserver(() => { picture.parentNode.classList.remove("moving"); draw(); }).observe(container);
  return {
    show(next) { container.classList.toggle("moving", dragging === null && view !== null); view = next; draw(); },
    focus(key) { bars[key].node.focus(); },
  };
}
