// The run of a compiled transformer as PyTorch did it, the same run repeated here with other targets or silenced heads,
// and where every single number came from.

class Engine extends Network {
  constructor(data) {
    super({ ...data, roles: data.tokens.map(token => token.role) });
    this.data = data;
    this.tokens = data.tokens;
    this.outputs = data.outputs;
    this.sublayers = data.sublayers.rows.map(row => ({
      ...row,
      sentence: data.sublayers.kept[row.sentence],
      formulas: data.sublayers.kept[row.formulas],
      alive: new Set(data.sublayers.kept[row.alive]),
    }));
    this.recorded = this.replay();
    this.given = {
      targets: decode(data.targets), predictions: decode(data.predictions), exact: decode(data.exact),
      smoother: data.smoother && decode(data.smoother), averager: data.averager && decode(data.averager),
      bound: data.bound && decode(data.bound),
    };
    this.silenced = new Set();
    this.reset();
  }

  get supports() { return this.places.support.length; }
  get queries() { return this.places.query.length; }
  get steps() { return this.given.predictions.length / (this.queries * this.outputs); }

  // -- the run as it was recorded ------------------------------------------------------------------

  replay() {
    const states = [decode(this.data.stream)];
    for (const { columns, values } of this.sublayers) {
      const after = Float64Array.from(states.at(-1)), changed = decode(values);
      this.tokens.forEach((_, i) => columns.forEach((column, n) => {
        after[i * this.width + column] = changed[i * columns.length + n];
      }));
      states.push(after);
    }
    return states;
  }

  reset() {
    this.silenced.clear();
    this.patterns = new Map();
    this.states = this.recorded;
    this.targets = Float64Array.from(this.given.targets);
    this.predictions = this.given.predictions;
    this.exact = this.given.exact;
    this.bound = this.given.bound;
    this.average = this.given.averager && this.weighted(this.given.averager);
    this.live = false;
  }

  value(time, token, column) { return this.states[time][token * this.width + column]; }

  // -- the same run, repeated here -----------------------------------------------------------------

  rerun() {
    const first = Float64Array.from(this.recorded[0]);
    for (const { columns, targets_on } of this.data.channels) {
      for (const role of targets_on) {
        this.places[role].forEach((token, n) => columns.forEach((column, output) => {
          first[token * this.width + column] = this.targets[n * this.outputs + output];
        }));
      }
    }
    this.patterns = new Map();
    this.states = [first];
    this.sublayers.forEach((sublayer, n) => this.states.push(this.forward(sublayer, n + 1)));
    this.predictions = this.read();
    // a program of one's own has no direct solution: it is compared with where it ends
    this.exact = this.given.smoother ? this.weighted(this.given.smoother) : this.predictions.slice(-this.queries * this.outputs);
    this.average = this.given.averager && this.weighted(this.given.averager);
    this.bound = null; // the certificate is one of the run as given
    this.live = true;
  }

  forward(sublayer, time) {
    const X = this.states[time - 1];
    return this.sublayer(sublayer.module, X, Float64Array.from(X), this.silenced);
  }

  read() {
    const [columns, scale] = this.data.reading, found = new Float64Array(this.given.predictions.length);
    this.sublayers.forEach(({ answered }, n) => {
      const before = n ? this.sublayers[n - 1].answered : 0;
      if (answered === before) return;
      this.places.query.forEach((token, q) => columns.forEach((column, output) => {
        found[((answered - 1) * this.queries + q) * this.outputs + output] = scale * this.value(n + 1, token, column);
      }));
    });
    return found;
  }

  weighted(weights) {
    const found = new Float64Array(this.queries * this.outputs);
    for (let q = 0; q < this.queries; q++) {
      for (let j = 0; j < this.supports; j++) {
        for (let o = 0; o < this.outputs; o++) {
          found[q * this.outputs + o] += weights[q * this.supports + j] * this.targets[j * this.outputs + o];
        }
      }
    }
    return found;
  }

  // -- attention -----------------------------------------------------------------------------------

