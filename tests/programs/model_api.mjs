#!/usr/bin/env node
// Stand-in for the model API (Anthropic Messages) on loopback: answers what a script in the newest prompt says.
// README.md next to this file describes scripts, steps and the control endpoint.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { parseArgs } from "node:util";

const DEFAULT_TEXT = "Hello from the stand-in model.";
const DEFAULT_USAGE = { input_tokens: 100, output_tokens: 20 };
const MAX_BODY_BYTES = 128 * 1024 * 1024;
const MAX_LOGGED_REQUESTS = 500;
const MAX_LOGGED_BODIES = 32;
const MAX_LOGGED_BODY_BYTES = 4 * 1024 * 1024;
const MAX_ERROR_COUNTERS = 10_000;
const LOGGED_TEXT_CHARS = 400;

const ERROR_TYPES = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  504: "timeout_error",
  529: "overloaded_error",
};

// ---- state -----------------------------------------------------------------

const settings = { default_script: null, pace: {}, errors: null, usage: DEFAULT_USAGE, delay_ms: 0 };
const faultCounts = new Map(); // fault key -> requests that met the fault so far
const gates = new Map(); // name -> {open, waiters: Set<() => void>}
const gateWatchers = new Set(); // callbacks run whenever a request reaches a gate
const log = [];
let requestNumber = 0;

function gate(name) {
  if (!gates.has(name)) gates.set(name, { open: false, waiters: new Set() });
  return gates.get(name);
}

/** Resolves when the gate is released or the connection is gone. */
function passGate(name, connection) {
  const { open, waiters } = gate(name);
  if (open || connection.gone) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      waiters.delete(done);
      resolve();
    };
    waiters.add(done);
    connection.onGone(done);
    for (const watch of [...gateWatchers]) watch();
  });
}

