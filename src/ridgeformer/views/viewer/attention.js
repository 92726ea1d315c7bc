// Attention patterns: the weights of every head, one row spelled out as arithmetic, and switches that ablate heads.

const attention = {
  PLURALS: { query: "queries" },

  draw() {
    const { time } = state, sublayer = sublayers[time - 1], heads = sublayer && data.modules[sublayer.module].heads;
    find(".tv-attention").classList.toggle("tv-none", !heads);
    if (!heads) {
      find(".tv-attention-note").textContent = sublayer ? "none in this sublayer: gated units act on each token separately" : "the embedding reads no other token";
      find(".tv-weight").textContent = "";
      find(".tv-heads").replaceChildren(...(sublayer ? [this.units(data.modules[sublayer.module].units)] : []));
      return;
    }
    find(".tv-attention-note").textContent = `rows are readers, columns are sources${heads.length > 1 ? `; ${heads.length} heads` : ""}`;
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
    if (!sources.length) return html("p", {}, `${tokens[i].label} reads no token here.`);
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
    const size = 12, left = 58, top = 25, width = left + sources.length * size + 14;
    const node = svg("svg", { class: "tv-matrix", style: `max-width: ${1.15 * width}px`, viewBox: `0 0 ${width} ${top + readers.length * size + 4}`, role: "group", "aria-label": `Weights of head ${head.name}` });
    const starts = (list, place) => list.forEach((token, n) => { if (!n || tokens[list[n - 1]].role !== tokens[token].role) place(tokens[token].role, n); });
    const ends = [-1, -1]; // of the labels in two rows: one that would touch its neighbour moves up
    starts(sources, (role, n) => {
      const many = sources.filter(j => tokens[j].role === role).length > 3, name = many ? this.PLURALS[role] ?? `${role}s` : role === "aggregator" ? "agg" : role;
      const x = left + n * size, level = x > ends[0] ? 0 : 1;
      ends[level] = x + 6 * name.length;
      node.append(svg("text", { x, y: level ? 9 : 20, class: "tv-source-label" }, name));
    });
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
    return `${tokens[i].label} reads ${listed || "no token"}${top.length > 4 ? ` and ${top.length - 4} more` : ""} (head ${head.name})`;
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
    if (!head.scores.length) return `${who}no scores: all tokens it may read have equal weight\nweight = ${show(value)}`;
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
    return html("p", { class: "tv-note" }, `${units.length} gated unit${units.length > 1 ? "s" : ""}: ${kinds.join(", ")}. Select a cell to see the products.`);
  },
};
