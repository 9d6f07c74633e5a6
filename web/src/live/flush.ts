// Owns when news is applied: once a frame of the page, for at most a few milliseconds, and once a second while nobody looks. A
// frame that took long is followed by others without news, and one that begins with other work has none, so that a flood leaves
// half of the time to the person's scrolling and typing.

const BUDGET_MS = 8;
/** A frame that took longer was late. */
const LATE_MS = 20;
const LONGEST_REST_MS = 50;
/** After so much other work in a frame, such as rows that came into sight, the news waits for the next one. */
const BUSY_MS = 5;
const HIDDEN_MS = 1_000;

/** Calls `flush` with the time until which it may work, as long as it says that there is more. */
export class FlushClock {
  private frame: number | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private restsUntil = 0;
  private hasWaited = false;

  constructor(private readonly flush: (until: number) => boolean) {
    document.addEventListener('visibilitychange', this.wake);
  }

  /** There is news. */
  ask(): void {
    if (this.frame !== undefined || this.timer !== undefined) return;
    if (document.visibilityState === 'hidden') this.timer = setTimeout(this.run, HIDDEN_MS);
    else this.frame = requestAnimationFrame(this.runInFrame);
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

  private readonly runInFrame = (at: number): void => {
    const isBusy = !this.hasWaited && performance.now() - at > BUSY_MS;
    if (isBusy || at < this.restsUntil) {
      this.hasWaited ||= isBusy;
      this.frame = requestAnimationFrame(this.runInFrame);
      return;
    }
    this.hasWaited = false;
    requestAnimationFrame((next) => {
      const took = next - at;
      this.restsUntil = took > LATE_MS ? next + Math.min(took, LONGEST_REST_MS) : 0;
    });
    this.run();
  };

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