function sleep(ms, connection) {
  if (!(ms > 0) || connection.gone) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    connection.onGone(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Follows one HTTP exchange, so that waits end when the client hangs up. */
class Connection {
  constructor(response) {
    this.gone = false;
    this.callbacks = [];
    response.on("close", () => {
      this.gone = true;
      for (const callback of this.callbacks.splice(0)) callback();
    });
  }
  onGone(callback) {
    if (this.gone) callback();
    else this.callbacks.push(callback);
  }
}

// ---- from a conversation to a step -------------------------------------------

function textBlocks(message) {
  if (typeof message?.content === "string") return [message.content];
  if (!Array.isArray(message?.content)) return [];
  return message.content.filter((block) => block?.type === "text").map((block) => block.text ?? "");
}

function hasToolResult(message) {
  return Array.isArray(message?.content) && message.content.some((block) => block?.type === "tool_result");
}

/** The script that stands last in a text, or null. An unreadable one becomes a step that says so. */
function scriptIn(text) {
  const plain = [...text.matchAll(/SCRIPT:(\[[\s\S]*?\]):END/g)].at(-1);
  const source = plain?.[1] ?? decode64([...text.matchAll(/SCRIPT64:([A-Za-z0-9+/=]+)/g)].at(-1)?.[1]);
  if (source === undefined) return null;
  try {
    const steps = JSON.parse(source);
    return { source, steps: Array.isArray(steps) ? steps : [steps] };
  } catch (error) {
    const message = `stand-in: unreadable script: ${error.message}`;
    return { source, steps: [{ status: 400, times: -1, message }] };
  }
}

function decode64(encoded) {
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8");
}

/**
 * The newest script of a message: `undefined` if it says nothing of one, `null` if what it had was interrupted since.
 * A prompt after an interruption is not the business of the script before it; the CLI may merge both into one message.
 */
function scriptOf(message) {
  for (const text of textBlocks(message).reverse()) {
    if (text.startsWith("[Request interrupted by user")) return null;
    const script = scriptIn(text);
    if (script) return script;
  }
  return undefined;
}

/** The texts of a message without what the CLI itself adds to prompts. */
function spokenTexts(message) {
  return textBlocks(message).filter((text) => !text.trimStart().startsWith("<system-reminder>"));
}

function isPrompt(message) {
  return message.role === "user" && !hasToolResult(message) && spokenTexts(message).length > 0;
}

/**
 * Which step of which script answers this conversation. Only the conversation decides, so restarts, resumes and forks
 * need no memory here: the step is the number of assistant turns since the prompt that carries the script.
 */
function chooseStep(messages) {
  let turns = 0;
  for (let at = messages.length - 1; at >= 0; at -= 1) {
    const message = messages[at];
    if (message.role === "assistant") {
      turns += 1;
      continue;
    }
    if (message.role !== "user") continue;
    const script = scriptOf(message);
    if (script === null) break;
    if (script) return { ...script, at, index: turns, step: script.steps[turns] ?? { text: DEFAULT_TEXT } };
  }
  return chooseDefault(messages);
}

function chooseDefault(messages) {
  const steps = settings.default_script;
  if (!steps?.length) return { source: "", at: -1, index: 0, step: { text: DEFAULT_TEXT } };
  const at = messages.findLastIndex(isPrompt);
  const index = messages.slice(at + 1).filter((message) => message.role === "assistant").length;
  return { source: JSON.stringify(steps), at, index, step: steps[Math.min(index, steps.length - 1)] };
}

function sessionOf(body) {
  const user = body.metadata?.user_id ?? "";
  try {
    return JSON.parse(user).session_id ?? user;
  } catch {
    return /session_([0-9a-f-]{36})/.exec(user)?.[1] ?? user;
  }
}

/** Counts this request against the fault of a step; true while the fault still holds (`times`, -1 for ever). */
function faultHolds(fault, key) {
  const times = fault.times ?? 1;
  if (times < 0) return true;
  const met = faultCounts.get(key) ?? 0;
  if (met >= times) return false;
  if (faultCounts.size >= MAX_ERROR_COUNTERS) faultCounts.delete(faultCounts.keys().next().value);
  faultCounts.set(key, met + 1);
  return true;
}

/** `${PLAN_FILE}` and `${MATCH:regex}` in a tool input stand for what the conversation says. */
function fill(value, body) {
  if (Array.isArray(value)) return value.map((item) => fill(item, body));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item, body)]));
  }
  if (typeof value !== "string" || !value.includes("${")) return value;
  return value
    .replaceAll("${PLAN_FILE}", () => lastMatch(/(\/[^\s"'`<>]*\/plans\/[\w.-]+\.md)/g, body))
    .replace(/\$\{MATCH:(.+?)\}(?!\})/g, (_, pattern) => lastMatch(new RegExp(pattern, "g"), body));
}

function lastMatch(pattern, body) {
  const parts = [];
  const collect = (value) => {
    if (typeof value === "string") parts.push(value);
    else if (Array.isArray(value)) value.forEach(collect);
    else if (value && typeof value === "object") Object.values(value).forEach(collect);
  };
  collect(body.system);
  // The assistant's own text may repeat a placeholder; only what it was told counts.
  body.messages.filter((message) => message.role !== "assistant").forEach((message) => collect(message.content));
  const match = [...parts.join("\n").matchAll(pattern)].at(-1);
  return match ? (match[1] ?? match[0]) : "";
}

// ---- from a step to an answer ------------------------------------------------

function usageOf(step) {
  const { cache_creation, cache_read, ...usage } = { ...settings.usage, ...step.usage };
  return {
    cache_creation_input_tokens: cache_creation ?? 0,
    cache_read_input_tokens: cache_read ?? 0,
    ...usage,
  };
}

function blocksOf(step, body) {
  const blocks = [];
  if (step.thinking !== undefined) blocks.push({ type: "thinking", thinking: step.thinking, signature: "c3RhbmQtaW4=" });
  if (step.text !== undefined) blocks.push({ type: "text", text: String(step.text).repeat(step.repeat ?? 1) });
  const one = step.tool === undefined ? [] : [typeof step.tool === "string" ? { name: step.tool, input: step.input, id: step.id } : step.tool];
  for (const tool of [...one, ...(step.tools ?? [])]) {
    const id = tool.id ?? `toolu_${randomBytes(10).toString("hex")}`;
    blocks.push({ type: "tool_use", id, name: tool.name, input: fill(tool.input ?? {}, body) });
  }
  if (Array.isArray(step.blocks)) blocks.push(...step.blocks);
  if (blocks.length === 0) blocks.push({ type: "text", text: DEFAULT_TEXT });
  return blocks;
}

function messageOf(step, body) {
  const content = blocksOf(step, body);
  const calls = content.some((block) => block.type === "tool_use");
  return {
    id: `msg_standin_${randomBytes(8).toString("hex")}`,
    type: "message",
    role: "assistant",
    model: body.model ?? "stand-in",
    content,
    stop_reason: step.stop_reason ?? (calls ? "tool_use" : "end_turn"),
    stop_sequence: null,
    usage: usageOf(step),
  };
}

function pieces(text, size) {
  const points = [...text];
  const out = [];
  for (let at = 0; at < points.length; at += size) out.push(points.slice(at, at + size).join(""));
  return out;
}

/** The SSE events of a message. `chunk` marks the deltas, which are what pace, gates and drops count. */
function* eventsOf(message, chunkSize) {
  const { content, stop_reason, usage, ...head } = message;
  const start = { ...head, content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } };
  yield { data: { type: "message_start", message: start } };
  yield { data: { type: "ping" } };
  for (const [index, block] of content.entries()) {
    yield* blockEvents(block, index, chunkSize);
  }
  yield { data: { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage } };
  yield { data: { type: "message_stop" } };
}

function* blockEvents(block, index, chunkSize) {
  const delta = (delta) => ({ chunk: true, data: { type: "content_block_delta", index, delta } });
  const start = (content_block) => ({ data: { type: "content_block_start", index, content_block } });
  if (block.type === "text") {
    yield start({ type: "text", text: "" });
    for (const text of pieces(block.text, chunkSize)) yield delta({ type: "text_delta", text });
  } else if (block.type === "thinking") {
    yield start({ type: "thinking", thinking: "", signature: "" });
    for (const thinking of pieces(block.thinking, chunkSize)) yield delta({ type: "thinking_delta", thinking });
    yield { data: { type: "content_block_delta", index, delta: { type: "signature_delta", signature: block.signature } } };
  } else if (block.type === "tool_use") {
    yield start({ type: "tool_use", id: block.id, name: block.name, input: {} });
    for (const partial_json of pieces(JSON.stringify(block.input), chunkSize)) yield delta({ type: "input_json_delta", partial_json });
  } else {
    yield start(block);
  }
  yield { data: { type: "content_block_stop", index } };
}

function write(response, connection, text) {
  if (connection.gone) return Promise.resolve();
  if (response.write(text)) return Promise.resolve();
  return new Promise((resolve) => {
    response.once("drain", resolve);
    connection.onGone(resolve);
  });
}

async function answerStream(response, connection, step, message, headers, drops) {
  const pace = { chunk_ms: 0, chunk_size: 8, ...settings.pace };
  const chunkMs = step.chunk_ms ?? pace.chunk_ms;
  const chunkSize = Math.max(1, step.chunk_size ?? pace.chunk_size);
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", ...headers });
  response.flushHeaders();
  let chunks = 0;
  for (const event of step.events ? step.events.map((data) => ({ data })) : eventsOf(message, chunkSize)) {
    if (connection.gone) return;
    if (event.chunk) {
      if (drops && chunks >= step.drop) {
        response.socket?.destroy();
        return;
      }
      if (step.wait && step.wait_at === chunks) await passGate(step.wait, connection);
      if (chunks > 0) await sleep(chunkMs, connection);
      chunks += 1;
    } else if (step.wait && event.data.type === "message_delta" && chunks <= step.wait_at) {
      // The answer was shorter than the place of the gate: hold its end instead.
      await passGate(step.wait, connection);
    }
    await write(response, connection, `event: ${event.data.type}\ndata: ${JSON.stringify(event.data)}\n\n`);
  }
  response.end();
}

function sendJson(response, status, value, headers = {}) {
  const text = JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text), ...headers });
  response.end(text);
}

