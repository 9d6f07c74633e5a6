//! Owns how strict the contract is: a request that its schemas refuse is refused by the daemon, and one that they take is
//! refused for no fault of its form.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    api::{
        common::{asking, id_of},
        schema::{faults, resolved},
    },
    support::{
        daemon::TestDaemon,
        rest::{Reply, Rest},
    },
};

const METHODS: [&str; 4] = ["post", "put", "patch", "delete"];

/// The values that a member or a whole body may have instead.
fn odd_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(1e30),
        json!(""),
        json!("odd"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"odd": 1}),
    ]
}

fn is_fault_of_form(reply: &Reply) -> bool {
    let code = reply.body["code"].as_str().unwrap_or_default();
    reply.status == 400 && ["invalid_field", "invalid_json", "invalid_query"].contains(&code)
}

/// A session with a request that waits for a person.
async fn waiting(rest: &Rest, daemon: &TestDaemon) -> (String, String) {
    let made = rest
        .create(json!({"cwd": daemon.work_dir("w"), "prompt": asking()}))
        .await;
    let id = id_of(&made);
    let approval = id_of(&rest.pending_approval(&id).await);
    (id, approval)
}

/// The example of a body, in a form that changes little.
fn example(document: &Value, operation: &Value, schema: &Value) -> Option<Value> {
    let media = &operation["requestBody"]["content"]["application/json"];
    let named = schema["oneOf"].as_array().map_or(schema, |forms| &forms[0]);
    let own = media
        .get("example")
        .or_else(|| resolved(document, named).get("example"));
    let mut example = own?.clone();
    match operation["operationId"].as_str().unwrap() {
        // A request that is right and cannot be done is refused for that.
        "create_session" => example["cwd"] = json!("/nonexistent"),
        "restart_daemon" => example["program"] = json!("/nonexistent"),
        _ => {}
    }
    Some(example)
}

/// The example with each member changed in each way, taken away, or with one more.
fn variants(schema: &Value, example: &Value) -> Vec<Value> {
    let mut found = odd_values();
    let Some(members) = example.as_object() else {
        return found;
    };
    let known = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|it| it.keys());
    for name in known.chain(members.keys()) {
        for value in odd_values() {
            let mut changed = example.clone();
            changed[name] = value;
            found.push(changed);
        }
    }
    for name in members.keys() {
        let mut without = example.clone();
        without.as_object_mut().unwrap().remove(name);
        found.push(without);
    }
    let mut more = example.clone();
    more["made_tomorrow"] = json!(1);
    found.push(more);
    found
}

#[tokio::test]
async fn the_daemon_refuses_the_bodies_that_the_contract_refuses() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&rest, &daemon).await;
    let document = rest.get("/openapi.json").await.expect(200);
    let (mut tried, mut loose) = (0, Vec::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let operation = &item[method];
            let body = &operation["requestBody"];
            let schema = &body["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            let name = operation["operationId"].as_str().unwrap();
            let Some(example) = example(&document, operation, schema) else {
                loose.push(format!("{name} has no example"));
                continue;
            };
            let place = path.replace("{id}", &id).replace("{approval_id}", &approval);
            let place = place
                .replace("{server}", "s")
                .replace("{task_id}", "t")
                .replace("{rule_id}", "r");
            let send = async |value: &Value| {
                let method: Method = method.to_uppercase().parse().unwrap();
                rest.send(rest.builder(method, &place).json(value)).await
            };
            let named = schema["oneOf"].as_array().map_or(schema, |forms| &forms[0]);
            for value in variants(resolved(&document, named), &example) {
                let found = faults(&document, schema, &value);
                if found.is_empty() {
                    continue;
                }
                tried += 1;
                let reply = send(&value).await;
                if !reply.status.is_client_error() {
                    loose.push(format!(
                        "{name} took {value}, which the contract refuses: {} {found:?}",
                        reply.status
                    ));
                }
            }
        }
    }
    assert!(tried > 200, "{tried}");
    assert!(loose.is_empty(), "{loose:#?}");
}

#[tokio::test]
async fn the_examples_of_the_contract_are_requests_of_the_right_form() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&rest, &daemon).await;
    let document = rest.get("/openapi.json").await.expect(200);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let operation = &item[method];
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            let name = operation["operationId"].as_str().unwrap();
            let example = example(&document, operation, schema).unwrap();
            assert_eq!(
                faults(&document, schema, &example),
                Vec::<String>::new(),
                "{name}"
            );
            let place = path.replace("{id}", &id).replace("{approval_id}", &approval);
            let place = place
                .replace("{server}", "s")
                .replace("{task_id}", "t")
                .replace("{rule_id}", "r");
            let method: Method = method.to_uppercase().parse().unwrap();
            let reply = rest.send(rest.builder(method, &place).json(&example)).await;
            assert!(!is_fault_of_form(&reply), "{name}: {:#}", reply.body);
            let status = reply.status.as_u16().to_string();
            assert!(
                operation["responses"].get(&status).is_some(),
                "{name} does not document {status}"
            );
        }
    }
}
