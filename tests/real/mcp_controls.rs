//! Owns the tests of what is asked about MCP servers: they are set, turned off, connected again, called and read.

use serde_json::{Value, json};
use trunkline::claude::controls::*;

use crate::{
    host_controls::{control, fits, get, try_control, typed},
    support::wait::{PATIENCE, wait_for},
    world::{MCP_SERVER, World, text},
};

/// The requests about MCP servers that a client may send without the model.
#[tokio::test]
async fn what_a_server_offers_is_called_and_read() {
    let world = World::start().await;
    world.write("server.py", MCP_SERVER);
    let id = world.session(json!({})).await;
    let server = json!({ "type": "stdio", "command": "python3", "args": [world.dir().join("server.py")] });
    let set = json!({ "subtype": "mcp_set_servers", "servers": { "good": server } });
    typed::<McpSetServersPayload>(&world, &id, set).await;
    wait_for("the server is connected", PATIENCE, async || {
        let status: McpStatusPayload = fits("mcp_status", &get(&world, &id, "mcp").await["response"]);
        let servers = status.mcp_servers.unwrap();
        (servers[0].status.as_deref() == Some("connected")).then_some(())
    })
    .await;
    let call = |with: Value| {
        let mut call =
            json!({ "subtype": "mcp_call", "tool": "mcp__good__wave", "arguments": { "who": "ü" } });
        for (name, value) in with.as_object().unwrap() {
            call[name] = value.clone();
        }
        call
    };
    let waved = json!({ "content": [{ "type": "text", "text": "waved at {\"who\": \"\\u00fc\"}" }] });
    assert_eq!(control(&world, &id, call(json!({}))).await, waved);
    // A call that is to be checked asks a person, as the model's calls do.
    for (decision, status) in [("allow", 200), ("deny", 409)] {
        let (reply, approval) = tokio::join!(
            try_control(&world, &id, call(json!({ "check_permissions": true }))),
            async {
                let approval = world.rest.pending_approval(&id).await;
                world
                    .decide(&id, &approval, json!({ "decision": decision }))
                    .await;
                approval
            }
        );
        assert_eq!(approval["tool_name"], "mcp__good__wave", "{approval:#}");
        assert_eq!(approval["request"]["input"], json!({ "who": "ü" }));
        let body = reply.expect(status);
        if status == 200 {
            assert_eq!(body["response"], waved);
        }
    }
    let page = json!({ "subtype": "mcp_read_resource", "serverName": "good", "uri": "ui://good/page" });
    let page: McpReadResourcePayload = typed(&world, &id, page).await;
    assert_eq!(page.contents.unwrap()[0].text.as_deref(), Some("<p>hello</p>"));
    let file = json!({ "subtype": "mcp_read_resource", "serverName": "good", "uri": "file:///etc/hostname" });
    assert_eq!(
        try_control(&world, &id, file).await.problem(409),
        "control_refused"
    );
}

#[tokio::test]
async fn mcp_servers_are_set_turned_off_and_connected_again() {
    let world = World::start().await;
    world.write("server.py", MCP_SERVER);
    let id = world.session(json!({})).await;
    let mcp = format!("/v1/sessions/{id}/mcp");
    let name = "team/größe 1";
    let good = json!({ "type": "stdio", "command": "python3", "args": [world.dir().join("server.py")] });
    let bad = json!({ "type": "stdio", "command": "/nonexistent", "args": [] });
    let servers = json!({ "servers": { name: good, "bad": bad } });
    let set = world.rest.put(&mcp, servers).await.expect(200);
    let set: McpSetServersPayload = fits("mcp_set_servers", &set["response"]);
    let mut added = set.added.unwrap();
    added.sort();
    assert_eq!(added, ["bad", name]);
    let errors = set.errors.unwrap();
    assert!(
        errors.contains_key("bad") && !errors.contains_key(name),
        "{errors:?}"
    );

    let status = async || {
        let servers: McpStatusPayload = fits("mcp_status", &get(&world, &id, "mcp").await["response"]);
        let servers = servers.mcp_servers.unwrap();
        let of = |wanted: &str| {
            let server = servers.iter().find(|it| it.name.as_deref() == Some(wanted));
            server.map(|server| server.status.clone().unwrap())
        };
        (of(name), of("bad"))
    };
    let is = async |wanted: &str| {
        wait_for(&format!("the server is {wanted}"), PATIENCE, async || {
            (status().await.0.as_deref() == Some(wanted)).then_some(())
        })
        .await;
    };
    is("connected").await;
    assert_eq!(status().await.1.as_deref(), Some("failed"));

    let server = format!("{mcp}/team%2Fgr%C3%B6%C3%9Fe%201");
    world
        .rest
        .put(&server, json!({ "enabled": false }))
        .await
        .expect(200);
    is("disabled").await;
    world
        .rest
        .put(&server, json!({ "enabled": true }))
        .await
        .expect(200);
    is("connected").await;
    let again = world.rest.post(&format!("{server}/reconnect"), json!({})).await;
    assert_eq!(again.expect(200), json!({ "response": null }));
    is("connected").await;

    let unknown = world
        .rest
        .post(&format!("{mcp}/nobody/reconnect"), json!({}))
        .await;
    assert!(text(&unknown.body, "detail").contains("nobody"));
    assert_eq!(unknown.problem(409), "control_refused");
    let none = world.rest.put(&mcp, json!({ "servers": {} })).await.expect(200);
    let none: McpSetServersPayload = fits("mcp_set_servers", &none["response"]);
    assert_eq!(none.removed.unwrap().len(), 2);
    assert_eq!(status().await, (None, None));
}
