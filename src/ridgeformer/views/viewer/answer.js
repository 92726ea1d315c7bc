// The prediction on its way to the exact one, and its error under the bound of the certificate.

const answer = {
  shown: null,

  step(time = state.time) { return time === 0 ? 0 : sublayers[time - 1].answered; },
  of(values, step, q) { return values[((step - 1) * engine.queries + q) * engine.outputs + state.output]; },
  now(step) { return Array.from({ length: engine.queries }, (_, q) => (step ? this.of(engine.predictions, step, q) : 0)); },
  single(values, q) { return values[q * engine.outputs + state.output]; },

  build() {
    const all = Array.from({ length: engine.queries }, (_, q) => q), { given } = engine;
    this.targets = () => Array.from({ length: engine.supports }, (_, j) => engine.targets[j * engine.outputs + state.output]);
    const values = [...all.map(q => this.single(given.exact, q)), ...Array.from({ length: engine.supports }, (_, j) => given.targets[j * engine.outputs + state.output]), 0];
    this.range = extent(data.at ? values : [...all.flatMap(q => [this.single(given.exact, q), this.single(engine.average ?? given.exact, q)]), 0]);
    data.at ? this.line(all) : this.dots(all);
    this.keys();
    this.error();
  },

  keys() {
    const entry = (name, colour, style) => html("span", {}, html("i", { style: `border-color: ${colour}; border-style: ${style}` }), name);
    const found = [entry("the network now", "var(--tv-mark)", "solid"), entry(engine.average ? "exact ridge regression" : "where the program ends", "var(--tv-exact)", "dashed")];
    if (engine.average) found.push(entry("one softmax head", "var(--tv-average)", "dotted"));
    if (data.at) found.push(html("span", {}, "drag a point up or down to rerun the network in this page"));
    find(".tv-keys").replaceChildren(...found);
  },

  line(all) {
    const [supports, queries] = data.at, order = all.toSorted((a, b) => queries[a] - queries[b]);
    const node = find(".tv-curve");
    this.order = order;
    this.frame = new Frame(node, { width: room(node), height: 230 }, extent([...supports, ...queries]), this.range, {});
    const along = values => order.map(q => [queries[q], this.single(values, q)]);
    this.band = svg("path", { fill: "var(--tv-mark)", "fill-opacity": 0.14 });
    this.frame.body.append(this.band);
    if (engine.average) this.averageLine = this.frame.line(along(engine.average), { stroke: "var(--tv-average)", "stroke-width": 2, "stroke-dasharray": "1.5 4", "stroke-linecap": "round" });
    this.exactLine = this.frame.line(along(engine.exact), { stroke: "var(--tv-exact)", "stroke-width": 2.2, "stroke-dasharray": "7 4" });
    this.current = this.frame.line([], { stroke: "var(--tv-mark)", "stroke-width": 2.6 });
    this.marks = visible.filter(i => tokens[i].role === "query").map(token => {
      const mark = svg("circle", { r: 3.4, fill: "var(--tv-mark)", style: "cursor: pointer" }, svg("title", {}, tokens[token].label));
      mark.addEventListener("click", () => pick(token, state.channel, state.column, { follow: true }));
      this.frame.body.append(mark);
      return { mark, q: engine.places.query.indexOf(token) };
    });
    this.points = supports.map((x, n) => this.point(x, n));
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", `The prediction over the line: supports, the network now, ${engine.average ? "exact ridge regression, one softmax head" : "where the program ends"}`);
  },

  point(x, n) {
    const label = () => `${tokens[engine.places.support[n]].label}, target ${show(this.targets()[n])}; arrow keys move it`;
    const node = svg("circle", { class: "tv-point", cx: this.frame.x(x), cy: this.frame.y(this.targets()[n]), r: 5, tabindex: 0, role: "slider", "aria-label": label(), "aria-orientation": "vertical", "aria-valuemin": this.range[0], "aria-valuemax": this.range[1], "aria-valuenow": this.targets()[n] });
    const move = value => {
      engine.targets[n * engine.outputs + state.output] = value;
      node.setAttribute("aria-label", label());
      node.setAttribute("aria-valuenow", value);
      relive();
    };
    node.addEventListener("pointerdown", event => { node.setPointerCapture(event.pointerId); event.preventDefault(); node.focus(); pick(engine.places.support[n], state.channel, state.column, { follow: true }); });
    node.addEventListener("pointermove", event => {
      if (!node.hasPointerCapture(event.pointerId)) return;
      const box = this.frame.node.getBoundingClientRect(), y = (event.clientY - box.top) / box.height * this.frame.height;
      move(Math.min(this.range[1], Math.max(this.range[0], this.frame.inverse(y))));
    });
    node.addEventListener("keydown", event => {
      const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      event.stopPropagation();
      move(this.targets()[n] + way * (this.range[1] - this.range[0]) / 40);
    });
    this.frame.node.append(node);
    return node;
  },

  dots(all) {
    const shown = all.slice(0, 12), height = 40 + 22 * shown.length, node = find(".tv-curve");
    this.order = shown;
    this.frame = new Frame(node, { width: room(node), height, left: 70 }, this.range, [-0.5, shown.length - 0.5], {});
    node.querySelectorAll(".tv-grid-line").forEach(line => line.remove());
    [...node.querySelectorAll(".tv-tick")].filter(tick => tick.getAttribute("text-anchor") === "end").forEach(tick => tick.remove());
    this.rows = shown.map((q, n) => {
      const y = this.frame.y(shown.length - 1 - n), place = value => this.frame.x(value);
      node.append(svg("text", { x: 62, y: y + 3.5, class: "tv-tick", "text-anchor": "end" }, tokens[engine.places.query[q]].label), svg("line", { x1: 70, x2: this.frame.width - 10, y1: y, y2: y, class: "tv-grid-line" }));
      const gap = svg("line", { y1: y, y2: y, stroke: "var(--tv-mark)", "stroke-width": 2, "stroke-opacity": 0.45 });
      const exact = svg("line", { x1: place(this.single(engine.exact, q)), x2: place(this.single(engine.exact, q)), y1: y - 8, y2: y + 8, stroke: "var(--tv-exact)", "stroke-width": 3 });
      const average = svg("circle", { cx: place(this.single(engine.average ?? engine.exact, q)), cy: y, r: 3.5, fill: "none", stroke: engine.average ? "var(--tv-average)" : "none", "stroke-width": 1.8 });
      const dot = svg("circle", { cy: y, r: 5, fill: "var(--tv-mark)" });
      this.frame.body.append(gap, exact, average, dot);
      return { q, gap, dot, exact, average };
    });
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", `Predictions of ${shown.length} queries: the network now, ${engine.average ? "exact ridge regression, one softmax head" : "where the program ends"}`);
  },

  /** Draw predictions, wherever between two steps they are. */
  place(values, step) {
    this.shown = values;
    if (data.at) {
      const queries = data.at[1], at = value => [queries[value], values[value]];
      this.current.setAttribute("d", this.frame.path(this.order.map(at)));
      for (const { mark, q } of this.marks) { mark.setAttribute("cx", this.frame.x(queries[q])); mark.setAttribute("cy", this.frame.y(values[q])); }
      const bound = q => this.of(engine.bound, step, q);
      const edge = sign => this.order.map(q => [queries[q], Math.max(-1e9, Math.min(1e9, values[q] + sign * bound(q)))]);
      const upper = engine.bound && step ? this.frame.path(edge(1)) : ""; // empty too where nothing finite is promised
      this.band.setAttribute("d", upper && `${upper}${this.frame.path(edge(-1).toReversed()).replace("M", "L")}Z`);
      return;
    }
    for (const { q, gap, dot } of this.rows) {
      dot.setAttribute("cx", this.frame.x(values[q]));
      gap.setAttribute("x1", this.frame.x(values[q]));
      gap.setAttribute("x2", this.frame.x(this.single(engine.exact, q)));
    }
  },

  draw(animate) {
    const step = this.step(), goal = this.now(step), from = this.shown, mine = (this.run = {});
    find(".tv-answer-note").textContent = step ? `after step ${step} of ${engine.steps}` : "nothing yet";
    this.marker(step);
    if (!animate || !from || still()) return this.place(goal, step);
    const begin = performance.now(), frame = now => {
      if (this.run !== mine) return;
      const t = Math.min(1, (now - begin) / 520);
      this.place(goal.map((value, q) => from[q] + ease(t) * (value - from[q])), step);
      if (t < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  },

  /** Lines that moved because the targets did. */
  moved() {
    if (data.at) {
      const along = values => this.order.map(q => [data.at[1][q], this.single(values, q)]);
      this.exactLine.setAttribute("d", this.frame.path(along(engine.exact)));
      this.averageLine?.setAttribute("d", this.frame.path(along(engine.average)));
      this.points.forEach((point, n) => point.setAttribute("cy", this.frame.y(this.targets()[n])));
    } else {
      for (const { q, exact, average } of this.rows) {
        exact.setAttribute("x1", this.frame.x(this.single(engine.exact, q)));
        exact.setAttribute("x2", this.frame.x(this.single(engine.exact, q)));
        if (engine.average) average.setAttribute("cx", this.frame.x(this.single(engine.average, q)));
      }
    }
    this.error();
  },

  worst(values) {
    let largest = 0;
    for (const value of values) largest = Math.max(largest, value);
    return largest;
  },

  error() {
    const all = Array.from({ length: engine.queries }, (_, q) => q), steps = Array.from({ length: engine.steps }, (_, n) => n + 1);
    this.errors = steps.map(step => this.worst(all.map(q => Math.abs(this.of(engine.predictions, step, q) - this.single(engine.exact, q)))));
    this.bounds = engine.bound ? steps.map(step => this.worst(all.map(q => this.of(engine.bound, step, q)))) : null;
    const logs = [...this.errors, ...(this.bounds ?? [])].filter(Number.isFinite).map(value => Math.log10(Math.max(value, 1e-17))), [low, high] = [Math.min(...logs, 0), Math.max(...logs, 0)];
    this.plot = new Frame(find(".tv-error"), { width: room(find(".tv-error")), height: 165 }, [engine.steps > 1 ? 1 : 0.5, Math.max(engine.steps, 1.5)], [Math.floor(low - 0.1), Math.ceil(high + 0.1)], { log: true, xlabel: "step" });
    if (this.bounds) this.plot.line(steps.map((step, n) => [step, this.bounds[n]]), { stroke: "var(--tv-ink)", "stroke-width": 1.6, "stroke-dasharray": "6 4", "stroke-opacity": 0.7 });
    this.plot.line(steps.map((step, n) => [step, Math.max(this.errors[n], 1e-17)]), { stroke: "var(--tv-mark)", "stroke-width": 2.2 });
    this.dot = svg("circle", { r: 5.5, fill: "var(--tv-mark)", stroke: "var(--tv-card)", "stroke-width": 1.5, style: "transition: cx .4s, cy .4s" });
    this.plot.node.append(this.dot);
  },

  marker(step) {
    const bounded = step && Number.isFinite(this.bounds?.[step - 1]) ? `, proved to be at most ${show(this.bounds[step - 1], 3)} (dashed)` : "";
    const text = step ? `largest distance from ${engine.average ? "exact" : "its last answer"} ${show(this.errors[step - 1], 3)}${bounded}` : "";
    find(".tv-error-note").textContent = text;
    find(".tv-error").setAttribute("aria-label", `Error after every step on a logarithmic axis; ${text || "no step has ended yet"}`);
    this.dot.style.visibility = step ? "visible" : "hidden";
    if (!step) return;
    this.dot.setAttribute("cx", this.plot.x(step));
    this.dot.setAttribute("cy", this.plot.y(Math.max(this.errors[step - 1], 1e-17)));
  },
};
