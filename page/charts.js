// Line charts in SVG: linear or log axes, marks told apart by shape and dash as well as colour, and a line below that
// reads out the mark under the pointer or the arrow keys.

const shapes = {
  circle: (s) => `M${-s} 0A${s} ${s} 0 1 0 ${s} 0A${s} ${s} 0 1 0 ${-s} 0Z`,
  square: (s) => `M${-s} ${-s}H${s}V${s}H${-s}Z`,
  triangle: (s) => `M0 ${-1.25 * s}L${1.15 * s} ${0.9 * s}H${-1.15 * s}Z`,
  diamond: (s) => `M0 ${-1.35 * s}L${1.35 * s} 0L0 ${1.35 * s}L${-1.35 * s} 0Z`,
};

function swatch({ kind, shape = "circle", dash = "" }) {
  return svg("svg", { class: `swatch series ${kind}`, viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true" },
    svg("path", { class: `curve ${dash}`, d: "M1 7H27" }),
    shape === "none" ? null : svg("path", { class: "mark filled", d: shapes[shape](3.4), transform: "translate(14 7)" }));
}

const legend = (series) => html("ul", { class: "legend" },
  series.map((s) => html("li", {}, swatch(s), html("span", {}, s.name))));

function niceTicks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 2.5, 5, 10].find((u) => u * power >= raw * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / unit - 1e-9); i * unit <= high + unit * 1e-9; ++i) ticks.push(i * unit);
  return ticks;
}

// Powers of ten, thinned out to `count`; with 2 and 5 between them where those alone would be too few.
function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const inside = (digits) => Array.from({ length: last - first + 1 }, (_, i) => digits.map((d) => d * 10 ** (first + i))).flat()
    .filter((t) => t >= low * 0.999999 && t <= high * 1.000001);
  const tens = inside([1]);
  if (tens.length < 3) return inside([1, 2, 5]);
  const every = Math.ceil(tens.length / count);
  return tens.filter((_, i) => i % every === 0);
}

// The range that holds all values, widened so that no mark lies on the edge.
function domainOf(values, log, fixed = {}) {
  const usable = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  let low = Math.min(...usable), high = Math.max(...usable);
  if (!usable.length) [low, high] = log ? [1, 10] : [0, 1];
  if (log) {
    if (low === high) low /= 2, high *= 2;
    const pad = (high / low) ** 0.06;
    low /= pad, high *= pad;
  } else {
    if (low === high) low -= 0.5, high += 0.5;
    const pad = (high - low) * 0.08;
    low -= pad, high += pad;
  }
  return [fixed.low ?? low, fixed.high ?? high];
}

