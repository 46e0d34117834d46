// How many tokens of history fit into the next request.
//
// The host asks twice. Before the turn it names what its own prompt, its tools and the reply leave of the window. In the
// turn it names the whole window less the messages of the turn, so the first number has to be remembered.

export class Budgets {
  constructor() {
    this._known = new Map();
  }

  /** Remember what the host names before a turn, and return it. If it names nothing, the last one counts. */
  begin(key, tokens, model) {
    if (!(tokens >= 1)) return this.base(key);
    this._known.set(key, { base: Math.floor(tokens), pending: undefined, model });
    return Math.floor(tokens);
  }

  /** Return what is left in a turn: as much less than before as the messages of the turn have grown. */
  within(key, tokens) {
    const known = this._known.get(key);
    if (!(tokens > 0)) return known?.base;
    if (!known) return Math.floor(tokens);
    known.pending ??= tokens;
    const grown = Math.max(0, known.pending - tokens);
    return Math.max(1, Math.min(Math.floor(tokens), Math.floor(known.base - grown)));
  }

  /** Return what fits at the beginning of a turn: compaction makes room for that. */
  base(key) {
    return this._known.get(key)?.base;
  }

  model(key) {
    return this._known.get(key)?.model;
  }
}
