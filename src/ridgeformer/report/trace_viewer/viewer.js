// The page: one state, drawn by panels that know the engine and nothing of each other.

const root = document.currentScript.closest(".trace-viewer");
const find = selector => root.querySelector(selector);
const engine = new Engine(JSON.parse(find(".tv-data").textContent));
const { data, sublayers, tokens } = engine;
const visible = tokens.map((_, i) => i).filter(i => tokens[i].visible);
const GROUPS = ["features", "state", "scratch", "constants"];
const FEW = 6; // features beyond this are drawn as thin stripes
const LETTERS = { alpha: "α", beta: "β", gamma: "γ", rho: "ρ", phi: "φ", eta: "η" };
const LISTED = 7; // terms of a sum that are shown one by one

const state = { time: 0, token: 0, channel: null, column: 0, output: 0, following: true, playing: null, shut: new Set(["constants"]) };

/** The width a picture has on the page, so that its letters keep their size. */
const room = node => Math.round(Math.max(260, node.parentNode.clientWidth - 2 * parseFloat(getComputedStyle(node.parentNode).paddingLeft)));

const columnOf = channel => channel.columns[channel.size === "outputs" ? state.output : 0];
const columnsOf = channel => (channel.size === "features" ? channel.columns : [columnOf(channel)]);
const channelName = (channel, column) => (channel.size === "features" ? `${channel.name} ${channel.columns.indexOf(column) + 1}` : channel.name);

// -- the residual stream ---------------------------------------------------------------------------

