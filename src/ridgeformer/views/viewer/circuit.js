// The circuit of the whole model: channels are lines, heads and gates are crossings; zoomed in, every value is a number.

const circuit = {
  ROW: 17,
  LEAST: 1.2, // pixels a sublayer
  ROOMY: 34, // from here on there is room for numbers
  pitch: null, // null: the whole run is in sight

  /** The channels that a sublayer reads and writes, from its weights and from who holds which column then. */
  wires() {
    if (this.known) return this.known;
    const seen = new Map(), rows = data.sublayers.rows;
    this.known = sublayers.map((sublayer, n) => {
      const key = `${sublayer.module} ${rows[n].alive} ${n ? rows[n - 1].alive : "born"}`;
      if (!seen.has(key)) seen.set(key, this.ends(data.modules[sublayer.module], n));
      return seen.get(key);
    });
    return this.known;
  },

  ends({ heads = [], units = [] }, n) {
    const row = channel => data.channels.indexOf(channel), before = column => row(engine.holder(n, column)), after = column => row(engine.holder(n + 1, column) ?? engine.holder(n, column));
    const reads = new Set(), writes = new Set();
    for (const { scores, moves } of heads) {
      for (const [reader, source] of scores) reads.add(before(reader)).add(before(source));
      for (const [of, to] of moves) { reads.add(before(of)); writes.add(after(to)); }
    }
    for (const { a, b, d } of units) {
      for (const [of] of [...a, ...b]) reads.add(before(of));
      for (const [to] of d) writes.add(after(to));
    }
    reads.delete(-1);
    writes.delete(-1);
    return { reads: [...reads], writes: [...writes] };
  },

  build() {
    const names = find(".tv-circuit-names"), scroll = find(".tv-circuit-scroll");
    names.replaceChildren(...data.channels.map(({ name, meaning }) => html("li", { title: meaning, style: `height: ${this.ROW}px` }, name)));
    this.node = find(".tv-circuit-lines");
    this.width = Math.max(this.fit() * sublayers.length, (this.pitch ?? 0) * sublayers.length);
    this.height = data.channels.length * this.ROW;
    Object.entries({ width: Math.ceil(this.width), height: this.height, viewBox: `0 0 ${Math.ceil(this.width)} ${this.height}` }).forEach(([name, value]) => this.node.setAttribute(name, value));
    this.here = svg("rect", { class: "tv-circuit-here", height: this.height });
    this.values = svg("g", { class: "tv-circuit-values" });
    this.node.replaceChildren(this.here, svg("path", { class: "tv-life", d: this.lives() }), ...this.crossings(), this.values);
    find(".tv-circuit-all").setAttribute("aria-pressed", String(this.pitch === null));
    scroll.onscroll = () => this.numbers();
  },

  fit() { return Math.max(this.LEAST, (find(".tv-circuit-scroll").clientWidth - 2) / sublayers.length); },
  step() { return Math.max(this.pitch ?? 0, this.fit()); },
  x(n) { return (n + 0.5) * this.step(); },
  y(row) { return (row + 0.5) * this.ROW; },

  /** A line wherever a channel holds something. */
  lives() {
    let text = "";
    data.channels.forEach((channel, row) => {
      for (let t = 0, from = null; t <= sublayers.length + 1; t++) {
        const alive = t <= sublayers.length && engine.alive(t, channel);
        if (alive && from === null) from = t;
        if (!alive && from !== null) { text += `M${((from - 0.5) * this.step()).toFixed(1)},${this.y(row)}H${((t - 0.5) * this.step()).toFixed(1)}`; from = null; }
      }
    });
    return text;
  },

  crossings() {
    const paths = { attention: "", gated: "" }, dots = { attention: "", gated: "" }, rings = { attention: "", gated: "" }, r = Math.min(4.2, Math.max(0.8, this.step() / 3));
    const ring = (x, y) => `M${(x - r).toFixed(1)},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
    this.wires().forEach(({ reads, writes }, n) => {
      const rows = [...reads, ...writes], { kind } = sublayers[n], x = this.x(n);
      paths[kind] += `M${x.toFixed(1)},${this.y(Math.min(...rows))}V${this.y(Math.max(...rows))}`;
      for (const row of writes) dots[kind] += ring(x, this.y(row));
      if (this.step() > 5) for (const row of reads) if (!writes.includes(row)) rings[kind] += ring(x, this.y(row));
    });
    return ["attention", "gated"].flatMap(kind => [
      svg("path", { class: `tv-crossing tv-${kind}`, d: paths[kind] }), svg("path", { class: `tv-reads tv-${kind}`, d: rings[kind] }), svg("path", { class: `tv-writes tv-${kind}`, d: dots[kind] }),
    ]);
  },

  /** What the sublayers in sight wrote on the chosen token. */
  numbers() {
    this.values.replaceChildren();
    if (this.step() < this.ROOMY) return;
    const scroll = find(".tv-circuit-scroll"), first = Math.max(0, Math.floor(scroll.scrollLeft / this.step()) - 1), last = Math.min(sublayers.length, first + Math.ceil(scroll.clientWidth / this.step()) + 3);
    for (let n = first; n < last; n++) {
      for (const row of this.wires()[n].writes) {
        const channel = data.channels[row];
        if (!engine.alive(n + 1, channel)) continue;
        this.values.append(svg("text", { x: this.x(n) + 6, y: this.y(row) - 2.5 }, brief(engine.value(n + 1, state.token, columnsOf(channel)[0]))));
      }
    }
  },

  draw() {
    if (!this.node) return;
    this.here.setAttribute("x", (state.time - 1) * this.step());
    this.here.setAttribute("width", Math.max(2, this.step()));
    [...find(".tv-circuit-names").children].forEach((name, row) => name.classList.toggle("tv-chosen", data.channels[row] === state.channel));
    const scroll = find(".tv-circuit-scroll"), x = (state.time - 1) * this.step();
    if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth - this.step()) scroll.scrollLeft = x - scroll.clientWidth / 2;
    this.numbers();
    this.node.setAttribute("aria-label", `Circuit of ${sublayers.length} sublayers over ${data.channels.length} channels; now ${find(".tv-title").textContent}`);
  },

  zoom(factor) {
    this.pitch = factor === null ? null : Math.min(90, Math.max(this.fit(), this.step() * factor));
    if (this.pitch !== null && this.pitch <= this.fit()) this.pitch = null;
    this.build();
    find(".tv-circuit-scroll").scrollLeft = (state.time - 0.5) * this.step() - find(".tv-circuit-scroll").clientWidth / 2;
    this.draw();
  },

  listen() {
    find(".tv-circuit-all").addEventListener("click", () => this.zoom(null));
    find(".tv-circuit-in").addEventListener("click", () => this.zoom(2.2));
    find(".tv-circuit-out").addEventListener("click", () => this.zoom(1 / 2.2));
    this.node.addEventListener("click", event => {
      const box = this.node.getBoundingClientRect(), n = Math.min(sublayers.length - 1, Math.floor((event.clientX - box.left) / this.step()));
      const channel = data.channels[Math.min(data.channels.length - 1, Math.floor((event.clientY - box.top) / this.ROW))];
      land(state.token, columnsOf(channel)[0], n + 1);
    });
  },
};
