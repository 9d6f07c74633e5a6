// Owns which records are known: a set of numbers as intervals, so that a repeated record does nothing.

/** A set of whole numbers. */
export class Known {
  /** First and last number of each interval, ascending, apart from each other. */
  private readonly spans: [number, number][] = [];

  /** Adds all from `first` to `last`. */
  add(first: number, last: number): void {
    const { spans } = this;
    let at = this.indexOf(first);
    if (at > 0 && spans[at - 1]![1] >= first - 1) at -= 1;
    let end = at;
    let from = first;
    let to = last;
    while (end < spans.length && spans[end]![0] <= last + 1) {
      from = Math.min(from, spans[end]![0]);
      to = Math.max(to, spans[end]![1]);
      end += 1;
    }
    spans.splice(at, end - at, [from, to]);
  }

  /** Whether all from `first` to `last` are in it. */
  has(first: number, last: number): boolean {
    const at = this.indexOf(first + 1) - 1;
    const span = this.spans[at];
    return span !== undefined && span[0] <= first && span[1] >= last;
  }

  /** Forgets all numbers below `first`. */
  forget(first: number): void {
    const { spans } = this;
    const at = this.indexOf(first);
    if (at > 0 && spans[at - 1]![1] >= first) {
      spans[at - 1]![0] = first;
      spans.splice(0, at - 1);
    } else spans.splice(0, at);
  }

  /** The index of the first interval that begins at `n` or later. */
  private indexOf(n: number): number {
    let low = 0;
    let high = this.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle]![0] < n) low = middle + 1; else high = middle;
    }
    return low;
  }
}