const grid = {
  cells: [],
  scales: new Map(),

  build() {
    const groups = html("tr", { class: "tv-groups" }, html("th", {}, "")), names = html("tr", { class: "tv-names" }, html("th", { scope: "col" }, "token"));
    this.columns = [];
    for (const group of GROUPS) {
      const channels = data.channels.filter(channel => channel.group === group);
      if (!channels.length) continue;
      const shut = state.shut.has(group);
      const shown = shut ? [] : channels.flatMap(channel => columnsOf(channel).map(column => ({ channel, column })));
      const label = html("button", { type: "button", "aria-expanded": String(!shut), "aria-label": `${shut ? "Show" : "Hide"} ${group}`, title: `${shut ? "Show" : "Hide"} ${group}`, on: { click: () => this.toggle(group) } }, shut ? "▸" : `${group} ▾`);
      groups.append(html("th", { colspan: Math.max(shown.length, 1), scope: "colgroup" }, label));
      if (shut) { names.append(html("th", {}, "")); this.columns.push(null); }
      for (const place of shown) {
        place.thin = place.channel.columns.length > FEW && place.channel.size === "features";
        place.node = this.heading(place);
        names.append(place.node);
        this.columns.push(place);
      }
    }
    const body = html("tbody");
    this.cells = [];
    this.rows = new Map();
    let role = null;
    for (const token of visible) {
      const head = html("th", { scope: "row", title: `${tokens[token].label} (${tokens[token].role})`, on: { click: () => pick(token, state.channel, state.column, { follow: true }) } }, tokens[token].label);
      const row = html("tr", { class: role && role !== tokens[token].role ? "tv-gap" : null }, head);
      role = tokens[token].role;
      for (const place of this.columns) {
        const cell = html("td", place ? { role: "gridcell", tabindex: "-1", class: place.thin ? "tv-thin" : null } : { class: "tv-off" });
        row.append(cell);
        if (!place) continue;
        Object.assign(cell.dataset, { token, channel: place.channel.name, column: place.column });
        this.cells.push({ cell, token, ...place });
      }
      this.rows.set(token, row);
      body.append(row);
    }
    find(".tv-grid").replaceChildren(html("thead", {}, groups, names), body);
  },

  heading({ channel, column, thin }) {
    const name = channelName(channel, column).replace(/^(alpha|beta|gamma|rho|phi|eta)\b/, greek => LETTERS[greek]);
    const node = html("th", { scope: "col", title: `${channel.name}: ${channel.meaning}`, class: name.length > 5 ? "tv-long" : null });
    if (!thin) node.append(html("span", {}, name));
    else if (column === channel.columns[0]) node.append(html("span", { style: "position: absolute" }, channel.name));
    return node;
  },

  toggle(group) {
    if (!state.shut.delete(group)) state.shut.add(group);
    this.build();
    draw({ animate: false });
  },

  scale(channel) {
    const key = find(".tv-scale").value === "now" ? state.time : "run", name = `${channel.name} ${state.output} ${key}`;
    if (!this.scales.has(name)) {
      let largest = 0;
      for (let t = key === "run" ? 0 : state.time; t <= (key === "run" ? sublayers.length : state.time); t++) {
        if (!engine.alive(t, channel)) continue;
        for (const token of visible) for (const column of columnsOf(channel)) largest = Math.max(largest, Math.abs(engine.value(t, token, column)));
      }
      this.scales.set(name, largest || 1);
    }
    return this.scales.get(name);
  },

  draw(animate) {
    const time = state.time, wrote = time ? sublayers[time - 1].writes : data.born;
    for (const place of this.columns) {
      if (!place) continue;
      place.node.classList.toggle("tv-wrote", wrote.includes(place.channel.name));
      place.node.classList.toggle("tv-off", !engine.alive(time, place.channel));
    }
    for (const { cell, token, channel, column, thin } of this.cells) {
      const alive = engine.alive(time, channel), value = alive ? engine.value(time, token, column) : 0;
      const size = Math.min(1, Math.abs(value) / this.scale(channel)) ** 0.6;
      cell.classList.toggle("tv-off", !alive);
      cell.classList.toggle("tv-strong", size > 0.6);
      cell.style.setProperty("--m", (0.9 * size).toFixed(3));
      cell.style.setProperty("--sign", value < 0 ? "var(--tv-neg)" : "var(--tv-pos)");
      if (!thin) cell.textContent = alive ? brief(value) : "";
      cell.setAttribute("aria-label", `${tokens[token].label}, ${channelName(channel, column)}: ${alive ? show(value) : "not in use"}`);
      const chosen = token === state.token && channel === state.channel && column === state.column;
      cell.classList.toggle("tv-chosen", chosen);
      cell.tabIndex = chosen ? 0 : -1;
      if (chosen) cell.setAttribute("aria-selected", "true"); else cell.removeAttribute("aria-selected");
      if (animate && time && alive && value !== engine.value(time - 1, token, column) && wrote.includes(channel.name)) this.flash(cell);
    }
  },

  flash(cell) {
    if (still()) return;
    const mark = getComputedStyle(root).getPropertyValue("--tv-mark");
    cell.animate([{ boxShadow: `0 0 0 2px ${mark}` }, { boxShadow: `0 0 0 2px ${mark}`, offset: 0.5 }, { boxShadow: "0 0 0 0 transparent" }], { duration: 900, easing: "ease-out" });
  },

  at(token, column, time) {
    const holder = engine.holder(time, column);
    return this.cells.find(place => place.token === token && place.column === column && place.channel === holder)?.cell;
  },

  mark(reader, sources) {
    for (const [token, row] of this.rows) {
      row.classList.toggle("tv-reader", token === reader);
      row.classList.toggle("tv-source", sources.includes(token) && token !== reader);
    }
  },

  /** Lines from the cells that made the chosen number to the chosen cell. */
  arcs() {
    const layer = find(".tv-arcs");
    layer.replaceChildren();
    const target = this.cells.find(place => place.cell.classList.contains("tv-chosen"))?.cell;
    if (!target || !state.time || !engine.alive(state.time, state.channel)) return;
    const terms = engine.terms(state.time, state.token, state.column), all = terms.reduce((sum, term) => sum + Math.abs(term.product), 0);
    const middle = node => [node.offsetLeft + node.offsetWidth / 2, node.offsetTop + node.offsetHeight / 2];
    const [x, y] = middle(target);
    for (const term of terms.slice(0, 12)) {
      const sources = "head" in term ? [term.column] : [...term.a, ...term.b].filter(part => part.value !== 0).map(part => part.column);
      for (const column of new Set(sources)) {
        const source = this.at(term.token, column, state.time - 1);
        if (!source || source === target) continue;
        const [a, b] = middle(source), lift = "head" in term ? 0 : -16 - 0.06 * Math.abs(x - a);
        const path = `M${a},${b} C${a + (x - a) * 0.5},${b + lift} ${a + (x - a) * 0.5},${y + lift} ${x},${y}`;
        const width = 1 + 2.8 * Math.abs(term.product) / all;
        layer.append(svg("path", { d: path, stroke: term.product < 0 ? "var(--tv-neg)" : "var(--tv-pos)", "stroke-width": width.toFixed(2) }));
      }
    }
  },
};

// -- one number ------------------------------------------------------------------------------------