function sendError(response, status, fault, headers) {
  const type = fault.error_type ?? ERROR_TYPES[status] ?? "api_error";
  const message = fault.message ?? `stand-in error ${status}`;
  const extra = fault.retry_after === undefined ? {} : { "retry-after": String(fault.retry_after) };
  const body = fault.body ?? { type: "error", error: { type, message }, request_id: headers["request-id"] };
  if (typeof body === "string") {
    response.writeHead(status, { "content-type": "text/plain", ...headers, ...extra });
    response.end(body);
  } else {
    sendJson(response, status, body, { ...headers, ...extra });
  }
}

async function answerMessages(response, connection, body, entry, headers) {
  const chosen = chooseStep(body.messages ?? []);
  const step = chosen.step;
  const session = sessionOf(body);
  const id = step.once_id ?? createHash("sha256").update(`${session}\n${chosen.at}\n${chosen.source}`).digest("hex").slice(0, 16);
  const faultKey = `${id}/${chosen.index}`;
  Object.assign(entry, { session, script: chosen.source ? id : null, step: chosen.index });

  if (settings.errors && faultHolds(settings.errors, "control")) {
    entry.status = settings.errors.status;
    return sendError(response, settings.errors.status, settings.errors, headers);
  }
  await sleep(step.delay_ms ?? settings.delay_ms, connection);
  if (step.wait && step.wait_at === undefined) await passGate(step.wait, connection);
  if (connection.gone) return;

  const faulty = step.status !== undefined || step.hang || step.drop !== undefined;
  const holds = faulty && faultHolds(step, faultKey);
  if (holds && step.hang) {
    entry.status = "hang";
    return new Promise((resolve) => connection.onGone(resolve));
  }
  if (holds && step.status !== undefined) {
    entry.status = step.status;
    return sendError(response, step.status, step, headers);
  }
  const drops = holds && step.drop !== undefined;
  if (drops && (step.drop <= 0 || !body.stream)) {
    entry.status = "drop";
    response.socket?.destroy();
    return;
  }
  entry.status = drops ? "drop" : 200;
  const message = messageOf(step, body);
  if (!body.stream) return sendJson(response, 200, message, headers);
  return answerStream(response, connection, step, message, headers, drops);
}

