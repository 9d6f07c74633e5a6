//! Owns the tests of forms of an MCP server: the person's answer reaches the server, and the turn goes on.

use serde_json::{Value, json};

use crate::world::World;

/// An MCP server whose only tool asks the person behind the client for a name.
pub(crate) const ASKING_SERVER: &str = r#"
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
  const text = `heard: ${message.result?.action ?? "error"} ${message.result?.content?.name ?? "nothing"}`;
  send({ id, result: { content: [{ type: "text", text }] } });
});
"#;

/// A session whose tool has asked, and what it asked.
async fn asked(world: &World) -> (String, Value) {
    world.write("asking.cjs", ASKING_SERVER);
    let server = json!({ "type": "stdio", "command": "node", "args": [world.dir().join("asking.cjs")] });
    let id = world
        .session(json!({ "mcp_servers": { "asking": server }, "allowed_tools": ["mcp__asking__ask"] }))
        .await;
    let call = json!({ "tool": "mcp__asking__ask", "input": {} });
    world.prompt(&id, json!([call, { "text": "done" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "elicitation", "{approval:#}");
    assert_eq!(approval["subject"], "asking");
    assert_eq!(approval["tool_name"], Value::Null);
    assert_eq!(approval["message"], "What is your name?");
    assert_eq!(approval["requested_schema"]["required"], json!(["name"]));
    assert_eq!(world.rest.session(&id).await["state"], "waiting");
    (id, approval)
}

/// The answer of the server as the model was told it.
async fn heard(world: &World, id: &str) -> String {
    world.idle_after(id, 1).await;
    world.last_request().await["messages"].to_string()
}

#[tokio::test]
async fn a_form_is_filled_in() {
    let world = World::start().await;
    let (id, approval) = asked(&world).await;
    let wrong = json!({ "decision": "accept", "content": { "name": 7 } });
    let refused = world
        .rest
        .decide(&id, approval["id"].as_str().unwrap(), wrong)
        .await;
    assert!(
        refused.body["detail"]
            .as_str()
            .unwrap()
            .contains("name must be a string")
    );
    assert_eq!(refused.problem(400), "invalid_decision");
    let right = json!({ "decision": "accept", "content": { "name": "Ada" } });
    let decided = world.decide(&id, &approval, right).await;
    assert_eq!(decided["state"], "allowed", "{decided:#}");
    assert_eq!(decided["resolution"]["how"], "person");
    let told = heard(&world, &id).await;
    assert!(told.contains("heard: accept Ada"), "{told}");
}

#[tokio::test]
async fn a_form_is_declined() {
    let world = World::start().await;
    let (id, approval) = asked(&world).await;
    let decided = world
        .decide(&id, &approval, json!({ "decision": "decline" }))
        .await;
    assert_eq!(decided["state"], "denied", "{decided:#}");
    let told = heard(&world, &id).await;
    assert!(told.contains("heard: decline nothing"), "{told}");
}

#[tokio::test]
async fn a_form_is_closed() {
    let world = World::start().await;
    let (id, approval) = asked(&world).await;
    let decided = world
        .decide(&id, &approval, json!({ "decision": "cancel" }))
        .await;
    assert_eq!(decided["state"], "cancelled", "{decided:#}");
    let told = heard(&world, &id).await;
    assert!(told.contains("heard: cancel nothing"), "{told}");
}