const number = {
  draw() {
    const { token, channel, column, time } = state;
    find(".tv-cell-name").textContent = `${channelName(channel, column)} of ${tokens[token].label}`;
    find(".tv-cell-meaning").textContent = channel.meaning;
    this.history(token, channel, column, time);
    find(".tv-arithmetic").replaceChildren(...this.arithmetic(token, channel, column, time));
  },

  history(token, channel, column, time) {
    const values = engine.states.map((_, t) => (engine.alive(t, channel) ? engine.value(t, token, column) : NaN));
    const node = find(".tv-history"), frame = new Frame(node, { width: room(node), height: 110, bottom: 22 }, [0, Math.max(1, sublayers.length)], extent([...values, 0]), { xlabel: "sublayer" });
    frame.line(values.map((value, t) => [t, value]), { stroke: "var(--tv-soft)", "stroke-width": 1.2, "stroke-opacity": 0.6 });
    frame.line(values.slice(0, time + 1).map((value, t) => [t, value]), { stroke: "var(--tv-mark)", "stroke-width": 2 });
    values.forEach((value, t) => { // a channel that lives for a moment only is a point, not a line
      if (!Number.isFinite(value) || Number.isFinite(values[t - 1])) return;
      frame.body.append(svg("circle", { cx: frame.x(t), cy: frame.y(value), r: 2.4, fill: t <= time ? "var(--tv-mark)" : "var(--tv-line)" }));
    });
    frame.body.append(svg("line", { x1: frame.x(time), x2: frame.x(time), y1: 0, y2: 110, stroke: "var(--tv-ink)", "stroke-opacity": 0.25 }));
    if (Number.isFinite(values[time])) frame.body.append(svg("circle", { cx: frame.x(time), cy: frame.y(values[time]), r: 4.5, fill: "var(--tv-mark)" }));
    node.setAttribute("aria-label", `History of ${channelName(channel, column)} of ${tokens[token].label}; now ${show(values[time])}`);
  },

  arithmetic(token, channel, column, time) {
    const here = engine.alive(time, channel);
    if (!here) return [this.note(`This channel is not in use now${engine.holder(time, column) ? `; its column holds ${engine.holder(time, column).name}` : ""}.`)];
    const after = engine.value(time, token, column);
    if (time === 0) return [this.total([["value", after]]), this.note("Written by the embedding, from the token's row, its target and its role.")];
    const before = engine.value(time - 1, token, column), terms = engine.terms(time, token, column);
    const written = terms.reduce((sum, term) => sum + term.product, 0);
    const wrote = sublayers[time - 1].writes.includes(channel.name);
    if (!terms.length) {
      const last = engine.written(time, token, column), made = last === 0 ? "the embedding" : `sublayer ${last}`;
      const link = this.jump(`made by ${made}`, () => jump(token, column, time));
      const text = wrote ? "This sublayer adds exactly 0 here; " : "This sublayer does not write here; the residual connection carries the number on. It was ";
      return [this.total([["value", after]]), html("p", { class: "tv-note" }, text, link, "."), ...this.onward(token, column, time)];
    }
    return [
      this.total([["before", before], ["written", written], ["after", after]]),
      this.list(terms, written, time),
      ...this.onward(token, column, time),
    ];
  },

  total(parts) {
    const node = html("p", { class: "tv-total" });
    parts.forEach(([name, value], n) => {
      if (n) node.append(n === 1 ? "+" : "=");
      node.append(html("b", { "data-part": name, "data-value": String(value) }, show(value)), html("span", {}, name));
    });
    return node;
  },

  list(terms, written, time) {
    const largest = Math.abs(terms[0].product), shown = terms.slice(0, LISTED), rest = terms.slice(LISTED);
    const list = html("ol", { class: "tv-terms", "aria-label": "What was added, the largest first" });
    for (const term of shown) {
      const style = `--share: ${(Math.abs(term.product) / largest).toFixed(3)}; --sign: var(--tv-${term.product < 0 ? "neg" : "pos"})`;
      const row = "head" in term ? this.attended(term, time) : this.gated(term, time);
      row.append(html("span", {}, show(term.product)));
      list.append(html("li", { style, "data-product": String(term.product) }, row));
    }
    if (rest.length) {
      const sum = rest.reduce((total, term) => total + term.product, 0);
      list.append(html("li", { class: "tv-rest", "data-product": String(sum) }, `and ${rest.length} more`, html("span", {}, show(sum))));
    }
    if (terms.length > 1) list.append(html("li", { class: "tv-sum" }, "sum, written", html("span", {}, show(written))));
    return list;
  },

  attended(term, time) {
    const scale = term.scale === 1 ? "" : `${show(term.scale)} × `, holder = engine.holder(time - 1, term.column);
    const name = holder ? channelName(holder, term.column) : `column ${term.column}`;
    return html("button", { type: "button", class: "tv-term", title: `Head ${term.head}; go to where this number was made`, on: { click: () => jump(term.token, term.column, time - 1) } },
      html("span", {}, `${tokens[term.token].label} · ${name}`), html("span", {}, `${scale}${show(term.weight)} × ${show(term.value)} =`));
  },

  gated(term, time) {
    const scale = term.scale === 1 ? "" : ` × ${show(term.scale)}`, gate = { identity: "", reciprocal: "1/", silu: "silu", relu: "relu" }[term.gate];
    const names = html("span", {}, ...this.side(term.a, term, time, ""), " × ", ...this.side(term.b, term, time, gate));
    return html("div", { class: "tv-term" }, names, html("span", {}, `${show(term.left)} × ${show(term.right)}${scale} =`));
  },

  /** One side of a gated unit: multiples of channels, each leading to where it was made. */
  side(parts, term, time, gate) {
    const shown = parts.slice(0, 3), nodes = [], brackets = gate.length > 2 || parts.length > 1;
    shown.forEach((part, n) => {
      const sign = part.weight < 0 ? (n ? " − " : "−") : n ? " + " : "", size = Math.abs(part.weight);
      const name = engine.holder(time - 1, part.column)?.name ?? `column ${part.column}`;
      nodes.push(`${sign}${size === 1 ? "" : `${show(size, 3)}·`}`, this.jump(name, () => jump(term.token, part.column, time - 1)));
    });
    if (parts.length > shown.length) nodes.push(" + …");
    return brackets ? [`${gate}(`, ...nodes, ")"] : [gate, ...nodes];
  },

  onward(token, column, time) {
    const next = engine.readers(time, token, column, 3);
    if (!next.length) return [];
    const node = html("p", { class: "tv-note" }, "Travels on to ");
    next.forEach((step, n) => {
      const holder = engine.holder(step.time, step.column);
      if (n) node.append(", ");
      node.append(this.jump(`${holder?.name ?? `column ${step.column}`} (sublayer ${step.time})`, () => land(token, step.column, step.time)));
    });
    node.append(".");
    return [node];
  },

  note(text) { return html("p", { class: "tv-note" }, text); },
  jump(text, act) { return html("button", { type: "button", class: "tv-jump", on: { click: act } }, text); },
};

