// Points that can be dragged, three transformers that answer from their weights, and the exact regression beside them.

const data = JSON.parse(document.getElementById("demo-data").textContent);
const find = selector => document.querySelector(selector);
const count = number => number.toLocaleString("en");
const QUERIES = data.grid.length, WIDEST = data.carried.length - 1, RANGE = 2.4;

/** A position as a unit row of sines and cosines, as Python's `lift` makes it. */
const lift = x => {
  const top = data.harmonics + 1, row = [Math.sqrt(1 / top)];
  for (let j = 1; j < top; j++) {
    const weight = Math.sqrt(2 * (top - j)) / top, angle = x * (Math.PI / 2);
    row.push(weight * Math.cos(j * angle), weight * Math.sin(j * angle));
  }
  return row;
};

/** One compiled transformer on the tokens of this page. */
class Runner {
  constructor(model, points) {
    const counts = { support: points, anchor: points, query: QUERIES, aggregator: 1, null: 1 };
    this.model = model;
    this.roles = model.roles.flatMap(role => Array(counts[role]).fill(role));
    this.network = new Network({ ...model, smallest: data.smallest, roles: this.roles });
    this.steps = model.readings.f.length;
    this.streams = [new Float64Array(this.roles.length * model.width), new Float64Array(this.roles.length * model.width)];
    this.reads = new Map();
    for (const [name, readings] of Object.entries(model.readings)) {
      for (const [passed, step, column, scale] of readings) this.reads.set(passed, [...(this.reads.get(passed) ?? []), { name, step, column, scale }]);
    }
    this.watched = model.modules.map(({ heads = [] }) => heads.find(({ scores, mask }) => scores.length && mask.some(([reader, source]) => reader === "query" && source === "support")));
    this.last = model.schedule.findLastIndex(module => this.watched[module]);
    this.kept = new Float64Array(this.streams[0].length);
  }

  embed(X, rows, y, queries) {
    X.fill(0);
    const W = this.model.width;
    for (const role of this.model.roles) {
      const given = role === "query" ? queries : role === "support" || role === "anchor" ? rows : null;
      this.network.places[role].forEach((token, n) => {
        const features = given?.[n], size = rows[0].length;
        for (const [input, column, weight] of this.model.embed[role]) {
          const value = input < size ? features?.[input] ?? 0 : input === size ? (role === "query" || !features ? 0 : y[n]) : 1;
          X[token * W + column] += weight * value;
        }
      });
    }
  }

  /** The whole forward pass; predictions and coefficients after every step are read from the stream as it passes. */
  run(rows, y, queries) {
    let [X, after] = this.streams;
    const W = this.model.width, found = { f: [], alpha: [] }, on = { f: this.network.places.query, alpha: this.network.places.support };
    this.embed(X, rows, y, queries);
    this.network.begin();
    this.model.schedule.forEach((module, n) => {
      if (n === this.last) this.kept.set(X);
      after.set(X);
      this.network.sublayer(module, X, after);
      [X, after] = [after, X];
      for (const { name, step, column, scale } of this.reads.get(n + 1) ?? []) {
        found[name][step - 1] = Float64Array.from(on[name], token => scale * X[token * W + column]);
      }
    });
    return found;
  }

  /** How a query reads the points, in the last head that answers it. */
  attention(query) {
    const head = this.watched[this.model.schedule[this.last]], token = this.network.places.query[query], weights = this.network.row(head, this.kept, token);
    const places = new Map(Array.from(this.network.sources(head, token), (source, n) => [source, weights[n]]));
    return this.network.places.support.map(token => places.get(token) ?? 0);
  }
}

/** Exact kernel ridge regression by Cholesky: what the networks are compared with. */
const solveExactly = (rows, y, queries) => {
  const n = y.length, top = 1 / data.temperature; // kernel and ridge both times e^-top: the solution times e^top, which cancels
  const kernel = (a, b) => Math.exp(a.reduce((sum, value, i) => sum + value * b[i], 0) / data.temperature - top);
  const L = Array.from({ length: n }, () => new Float64Array(n)), alpha = Float64Array.from(y);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = kernel(rows[i], rows[j]) + (i === j ? data.ridge * Math.exp(-top) : 0);
      for (let k = 0; k < j; k++) sum -= L[i][k] * L[j][k];
      L[i][j] = i === j ? Math.sqrt(sum) : sum / L[j][j];
    }
  }
  for (let i = 0; i < n; i++) { for (let k = 0; k < i; k++) alpha[i] -= L[i][k] * alpha[k]; alpha[i] /= L[i][i]; }
  for (let i = n - 1; i >= 0; i--) { for (let k = i + 1; k < n; k++) alpha[i] -= L[k][i] * alpha[k]; alpha[i] /= L[i][i]; }
  return Float64Array.from(queries, query => rows.reduce((sum, row, j) => sum + kernel(query, row) * alpha[j], 0));
};

