// Owns the cases of the fake CLI's faults: each is shown by what a host sees of it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { ASKS, FAKE, UUID, alive, condition, cpuSeconds, fake, textOf, within } from "./driver.mjs";

// Lines of 200 bytes per second of processor time, so that a busy machine changes nothing.
const MIN_FLOOD_RATE = 500_000;

/** The gist of a `fake_answer` line: its id, whether it was expected, whether it was valid. */
const pick = (line) => [line.request_id, line.expected, line.valid];

/** Starts a fake CLI, sends one prompt with these actions and waits for its result. */
async function perform(bench, actions, options, args = [ASKS]) {
  const cli = bench.launch(args, options);
  await cli.start();
  cli.prompt(fake(actions));
  await cli.result();
  return cli;
}

export const faults = {
  async "lines a reader trips over"(bench) {
    const cli = await perform(bench, [
      { raw: "Now using node v20" },
      { raw: "" },
      { raw: "[DEBUG] {half" },
      { line: { type: "rate_limit_event", session_id: "$SESSION_ID" } },
      { separators: 1 },
      { surrogate: 1 },
      { invalid_utf8: 1 },
      { big: 3_000_000 },
    ]);
    const raw = cli.raw.map((line) => line.toString("latin1"));
    assert.ok(raw.includes("Now using node v20") && raw.includes("") && raw.includes("[DEBUG] {half"));
    assert.ok(cli.lines.some((line) => line.type === "rate_limit_event" && line.session_id === cli.lines.at(-1).session_id));
    assert.ok(cli.raw.some((line) => line.includes(Buffer.from("\u2028")) && line.includes(Buffer.from("\u0085"))));
    assert.ok(raw.some((line) => line.includes("\\ud83d here")));
    assert.ok(cli.raw.some((line) => line.includes(Buffer.from([0xff, 0xfe]))));
    assert.ok(cli.raw.some((line) => line.length > 3_000_000));
  },
  async "half a line at the end"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(fake([{ raw: '{"type":"assistant","mess', no_newline: true }, { exit: 3 }]));
    assert.equal((await within("exit", cli.exited)).code, 3);
    await cli.closed;
    assert.equal(cli.rest.toString(), '{"type":"assistant","mess');
  },
  async "a flood is numbered, fast or at a rate"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.child.stdout.removeAllListeners("data");
    let [bytes, tail] = [0, ""];
    const done = new Promise((resolve) => {
      cli.child.stdout.on("data", (data) => {
        bytes += data.length;
        tail = (tail + data.subarray(-1000).toString("latin1")).slice(-2000);
        if (tail.includes('"type":"result"')) resolve();
      });
    });
    cli.prompt(fake([{ flood: 1_000_000, bytes: 200 }]));
    await within("the end of the flood", done);
    assert.ok(bytes > 200_000_000, `${bytes} bytes`);
    const seconds = cpuSeconds(cli.child.pid);
    assert.ok(1_000_000 / seconds > MIN_FLOOD_RATE, `${seconds} s for a million lines`);
    const slow = await perform(bench, [{ flood: 30, rate: 1000, bytes: 100 }]);
    assert.deepEqual(slow.lines.filter((line) => line.type === "stream_event").map((line) => line.n), [...Array(30).keys()]);
  },
  async "stderr: a flood without newlines, and a tail at an early exit"(bench) {
    const cli = await perform(bench, [{ stderr: 1_000_000 }, { text: "still here" }]);
    await condition("stderr", () => cli.stderr.length === 1_000_000);
    const gone = bench.launch([], { settings: { exit_at_start: { code: 7, stderr: "not logged in\n", stdout: "garbage" } } });
    assert.equal((await within("exit", gone.exited)).code, 7);
    await condition("stderr", () => gone.stderr === "not logged in\n");
  },
  async "a crash"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(fake([{ crash: "SIGSEGV" }]));
    assert.equal((await within("exit", cli.exited)).signal, "SIGSEGV");
  },
  async "TERM and end of input are ignored, or take their time"(bench) {
    const stubborn = bench.launch([], { settings: { term: { ignore: true }, eof: { ignore: true } } });
    await stubborn.start();
    stubborn.child.stdin.end();
    stubborn.kill("SIGTERM");
    const slow = bench.launch([], { settings: { eof: { delay_ms: 200, touch: bench.file("written") } } });
    await slow.start();
    assert.equal((await slow.end()).code, 0);
    assert.ok(existsSync(bench.file("written")));
    assert.equal(stubborn.exit, undefined);
  },
  async "stdin is never read, or read in part"(bench) {
    const cli = bench.launch([], { settings: { never_read_stdin: true, start: [{ text: "deaf" }] } });
    assert.equal(textOf(await cli.ofType("assistant")), "deaf");
    cli.send({ type: "control_request", request_id: "i", request: { subtype: "initialize" } });
    const some = bench.launch([], { settings: { read_bytes_then_exit: 1000 } });
    some.prompt("x".repeat(100_000));
    assert.equal((await within("exit", some.exited)).code, 1);
    assert.equal(cli.lines.length, 1);
  },
  async "initialize is late, refused or never answered; prompts wait"(bench) {
    const cli = bench.launch([], { settings: { init: { wait_file: bench.file("init") } } });
    const ready = cli.start();
    cli.prompt(fake([{ text: "answered early" }]));
    await cli.result();
    writeFileSync(bench.file("init"), "");
    assert.equal((await ready).subtype, "success");
    const refused = bench.launch([], { settings: { init: { error: "no" } } });
    assert.equal((await refused.start()).error, "no");
    const never = bench.launch([], { settings: { init: { never: true } } });
    never.send({ type: "control_request", request_id: "i", request: { subtype: "initialize" } });
    assert.equal((await never.request("interrupt")).subtype, "success");
    assert.ok(!never.lines.some((line) => line.response?.request_id === "i"));
  },
  async "mcp_message comes before the answer to initialize"(bench) {
    const message = { jsonrpc: "2.0", id: 0, method: "initialize" };
    const request = { subtype: "mcp_message", server_name: "calc", message };
    const cli = bench.launch([], { settings: { before_init: [{ request }] } });
    cli.send({ type: "control_request", request_id: "i", request: { subtype: "initialize" } });
    const ask = await cli.asked("mcp_message");
    assert.ok(!cli.lines.some((line) => line.type === "control_response"));
    cli.answer(ask, { mcp_response: {} });
    await cli.ofType("control_response");
  },
  async "an interrupt is swallowed, or its result comes late"(bench) {
    const deaf = bench.launch([], { settings: { controls: { interrupt: { swallow: true } } } });
    await deaf.start();
    deaf.prompt(fake([{ silent: 1 }]));
    await deaf.ofType("system", "init");
    deaf.send({ type: "control_request", request_id: "x", request: { subtype: "interrupt" } });
    assert.equal((await deaf.request("set_model")).subtype, "success");
    assert.ok(!deaf.lines.some((line) => line.response?.request_id === "x"));
    const late = bench.launch([], { settings: { controls: { interrupt: { result_wait_file: bench.file("late") } } } });
    await late.start();
    late.prompt(fake([{ silent: 1 }]), UUID(1));
    await late.ofType("system", "init");
    await late.request("interrupt");
    late.prompt(fake([{ text: "B" }]), UUID(2));
    await late.until("queued", (line) => line.command_uuid === UUID(2));
    assert.ok(!late.lines.some((line) => line.type === "result"));
    writeFileSync(bench.file("late"), "");
    assert.deepEqual((await late.result()).user_message_uuids, [UUID(1)]);
    assert.equal((await late.result()).result, "B");
  },
  async "a control is answered late or with an error"(bench) {
    const controls = { set_model: { wait_file: bench.file("late") }, set_permission_mode: { error: "no", error_code: "c" } };
    const cli = bench.launch([], { settings: { controls } });
    await cli.start();
    const late = cli.request("set_model", { model: "m" });
    assert.equal((await cli.request("set_permission_mode", { mode: "plan" })).error_code, "c");
    writeFileSync(bench.file("late"), "");
    assert.equal((await late).response.model, "m");
  },
  async "text as deltas only; a 20 MB prompt"(bench) {
    const cli = await perform(bench, [{ text: "only deltas", only: "deltas" }]);
    assert.ok(!cli.lines.some((line) => line.type === "assistant"));
    assert.equal(cli.lines.filter((line) => line.event?.type === "content_block_delta").length, 2);
    cli.prompt("x".repeat(20_000_000));
    assert.equal((await cli.result()).is_error, false);
  },
  async "several permissions at once, answered in any order; strict about answers"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    cli.prompt(fake([{ ask: { n: 3, ids: ["a", "b", "c"], input: { command: "x" } } }]));
    const asks = [await cli.asked("can_use_tool"), await cli.asked("can_use_tool"), await cli.asked("can_use_tool")];
    const again = await cli.request("initialize");
    assert.deepEqual(again.response.pending_permission_requests.map((line) => line.request_id), ["a", "b", "c"]);
    cli.answer(asks[2], { behavior: "allow", updatedInput: { command: "x" } });
    assert.deepEqual(pick(await cli.ofType("fake_answer")), ["c", true, true]);
    cli.answer(asks[2], { behavior: "allow", updatedInput: {} });
    assert.deepEqual(pick(await cli.ofType("fake_answer")), ["c", false, true]);
    cli.answer(asks[0], { behavior: "allow" });
    assert.deepEqual(pick(await cli.ofType("fake_answer")), ["a", true, false]);
    cli.answer(asks[1], { behavior: "deny" });
    assert.deepEqual(pick(await cli.ofType("fake_answer")), ["b", true, false]);
    await cli.result();
    const results = cli.lines.filter((line) => line.type === "user").map((line) => line.message.content[0].is_error);
    assert.deepEqual(results, [true, true, false]);
  },
  async "a permission is withdrawn; others use the same id again"(bench) {
    const cli = await perform(bench, [
      { ask: { ids: ["same"], wait: false } },
      { cancel: "same" },
      { ask: { ids: ["same"], wait: false } },
      { cancel: "never-asked" },
    ]);
    const seen = cli.lines.filter((line) => line.type.startsWith("control_c") || line.type === "control_request");
    assert.deepEqual(seen.map((line) => line.type), ["control_request", "control_cancel_request", "control_request", "control_cancel_request"]);
  },
  async "deny with interrupt ends the turn"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    cli.prompt(bench.calls("x"));
    cli.answer(await cli.asked("can_use_tool"), { behavior: "deny", message: "stop", interrupt: true });
    assert.equal((await cli.result()).subtype, "error_during_execution");
  },
  async "hooks, elicitation and unknown requests, also after the result"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    cli.prompt(
      fake([
        { result: {} },
        { request: { subtype: "hook_callback", callback_id: "h1", input: {} }, id: "1" },
        { request: { subtype: "elicitation", mcp_server_name: "eli", message: "name?" }, id: "2" },
        { request: { subtype: "brand_new_thing" }, id: "3" },
        { turn: {} },
      ]),
    );
    await cli.result();
    for (const subtype of ["hook_callback", "elicitation", "brand_new_thing"]) cli.answer(await cli.asked(subtype), {});
    assert.equal((await cli.result()).origin.kind, "task-notification");
  },
  async "money: given totals, missing figures, shared message ids"(bench) {
    const cli = await perform(
      bench,
      [
        { text: "same", id: "msg_1", copies: 3 },
        { result: {} },
        { result: { total_cost_usd: null, modelUsage: null } },
        { result: { modelUsage: { m: { costUSD: 1 } } } },
      ],
      { settings: { costs: [0.1, 0.25, 0.05] } },
    );
    await cli.result();
    await cli.result();
    const results = cli.lines.filter((line) => line.type === "result");
    assert.deepEqual(results.map((line) => line.total_cost_usd), [0.1, undefined, 0.05]);
    assert.deepEqual(results[2].modelUsage, { m: { costUSD: 1 } });
    assert.equal(cli.lines.filter((line) => line.message?.id === "msg_1").length, 3);
  },
  async "resume prints another id"(bench) {
    const [old, fresh] = ["dddddddd-0000-4000-8000-000000000001", "dddddddd-0000-4000-8000-000000000002"];
    for (const keeps of ["old", "new"]) {
      const first = bench.launch([`--session-id=${old}`], { settings: {} });
      first.prompt("x");
      await first.result();
      await first.end();
      const resumed = bench.launch([`--resume=${old}`], { settings: { resume_prints: fresh, resume_keeps: keeps } });
      resumed.prompt("x");
      assert.equal((await resumed.result()).session_id, fresh);
      await resumed.end();
      const [works, fails] = keeps === "old" ? [old, fresh] : [fresh, old];
      const bad = bench.launch([`--resume=${fails}`]);
      assert.equal((await within("exit", bad.exited)).code, 1);
      const good = bench.launch([`--resume=${works}`]);
      assert.equal((await good.end()).code, 0);
      rmSync(join(bench.home, ".claude-fake"), { recursive: true });
    }
  },
  async "a child that outlives it, ignores TERM and holds the output"(bench) {
    const plan = { setsid: true, double_fork: true, ignore_term: true, hold_output: true, say_ms: 20, marker: "m1", seconds: 60 };
    const cli = bench.launch();
    await cli.start();
    cli.prompt(fake([{ child: { ...plan, pid_file: bench.file("pid") } }, { result: {} }, { exit: 0 }]));
    const { pid } = await cli.ofType("fake_child");
    assert.equal(pid, Number(readFileSync(bench.file("pid"), "utf8")));
    assert.equal((await within("exit", cli.exited)).code, 0);
    assert.ok(readFileSync(`/proc/${pid}/environ`, "utf8").includes("FAKE_CHILD_MARKER=m1"));
    await cli.ofType("system", "fake_late");
    process.kill(pid, "SIGTERM");
    await cli.ofType("system", "fake_late");
    process.kill(pid, "SIGKILL");
    await condition("the child is gone", () => !alive(pid));
    await within("end of output", cli.closed);
  },
  async "facts of the start and of stdin are written down"(bench) {
    const settings = { dump: bench.file("dump"), record_stdin: bench.file("stdin"), echo: true, version: "1.2.3" };
    const cli = bench.launch(["--model=m"], { settings, env: { EXTRA: "1" } });
    await cli.start();
    cli.prompt("echo me");
    await cli.until("echo", (line) => line.type === "fake_echo" && line.line.includes("echo me"));
    await cli.result();
    const dump = JSON.parse(readFileSync(bench.file("dump"), "utf8"));
    assert.ok(dump.argv.includes("--model=m"));
    assert.equal(dump.env.EXTRA, "1");
    assert.equal(dump.cwd, bench.cwd);
    assert.equal(readFileSync(bench.file("stdin"), "utf8").trim().split("\n").length, 2);
  },
  async "each start may behave in its own way"(bench) {
    writeFileSync(join(bench.home, ".fake-claude.json"), JSON.stringify({ starts: [{ exit_at_start: { code: 5 } }, {}] }));
    const first = bench.launch();
    assert.equal((await within("exit", first.exited)).code, 5);
    const second = bench.launch();
    assert.equal((await second.start()).subtype, "success");
  },
  async "a recorded session is played from a file"(bench) {
    writeFileSync(bench.file("lines"), '{"type":"system","subtype":"a"}\n{"type":"system","subtype":"b"}\n');
    const cli = await perform(bench, [{ script: bench.file("lines"), delay_ms: 1 }]);
    assert.ok(cli.lines.some((line) => line.subtype === "b"));
  },
  async "it stops reading, closes its output, or leaves at a blank line"(bench) {
    const stuck = bench.launch([], { settings: { read_lines: 1 } });
    await stuck.start();
    stuck.prompt("never read");
    const shut = bench.launch();
    await shut.start();
    shut.prompt(fake([{ close_stdout: 1 }, { silent: 1 }]));
    await within("end of output", shut.closed);
    assert.equal(shut.exit, undefined);
    const old = bench.launch([], { settings: { blank_line_exits: true } });
    await old.start();
    old.child.stdin.write("\r\n");
    assert.equal((await within("exit", old.exited)).code, 1);
    assert.equal(stuck.lines.length, 1);
  },
  async "prompts that waited are merged, or not"(bench) {
    for (const [merge, results] of [[true, [[UUID(2), UUID(3)]]], [false, [[UUID(2)], [UUID(3)]]]]) {
      const cli = bench.launch([], { settings: { merge } });
      const go = bench.file(`go-${merge}`);
      await cli.start();
      cli.prompt(fake([{ wait_file: go }]), UUID(1));
      await cli.ofType("system", "init");
      cli.prompt("x", UUID(2));
      cli.prompt("y", UUID(3));
      await cli.until("queued", (line) => line.command_uuid === UUID(3));
      writeFileSync(go, "");
      await cli.result();
      for (const uuids of results) assert.deepEqual((await cli.result()).user_message_uuids, uuids);
    }
  },
  async "the session file appears when it is told to; a kill loses the total"(bench) {
    const id = "dddddddd-0000-4000-8000-000000000001";
    const settings = { save: "start", after_init: [{ exit: 1 }] };
    const first = bench.launch([`--session-id=${id}`], { settings });
    await first.start();
    await within("exit", first.exited);
    const refused = bench.launch([`--session-id=${id}`]);
    assert.equal((await within("exit", refused.exited)).code, 1);
    const killed = bench.launch([`--resume=${id}`]);
    killed.prompt("x");
    const before = await killed.result();
    killed.kill();
    await killed.exited;
    const resumed = bench.launch([`--resume=${id}`]);
    resumed.prompt("x");
    assert.equal((await resumed.result()).total_cost_usd, before.total_cost_usd);
  },
  async "without the stream flags it reads to the end"(bench) {
    const child = spawn(FAKE, [], { env: { PATH: process.env.PATH, HOME: bench.home }, cwd: bench.cwd });
    child.stdin.end("hello");
    const [data] = await once(child.stdout, "data");
    assert.match(String(data), /not a stream: 5 characters/);
  },
};