// -- the prediction --------------------------------------------------------------------------------

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
    this.range = extent(data.at ? values : [...all.flatMap(q => [this.single(given.exact, q), this.single(engine.average, q)]), 0]);
    data.at ? this.line(all) : this.dots(all);
    this.keys();
    this.error();
  },

  keys() {
    const entry = (name, colour, style) => html("span", {}, html("i", { style: `border-color: ${colour}; border-style: ${style}` }), name);
    const found = [entry("the network now", "var(--tv-mark)", "solid"), entry("exact ridge regression", "var(--tv-exact)", "dashed"), entry("one softmax head", "var(--tv-average)", "dotted")];
    if (data.at) found.push(html("span", {}, "drag a point up or down: the network runs again, here"));
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
    this.averageLine = this.frame.line(along(engine.average), { stroke: "var(--tv-average)", "stroke-width": 2, "stroke-dasharray": "1.5 4", "stroke-linecap": "round" });
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
    node.setAttribute("aria-label", "The prediction over the line: supports, the network now, exact ridge regression, one softmax head");
  },

  point(x, n) {
    const label = () => `${tokens[engine.places.support[n]].label}, target ${show(this.targets()[n])}; arrow keys move it`;
    const node = svg("circle", { class: "tv-point", cx: this.frame.x(x), cy: this.frame.y(this.targets()[n]), r: 5, tabindex: 0, role: "slider", "aria-label": label(), "aria-orientation": "vertical", "aria-valuenow": show(this.targets()[n]) });
    const move = value => {
      engine.targets[n * engine.outputs + state.output] = value;
      node.setAttribute("aria-label", label());
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
      const average = svg("circle", { cx: place(this.single(engine.average, q)), cy: y, r: 3.5, fill: "none", stroke: "var(--tv-average)", "stroke-width": 1.8 });
      const dot = svg("circle", { cy: y, r: 5, fill: "var(--tv-mark)" });
      this.frame.body.append(gap, exact, average, dot);
      return { q, gap, dot, exact, average };
    });
    node.setAttribute("role", "img");
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
      this.band.setAttribute("d", engine.bound && step ? `${this.frame.path(edge(1))}${this.frame.path(edge(-1).toReversed()).replace("M", "L")}Z` : "");
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
      this.averageLine.setAttribute("d", this.frame.path(along(engine.average)));
      this.points.forEach((point, n) => point.setAttribute("cy", this.frame.y(this.targets()[n])));
    } else {
      for (const { q, exact, average } of this.rows) {
        exact.setAttribute("x1", this.frame.x(this.single(engine.exact, q)));
        exact.setAttribute("x2", this.frame.x(this.single(engine.exact, q)));
        average.setAttribute("cx", this.frame.x(this.single(engine.average, q)));
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
    this.plot.line(steps.map((step, n) => [step, Math.max(this.errors[n], 1e-17)]), { stroke: "var(--tv-pos)", "stroke-width": 2.2 });
    this.dot = svg("circle", { r: 5.5, fill: "var(--tv-pos)", stroke: "var(--tv-card)", "stroke-width": 1.5, style: "transition: cx .4s, cy .4s" });
    this.plot.node.append(this.dot);
  },

  marker(step) {
    const bounded = step && Number.isFinite(this.bounds?.[step - 1]) ? `, proved to be at most ${show(this.bounds[step - 1], 3)} (dashed)` : "";
    const text = step ? `largest distance from exact ${show(this.errors[step - 1], 3)}${bounded}` : "";
    find(".tv-error-note").textContent = text;
    find(".tv-error").setAttribute("aria-label", `Error after every step on a logarithmic axis; ${text || "no step has ended yet"}`);
    this.dot.style.visibility = step ? "visible" : "hidden";
    if (!step) return;
    this.dot.setAttribute("cx", this.plot.x(step));
    this.dot.setAttribute("cy", this.plot.y(Math.max(this.errors[step - 1], 1e-17)));
  },
};