const NAMES = ["cg", "vanilla", "average"];
const state = { x: [...data.x], y: [...data.y], step: 1, width: WIDEST, point: 7, query: Math.round(QUERIES * 0.62), scene: 0, playing: null };
const queries = data.grid.map(lift);
const runners = Object.fromEntries(NAMES.map(name => [name, []]));
const runner = name => (runners[name][state.width] ??= new Runner(data.networks[name][state.width], state.x.length));
const results = { exact: null, spent: 0, frames: 0 };

/** The forward passes of all three, and how far each is from exact after every step. */
const compute = () => {
  const begin = performance.now(), rows = state.x.map(lift);
  results.exact = solveExactly(rows, state.y, queries);
  const first = performance.now();
  for (const name of NAMES) {
    const found = runner(name).run(rows, state.y, queries);
    const errors = found.f.map(f => f.reduce((most, value, q) => Math.max(most, Math.abs(value - results.exact[q])), 0));
    results[name] = { ...found, errors };
  }
  results.spent = performance.now() - first;
  results.took = performance.now() - begin;
};

const at = (name, step = state.step) => Math.min(step, results[name].f.length) - 1;

// -- the three plots -------------------------------------------------------------------------------------------------

class Panel {
  constructor(name) {
    this.name = name;
    this.card = find(`#panel-${name}`);
    this.node = this.card.querySelector(".plot");
    this.build();
    this.listen();
  }

  build() {
    const width = Math.max(240, this.node.parentNode.clientWidth - 24), height = width < 330 ? 210 : 244;
    this.frame = new Frame(this.node, { width, height, left: 30, right: 8, top: 8, bottom: 54 }, [-1.06, 1.06], [-RANGE, RANGE], {});
    this.node.setAttribute("width", width);
    const { body } = this.frame, group = (...nodes) => { const made = svg("g", {}, ...nodes); body.append(made); return made; };
    this.hair = svg("line", { class: "hair", y1: 8, y2: height - 54 });
    body.append(this.hair);
    this.discs = state.x.map(() => svg("circle", { class: "disc" }));
    group(...this.discs);
    this.exact = this.frame.line([], { class: "exact" });
    this.line = this.frame.line([], { class: "line" });
    this.mark = svg("circle", { class: "mark", r: 4.5 });
    body.append(this.mark);
    const floor = height - 20;
    this.node.append(svg("line", { class: "floor", x1: 30, x2: width - 8, y1: floor, y2: floor }));
    this.bars = state.x.map(() => svg("rect", { class: "bar", width: 4, rx: 1 }));
    this.node.append(svg("g", {}, ...this.bars));
    this.points = state.x.map(() => svg("circle", { class: "point", r: 4.6 }));
    this.hits = state.x.map((_, n) => svg("circle", { class: "hit", r: 15, "data-point": n }));
    this.node.append(svg("g", {}, ...this.points), svg("g", {}, ...this.hits));
    this.floor = floor;
  }

  listen() {
    const place = event => {
      const box = this.node.getBoundingClientRect(), { frame } = this, scale = frame.width / box.width;
      const x = ((event.clientX - box.left) * scale - frame.left) / (frame.width - frame.left - frame.right);
      return [frame.xs[0] + x * (frame.xs[1] - frame.xs[0]), frame.inverse((event.clientY - box.top) * scale)];
    };
    this.node.addEventListener("pointerdown", event => {
      const point = event.target.dataset.point;
      if (point === undefined) return;
      event.preventDefault();
      state.point = this.dragged = Number(point);
      this.node.setPointerCapture(event.pointerId);
      document.body.classList.add("dragging");
      later();
    });
    this.node.addEventListener("pointermove", event => {
      const [x, y] = place(event);
      if (this.dragged !== undefined) return move(this.dragged, x, y);
      ask(Math.round((x + 1) / 2 * (QUERIES - 1)));
    });
    const drop = () => { this.dragged = undefined; document.body.classList.remove("dragging"); };
    this.node.addEventListener("pointerup", drop);
    this.node.addEventListener("pointercancel", drop);
  }

