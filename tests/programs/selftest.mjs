#!/usr/bin/env node
// Proves the test programs: the real CLI against the stand-in API, the fake CLI by the same cases where they share them,
// and each fault of the fake CLI by what a host sees of it.
//
// usage: selftest.mjs [real|fake|all] [part of a case's name]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { claudePath } from "../../web-test/claude-path.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const FAKE = join(here, "fake_claude.py");
const BASE_ARGS = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
const ASKS = "--permission-prompt-tool=stdio";
const PATIENCE_MS = 20_000;

// ---- driver ---------------------------------------------------------------------

/** One stand-in API with its control calls. */
class Api {
  static async start() {
    const child = spawn("node", [join(here, "model_api.mjs"), "--until-stdin-closes"], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const api = new Api();
    api.child = child;
    api.url = JSON.parse(line).url;
    return api;
  }
  async get(path) {
    const response = await fetch(this.url + path);
    assert.equal(response.status, 200, path);
    return response.json();
  }
  async post(path, body = {}) {
    const response = await fetch(this.url + path, { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 200, path);
  }
  atGate = (name) => this.get(`/control/gates/${name}?timeout_ms=${PATIENCE_MS}`);
  release = (name) => this.post("/control/release", { name });
  stop() {
    this.child.stdin.end();
  }
}

/** One CLI process over pipes. Lines are kept as bytes and, where they parse, as values. */
class Cli {
  constructor(path, args, { cwd, env }) {
    this.child = spawn(path, [...BASE_ARGS, ...args], { cwd, env });
    this.lines = [];
    this.raw = [];
    this.rest = Buffer.alloc(0);
    this.stderr = "";
    this.watchers = new Set();
    this.cursor = 0;
    this.requests = 0;
    this.child.stdout.on("data", (data) => this.take(data));
    this.child.stderr.on("data", (data) => (this.stderr += data));
    this.child.stdin.on("error", () => {}); // A CLI that has gone is what some cases are about.
    this.exited = once(this.child, "exit").then(([code, signal]) => {
      this.exit = { code, signal };
      this.wake();
      return this.exit;
    });
    this.closed = once(this.child.stdout, "close");
  }
  take(data) {
    let from = 0;
    for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
      const line = Buffer.concat([this.rest, data.subarray(from, at)]);
      this.rest = Buffer.alloc(0);
      from = at + 1;
      this.raw.push(line);
      try {
        this.lines.push(JSON.parse(line.toString("utf8")));
      } catch {
        this.lines.push({ type: "unparsed" });
      }
    }
    this.rest = Buffer.concat([this.rest, data.subarray(from)]);
    this.wake();
  }
  wake() {
    for (const watch of [...this.watchers]) watch();
  }
  send(value) {
    this.child.stdin.write(`${JSON.stringify(value)}\n`);
  }
  prompt(text, uuid) {
    this.send({ type: "user", message: { role: "user", content: [{ type: "text", text }] }, parent_tool_use_id: null, uuid });
  }
  request(subtype, fields = {}) {
    this.requests += 1;
    const request_id = `r${this.requests}`;
    this.send({ type: "control_request", request_id, request: { subtype, ...fields } });
    return this.until(`answer to ${subtype}`, (line) => line.type === "control_response" && line.response.request_id === request_id).then(
      (line) => line.response,
    );
  }
  answer(request, response) {
    this.send({ type: "control_response", response: { subtype: "success", request_id: request.request_id, response } });
  }
  /** The next line, from where the last successful search ended, that `wanted` accepts. */
  async until(what, wanted) {
    let watch;
    let at = this.cursor;
    const search = new Promise((resolve, reject) => {
      watch = () => {
        while (at < this.lines.length) {
          const line = this.lines[at];
          at += 1;
          if (!wanted(line)) continue;
          this.cursor = Math.max(this.cursor, at);
          return resolve(line);
        }
        if (this.exit && this.child.stdout.readableEnded) reject(new Error(`ended before ${what}: ${JSON.stringify(this.exit)} ${this.stderr}`));
      };
      this.watchers.add(watch);
      watch();
    });
    try {
      return await within(what, search);
    } catch (error) {
      error.message += `\nlast lines: ${this.raw.slice(-5).map((line) => line.toString("utf8").slice(0, 400)).join("\n")}`;
      throw error;
    } finally {
      this.watchers.delete(watch);
    }
  }
  ofType = (type, subtype) => this.until(subtype ?? type, (line) => line.type === type && (subtype === undefined || line.subtype === subtype));
  asked = (subtype) => this.until(subtype, (line) => line.type === "control_request" && line.request.subtype === subtype);
  result = () => this.ofType("result");
  async start() {
    return this.request("initialize");
  }
  async end() {
    this.child.stdin.end();
    return within("exit", this.exited);
  }
  kill(signal = "SIGKILL") {
    if (!this.exit) this.child.kill(signal);
  }
}

function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what}: not within ${PATIENCE_MS} ms`)), PATIENCE_MS)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function condition(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(Date.now() < end, `${what}: not within ${PATIENCE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

const script = (steps) => `SCRIPT:${JSON.stringify(steps)}:END`;
const script64 = (steps) => `SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString("base64")}`;
const fake = (actions) => `FAKE:${JSON.stringify(actions)}:END`;
const textOf = (line) => line.message.content[0].text;

/** A fresh HOME and project directory, and the CLIs started in them. */
class Bench {
  constructor(kind, api) {
    this.kind = kind;
    this.api = api;
    this.root = realpathSync(mkdtempSync(join(tmpdir(), "selftest-")));
    this.home = join(this.root, "home");
    this.cwd = join(this.root, "project");
    mkdirSync(this.home);
    mkdirSync(this.cwd);
    this.clis = [];
  }
  file(name) {
    return join(this.root, name);
  }
  launch(args = [], { settings, env } = {}) {
    const clean = {
      HOME: this.home,
      PATH: process.env.PATH,
      ANTHROPIC_BASE_URL: this.api.url,
      ANTHROPIC_API_KEY: "sk-stand-in",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_ENTRYPOINT: "sdk-ts",
      CLAUDE_CODE_SDK_READS_SESSION_STATE: "1",
      ...(settings ? { FAKE_CLAUDE: JSON.stringify(settings) } : {}),
      ...env,
    };
    const cli = new Cli(this.kind === "real" ? claudePath() : FAKE, args, { cwd: this.cwd, env: clean });
    this.clis.push(cli);
    return cli;
  }
  /** A prompt that is answered with this text, on either CLI. */
  says(text) {
    return this.kind === "real" ? script([{ text }]) : fake([{ text }]);
  }
  /** A prompt that makes a Bash call which needs permission, then says `done`. */
  calls(command) {
    const input = { command };
    return this.kind === "real" ? script([{ tool: "Bash", input }, { text: "done" }]) : fake([{ ask: { tool: "Bash", input } }, { text: "done" }]);
  }
  /** A prompt whose answer is held until `letGo`. */
  holds(name, text) {
    return this.kind === "real" ? script([{ wait: name, text }]) : fake([{ touch: this.file(`${name}.at`) }, { wait_file: this.file(name) }, { text }]);
  }
  held(name) {
    return this.kind === "real" ? this.api.atGate(name) : condition(name, () => existsSync(this.file(`${name}.at`)));
  }
  letGo(name) {
    if (this.kind === "real") return this.api.release(name);
    writeFileSync(this.file(name), "");
  }
  async close() {
    for (const cli of this.clis) cli.kill();
    await Promise.all(this.clis.map((cli) => cli.exited));
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

const UUID = (n) => `bbbbbbbb-0000-4000-8000-${String(n).padStart(12, "0")}`;

// ---- cases both CLIs share ----------------------------------------------------------

const common = {
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

// ---- the real CLI against the stand-in API ---------------------------------------------

const real = {
  async thinking(bench) {
    const cli = bench.launch(["--include-partial-messages"]);
    await cli.start();
    cli.prompt(script([{ thinking: "let me think about it", text: "thought" }]));
    const thought = await cli.until("thinking", (line) => line.type === "assistant" && line.message.content[0].type === "thinking");
    assert.equal(thought.message.content[0].thinking, "let me think about it");
    assert.equal((await cli.result()).result, "thought");
  },
  async "an error once, then the answer"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(script([{ status: 529, times: 1, text: "recovered" }]));
    assert.equal((await cli.ofType("system", "api_retry")).error_status, 529);
    assert.equal((await cli.result()).result, "recovered");
  },
  async "an error that does not pass"(bench) {
    const cli = bench.launch([], { env: { CLAUDE_CODE_MAX_RETRIES: "1" } });
    await cli.start();
    cli.prompt(script([{ status: 429, times: -1, retry_after: 0, message: "slow down" }]));
    const result = await cli.result();
    assert.equal(result.is_error, true);
    assert.equal(result.api_error_status, 429);
  },
  async "a gate holds a stream in the middle"(bench) {
    const cli = bench.launch(["--include-partial-messages"]);
    await cli.start();
    cli.prompt(script([{ text: "abcdefgh", chunk_size: 1, wait: "middle", wait_at: 3 }]));
    await bench.api.atGate("middle");
    const delta = (line) => line.event?.delta?.text;
    await cli.until("the third chunk", (line) => delta(line) === "c");
    assert.ok(!cli.lines.some((line) => delta(line) === "d"));
    await bench.api.release("middle");
    assert.equal((await cli.result()).result, "abcdefgh");
  },
  async "a dropped connection is tried again"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(script([{ drop: 0, text: "second try" }]));
    assert.equal((await cli.result()).result, "second try");
    cli.prompt(script([{ drop: 2, text: "cut in the middle of it" }]));
    assert.equal((await cli.result()).is_error, false);
  },
  async "usage figures reach the result"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(script([{ text: "x", usage: { input_tokens: 11, output_tokens: 12, cache_read: 13, cache_creation: 14 } }]));
    const { usage } = await cli.result();
    assert.deepEqual(
      [usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens],
      [11, 12, 13, 14],
    );
  },
  async "several tools in one answer"(bench) {
    const cli = bench.launch([ASKS, "--allowedTools=Bash"]);
    await cli.start();
    const call = (command) => ({ name: "Bash", input: { command } });
    cli.prompt(script([{ tools: [call("echo 1"), call("echo 2")] }, { text: "both" }]));
    assert.equal((await cli.result()).result, "both");
    const outputs = cli.lines.filter((line) => line.type === "user").map((line) => line.message.content[0].content);
    assert.deepEqual(outputs, ["1", "2"]);
  },
  async "a prompt sent while a tool runs joins the turn, and its script is the newest"(bench) {
    const cli = bench.launch([ASKS, "--allowedTools=Bash"]);
    await cli.start();
    const wait = `while [ ! -e ${bench.file("go")} ]; do sleep 0.05; done`;
    cli.prompt(script([{ tool: "Bash", input: { command: wait } }, { text: "first done" }]), UUID(1));
    await cli.until("tool call", (line) => line.type === "assistant" && line.message.content[0].type === "tool_use");
    cli.prompt(script([{ text: "second done" }]), UUID(2));
    await cli.until("queued", (line) => line.type === "command_lifecycle" && line.command_uuid === UUID(2));
    writeFileSync(bench.file("go"), "");
    const result = await cli.result();
    assert.equal(result.result, "second done");
    assert.deepEqual(result.user_message_uuids.toSorted(), [UUID(1), UUID(2)]);
  },
  async "a question is asked and answered"(bench) {
    const cli = bench.launch([ASKS]);
    await cli.start();
    const option = (label) => ({ label, description: label });
    const questions = [{ question: "Which?", header: "Which", multiSelect: false, options: [option("A"), option("B")] }];
    cli.prompt(script([{ tool: "AskUserQuestion", input: { questions } }, { text: "chosen" }]));
    const ask = await cli.asked("can_use_tool");
    assert.equal(ask.request.requires_user_interaction, true);
    cli.answer(ask, { behavior: "allow", updatedInput: { ...ask.request.input, answers: { "Which?": "A" } } });
    assert.equal((await cli.result()).result, "chosen");
  },
  async "a plan is written to the file the CLI names, and approved"(bench) {
    const cli = bench.launch([ASKS, "--permission-mode=plan"]);
    await cli.start();
    cli.prompt(
      script([
        { tool: "Write", input: { file_path: "${PLAN_FILE}", content: "# A plan\n" } },
        { tool: "ExitPlanMode", input: {} },
        { text: "planned" },
      ]),
    );
    const ask = await cli.asked("can_use_tool");
    assert.equal(ask.request.tool_name, "ExitPlanMode");
    assert.equal(ask.request.input.plan, "# A plan\n");
    cli.answer(ask, { behavior: "allow", updatedInput: ask.request.input });
    assert.equal((await cli.result()).result, "planned");
  },
  async "a sub-agent follows its own script"(bench) {
    const cli = bench.launch([ASKS, "--allowedTools=Bash"]);
    await cli.start();
    const prompt = script64([{ tool: "Bash", input: { command: "echo sub" } }, { text: "sub final" }]);
    cli.prompt(script([{ tool: "Agent", input: { description: "do it", prompt, subagent_type: "general-purpose", run_in_background: false } }, { text: "main final" }]));
    await cli.until("a line of the sub-agent", (line) => line.type === "assistant" && line.parent_tool_use_id);
    assert.equal((await cli.result()).result, "main final");
  },
  async "structured output"(bench) {
    const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };
    const cli = bench.launch([ASKS, `--json-schema=${JSON.stringify(schema)}`]);
    await cli.start();
    cli.prompt(script([{ tool: "StructuredOutput", input: { a: "b" } }]));
    assert.deepEqual((await cli.result()).structured_output, { a: "b" });
  },
  async "a background command starts a turn by itself"(bench) {
    const cli = bench.launch([ASKS, "--allowedTools=Bash"]);
    await cli.start();
    const command = `while [ ! -e ${bench.file("go")} ]; do sleep 0.05; done`;
    cli.prompt(script([{ tool: "Bash", input: { command, run_in_background: true } }, { text: "started" }, { text: "noticed" }]));
    assert.equal((await cli.result()).result, "started");
    writeFileSync(bench.file("go"), "");
    const own = await cli.result();
    assert.equal(own.origin.kind, "task-notification");
    assert.equal(own.result, "noticed");
  },
  async "compaction and count_tokens are answered"(bench) {
    const cli = bench.launch();
    await cli.start();
    cli.prompt(script([{ text: "one" }]));
    await cli.result();
    cli.prompt("/compact");
    await cli.ofType("system", "compact_boundary");
    await cli.result();
    assert.equal((await cli.request("get_context_usage")).subtype, "success");
    cli.prompt(script([{ text: "after" }]));
    assert.equal((await cli.result()).result, "after");
  },
};

