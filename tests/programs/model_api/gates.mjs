// Owns the gates: names at which answers wait until a test lets them on.

export class Gates {
  constructor() {
    this.gates = new Map(); // name -> {open, waiters: Set<() => void>}
    this.watchers = new Set(); // called whenever an answer reaches a gate
  }

  gate(name) {
    if (!this.gates.has(name)) this.gates.set(name, { open: false, waiters: new Set() });
    return this.gates.get(name);
  }

  /** Resolves when the gate is released or the connection is gone. */
  pass(name, connection) {
    const { open, waiters } = this.gate(name);
    if (open || connection.gone) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        waiters.delete(done);
        resolve();
      };
      waiters.add(done);
      connection.onGone(done);
      for (const watch of [...this.watchers]) watch();
    });
  }

  /** Resolves to true once `count` answers stand at the gate, or to false when the time is up. */
  reached(name, count, timeoutMs, connection) {
    return new Promise((resolve) => {
      const finish = (value) => {
        clearTimeout(timer);
        this.watchers.delete(check);
        resolve(value);
      };
      const check = () => {
        if (this.gate(name).waiters.size >= count) finish(true);
      };
      const timer = setTimeout(() => finish(false), timeoutMs);
      this.watchers.add(check);
      connection.onGone(() => finish(false));
      check();
    });
  }

  /** Opens one gate or all for good; `once` lets a single answer through and leaves the gate shut. */
  release({ name, all, once }) {
    for (const each of all ? [...this.gates.keys()] : [name]) {
      const gate = this.gate(each);
      if (once) {
        gate.waiters.values().next().value?.();
        continue;
      }
      gate.open = true;
      for (const waiter of [...gate.waiters]) waiter();
    }
  }

  /** Lets all go on and shuts every gate again. */
  reset() {
    this.release({ all: true });
    this.gates.clear();
  }

  state() {
    const waiting = {};
    const open = [];
    for (const [name, gate] of this.gates) {
      if (gate.waiters.size > 0) waiting[name] = gate.waiters.size;
      if (gate.open) open.push(name);
    }
    return { waiting, open };
  }
}
