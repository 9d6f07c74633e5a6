// Owns the driver of the self-test: CLIs over pipes, the stand-in API, and a bench that starts both in a fresh place.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { claudePath } from "../../../web-test/claude-path.mjs";

const programs = dirname(dirname(fileURLToPath(import.meta.url)));
export const FAKE = join(programs, "fake_claude.py");
const BASE_ARGS = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
/** Makes the CLI ask its host for permissions. */
export const ASKS = "--permission-prompt-tool=stdio";
const PATIENCE_MS = 20_000;

/** One stand-in API with its control calls. */
export class Api {
  static async start() {
    const child = spawn("node", [join(programs, "model_api.mjs"), "--until-stdin-closes"], { stdio: ["pipe", "pipe", "inherit"] });
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
export class Cli {
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

export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what}: not within ${PATIENCE_MS} ms`)), PATIENCE_MS)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export async function condition(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(Date.now() < end, `${what}: not within ${PATIENCE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function alive(pid) {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

/** Processor time that a live process has used. */
export function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

export const script = (steps) => `SCRIPT:${JSON.stringify(steps)}:END`;
export const script64 = (steps) => `SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString("base64")}`;
export const fake = (actions) => `FAKE:${JSON.stringify(actions)}:END`;
export const textOf = (line) => line.message.content[0].text;

/** A fresh HOME and project directory, and the CLIs started in them. */
export class Bench {
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

export const UUID = (n) => `bbbbbbbb-0000-4000-8000-${String(n).padStart(12, "0")}`;