// ---- HTTP ----------------------------------------------------------------------

async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw Object.assign(new Error("request body is too large"), { status: 413 });
    parts.push(part);
  }
  const text = Buffer.concat(parts).toString("utf8");
  if (text === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Object.assign(error, { status: 400 });
  }
}

function digest(message) {
  const blocks = Array.isArray(message.content) ? message.content.map((block) => block?.type) : ["text"];
  return { role: message.role, blocks, text: spokenTexts(message).join("\n").slice(0, LOGGED_TEXT_CHARS) };
}

function record(request, path, body) {
  requestNumber += 1;
  const entry = { n: requestNumber, method: request.method, path };
  if (path.startsWith("/v1/messages")) {
    const { "user-agent": agent, "anthropic-beta": beta, "anthropic-version": version } = request.headers;
    Object.assign(entry, {
      model: body.model,
      stream: Boolean(body.stream),
      max_tokens: body.max_tokens,
      thinking: body.thinking,
      output_config: body.output_config,
      tools: (body.tools ?? []).map((tool) => tool.name),
      messages: (body.messages ?? []).slice(-20).map(digest),
      message_count: body.messages?.length,
      headers: { agent, beta, version },
    });
    const size = Buffer.byteLength(JSON.stringify(body));
    entry.bytes = size;
    if (size <= MAX_LOGGED_BODY_BYTES) Object.defineProperty(entry, "body", { value: body, configurable: true, enumerable: false });
  }
  log.push(entry);
  if (log.length > MAX_LOGGED_REQUESTS) log.shift();
  const old = log.at(-1 - MAX_LOGGED_BODIES);
  if (old) delete old.body;
  return entry;
}

function gateState() {
  const waiting = {};
  const open = [];
  for (const [name, { open: isOpen, waiters }] of gates) {
    if (waiters.size > 0) waiting[name] = waiters.size;
    if (isOpen) open.push(name);
  }
  return { waiting, open };
}

/** Answers once at least `count` requests stand at the gate; 408 when the time is up. */
function watchGate(response, name, url) {
  const count = Number(url.searchParams.get("count") ?? 1);
  const timeoutMs = Number(url.searchParams.get("timeout_ms") ?? 20_000);
  const check = () => {
    if (gate(name).waiters.size < count) return;
    finish(200);
  };
  const finish = (status) => {
    clearTimeout(timer);
    gateWatchers.delete(check);
    if (!response.writableEnded) sendJson(response, status, gateState());
  };
  const timer = setTimeout(() => finish(408), timeoutMs);
  response.on("close", () => {
    clearTimeout(timer);
    gateWatchers.delete(check);
  });
  gateWatchers.add(check);
  check();
}

