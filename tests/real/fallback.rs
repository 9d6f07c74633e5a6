//! Owns the test of requests of the CLI that no client can be given: the CLI hears so, and the turn goes on.

use serde_json::json;

use crate::world::World;

/// An MCP server whose only tool asks the person behind the client for a name.
const ASKING_SERVER: &str = r#"
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const handlers = {
  initialize: ({ id, params }) => send({
    id,
    result: {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "asking", version: "1" },
    },
  }),
  "tools/list": ({ id }) => send({ id, result: { tools: [{ name: "ask", inputSchema: { type: "object" } }] } }),
  "tools/call": ({ id }) => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const params = { mode: "form", message: "What is your name?", requestedSchema };
    send({ id: `ask-${id}`, method: "elicitation/create", params });
  },
};
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method) return handlers[message.method]?.(message);
  const id = Number(String(message.id).slice("ask-".length));
  const text = `heard: ${message.result?.action ?? "error"}`;
  send({ id, result: { content: [{ type: "text", text }] } });
});
"#;

#[tokio::test]
async fn a_form_that_nobody_can_fill_in_does_not_hold_the_turn() {
    let world = World::start().await;
    world.write("asking.cjs", ASKING_SERVER);
    let server = json!({ "type": "stdio", "command": "node", "args": [world.dir().join("asking.cjs")] });
    let id = world
        .session(json!({ "mcp_servers": { "asking": server }, "allowed_tools": ["mcp__asking__ask"] }))
        .await;
    let call = json!({ "tool": "mcp__asking__ask", "input": {} });
    let answer = world.answer(&id, json!([call, { "text": "never mind" }])).await;
    assert_eq!(answer, "never mind");
    let request = world.last_request().await["messages"].to_string();
    assert!(request.contains("heard: "), "the server was answered: {request}");
    assert!(!request.contains("heard: accept"), "nobody filled in the form");
    let events = world.rest.events(&id, 0).await;
    let asked = events
        .iter()
        .filter(|record| record["data"]["request"]["subtype"] == "elicitation")
        .count();
    let noted = events
        .iter()
        .filter(|record| record["data"]["type"] == "fallback")
        .count();
    assert_eq!((asked, noted), (1, 1));
    world.idle_after(&id, 1).await;
}
