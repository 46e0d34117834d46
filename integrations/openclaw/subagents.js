// Sub-agents: which conversation started each, and what it may read of it.

export class Subagents {
  constructor() {
    this._known = new Map();
  }

  add(child, parent, grant) {
    this._known.set(child, { parent, grant });
  }

  remove(child) {
    const known = this._known.get(child);
    this._known.delete(child);
    return known;
  }

  parent(child) {
    return this._known.get(child)?.parent;
  }

  grant(child) {
    return this._known.get(child)?.grant;
  }
}