function release({ name, all, once }) {
  const names = all ? [...gates.keys()] : [name];
  for (const each of names) {
    const state = gate(each);
    if (once) {
      state.waiters.values().next().value?.();
      continue;
    }
    state.open = true;
    for (const waiter of [...state.waiters]) waiter();
  }
}

function reset() {
  Object.assign(settings, { default_script: null, pace: {}, errors: null, usage: DEFAULT_USAGE, delay_ms: 0 });
  release({ all: true });
  gates.clear();
  faultCounts.clear();
  log.length = 0;
}

async function control(request, response, url) {
  const path = url.pathname;
  if (request.method === "GET" && path === "/control/requests") {
    const after = Number(url.searchParams.get("after") ?? 0);
    return sendJson(response, 200, { requests: log.filter((entry) => entry.n > after) });
  }
  const single = /^\/control\/requests\/(\d+)$/.exec(path);
  if (request.method === "GET" && single) {
    const body = log.find((entry) => entry.n === Number(single[1]))?.body;
    return body ? sendJson(response, 200, body) : sendJson(response, 404, { error: "no such body" });
  }
  if (request.method === "GET" && path === "/control/gates") return sendJson(response, 200, gateState());
  if (request.method === "GET" && path.startsWith("/control/gates/")) {
    return watchGate(response, decodeURIComponent(path.slice("/control/gates/".length)), url);
  }
  if (request.method !== "POST") return sendJson(response, 404, { error: "no such control" });
  const body = await readBody(request);
  if (path === "/control") {
    if (body.errors) faultCounts.delete("control");
    for (const key of Object.keys(settings)) if (key in body) settings[key] = body[key];
    return sendJson(response, 200, settings);
  }
  if (path === "/control/release") release(body);
  else if (path === "/control/reset") reset();
  else return sendJson(response, 404, { error: "no such control" });
  return sendJson(response, 200, gateState());
}

async function handle(request, response) {
  const connection = new Connection(response);
  const url = new URL(request.url, "http://127.0.0.1");
  const path = url.pathname;
  if (path.startsWith("/control")) return control(request, response, url);

  const body = await readBody(request);
  const entry = record(request, path, body);
  const headers = { "request-id": `req_standin_${entry.n}` };
  entry.status = 200;
  if (request.method === "POST" && path === "/v1/messages/count_tokens") {
    return sendJson(response, 200, { input_tokens: Math.ceil(JSON.stringify(body).length / 4) }, headers);
  }
  if (request.method === "POST" && path === "/v1/messages") return answerMessages(response, connection, body, entry, headers);
  if (request.method === "GET" && path === "/v1/models") return sendJson(response, 200, { data: [], has_more: false, first_id: null, last_id: null }, headers);
  if (path === "/" || path.startsWith("/api/")) return sendJson(response, 200, {}, headers);
  entry.status = 404;
  return sendError(response, 404, { message: `stand-in: no such route ${path}` }, headers);
}

const USAGE = `usage: model_api.mjs [--port N] [--script FILE] [--until-stdin-closes]

  --port N               port on 127.0.0.1; 0 (the default) picks one
  --script FILE          JSON array of steps for prompts that carry no script
  --until-stdin-closes   exit when stdin reaches its end, so that no server outlives its test

Prints one JSON line when ready: {"ready":true,"url":"http://127.0.0.1:PORT","pid":PID}`;

function main() {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: "0" },
      script: { type: "string" },
      "until-stdin-closes": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  if (values.script) settings.default_script = JSON.parse(readFileSync(values.script, "utf8"));
  const server = createServer((request, response) => {
    handle(request, response).catch((error) => {
      if (response.headersSent) response.destroy();
      else sendError(response, error.status ?? 500, { message: `stand-in: ${error.message}` }, {});
    });
  });
  // A held answer may last as long as its test.
  server.requestTimeout = 0;
  server.headersTimeout = 0;
  server.keepAliveTimeout = 60_000;
  server.listen(Number(values.port), "127.0.0.1", () => {
    console.log(JSON.stringify({ ready: true, url: `http://127.0.0.1:${server.address().port}`, pid: process.pid }));
  });
  const stop = () => process.exit(0);
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  if (values["until-stdin-closes"]) process.stdin.on("end", stop).on("error", stop).resume();
}

main();
