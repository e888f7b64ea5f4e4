// Elements from values, and numbers to text. Text always enters as text, never as markup.

// The parser knows the namespace of SVG by itself; the mark in the header has it.
const svgSpace = document.querySelector(".brand svg").namespaceURI;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(svgSpace, tag), attributes, children);
const byId = (id) => document.getElementById(id);

// A number to so many significant digits, with a true minus, and with names for what is no number.
function figure(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  let text = size >= 1e6 || size < 1e-4 ? x.toExponential(digits - 1) : Number(x.toPrecision(digits)).toString();
  text = text.replace(/\.?0+e/, "e").replace("e+", "e");
  return text.replaceAll("-", "−");
}

const whole = (x) => Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const percent = (x, digits = 3) => `${figure(100 * x, digits)} %`;
const times = (x) => `${figure(x, 3)} ×`;

// Bytes in binary units, exact where they are whole.
function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < units.length - 1) value /= 1024, ++unit;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

// Decimal prefixes, for rates.
function rateText(x, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let prefix = 0;
  while (x >= 1000 && prefix < prefixes.length - 1) x /= 1000, ++prefix;
  return `${figure(x, 3)} ${prefixes[prefix]}${unit}`;
}

function timeText(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 1) return `${figure(milliseconds * 1000, 3)} µs`;
  if (milliseconds < 1000) return `${figure(milliseconds, 3)} ms`;
  return `${figure(milliseconds / 1000, 3)} s`;
}

// A table of plain cells. A cell is text or {text, kind, node}; the first of a row is its header. Columns named in
// `left` hold words and start at the left.
function table(caption, columns, rows, left = []) {
  const cell = (value) => {
    const { text = "", kind = null, node = null } = typeof value === "object" && value !== null ? value : { text: value };
    return html("td", { class: kind }, node ?? String(text));
  };
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html("table", {}, html("caption", { class: "unseen" }, caption),
      html("thead", {}, html("tr", {}, columns.map((name, i) =>
        i === 0 && name === "" ? html("td", {}) : html("th", { scope: "col", class: left.includes(name) ? "left" : null }, name)))),
      html("tbody", {}, rows.map((row) => html("tr", {},
        html("th", { scope: "row" }, row[0]?.node ?? row[0]), row.slice(1).map((value, i) => cell(left.includes(columns[i + 1]) ? { text: value, kind: "left" } : value)))))));
}