// -- attention -------------------------------------------------------------------------------------

const attention = {
  draw() {
    const { time } = state, sublayer = sublayers[time - 1], heads = sublayer && data.modules[sublayer.module].heads;
    find(".tv-attention").classList.toggle("tv-none", !heads);
    if (!heads) {
      find(".tv-attention-note").textContent = sublayer ? "this sublayer has none: gated units work on every token by itself" : "the embedding reads nobody";
      find(".tv-weight").textContent = "";
      find(".tv-heads").replaceChildren(...(sublayer ? [this.units(data.modules[sublayer.module].units)] : []));
      return;
    }
    find(".tv-attention-note").textContent = `who reads whom: readers are rows, sources columns${heads.length > 1 ? `; ${heads.length} heads` : ""}`;
    find(".tv-heads").replaceChildren(...heads.map(head => this.card(head, time)));
    find(".tv-weight").textContent = this.example(heads, time);
  },

  card(head, time) {
    const name = column => engine.holder(time - 1, column)?.name ?? `column ${column}`;
    const after = column => engine.holder(time, column)?.name ?? name(column);
    const scores = [...new Set(head.scores.map(([reader, source]) => (name(reader) === name(source) ? name(reader) : `${name(reader)}·${name(source)}`)))];
    const moves = [...new Set(head.moves.map(([of, to, weight]) => (of === to && weight === -1 ? `empties ${name(of)}` : `${weight === 1 ? "" : `${show(weight, 3)}·`}${name(of)} → ${after(to)}`)))];
    const silence = html("input", { type: "checkbox", on: { change: () => { engine.silenced.has(head.name) ? engine.silenced.delete(head.name) : engine.silenced.add(head.name); relive(); } } });
    silence.checked = engine.silenced.has(head.name);
    const heading = html("h5", {}, html("span", {}, head.name), html("label", {}, silence, " silence"));
    const about = html("p", {}, `${head.kind}; scores from ${scores.join(", ") || "nothing (all equal)"}; moves ${moves.slice(0, 4).join(", ")}`);
    return html("div", { class: "tv-head-card" }, heading, about, ...(head.name === "clear" ? [] : [html("div", { class: "tv-pair" }, this.matrix(head, time), this.row(head, time))]));
  },

  /** One row of the matrix as arithmetic: from scores to weights. */
  row(head, time) {
    const n = tokens.length, i = state.token, P = engine.pattern(time, head), mask = engine.allowed(head), X = engine.states[time - 1];
    const sources = visible.filter(j => mask[i * n + j]).toSorted((a, b) => Math.abs(P[i * n + b]) - Math.abs(P[i * n + a]));
    if (!sources.length) return html("p", {}, `${tokens[i].label} reads nobody here.`);
    const largest = Math.abs(P[i * n + sources[0]]) || 1, soft = head.kind === "softmax";
    const body = sources.slice(0, LISTED).map(j => html("tr", { style: `--share: ${(Math.abs(P[i * n + j]) / largest).toFixed(3)}; --sign: var(--tv-${P[i * n + j] < 0 ? "neg" : "pos"})` },
      html("th", { scope: "row" }, tokens[j].label), ...(soft ? [html("td", {}, show(engine.score(head, X, i, j), 3))] : []), html("td", { class: "tv-bar" }, show(P[i * n + j], 3))));
    const rest = sources.slice(LISTED).reduce((sum, j) => sum + P[i * n + j], 0);
    if (sources.length > LISTED && soft) body.push(html("tr", {}, html("th", { scope: "row" }, `${sources.length - LISTED} more`), html("td", {}, ""), html("td", {}, show(rest, 3))));
    const names = soft ? ["score", "softmax"] : ["product"];
    return html("table", { class: "tv-reads" }, html("thead", {}, html("tr", {}, html("th", { scope: "col" }, `${tokens[i].label} reads`), ...names.map(name => html("th", { scope: "col" }, name)))), html("tbody", {}, ...body));
  },

  matrix(head, time) {
    const n = tokens.length, P = engine.pattern(time, head), mask = engine.allowed(head);
    const readers = visible.filter(i => visible.some(j => mask[i * n + j])), sources = visible.filter(j => readers.some(i => mask[i * n + j]));
    let largest = 0;
    for (const i of readers) for (const j of sources) largest = Math.max(largest, Math.abs(P[i * n + j]));
    const size = 12, left = 58, top = 14, width = left + sources.length * size + 14;
    const node = svg("svg", { class: "tv-matrix", style: `max-width: ${1.15 * width}px`, viewBox: `0 0 ${width} ${top + readers.length * size + 4}`, role: "group", "aria-label": `Weights of head ${head.name}` });
    const starts = (list, place) => list.forEach((token, n) => { if (!n || tokens[list[n - 1]].role !== tokens[token].role) place(tokens[token].role, n); });
    starts(sources, (role, n) => node.append(svg("text", { x: left + n * size, y: 9 }, sources.filter(j => tokens[j].role === role).length > 3 ? `${role}s` : role === "aggregator" ? "agg" : role)));
    starts(readers, (role, n) => node.append(svg("text", { x: 0, y: top + n * size + 9 }, role)));
    readers.forEach((i, row) => {
      const group = svg("g", { tabindex: 0, role: "button", "data-token": i, "aria-label": this.sentence(head, P, i, sources), class: i === state.token ? "tv-chosen" : null });
      group.append(svg("rect", { class: "tv-row", x: left - 1, y: top + row * size - 0.5, width: sources.length * size + 1, height: size }));
      sources.forEach((j, column) => {
        if (!mask[i * n + j]) return;
        const value = P[i * n + j], style = `--m: ${(largest ? 0.85 * (Math.abs(value) / largest) ** 0.7 : 0).toFixed(3)}; --sign: var(--tv-${value < 0 ? "neg" : "pos"})`;
        const cell = svg("rect", { x: left + column * size, y: top + row * size, width: size - 1.5, height: size - 1.5, rx: 2, style, "data-source": j, "data-value": String(value) });
        group.append(cell);
      });
      const tell = event => {
        const source = event.target.dataset?.source;
        find(".tv-weight").textContent = source === undefined ? this.sentence(head, P, i, sources) : this.weight(head, time, P, i, Number(source));
        grid.mark(i, sources.filter(j => Math.abs(P[i * n + j]) > 0.02 * largest));
      };
      group.addEventListener("mousemove", tell);
      group.addEventListener("focus", tell);
      for (const event of ["mouseleave", "blur"]) group.addEventListener(event, () => grid.mark(-1, []));
      const choose = () => pick(i, state.channel, state.column, { follow: true });
      group.addEventListener("click", choose);
      group.addEventListener("keydown", event => { if (event.key === "Enter") choose(); });
      node.append(group);
    });
    return node;
  },

  sentence(head, P, i, sources) {
    const n = tokens.length, top = sources.filter(j => P[i * n + j] !== 0).toSorted((a, b) => Math.abs(P[i * n + b]) - Math.abs(P[i * n + a]));
    const listed = top.slice(0, 4).map(j => `${tokens[j].label} ${show(P[i * n + j], 3)}`).join(", ");
    return `${tokens[i].label} reads ${listed || "nobody"}${top.length > 4 ? ` and ${top.length - 4} more` : ""} (head ${head.name})`;
  },

  /** The arithmetic of one weight that is worth reading: the chosen token's largest, on another token if there is one. */
  example(heads, time) {
    const n = tokens.length, i = state.token;
    for (const head of heads) {
      const P = engine.pattern(time, head), read = visible.filter(j => P[i * n + j] !== 0).toSorted((a, b) => Math.abs(P[i * n + b]) - Math.abs(P[i * n + a]));
      const j = read.find(j => j !== i && tokens[j].role === "support") ?? read[0];
      if (j !== undefined && head.name !== "clear") return this.weight(head, time, P, i, j);
    }
    return "";
  },

  weight(head, time, P, i, j) {
    const value = P[i * tokens.length + j], X = engine.states[time - 1], W = engine.width;
    const who = `${tokens[i].label} reads ${tokens[j].label} (head ${head.name})\n`;
    if (!head.scores.length) return `${who}no scores: all it may read weigh the same\nweight = ${show(value)}`;
    const parts = head.scores.map(([reader, source, weight]) => [weight, X[i * W + reader], X[j * W + source]]).filter(([, a, b]) => a * b !== 0);
    const sum = parts.slice(0, 3).map(part => part.map(number => (number < 0 ? `(${show(number, 3)})` : show(number, 3))).join("·")).join(" + ") + (parts.length > 3 ? ` + ${parts.length - 3} more` : "");
    const score = engine.score(head, X, i, j), product = `${sum || "0"} = ${show(score)}`;
    if (head.kind === "linear") return `${who}weight = ${product}`;
    const logs = visible.filter(k => engine.allowed(head)[i * tokens.length + k]).map(k => engine.score(head, X, i, k));
    const total = logs.reduce((all, log) => all + Math.exp(log), 0);
    return `${who}score = ${product}\nweight = e^score / row sum = ${show(Math.exp(score))} / ${show(total)} = ${show(value)}`;
  },

  units(units) {
    const kinds = Object.entries(Object.groupBy(units, unit => unit.gate)).map(([gate, list]) => `${list.length} with gate ${gate}`);
    return html("p", { class: "tv-note" }, `${units.length} gated unit${units.length > 1 ? "s" : ""}: ${kinds.join(", ")}. Choose a cell to see the products.`);
  },
};

