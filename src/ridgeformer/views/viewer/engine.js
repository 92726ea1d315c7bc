"use strict";
// The transformer itself, in float64 and from its own weights: the run as PyTorch did it, the same run repeated
// here with other targets or silenced heads, and where every single number came from.

const decode = text => new Float64Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);

const GATES = smallest => ({
  identity: b => b,
  reciprocal: b => (b > smallest ? 1 / b : 0),
  silu: b => b / (1 + Math.exp(-b)),
  relu: b => Math.max(b, 0),
});

class Engine {
  constructor(data) {
    this.data = data;
    this.tokens = data.tokens;
    this.width = data.width;
    this.outputs = data.outputs;
    this.gates = GATES(data.smallest);
    this.sublayers = data.sublayers.rows.map(row => ({
      ...row,
      sentence: data.sublayers.kept[row.sentence],
      formulas: data.sublayers.kept[row.formulas],
      alive: new Set(data.sublayers.kept[row.alive]),
    }));
    this.places = {};
    this.tokens.forEach((token, i) => (this.places[token.role] ??= []).push(i));
    this.masks = new Map();
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
    const X = this.states[time - 1], after = Float64Array.from(X), module = this.data.modules[sublayer.module];
    const W = this.width, n = this.tokens.length;
    for (const head of module.heads ?? []) {
      if (this.silenced.has(head.name)) continue;
      const P = this.pattern(time, head);
      for (const [of, to, weight] of head.moves) {
        for (let i = 0; i < n; i++) {
          let sum = 0;
          for (let j = 0; j < n; j++) if (P[i * n + j] !== 0) sum += P[i * n + j] * X[j * W + of];
          after[i * W + to] += weight * sum;
        }
      }
    }
    for (const unit of module.units ?? []) {
      for (let i = 0; i < n; i++) {
        const product = this.side(unit.a, X, i) * this.gates[unit.gate](this.side(unit.b, X, i));
        for (const [column, weight] of unit.d) after[i * W + column] += weight * product;
      }
    }
    return after;
  }

  side(entries, X, token) {
    let sum = 0;
    for (const [column, weight] of entries) sum += weight * X[token * this.width + column];
    return sum;
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

  allowed(head) {
    const key = JSON.stringify(head.mask), n = this.tokens.length;
    if (!this.masks.has(key)) {
      const mask = new Uint8Array(n * n);
      for (const [reader, source, relation] of head.mask) {
        this.places[reader].forEach((i, a) => this.places[source].forEach((j, b) => {
          if (relation === "all" || (relation === "before" ? b < a : a === b)) mask[i * n + j] = 1;
        }));
      }
      this.masks.set(key, mask);
    }
    return this.masks.get(key);
  }

  score(head, X, i, j) {
    let sum = 0;
    for (const [reader, source, weight] of head.scores) sum += weight * X[i * this.width + reader] * X[j * this.width + source];
    return sum;
  }

  pattern(time, head) {
    const key = `${time} ${head.name}`;
    if (this.patterns.has(key)) return this.patterns.get(key);
    const X = this.states[time - 1], mask = this.allowed(head), n = this.tokens.length, P = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      let largest = -Infinity, total = 0;
      for (let j = 0; j < n; j++) {
        if (!mask[i * n + j]) continue;
        P[i * n + j] = this.score(head, X, i, j);
        largest = Math.max(largest, P[i * n + j]);
      }
      if (head.kind === "linear") continue;
      for (let j = 0; j < n; j++) if (mask[i * n + j]) total += P[i * n + j] = Math.exp(P[i * n + j] - largest);
      for (let j = 0; j < n; j++) if (mask[i * n + j]) P[i * n + j] /= total;
    }
    this.patterns.set(key, P);
    return P;
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
    for (const unit of units) {
      for (const [to, scale] of unit.d) {
        if (to !== column) continue;
        const left = this.side(unit.a, X, token), inner = this.side(unit.b, X, token), right = this.gates[unit.gate](inner);
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