  draw() {
    const { frame, name } = this, step = at(name), f = results[name].f[step], curve = values => frame.path(data.grid.map((x, q) => [x, values[q]]));
    this.line.setAttribute("d", curve(f));
    this.exact.setAttribute("d", curve(results.exact));
    const x = frame.x(data.grid[state.query]);
    this.hair.setAttribute("x1", x);
    this.hair.setAttribute("x2", x);
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", frame.y(f[state.query]));
    const weights = runner(name).attention(state.query), most = Math.max(...weights);
    const bars = results[name].alpha[step] ?? state.y, tallest = Math.max(...bars.map(Math.abs)) || 1;
    state.x.forEach((position, n) => {
      const cx = frame.x(position), cy = frame.y(state.y[n]), height = 17 * Math.abs(bars[n]) / tallest;
      for (const node of [this.discs[n], this.points[n], this.hits[n]]) { node.setAttribute("cx", cx); node.setAttribute("cy", cy); }
      this.discs[n].setAttribute("r", 16 * Math.sqrt(weights[n] / most));
      this.points[n].classList.toggle("chosen", n === state.point);
      const bar = this.bars[n];
      bar.setAttribute("x", cx - 2);
      bar.setAttribute("y", bars[n] > 0 ? this.floor - height : this.floor);
      bar.setAttribute("height", height);
      bar.classList.toggle("below", bars[n] < 0);
    });
    const error = results[name].errors[step];
    this.card.querySelector(".distance").textContent = error < 5e-13 ? "to rounding" : show(error, 2);
    this.card.querySelector(".value").textContent = show(f[state.query], 3);
  }

  describe() {
    const { model } = runner(this.name), [all, used] = model.weights, layers = model.schedule.length;
    this.card.querySelector(".size").textContent = `${count(layers)} ${layers === 1 ? "sublayer" : "sublayers"}, ${count(model.width)} columns, ${count(all)} weights: ${count(used)} are not zero`;
  }
}

// -- error after every step ------------------------------------------------------------------------------------------

const chart = {
  node: find("#errors"),
  build() {
    const width = Math.max(260, this.node.parentNode.clientWidth - 28);
    this.frame = new Frame(this.node, { width, height: 170, left: 44, right: 12, top: 8, bottom: 30 }, [1, data.steps], [-14, 1], { log: true, xlabel: "steps" });
    this.node.setAttribute("width", width);
    this.here = svg("line", { class: "hair", y1: 8, y2: 140 });
    this.frame.body.append(this.here);
    this.lines = Object.fromEntries(NAMES.map(name => [name, this.frame.line([], { class: `line ${name}` })]));
    this.dots = Object.fromEntries(NAMES.map(name => { const dot = svg("circle", { class: `mark ${name}`, r: 4.5 }); this.frame.body.append(dot); return [name, dot]; }));
  },
  draw() {
    const place = name => Math.max(1e-14, results[name].errors[at(name)]), x = this.frame.x(state.step);
    this.here.setAttribute("x1", x);
    this.here.setAttribute("x2", x);
    for (const name of NAMES) {
      this.lines[name].setAttribute("d", this.frame.path(Array.from({ length: data.steps }, (_, n) => [n + 1, Math.max(1e-14, results[name].errors[at(name, n + 1)])])));
      this.dots[name].setAttribute("cx", x);
      this.dots[name].setAttribute("cy", this.frame.y(place(name)));
    }
    this.node.setAttribute("aria-label", `Largest distance from exact regression after every step, on a logarithmic axis. After step ${state.step}: conjugate gradients ${show(place("cg"), 2)}, attention alone ${show(place("vanilla"), 2)}, one head ${show(place("average"), 2)}.`);
  },
  listen() {
    const choose = event => {
      const box = this.node.getBoundingClientRect(), { frame } = this, x = (event.clientX - box.left) * frame.width / box.width;
      go(Math.round(1 + (x - frame.left) / (frame.width - frame.left - frame.right) * (data.steps - 1)));
    };
    this.node.addEventListener("pointerdown", event => { this.node.setPointerCapture(event.pointerId); pause(); choose(event); });
    this.node.addEventListener("pointermove", event => { if (this.node.hasPointerCapture(event.pointerId)) choose(event); });
  },
};