// ---- the faults of the fake CLI ---------------------------------------------------------

/** Starts a fake CLI, sends one prompt with these actions and waits for its result. */
async function perform(bench, actions, options, args = [ASKS]) {
  const cli = bench.launch(args, options);
  await cli.start();
  cli.prompt(fake(actions));
  await cli.result();
  return cli;
}

const faults = {
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
  async "a flood is numbered, and more than 500 000 lines a second go out"(bench) {
    const cli = bench.launch();
    await cli.start();
    const began = process.hrtime.bigint();
    let bytes = 0;
    cli.child.stdout.removeAllListeners("data");
    const counted = new Promise((resolve) => {
      cli.child.stdout.on("data", (data) => {
        bytes += data.length;
        if (data.includes('"type":"result"')) resolve();
      });
    });
    cli.prompt(fake([{ flood: 1_000_000, bytes: 200 }]));
    await within("flood", counted);
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    assert.ok(bytes > 200_000_000, `${bytes} bytes`);
    console.log(`    ${Math.round(1_000_000 / seconds)} lines a second`);
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
  async "without the stream flags it reads to the end"(bench) {
    const child = spawn(FAKE, [], { env: { PATH: process.env.PATH, HOME: bench.home }, cwd: bench.cwd });
    child.stdin.end("hello");
    const [data] = await once(child.stdout, "data");
    assert.match(String(data), /not a stream: 5 characters/);
  },
};

// ---- run ------------------------------------------------------------------------------------

async function runCases(kind, cases, api, filter) {
  let failed = 0;
  for (const [name, run] of Object.entries(cases)) {
    if (filter && !name.includes(filter)) continue;
    const bench = new Bench(kind, api);
    const began = Date.now();
    try {
      await run(bench);
      console.log(`ok    ${kind}: ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${kind}: ${name}\n${error.stack}`);
    } finally {
      await bench.close();
    }
  }
  return failed;
}

const [which = "all", filter] = process.argv.slice(2);
if (which !== "fake" && claudePath() === null) {
  console.error("the real CLI is not installed: run `npm ci` in web-test (`make test` does)");
  process.exit(1);
}
const api = await Api.start();
let failed = 0;
if (which !== "fake") failed += await runCases("real", { ...common, ...real }, api, filter);
if (which !== "real") failed += await runCases("fake", { ...common, ...faults }, api, filter);
api.stop();
console.log(failed ? `${failed} failed` : "all passed");
process.exit(failed ? 1 : 0);
