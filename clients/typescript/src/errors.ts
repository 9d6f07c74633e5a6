/** Owns the errors that programs see. */
import type { ErrorCode, Problem } from './types.js';

/** The daemon refused a request, with a problem (RFC 9457) or a frame of a socket that says the same. */
export class TrunklineError extends Error {
  override readonly name: string = 'TrunklineError';
  /** The stable code. Codes may be added: treat an unknown one by its `status`. */
  readonly code: ErrorCode;
  /** The HTTP status; 0 for a frame of a socket. */
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Whether it may have had an effect all the same. */
  readonly sideEffectPossible: boolean;
  /** All that the daemon said. */
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail || problem.title}`);
    this.problem = problem;
    this.code = problem.code;
    this.status = problem.status ?? 0;
    this.retryable = problem.retryable;
    this.sideEffectPossible = problem.side_effect_possible;
  }

  /** The error of an answer that is no success. */
  static of(status: number, body: unknown): TrunklineError {
    const title = `the answer has the status ${status}`;
    const unknown = {
      type: 'about:blank', title, status, code: 'internal', detail: title, retryable: status >= 500, side_effect_possible: true,
    };
    return TrunklineError.from({ ...unknown, ...(typeof body === 'object' ? body : {}) } as Problem);
  }

  /** The error of a problem, by its code. */
  static from(problem: Problem): TrunklineError {
    return problem.code === 'history_differs' ? new HistoryDiffersError(problem) : new TrunklineError(problem);
  }
}

/**
 * The session has another history than the one that this program has read: its data directory was restored from a copy, and went
 * its own way. Begin anew, without `after`. The `code` is `history_differs`, or `seq_beyond_head` where the restored session has not
 * come as far as the record that this program had.
 */
export class HistoryDiffersError extends TrunklineError {
  override readonly name = 'HistoryDiffersError';
}

/** The refusal to go on after a record; `hadRecord`: this program got that record itself. */
export function asPlaceRefused(error: unknown, hadRecord: boolean): unknown {
  const isOther = hadRecord && error instanceof TrunklineError && error.code === 'seq_beyond_head';
  return isOther ? new HistoryDiffersError(error.problem) : error;
}

/** No daemon answers. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError';
}

/** A socket ended for good: the session was deleted, or what this client said was not taken. */
export class ClosedError extends Error {
  override readonly name = 'ClosedError';

  constructor(
    /** The close code, as the protocol page lists them. */
    readonly closeCode: number,
    /** The daemon's words. */
    readonly reason: string,
  ) {
    super(`the socket was closed with ${closeCode}${reason ? `: ${reason}` : ''}`);
  }
}
