"use strict";
// A compiled transformer in the page: float64, from its own weights, one sublayer at a time.

const decode = text => new Float64Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);

const GATES = smallest => ({
  identity: b => b,
  reciprocal: b => (b > smallest ? 1 / b : 0),
  silu: b => b / (1 + Math.exp(-b)),
  relu: b => Math.max(b, 0),
});

/** Entries [a, b, ..., weight] as one typed array a column: what loops over them reads fastest. */
const columnar = (entries, places) => ({
  count: entries.length,
  ...Object.fromEntries(places.map((place, n) => [place, Int32Array.from(entries, entry => entry[n])])),
  weight: Float64Array.from(entries, entry => entry.at(-1)),
});

class Network {
  /** Sublayers as `sparse_sublayer` writes them, and the role of every token. */
  constructor({ modules, width, smallest, roles }) {
    this.width = width;
    this.length = roles.length;
    this.gates = GATES(smallest);
    this.places = {};
    roles.forEach((role, i) => (this.places[role] ??= []).push(i));
    this.modules = modules.map(({ heads = [], units = [] }) => ({ heads, units, packed: units.map(unit => this.unit(unit)) }));
    this.packs = new Map(this.modules.flatMap(({ heads }) => heads.map(head => [head, this.head(head)])));
    this.weights = new Float64Array(this.length);
    this.asked = new Float64Array(width);
  }

  unit({ gate, a, b, d }) {
    return { gate: this.gates[gate], a: columnar(a, ["of"]), b: columnar(b, ["of"]), d: columnar(d, ["to"]) };
  }

  /** A head, with the tokens that each token may read. */
  head({ kind, mask, scores, moves }) {
    const sources = Array.from({ length: this.length }, () => []);
    for (const [reader, source, relation] of mask) {
      (this.places[reader] ?? []).forEach((i, a) => (this.places[source] ?? []).forEach((j, b) => {
        if ((relation === "all" || (relation === "before" ? b < a : a === b)) && !sources[i].includes(j)) sources[i].push(j);
      }));
    }
    const packed = columnar(scores, ["reader", "source"]);
    const read = Int32Array.from(new Set(packed.source)); // the columns of a source that matter
    const lists = new Map(), typed = list => { const key = list.join(); lists.has(key) || lists.set(key, Int32Array.from(list)); return lists.get(key); };
    return { softmax: kind !== "linear", sources: sources.map(typed), scores: packed, read, moves: columnar(moves, ["of", "to"]) };
  }

  /** Begin a forward pass: patterns that it cannot change, because no sublayer writes what they are made of, are kept. */
  begin() {
    const written = new Set();
    for (const { moves } of this.packs.values()) for (const column of moves.to) written.add(column);
    for (const { packed } of this.modules) for (const { d } of packed) for (const column of d.to) written.add(column);
    for (const pack of this.packs.values()) pack.kept = [...pack.scores.reader, ...pack.scores.source].some(column => written.has(column)) ? null : [];
  }

  sources(head, i) { return this.packs.get(head).sources[i]; }

  /** The weights with which token i reads its sources, in their order; good until the next call. */
  row(head, X, i) {
    const { sources, kept } = this.packs.get(head);
    if (!kept) return this.weigh(head, X, i);
    return (kept[i] ??= this.weigh(head, X, i).slice(0, sources[i].length));
  }

  weigh(head, X, i) {
    const { softmax, sources, scores, read } = this.packs.get(head), list = sources[i], W = this.width, { weights, asked } = this;
    for (let n = 0; n < read.length; n++) asked[read[n]] = 0;
    for (let n = 0; n < scores.count; n++) asked[scores.source[n]] += scores.weight[n] * X[i * W + scores.reader[n]];
    let largest = -Infinity, total = 0;
    for (let j = 0; j < list.length; j++) {
      let sum = 0;
      for (let n = 0, at = list[j] * W; n < read.length; n++) sum += asked[read[n]] * X[at + read[n]];
      weights[j] = sum;
      if (sum > largest) largest = sum;
    }
    if (!softmax) return weights;
    for (let j = 0; j < list.length; j++) total += weights[j] = Math.exp(weights[j] - largest);
    for (let j = 0; j < list.length; j++) weights[j] /= total;
    return weights;
  }

  /** Add to `after` what one head writes when the stream is X. */
  attend(head, X, after) {
    const { moves, scores, sources } = this.packs.get(head), W = this.width, sums = new Float64Array(moves.count);
    let last = null; // without scores all readers of one list get the same
    for (let i = 0; i < this.length; i++) {
      const list = sources[i];
      if (!list.length) continue;
      if (scores.count || list !== last) {
        const weights = this.row(head, X, i);
        for (let n = 0; n < moves.count; n++) {
          let sum = 0;
          for (let j = 0, of = moves.of[n]; j < list.length; j++) sum += weights[j] * X[list[j] * W + of];
          sums[n] = sum;
        }
        last = list;
      }
      for (let n = 0; n < moves.count; n++) after[i * W + moves.to[n]] += moves.weight[n] * sums[n];
    }
  }

  side({ count, of, weight }, X, at) {
    let sum = 0;
    for (let n = 0; n < count; n++) sum += weight[n] * X[at + of[n]];
    return sum;
  }

  /** Write the stream after a sublayer into `after`, which holds a copy of X; heads named in `silenced` write nothing. */
  sublayer(module, X, after, silenced) {
    const { heads, packed } = this.modules[module];
    for (const head of heads) if (!silenced?.has(head.name)) this.attend(head, X, after);
    for (const { gate, a, b, d } of packed) {
      for (let i = 0, at = 0; i < this.length; i++, at += this.width) {
        const product = this.side(a, X, at) * gate(this.side(b, X, at));
        if (product !== 0) for (let n = 0; n < d.count; n++) after[at + d.to[n]] += d.weight[n] * product;
      }
    }
    return after;
  }
}
