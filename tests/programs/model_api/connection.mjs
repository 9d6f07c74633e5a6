// Owns one HTTP exchange as something that may end at any time.

/** Follows one HTTP exchange, so that waits end when the client hangs up. */
export class Connection {
  constructor(response) {
    this.gone = false;
    this.callbacks = [];
    response.on("close", () => {
      this.gone = true;
      for (const callback of this.callbacks.splice(0)) callback();
    });
  }
  onGone(callback) {
    if (this.gone) callback();
    else this.callbacks.push(callback);
  }
}

/** Waits, unless the client hangs up before. */
export function sleep(ms, connection) {
  if (!(ms > 0) || connection.gone) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    connection.onGone(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