// -- moving ----------------------------------------------------------------------------------------

const caption = () => {
  const { time } = state, sublayer = sublayers[time - 1];
  find(".tv-title").textContent = sublayer ? sublayer.title : "The embedding: every token through the weights of its role";
  find(".tv-sentence").textContent = sublayer
    ? `Sublayer ${time} of ${sublayers.length}, ${sublayer.kind}. ${sublayer.sentence}`
    : "Supports carry their features and their target, queries their features only; constants mark the roles. Nothing has been computed yet.";
  find(".tv-formulas").innerHTML = sublayer ? sublayer.formulas.join("") : "";
  find(".tv-slider").value = time;
  find(".tv-slider").setAttribute("aria-valuetext", find(".tv-title").textContent);
  find(".tv-strip").childNodes.forEach((node, n) => { node.classList.toggle("tv-done", n < time); node.classList.toggle("tv-here", n === time - 1); });
};

const follow = () => {
  if (!state.following) return;
  const wrote = state.time ? sublayers[state.time - 1].writes : [];
  const channels = wrote.map(name => data.channels.find(channel => channel.name === name));
  const busy = channels.filter(channel => columnsOf(channel).some(column => engine.value(state.time, state.token, column) !== 0));
  const channel = busy[0] ?? channels[0];
  if (channel) Object.assign(state, { channel, column: columnsOf(channel)[0] });
};

