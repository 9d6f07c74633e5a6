// A client that comes back says which record it had, and tells the program when the session has another history.
//
//   node --test history.mjs
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { HistoryDiffersError, Trunkline, TrunklineError } from 'trunkline-client';
import { WebSocketServer } from 'ws';

const ID = '01890a5d-ac96-774b-bcce-b302099a8057';
const TIMES = ['2026-01-02T03:04:05.000001Z', '2026-01-02T03:04:05.000002Z'];

/** A daemon that is restored from a copy once so many upgrades were taken; it remembers what it is asked. */
async function restored(code, { taken = 1, says = 'records' } = {}) {
  const asked = [];
  const problem = { code, title: code, detail: '', retryable: false, side_effect_possible: false };
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer((request, response) => {
    asked.push(new URL(request.url, 'http://daemon'));
    response.writeHead(409, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ status: 409, ...problem }));
  });
  let upgrades = 0;
  server.on('upgrade', (request, socket, head) => {
    asked.push(new URL(request.url, 'http://daemon'));
    upgrades += 1;
    if (upgrades > taken) {
      socket.end('HTTP/1.1 409 Conflict\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    sockets.handleUpgrade(request, socket, head, (client) => {
      const say = (frame) => client.send(JSON.stringify(frame));
      const session = { options: {}, waiting_approvals: 0 };
      say({ type: 'trunkline.snapshot', after: 0, head_seq: 2, session, pending_requests: [], waiting_requests: 0, pending_approvals: [] });
      if (says === 'error') say({ type: 'trunkline.error', ...problem });
      else {
        TIMES.forEach((ts, index) => say({ seq: index + 1, ts, src: 'stderr', data: '' }));
        client.close(1001);
      }
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const url = `http://127.0.0.1:${server.address().port}`;
  const end = () => {
    for (const client of sockets.clients) client.terminate();
    server.close();
    server.closeAllConnections();
  };
  return { asked, url, end };
}

/** Follows to the failure, which ends the tries to come back. */
async function fails(daemon, options, reach = { token: 'token' }) {
  const attachment = new Trunkline({ url: daemon.url, ...reach }).session(ID).attach(options);
  const error = await (async () => {
    for await (const { seq, ts } of attachment) assert.deepEqual([attachment.seq, attachment.ts], [seq, ts]);
  })().catch((thrown) => thrown);
  daemon.end();
  return error;
}

const of = (asked, name) => asked.map((url) => url.searchParams.get(name));

test('it says at each return which record it had', async () => {
  const daemon = await restored('history_differs');
  const error = await fails(daemon, { after: 0 });
  assert.ok(error instanceof HistoryDiffersError, String(error));
  assert.deepEqual([error.name, error.code, error.status], ['HistoryDiffersError', 'history_differs', 409]);
  assert.deepEqual(of(daemon.asked, 'after'), ['0', '2', '2']);
  assert.deepEqual(of(daemon.asked, 'after_ts'), [null, TIMES[1], TIMES[1]]);
});

test('a session that has not come as far is another one', async () => {
  const error = await fails(await restored('seq_beyond_head'), { after: 0 });
  assert.ok(error instanceof HistoryDiffersError, String(error));
  assert.equal(error.code, 'seq_beyond_head');
});

test('a number that nobody gave says nothing of the history', async () => {
  const error = await fails(await restored('seq_beyond_head', { taken: 0 }), { after: 7 });
  assert.ok(error instanceof TrunklineError && !(error instanceof HistoryDiffersError), String(error));
});

test('a program that was started again gives the time itself', async () => {
  const daemon = await restored('history_differs', { taken: 0 });
  assert.ok(await fails(daemon, { after: 2, afterTs: TIMES[1] }) instanceof HistoryDiffersError);
  assert.deepEqual(of(daemon.asked, 'after_ts'), [TIMES[1], TIMES[1]]);
});

test('a frame that says so ends it too', async () => {
  const daemon = await restored('history_differs', { says: 'error' });
  const error = await fails(daemon, {});
  assert.ok(error instanceof HistoryDiffersError, String(error));
  assert.equal(daemon.asked.length, 1);
});

test('a program with tickets alone is told by a ticket for the route', async () => {
  const daemon = await restored('history_differs');
  const paths = [];
  const ticket = async (path) => { paths.push(path); return `ticket-${paths.length}`; };
  assert.ok(await fails(daemon, { after: 0 }, { ticket }) instanceof HistoryDiffersError);
  assert.deepEqual(paths, ['ws', 'ws', 'events'].map((it) => `/v1/sessions/${ID}/${it}`));
  assert.deepEqual(of(daemon.asked, 'ticket'), [null, null, 'ticket-3']);
});