  pattern(time, head) {
    const key = `${time} ${head.name}`, n = this.length;
    if (this.patterns.has(key)) return this.patterns.get(key);
    const X = this.states[time - 1], P = new Float64Array(n * n);
    for (let i = 0; i < n; i++) { const weights = this.row(head, X, i); this.sources(head, i).forEach((j, place) => (P[i * n + j] = weights[place])); }
    this.patterns.set(key, P);
    return P;
  }

  /** Which token may read which, (tokens, tokens). */
  allowed(head) {
    const n = this.length, mask = new Uint8Array(n * n);
    this.packs.get(head).sources.forEach((list, i) => list.forEach(j => (mask[i * n + j] = 1)));
    return mask;
  }

  score(head, X, i, j) {
    let sum = 0;
    for (const [reader, source, weight] of head.scores) sum += weight * X[i * this.width + reader] * X[j * this.width + source];
    return sum;
  }

  // -- where a number came from --------------------------------------------------------------------

  /** What was added to one cell by the sublayer that ended at `time`, term by term, the largest first. */
  terms(time, token, column) {
    if (time === 0) return [];
    const X = this.states[time - 1], module = this.data.modules[this.sublayers[time - 1].module];
    const found = module.heads ? this.attended(module.heads, X, time, token, column) : this.gated(module.units, X, token, column);
    return found.filter(term => term.product !== 0).sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
  }

  attended(heads, X, time, token, column) {
    const found = [], n = this.tokens.length;
    for (const head of heads) {
      if (this.silenced.has(head.name)) continue;
      const P = this.pattern(time, head);
      for (const [of, to, scale] of head.moves) {
        if (to !== column) continue;
        for (let j = 0; j < n; j++) {
          const weight = P[token * n + j], value = X[j * this.width + of];
          found.push({ head: head.name, token: j, column: of, weight, scale, value, product: weight * scale * value });
        }
      }
    }
    return found;
  }

  gated(units, X, token, column) {
    const found = [];
    const factors = entries => entries.map(([of, weight]) => ({ column: of, weight, value: X[token * this.width + of] }));
    const total = entries => entries.reduce((sum, [of, weight]) => sum + weight * X[token * this.width + of], 0);
    for (const unit of units) {
      for (const [to, scale] of unit.d) {
        if (to !== column) continue;
        const left = total(unit.a), inner = total(unit.b), right = this.gates[unit.gate](inner);
        found.push({
          gate: unit.gate, a: factors(unit.a), b: factors(unit.b), left, inner, right, scale, token,
          product: left * right * scale,
        });
      }
    }
    return found;
  }

  /** The last time at or before `time` at which a cell changed; 0 is the embedding. */
  written(time, token, column) {
    let t = time;
    while (t > 0 && this.value(t, token, column) === this.value(t - 1, token, column)) t--;
    return t;
  }

  /** The channel that stands in a column at `time`, by name, or undefined. */
  holder(time, column) {
    const alive = time === 0 ? new Set(this.data.born) : this.sublayers[time - 1].alive;
    return this.data.channels.find(channel => alive.has(channel.name) && channel.columns.includes(column));
  }

  alive(time, channel) {
    return time === 0 ? this.data.born.includes(channel.name) : this.sublayers[time - 1].alive.has(channel.name);
  }

  /** The next sublayers that move a cell's value into other cells: [{time, column}]. */
  readers(time, token, column, limit) {
    const found = [];
    for (let t = time + 1; t <= this.sublayers.length && found.length < limit; t++) {
      const module = this.data.modules[this.sublayers[t - 1].module], to = new Set();
      for (const head of module.heads ?? []) for (const [of, target] of head.moves) if (of === column && target !== column) to.add(target);
      for (const unit of module.units ?? []) {
        const reads = [...unit.a, ...unit.b].some(([of]) => of === column);
        if (reads) for (const [target] of unit.d) if (target !== column) to.add(target);
      }
      for (const target of to) found.push({ time: t, column: target });
      if (this.value(t, token, column) !== this.value(t - 1, token, column)) break;
    }
    return found;
  }
}
