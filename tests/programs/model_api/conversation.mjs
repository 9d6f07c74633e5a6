// Owns the way from a conversation to the step that answers it.

export const DEFAULT_TEXT = "Hello from the stand-in model.";

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
export function spokenTexts(message) {
  return textBlocks(message).filter((text) => !text.trimStart().startsWith("<system-reminder>"));
}

function isPrompt(message) {
  return message.role === "user" && !hasToolResult(message) && spokenTexts(message).length > 0;
}

/**
 * Which step of which script answers this conversation. Only the conversation decides, so restarts, resumes and forks
 * need no memory here: the step is the number of assistant turns since the prompt that carries the script.
 */
export function chooseStep(messages, defaultScript) {
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
  return chooseDefault(messages, defaultScript);
}

function chooseDefault(messages, steps) {
  if (!steps?.length) return { source: "", at: -1, index: 0, step: { text: DEFAULT_TEXT } };
  const at = messages.findLastIndex(isPrompt);
  const index = messages.slice(at + 1).filter((message) => message.role === "assistant").length;
  return { source: JSON.stringify(steps), at, index, step: steps[Math.min(index, steps.length - 1)] };
}

/** The CLI's session id, as it stands in the metadata of its requests. */
export function sessionOf(body) {
  const user = body.metadata?.user_id ?? "";
  try {
    return JSON.parse(user).session_id ?? user;
  } catch {
    return /session_([0-9a-f-]{36})/.exec(user)?.[1] ?? user;
  }
}

/** `${PLAN_FILE}` and `${MATCH:regex}` in a tool input stand for what the conversation says. */
export function fill(value, body) {
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
