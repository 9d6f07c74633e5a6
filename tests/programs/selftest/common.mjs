// Owns the cases that the real and the fake CLI share: where the fake claims to be like the real one.
import assert from "node:assert/strict";

import { ASKS, UUID, textOf, within } from "./driver.mjs";

/** Each case has a name and takes a bench. */
export const common = {
  async "plain turns with running totals and receipts"(bench) {
    const cli = bench.launch();
    const ready = await cli.start();
    assert.equal(ready.subtype, "success");
    assert.equal(ready.response.session_state, "idle");
    cli.prompt(bench.says("one"), UUID(1));
    await cli.until("queued", (line) => line.type === "command_lifecycle" && line.state === "queued" && line.command_uuid === UUID(1));
    await cli.until("started", (line) => line.type === "command_lifecycle" && line.state === "started");
    const init = await cli.ofType("system", "init");
    assert.equal(textOf(await cli.ofType("assistant")), "one");
    const first = await cli.result();
    assert.equal(first.result, "one");
    assert.deepEqual(first.user_message_uuids, [UUID(1)]);
    await cli.until("completed", (line) => line.type === "command_lifecycle" && line.state === "completed");
    await cli.until("idle", (line) => line.subtype === "session_state_changed" && line.state === "idle");
    cli.prompt(bench.says("two"));
    const second = await cli.result();
    assert.equal(second.session_id, init.session_id);
    assert.ok(Math.abs(second.total_cost_usd - 2 * first.total_cost_usd) < 1e-9);
    assert.deepEqual(await cli.end(), { code: 0, signal: null });
  },
  async "partial messages"(bench) {
    const cli = bench.launch(["--include-partial-messages"]);
    await cli.start();
    cli.prompt(bench.says("a text of several chunks"));
    await cli.result();
    const deltas = cli.lines.filter((line) => line.type === "stream_event" && line.event.delta?.type === "text_delta");
    assert.ok(deltas.length >= 3);
    assert.equal(deltas.map((line) => line.event.delta.text).join(""), "a text of several chunks");
  },
  async "a tool is allowed, then denied"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    cli.prompt(bench.calls("touch allowed.txt"));
    const ask = await cli.asked("can_use_tool");
    assert.equal(ask.request.input.command, "touch allowed.txt");
    cli.answer(ask, { behavior: "allow", updatedInput: ask.request.input });
    const ran = await cli.ofType("user");
    assert.ok(!ran.message.content[0].is_error, JSON.stringify(ran));
    assert.equal((await cli.result()).result, "done");
    cli.prompt(bench.calls("touch denied.txt"));
    cli.answer(await cli.asked("can_use_tool"), { behavior: "deny", message: "not today" });
    const refused = await cli.ofType("user");
    assert.equal(refused.message.content[0].content, "not today");
    assert.equal(refused.message.content[0].is_error, true);
    assert.equal((await cli.result()).is_error, false);
  },
  async "an interrupt withdraws the pending permission"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    cli.prompt(bench.calls("touch never.txt"));
    const ask = await cli.asked("can_use_tool");
    const answered = cli.request("interrupt");
    const at = () => cli.lines.findIndex((line) => line.type === "control_cancel_request" && line.request_id === ask.request_id);
    assert.equal((await answered).subtype, "success");
    assert.ok(at() >= 0, "the request was withdrawn before the interrupt was answered");
    assert.equal((await cli.result()).subtype, "error_during_execution");
    cli.prompt(bench.says("after"));
    assert.equal((await cli.result()).result, "after");
  },
  async "an interrupt ends a held answer and the next prompt is answered"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(bench.holds("interrupted", "never said"));
    await bench.held("interrupted");
    assert.equal((await cli.request("interrupt")).subtype, "success");
    const result = await cli.result();
    assert.equal(result.subtype, "error_during_execution");
    assert.equal(result.terminal_reason, "aborted_streaming");
    cli.prompt("a plain prompt");
    assert.match((await cli.result()).result, /^Hello from the /);
  },
  async "a prompt waits while an answer is held"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(bench.holds("first", "first"), UUID(1));
    await bench.held("first");
    cli.prompt(bench.says("second"), UUID(2));
    await cli.until("queued", (line) => line.type === "command_lifecycle" && line.command_uuid === UUID(2));
    await bench.letGo("first");
    assert.equal((await cli.result()).result, "first");
    const second = await cli.result();
    assert.equal(second.result, "second");
    assert.deepEqual(second.user_message_uuids, [UUID(2)]);
  },
  async "resume goes on with the id and the total; create refuses a known id"(bench) {
    const id = "dddddddd-0000-4000-8000-000000000001";
    const first = bench.launch([`--session-id=${id}`]);
    await first.start();
    first.prompt(bench.says("one"));
    const before = await first.result();
    assert.equal(before.session_id, id);
    await first.end();
    const second = bench.launch([`--resume=${id}`]);
    await second.start();
    second.prompt(bench.says("two"));
    const after = await second.result();
    assert.equal(after.session_id, id);
    assert.ok(after.total_cost_usd > before.total_cost_usd);
    await second.end();
    const again = bench.launch([`--session-id=${id}`]);
    assert.equal((await again.end()).code, 1);
    assert.match(again.stderr, /already in use/);
    const fork = bench.launch([`--resume=${id}`, "--fork-session"]);
    await fork.start();
    fork.prompt(bench.says("three"));
    const forked = await fork.result();
    assert.notEqual(forked.session_id, id);
    assert.ok(forked.total_cost_usd > after.total_cost_usd);
  },
  async "resume of an unknown id: one error result, exit 1"(bench) {
    const cli = bench.launch(["--resume=dddddddd-0000-4000-8000-00000000000f"]);
    cli.send({ type: "control_request", request_id: "i", request: { subtype: "initialize" } });
    const exit = await within("exit", cli.exited);
    await cli.closed;
    assert.equal(exit.code, 1);
    assert.equal(cli.lines.at(-1).subtype, "error_during_execution");
    assert.match(cli.lines.at(-1).errors[0], /No conversation found/);
    assert.ok(!cli.lines.some((line) => line.type === "control_response"));
  },
  async "controls: model, mode, refusals"(bench) {
    const cli = bench.launch();
    await cli.start();
    assert.equal((await cli.request("set_permission_mode", { mode: "acceptEdits" })).response.mode, "acceptEdits");
    assert.equal((await cli.request("set_permission_mode", { mode: "bypassPermissions" })).error_code, "bypass_not_launched");
    assert.equal((await cli.request("set_model", { model: "haiku" })).subtype, "success");
    const unknown = await cli.request("brand_new_thing");
    assert.equal(unknown.subtype, "error");
    assert.equal(unknown.error_code, "unsupported_request");
    assert.deepEqual((await cli.request("interrupt")).response, { still_queued: [] });
  },
  async "/clear changes the session id and starts the total again"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(bench.says("one"));
    const before = await cli.result();
    cli.prompt("/clear");
    await cli.ofType("conversation_reset");
    await cli.result();
    cli.prompt(bench.says("two"));
    const after = await cli.result();
    assert.notEqual(after.session_id, before.session_id);
    assert.ok(after.total_cost_usd <= before.total_cost_usd + 1e-9);
  },
  async "a line that is not JSON ends it"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.child.stdin.write("\n[1]\n{\"type\":\"never_heard_of\"}\n");
    assert.equal((await cli.request("interrupt")).subtype, "success");
    cli.child.stdin.write("this is not json\n");
    assert.equal((await within("exit", cli.exited)).code, 1);
    assert.match(cli.stderr, /Error parsing streaming input line/);
  },
  async "SIGTERM exits 143"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.kill("SIGTERM");
    assert.deepEqual(await within("exit", cli.exited), { code: 143, signal: null });
  },
};
