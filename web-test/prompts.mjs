// Owns what programs with an SDK say: scripts for the stand-in model, and prompts that are sent when a story wants them.

/** The prompt that has the stand-in model do these steps. */
export const script = (steps) => `SCRIPT:${JSON.stringify(steps)}:END`;
const user = (text) => ({
  type: 'user', message: { role: 'user', content: [{ type: 'text', text }] }, parent_tool_use_id: null, session_id: '',
});

/** Prompts that are sent one by one, each when the story wants it; the stream ends with the story. */
export function prompts() {
  const waiting = [];
  let wake = () => {};
  let isOver = false;
  return {
    send(steps) { this.tell(script(steps)); },
    tell(text) { waiting.push(user(text)); wake(); },
    end() { isOver = true; wake(); },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (waiting.length > 0) yield waiting.shift();
        if (isOver) return;
        await new Promise((resolve) => { wake = resolve; });
      }
    },
  };
}