// spec: {title, height, x, y, series, references, hint}
//   x, y        {name, log, ticks, format, low, high}
//   series      [{name, kind, shape, dash, curve, points: [{x, y, low, high, say}]}]; null y leaves a gap
//   references  [{x or y or from, to, name}]
// Draws into `container`, again whenever its width changes; call with a new spec to draw anew in place.
function lineChart(container) {
  let spec = null, chosen = null, places = [];
  const plot = html("div", { class: "plot", tabindex: 0, role: "application", "aria-roledescription": "chart" });
  const title = html("p", { class: "chart-title" }), names = html("div"), readOut = html("p", { class: "read-out", "aria-live": "polite" });
  container.replaceChildren(title, plot, names, readOut);

  const say = () => {
    const place = places.find((p) => p.series === chosen?.series && p.index === chosen?.index);
    if (!place) return readOut.replaceChildren(spec.hint ?? "");
    readOut.replaceChildren(html("b", {}, `${place.from.name}: `), place.point.say);
  };

  const draw = () => {
    const width = Math.max(240, container.clientWidth), height = spec.height ?? 250;
    const { x, y } = spec;
    const all = spec.series.flatMap((s) => s.points);
    const ends = (spec.references ?? []).flatMap((r) => r.from ? [r.from, r.to] : [[r.x, r.y]]);
    const xs = domainOf([...all.map((p) => p.x), ...ends.map((e) => e[0])], x.log, x);
    const ys = domainOf([...all.flatMap((p) => [p.y, p.low, p.high]), ...ends.map((e) => e[1])], y.log, y);
    const yTicks = (y.ticks ?? (y.log ? logTicks(...ys, 6) : niceTicks(...ys, 5))).filter((t) => t >= ys[0] && t <= ys[1]);
    const format = y.format ?? ((v) => figure(v, 3));
    const left = 14 + 7.2 * Math.max(...yTicks.map((t) => format(t).length), 2), right = width - 12, top = 24, bottom = height - 40;
    const place = (value, [low, high], from, to, log) => log
      ? from + (to - from) * Math.log(value / low) / Math.log(high / low) : from + (to - from) * (value - low) / (high - low);
    const px = (v) => place(v, xs, left, right, x.log), py = (v) => place(v, ys, bottom, top, y.log);
    const xTicks = (x.ticks ?? (x.log ? logTicks(...xs, Math.floor(width / 70)) : niceTicks(...xs, 6))).filter((t) => t >= xs[0] && t <= xs[1]);
    const xFormat = x.format ?? ((v) => figure(v, 3));
    const usable = (p) => Number.isFinite(p.x) && Number.isFinite(p.y) && (!x.log || p.x > 0) && (!y.log || p.y > 0);

    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    for (const t of yTicks) picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: py(t), y2: py(t) }),
      svg("text", { x: left - 8, y: py(t) + 4, "text-anchor": "end" }, format(t)));
    // Names of ticks that would touch are left out.
    let free = -Infinity;
    for (const t of xTicks) {
      const text = xFormat(t), half = 3.7 * text.length + 3;
      picture.append(svg("line", { class: "axis", x1: px(t), x2: px(t), y1: bottom, y2: bottom + 5 }));
      if (px(t) - half < free) continue;
      picture.append(svg("text", { x: Math.min(px(t), width - half), y: bottom + 18, "text-anchor": "middle" }, text));
      free = px(t) + half;
    }
    picture.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "axis-name", x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, x.name),
      svg("text", { class: "axis-name", x: 2, y: 12 }, y.name));
    for (const r of spec.references ?? []) {
      const [a, b] = r.from ? [r.from, r.to] : r.y !== undefined ? [[xs[0], r.y], [xs[1], r.y]] : [[r.x, ys[0]], [r.x, ys[1]]];
      picture.append(svg("line", { class: `reference ${r.kind ?? ""}`, x1: px(a[0]), y1: py(a[1]), x2: px(b[0]), y2: py(b[1]) }));
      if (r.name && r.x !== undefined) {
        const end = px(a[0]) > (left + right) / 2;
        picture.append(svg("text", { class: "reference-name", x: px(a[0]) + (end ? -6 : 6), y: top + 8, "text-anchor": end ? "end" : "start" }, r.name));
      } else if (r.name) {
        picture.append(svg("text", { class: "reference-name", x: r.atLeft ? left + 6 : right, y: py(b[1]) - 6, "text-anchor": r.atLeft ? "start" : "end" }, r.name));
      }
    }
    places = [];
    spec.series.forEach((s, number) => {
      const group = svg("g", { class: `series ${s.kind}` });
      let path = "", pen = "M";
      for (const p of s.points) {
        if (!usable(p)) { pen = "M"; continue; }
        path += `${pen}${px(p.x).toFixed(1)} ${py(p.y).toFixed(1)}`;
        pen = "L";
      }
      if (path && s.curve !== false) group.append(svg("path", { class: `curve ${s.dash ?? ""}`, d: path }));
      s.points.forEach((p, index) => {
        if (!usable(p)) return;
        if (p.low !== undefined && p.low > 0) group.append(svg("path", { class: "spread",
          d: `M${px(p.x)} ${py(p.low)}V${py(p.high)}M${px(p.x) - 4} ${py(p.low)}h8M${px(p.x) - 4} ${py(p.high)}h8` }));
        if (s.shape !== "none") group.append(svg("path", { class: "mark", d: shapes[s.shape ?? "circle"](4.2), transform: `translate(${px(p.x)} ${py(p.y)})` }));
        if (p.say) places.push({ series: number, index, from: s, point: p, x: px(p.x), y: py(p.y) });
      });
      picture.append(group);
    });
    const halo = svg("circle", { class: "halo", r: 11, visibility: "hidden" });
    picture.append(halo);
    plot.replaceChildren(picture);
    plot.mark = () => {
      const at = places.find((p) => p.series === chosen?.series && p.index === chosen?.index);
      halo.setAttribute("visibility", at ? "visible" : "hidden");
      if (at) halo.setAttribute("cx", at.x), halo.setAttribute("cy", at.y), halo.setAttribute("class", `halo series ${at.from.kind}`);
      say();
    };
    // Room for the longest thing to be said, so that nothing below moves.
    const texts = [spec.hint ?? "", ...places.map((p) => `${p.from.name}: ${p.point.say}`)];
    readOut.style.minHeight = "";
    readOut.textContent = texts.reduce((longest, text) => text.length > longest.length ? text : longest);
    readOut.style.minHeight = `${readOut.offsetHeight + 1}px`;
    plot.mark();
  };

  const choose = (place) => { chosen = place ? { series: place.series, index: place.index } : null; plot.mark(); };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let nearest = null, least = 45 ** 2;
    for (const p of places) {
      const distance = (p.x - x) ** 2 + (p.y - y) ** 2;
      if (distance < least) least = distance, nearest = p;
    }
    if (nearest) choose(nearest);
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step && !turn || !places.length) return;
    event.preventDefault();
    const at = places.findIndex((p) => p.series === chosen?.series && p.index === chosen?.index);
    if (at < 0) return choose(places[0]);
    if (step) return choose(places[(at + step + places.length) % places.length]);
    const lines = [...new Set(places.map((p) => p.series))];
    const line = lines[(lines.indexOf(places[at].series) + turn + lines.length) % lines.length];
    const others = places.filter((p) => p.series === line);
    choose(others.reduce((best, p) => Math.abs(p.x - places[at].x) < Math.abs(best.x - places[at].x) ? p : best));
  });
  plot.addEventListener("focus", () => { if (!chosen && places.length && plot.matches(":focus-visible")) choose(places[0]); });

  let width = 0;
  new ResizeObserver(() => {
    if (spec && container.clientWidth !== width) width = container.clientWidth, draw();
  }).observe(container);
  return (next) => {
    spec = next;
    title.textContent = spec.title;
    plot.setAttribute("aria-label", `${spec.title}. ${spec.summary ?? ""} Arrow keys move from mark to mark.`);
    plot.style.minHeight = `${spec.height ?? 250}px`;
    names.replaceChildren(legend(spec.series.filter((s) => s.name)));
    width = container.clientWidth;
    draw();
  };
}
