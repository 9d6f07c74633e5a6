// @ts-check
// Follows a session until the daemon says that its history is another one, and begins anew. The last line is what came of it.
//
//   node follow.mjs '{"dataDir": "…", "id": "…", "until": 12}'
import { HistoryDiffersError, Trunkline } from 'trunkline-client';

const { dataDir, id, until } = JSON.parse(process.argv[2] ?? '{}');
const say = (/** @type {object} */ value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const session = (await Trunkline.find({ dataDir })).session(id);

/** How an attachment ends, and the last record that it gave. */
const endOf = async (/** @type {import('trunkline-client').AttachOptions} */ options) => {
  const attachment = session.attach(options);
  try {
    for await (const { seq } of attachment) if (seq === until) say({ at: 'read' });
  } catch (error) {
    if (!(error instanceof HistoryDiffersError)) throw error;
    return { code: error.code, status: error.status, after: attachment.seq ?? 0, afterTs: attachment.ts ?? '' };
  }
  throw new Error('the session ended');
};

const first = await endOf({ after: 0 });
const again = await endOf({ after: first.after, afterTs: first.afterTs });
const anew = session.attach({ after: 0 });
let count = 0;
for await (const _ of anew) {
  count += 1;
  if (count === until) break;
}
anew.close();
say({ outcome: { first: [first.code, first.status, first.after], again: again.code, anew: count } });