// -- what can be done ------------------------------------------------------------------------------------------------

let asked = null, stale = true;
/** Draw in the next frame; run the networks before, if what they read has changed. */
const later = (changed = false) => {
  stale ||= changed;
  asked ??= requestAnimationFrame(() => {
    asked = null;
    if (stale) compute();
    stale = false;
    draw();
  });
};

const draw = () => {
  for (const panel of panels) panel.draw();
  chart.draw();
  find("#step").value = state.step;
  find("#step-value").textContent = state.step;
  find("#step").setAttribute("aria-valuetext", `${state.step} of ${data.steps} steps`);
  const carried = data.carried[state.width];
  find("#width").value = state.width;
  find("#width-value").textContent = `${carried} of ${data.carried.at(-1)}`;
  find("#width").setAttribute("aria-valuetext", `${carried} of ${data.carried.at(-1)} features`);
  find("#exact-value").textContent = show(results.exact[state.query], 3);
  find("#query-value").textContent = show(Number(data.grid[state.query].toFixed(2)), 3);
  const sublayers = NAMES.reduce((sum, name) => sum + runner(name).model.schedule.length, 0);
  find("#spent").textContent = `${count(sublayers)} sublayers of three transformers on ${state.x.length} points and ${QUERIES} queries ran in this page in ${results.spent.toFixed(0)} ms.`;
  document.querySelectorAll(".scene").forEach((button, n) => button.setAttribute("aria-pressed", String(n === state.scene)));
  results.frames++;
};

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const move = (n, x, y) => { state.x[n] = clamp(x, -1, 1); state.y[n] = clamp(y, -RANGE, RANGE); later(true); };
const ask = query => { state.query = clamp(query, 0, QUERIES - 1); later(); };
const go = step => { state.step = clamp(step, 1, data.steps); later(); };
const pick = n => { const order = [...state.x.keys()].sort((a, b) => state.x[a] - state.x[b]); state.point = order[(order.indexOf(state.point) + n + order.length) % order.length]; later(); };
const widen = width => { state.width = clamp(width, 0, WIDEST); panels.forEach(panel => panel.describe()); later(true); };

const pause = () => {
  clearInterval(state.playing);
  state.playing = null;
  find("#play").textContent = "Play";
};
const play = (from = state.step === data.steps ? 1 : state.step) => {
  pause();
  go(from);
  find("#play").textContent = "Pause";
  state.playing = setInterval(() => { go(state.step + 1); if (state.step === data.steps) pause(); }, 90);
};

const SCENES = [
  () => { pause(); widen(WIDEST); go(1); },
  () => { widen(WIDEST); still() ? go(data.steps) : play(1); },
  () => { pause(); widen(2); go(data.steps); },
];
const scene = n => { state.scene = n; SCENES[n](); };

const reset = () => { state.x = [...data.x]; state.y = [...data.y]; later(true); };

const keys = event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches?.("input, select")) return;
  const up = way => move(state.point, state.x[state.point], state.y[state.point] + way * (event.shiftKey ? 0.3 : 0.1));
  const sideways = way => (event.shiftKey ? ask(state.query + way) : (pause(), go(state.step + way)));
  const act = {
    ArrowLeft: () => sideways(-1), ArrowRight: () => sideways(1), ArrowUp: () => up(1), ArrowDown: () => up(-1),
    ",": () => pick(-1), ".": () => pick(1), 1: () => scene(0), 2: () => scene(1), 3: () => scene(2), r: reset,
    " ": event.target.closest?.("button") ? null : () => (state.playing ? pause() : play()),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
};

const panels = NAMES.map(name => new Panel(name));
chart.build();
chart.listen();
panels.forEach(panel => panel.describe());
document.addEventListener("keydown", keys);
document.querySelectorAll(".scene").forEach((button, n) => button.addEventListener("click", () => scene(n)));
find("#play").addEventListener("click", () => (state.playing ? pause() : play()));
find("#reset").addEventListener("click", reset);
find("#step").addEventListener("input", event => { pause(); go(Number(event.target.value)); });
find("#width").addEventListener("input", event => widen(Number(event.target.value)));
let wide = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === wide) return;
  wide = innerWidth;
  panels.forEach(panel => panel.build());
  chart.build();
  later();
});
compute();
stale = false;
draw();
window.demo = { state, results, runner, compute, later, scene, go, widen, move, ask }; // for tests and the curious
