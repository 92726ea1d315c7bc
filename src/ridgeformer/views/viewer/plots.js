// Small plots, drawn as SVG by hand.

const SVG = "http://www.w3.org/2000/svg";

const svg = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

const html = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

/** A number as people read it: four digits, or fewer where there is no room. */
const show = (value, digits = 4) => {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "∞");
  const size = Math.abs(value);
  const text = size >= 1e4 || size < 1e-3 ? value.toExponential(Math.max(0, digits - 2)).replace("e+", "e") : String(Number(value.toPrecision(digits)));
  return text.replaceAll("-", "−");
};

const brief = value => {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1000 || size < 0.01) return value.toExponential(0).replace("e+", "e").replaceAll("-", "−");
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace("-", "−");
};

const ease = t => (t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2);

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const extent = values => {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  const spare = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - spare, high + spare];
};

class Frame {
  /** Axes with room for numbers: x and y map data to the picture. */
  constructor(node, { width, height, left = 46, right = 10, top = 10, bottom = 26 }, xs, ys, { log = false, xlabel, ylabel } = {}) {
    this.node = node;
    Object.assign(this, { width, height, left, right, top, bottom, xs, ys, log });
    node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    node.setAttribute("height", height);
    node.replaceChildren();
    this.axes(xlabel, ylabel);
    const id = `clip-${Math.random().toString(36).slice(2)}`;
    const room = { x: left, y: top - 4, width: width - left - right, height: height - top - bottom + 8 };
    node.append(svg("clipPath", { id }, svg("rect", room)));
    this.body = svg("g", { "clip-path": `url(#${id})` });
    node.append(this.body);
  }

  x(value) { return this.left + (value - this.xs[0]) / (this.xs[1] - this.xs[0]) * (this.width - this.left - this.right); }

  y(value) {
    const place = this.log ? Math.log10(Math.max(value, 1e-300)) : value;
    return this.height - this.bottom - (place - this.ys[0]) / (this.ys[1] - this.ys[0]) * (this.height - this.top - this.bottom);
  }

  inverse(y) { return this.ys[0] + (this.height - this.bottom - y) / (this.height - this.top - this.bottom) * (this.ys[1] - this.ys[0]); }

  axes(xlabel, ylabel) {
    for (const place of this.ticks(...this.ys, this.log ? 5 : 6, this.log)) {
      const y = this.y(this.log ? 10 ** place : place);
      this.node.append(
        svg("line", { x1: this.left, x2: this.width - this.right, y1: y, y2: y, class: "tv-grid-line" }),
        svg("text", { x: this.left - 6, y: y + 3.5, class: "tv-tick", "text-anchor": "end" }, this.log ? `1e${place}`.replace("-", "−") : show(place, 3)),
      );
    }
    for (const place of this.ticks(...this.xs, 5, false)) {
      this.node.append(svg("text", { x: this.x(place), y: this.height - this.bottom + 14, class: "tv-tick", "text-anchor": "middle" }, show(place, 3)));
    }
    if (xlabel) this.node.append(svg("text", { x: this.width - this.right, y: this.height - 2, class: "tv-tick", "text-anchor": "end" }, xlabel));
    if (ylabel) this.node.append(svg("text", { x: this.left + 5, y: this.top + 7, class: "tv-tick" }, ylabel));
  }

  ticks(low, high, count, whole) {
    let step = 10 ** Math.floor(Math.log10((high - low) / count));
    for (const factor of [1, 2, 5, 10]) if ((high - low) / (step * factor) <= count) { step *= factor; break; }
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let place = Math.ceil(low / step); place * step <= high; place++) found.push(Number((place * step).toPrecision(12)));
    return found;
  }

  path(points) {
    let text = "", pen = "M";
    for (const [x, y] of points) {
      if (!Number.isFinite(y)) { pen = "M"; continue; }
      text += `${pen}${this.x(x).toFixed(2)},${this.y(y).toFixed(2)}`;
      pen = "L";
    }
    return text;
  }

  line(points, attributes) {
    const node = svg("path", { d: this.path(points), fill: "none", ...attributes });
    this.body.append(node);
    return node;
  }
}
