// Owns the cases of the real CLI against the stand-in API: what scripts can make the model say.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

import { ASKS, UUID, script, script64 } from "./driver.mjs";

export const real = {
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
    // They only read, so they run at the same time and may end in any order.
    assert.deepEqual(outputs.toSorted(), ["1", "2"]);
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