const draw = ({ animate = true } = {}) => {
  root.classList.toggle("tv-quick", !animate); // nothing glides that did not happen
  follow();
  caption();
  grid.draw(animate);
  grid.arcs();
  number.draw();
  answer.draw(animate);
  attention.draw();
  find(".tv-follow input").checked = state.following;
  Object.assign(root.dataset, { time: state.time, token: state.token, channel: state.channel.name, column: state.column });
};

const go = (time, options) => {
  state.time = Math.max(0, Math.min(sublayers.length, time));
  draw(options);
  if (state.time === sublayers.length) pause();
};

const pick = (token, channel, column, { follow: following = false } = {}) => {
  Object.assign(state, { token, channel, column, following });
  draw({ animate: false });
};

/** Go to where the number that stands in a cell at `time` was made. */
const jump = (token, column, time) => {
  const channel = engine.holder(time, column);
  if (!channel) return;
  pause();
  Object.assign(state, { token, channel, column, following: false });
  go(engine.written(time, token, column));
};

/** Go to a cell at a time. */
const land = (token, column, time) => {
  const channel = engine.holder(time, column) ?? state.channel;
  pause();
  Object.assign(state, { token, channel, column, following: false });
  go(time);
};

const pause = () => {
  clearInterval(state.playing);
  state.playing = null;
  const button = find(".tv-play");
  button.querySelector("span").textContent = "Play";
  button.setAttribute("aria-label", "Play");
  root.classList.remove("tv-playing");
  find(".tv-sentence").setAttribute("aria-live", "polite");
};

const play = () => {
  if (state.playing) return pause();
  if (state.time === sublayers.length) go(0);
  const button = find(".tv-play");
  button.querySelector("span").textContent = "Pause";
  button.setAttribute("aria-label", "Pause");
  root.classList.add("tv-playing");
  find(".tv-sentence").setAttribute("aria-live", "off"); // a reader cannot keep up with it
  state.playing = setInterval(() => go(state.time + 1), Number(find(".tv-speed").value));
};

/** Run the network again, here, for the targets and silenced heads of the moment. */
const relive = () => {
  const begin = performance.now();
  engine.rerun();
  find(".tv-live").hidden = false;
  const silent = engine.silenced.size ? `; silent: ${[...engine.silenced].join(", ")}` : "";
  find(".tv-live span").textContent = `Live: all ${sublayers.length} sublayers ran in this page in ${(performance.now() - begin).toFixed(0)} ms${silent}. The bound belongs to the recorded run.`;
  grid.scales.clear();
  answer.moved();
  draw({ animate: false });
};

const restore = () => {
  engine.reset();
  find(".tv-live").hidden = true;
  grid.scales.clear();
  answer.moved();
  draw({ animate: false });
};

/** The time at which the next step of the algorithm has ended, or the one before this. */
const section = way => {
  const ends = sublayers.map((_, n) => n + 1).filter(t => sublayers[t]?.place.split(".")[0] !== sublayers[t - 1].place.split(".")[0]);
  return way > 0 ? ends.find(t => t > state.time) ?? sublayers.length : ends.findLast(t => t < state.time) ?? 0;
};

