// The residual stream: tokens x named channels, and lines from the cells that made the chosen number.

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
      cell.style.setProperty("--m", (size > 0.6 ? 0.95 + (size - 0.6) / 8 : 0.9 * size).toFixed(3)); // between, neither ink is legible
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
