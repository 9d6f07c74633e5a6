// Owns which part of a conversation an address names.

/** The rest of an address behind `/s/{id}/`. */
export type Place = { kind: 'all' } | { kind: 'record'; seq: number; isRaw: boolean } | { kind: 'agent'; callId: string } | { kind: 'task'; taskId: string };

/** Reads the rest of an address; what is not known is the conversation. */
export function placeOf(rest: string | undefined): Place {
  const record = /^r\/([1-9]\d{0,14})(\/raw)?$/.exec(rest ?? '');
  if (record !== null) return { kind: 'record', seq: Number(record[1]), isRaw: record[2] !== undefined };
  const agent = /^agent\/([^/]+)$/.exec(rest ?? '');
  if (agent !== null) return { kind: 'agent', callId: decoded(agent[1]!) };
  const task = /^task\/([^/]+)$/.exec(rest ?? '');
  if (task !== null) return { kind: 'task', taskId: decoded(task[1]!) };
  return { kind: 'all' };
}

/** A part of an address, which a person may have cut anywhere. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
