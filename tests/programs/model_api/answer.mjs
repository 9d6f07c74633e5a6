// Owns the way from a step to an answer: the message, its SSE events and their pace.
import { randomBytes } from "node:crypto";

import { sleep } from "./connection.mjs";
import { DEFAULT_TEXT, fill } from "./conversation.mjs";

function usageOf(step, base) {
  const { cache_creation, cache_read, ...usage } = { ...base, ...step.usage };
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

/** The whole answer of a step, as an answer that is not streamed gives it. */
export function messageOf(step, body, baseUsage) {
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
    usage: usageOf(step, baseUsage),
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

/** Streams an answer at its pace, up to its gate, and cuts it where it drops. */
export async function answerStream(response, connection, { step, message, headers, drops, pace, gates }) {
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
      if (step.wait && step.wait_at === chunks) await gates.pass(step.wait, connection);
      if (chunks > 0) await sleep(chunkMs, connection);
      chunks += 1;
    } else if (step.wait && event.data.type === "message_delta" && chunks <= step.wait_at) {
      // The answer was shorter than the place of the gate: hold its end instead.
      await gates.pass(step.wait, connection);
    }
    await write(response, connection, `event: ${event.data.type}\ndata: ${JSON.stringify(event.data)}\n\n`);
  }
  response.end();
}
