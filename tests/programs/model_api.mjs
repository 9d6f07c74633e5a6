#!/usr/bin/env node
// Stand-in for the model API (Anthropic Messages) on loopback: answers what a script in the newest prompt says.
// README.md next to this file describes scripts, steps and the control endpoint.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { parseArgs } from "node:util";

import { answerStream, messageOf } from "./model_api/answer.mjs";
import { Connection, sleep } from "./model_api/connection.mjs";
import { chooseStep, sessionOf, spokenTexts } from "./model_api/conversation.mjs";
import { Gates } from "./model_api/gates.mjs";

const DEFAULT_USAGE = { input_tokens: 100, output_tokens: 20 };
const DEFAULT_PACE = { chunk_ms: 0, chunk_size: 8 };
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
const gates = new Gates();
const log = [];
let requestNumber = 0;

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

// ---- answers ----------------------------------------------------------------------

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
  const chosen = chooseStep(body.messages ?? [], settings.default_script);
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
  if (step.wait && step.wait_at === undefined) await gates.pass(step.wait, connection);
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
  const message = messageOf(step, body, settings.usage);
  if (!body.stream) return sendJson(response, 200, message, headers);
  const pace = { ...DEFAULT_PACE, ...settings.pace };
  return answerStream(response, connection, { step, message, headers, drops, pace, gates });
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

/** Answers once at least `count` requests stand at the gate; 408 when the time is up. */
async function watchGate(response, connection, name, url) {
  const count = Number(url.searchParams.get("count") ?? 1);
  const timeoutMs = Number(url.searchParams.get("timeout_ms") ?? 20_000);
  const reached = await gates.reached(name, count, timeoutMs, connection);
  sendJson(response, reached ? 200 : 408, gates.state());
}

function reset() {
  Object.assign(settings, { default_script: null, pace: {}, errors: null, usage: DEFAULT_USAGE, delay_ms: 0 });
  gates.reset();
  faultCounts.clear();
  log.length = 0;
}

async function control(request, response, connection, url) {
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
  if (request.method === "GET" && path === "/control/gates") return sendJson(response, 200, gates.state());
  if (request.method === "GET" && path.startsWith("/control/gates/")) {
    return watchGate(response, connection, decodeURIComponent(path.slice("/control/gates/".length)), url);
  }
  if (request.method !== "POST") return sendJson(response, 404, { error: "no such control" });
  const body = await readBody(request);
  if (path === "/control") {
    if (body.errors) faultCounts.delete("control");
    for (const key of Object.keys(settings)) if (key in body) settings[key] = body[key];
    return sendJson(response, 200, settings);
  }
  if (path === "/control/release") gates.release(body);
  else if (path === "/control/reset") reset();
  else return sendJson(response, 404, { error: "no such control" });
  return sendJson(response, 200, gates.state());
}

async function handle(request, response) {
  const connection = new Connection(response);
  const url = new URL(request.url, "http://127.0.0.1");
  const path = url.pathname;
  if (path.startsWith("/control")) return control(request, response, connection, url);

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
