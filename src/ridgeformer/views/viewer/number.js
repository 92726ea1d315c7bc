// One number: its history, and the sum or product that made it, every term leading to where it came from.

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
    const node = find(".tv-history"), frame = new Frame(node, { width: room(node), height: 122, bottom: 34 }, [0, Math.max(1, sublayers.length)], extent([...values, 0]), { xlabel: "sublayer" });
    frame.line(values.map((value, t) => [t, value]), { stroke: "var(--tv-soft)", "stroke-width": 1.2, "stroke-opacity": 0.6 });
    frame.line(values.slice(0, time + 1).map((value, t) => [t, value]), { stroke: "var(--tv-mark)", "stroke-width": 2 });
    values.forEach((value, t) => { // a channel that lives for a moment only is a point, not a line
      if (!Number.isFinite(value) || Number.isFinite(values[t - 1])) return;
      frame.body.append(svg("circle", { cx: frame.x(t), cy: frame.y(value), r: 2.4, fill: t <= time ? "var(--tv-mark)" : "var(--tv-line)" }));
    });
    frame.body.append(svg("line", { x1: frame.x(time), x2: frame.x(time), y1: 0, y2: 122, stroke: "var(--tv-ink)", "stroke-opacity": 0.25 }));
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
    const list = html("ol", { class: "tv-terms", "aria-label": "Terms added, largest first" });
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
      html("span", {}, `${tokens[term.token].label} · ${name}`), html("span", {}, `${scale}${show(term.weight, 3)} × ${show(term.value, 3)}\u00a0=`));
  },

  gated(term, time) {
    const scale = term.scale === 1 ? "" : ` ×\u00a0${show(term.scale)}`, gate = { identity: "", reciprocal: "1/", silu: "silu", relu: "relu" }[term.gate];
    const names = html("span", {}, ...this.side(term.a, term, time, ""), " × ", ...this.side(term.b, term, time, gate));
    return html("div", { class: "tv-term" }, names, html("span", {}, `${show(term.left, 3)} × ${show(term.right, 3)}${scale}\u00a0=`));
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
    const node = html("p", { class: "tv-note" }, "Used next in ");
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