const keys = event => {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  const cell = event.target.closest?.("td[data-token]");
  if (cell && walk(event, cell)) return;
  if (event.target.matches?.("select, input")) return;
  const stride = way => (event.shiftKey ? section(way) : state.time + way);
  const act = { ArrowLeft: () => go(stride(-1)), ArrowRight: () => go(stride(1)), Home: () => go(0), End: () => go(sublayers.length) }[event.key];
  const space = event.key === " " && !event.target.closest?.("button");
  if (!act && !space) return;
  event.preventDefault();
  if (space) return play();
  pause();
  act();
};

/** Arrow keys inside the grid move from cell to cell. */
const walk = (event, cell) => {
  const row = cell.parentNode, cells = [...row.querySelectorAll("td[data-token]")], place = cells.indexOf(cell);
  const next = {
    ArrowLeft: () => cells[place - 1],
    ArrowRight: () => cells[place + 1],
    ArrowUp: () => row.previousElementSibling?.querySelectorAll("td[data-token]")[place],
    ArrowDown: () => row.nextElementSibling?.querySelectorAll("td[data-token]")[place],
  }[event.key]?.();
  if (!next) return ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key);
  event.preventDefault();
  chooseCell(next);
  next.focus();
  return true;
};

const chooseCell = cell => {
  const channel = data.channels.find(one => one.name === cell.dataset.channel);
  pick(Number(cell.dataset.token), channel, Number(cell.dataset.column));
};

const listen = () => {
  const slider = find(".tv-slider");
  slider.max = sublayers.length;
  slider.addEventListener("input", () => { pause(); go(Number(slider.value)); });
  find(".tv-first").addEventListener("click", () => { pause(); go(0); });
  find(".tv-back").addEventListener("click", () => { pause(); go(state.time - 1); });
  find(".tv-next").addEventListener("click", () => { pause(); go(state.time + 1); });
  find(".tv-last").addEventListener("click", () => { pause(); go(sublayers.length); });
  find(".tv-play").addEventListener("click", play);
  find(".tv-speed").addEventListener("change", () => { if (state.playing) { pause(); play(); } });
  find(".tv-scale").addEventListener("change", () => draw({ animate: false }));
  find(".tv-reset").addEventListener("click", restore);
  find(".tv-follow input").addEventListener("change", event => { state.following = event.target.checked; draw({ animate: false }); });
  find(".tv-grid").addEventListener("click", event => { const cell = event.target.closest("td[data-token]"); if (cell) chooseCell(cell); });
  root.addEventListener("keydown", keys);
  const output = find(".tv-output");
  for (let n = 0; n < engine.outputs; n++) output.append(html("option", { value: n }, String(n + 1)));
  find(".tv-output-label").hidden = engine.outputs === 1;
  output.addEventListener("change", () => {
    state.output = Number(output.value);
    state.column = columnsOf(state.channel)[0];
    answer.shown = null;
    rebuild();
  });
  find(".tv-strip").replaceChildren(...sublayers.map((sublayer, n) => {
    const section = place => place?.place.split(".")[0];
    const classes = [sublayer.kind === "attention" && "tv-attends", section(sublayer) !== section(sublayers[n - 1]) && n && "tv-new-step"].filter(Boolean).join(" ");
    return html("i", { class: classes || null, title: sublayer.title, on: { click: () => { pause(); go(n + 1); } } });
  }));
  new ResizeObserver(() => grid.arcs()).observe(find(".tv-sheet"));
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    answer.build();
    draw({ animate: false });
  }).observe(root);
};

const rebuild = () => {
  grid.build();
  answer.build();
  draw({ animate: false });
};

/** The whole run repeated from the weights alone, against what was recorded. */
const repeat = () => {
  const begin = performance.now();
  engine.rerun();
  const spent = performance.now() - begin, largest = values => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const gap = largest(engine.predictions.map((value, n) => value - engine.given.predictions[n])) / (largest(engine.given.predictions) || 1);
  engine.reset();
  root.dataset.gap = gap;
  find(".tv-repeat").textContent = `What you see is PyTorch's own run. This page also repeated all ${sublayers.length} sublayers from the weights alone, in ${spent.toFixed(0)} ms: predictions differ by at most ${show(gap, 2)} of the largest one. Keys: ← → one sublayer, with Shift one step, space plays, Home and End; inside the grid, arrows move from cell to cell.`;
};

if (data.channels.some(channel => channel.size === "features" && channel.columns.length > 40)) state.shut.add("features");
state.token = engine.places.support[Math.floor(engine.supports / 3)];
state.channel = data.channels.find(channel => channel.columns.includes(data.reading[0][0]) && channel.group !== "scratch") ?? data.channels[0];
state.column = columnOf(state.channel);
state.time = Number(root.dataset.start);
find(".tv-app").hidden = false;
listen();
repeat();
rebuild();
root.viewer = { engine, state, go }; // for tests and the curious
