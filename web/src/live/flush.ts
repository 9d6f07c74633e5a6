// Owns when news is applied: once a frame of the page, for at most a few milliseconds, and once a second while nobody looks.

const BUDGET_MS = 8;
const HIDDEN_MS = 1_000;

/** Calls `flush` with the time until which it may work, as long as it says that there is more. */
export class FlushClock {
  private frame: number | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly flush: (until: number) => boolean) {
    document.addEventListener('visibilitychange', this.wake);
  }

  /** There is news. */
  ask(): void {
    if (this.frame !== undefined || this.timer !== undefined) return;
    if (document.visibilityState === 'hidden') this.timer = setTimeout(this.run, HIDDEN_MS);
    else this.frame = requestAnimationFrame(this.run);
  }

  /** Nothing is applied any more. */
  stop(): void {
    document.removeEventListener('visibilitychange', this.wake);
    this.cancel();
  }

  private cancel(): void {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.frame = undefined;
    this.timer = undefined;
  }

  private readonly run = (): void => {
    this.frame = undefined;
    this.timer = undefined;
    if (this.flush(performance.now() + BUDGET_MS)) this.ask();
  };

  /** A page that is looked at again, or not any more, waits in the other way. */
  private readonly wake = (): void => {
    if (this.frame === undefined && this.timer === undefined) return;
    this.cancel();
    this.ask();
  };
}
