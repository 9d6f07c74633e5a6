//! Owns what a page shows before a person decides or begins: the file that a tool is about to change, the directories to work
//! in, and the usage by days of the person's time zone.

use std::{fs, os::unix::fs::symlink};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, path, session},
    support::{
        daemon::TestDaemon,
        event_stream::EventStream,
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn the_file_of_an_open_approval_is_shown_and_nothing_else() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = root.join("w");
    fs::create_dir(&cwd).unwrap();
    fs::write(cwd.join(".fake-claude.json"), "{}").unwrap();
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    fs::write(cwd.join("plan.md"), "# The plan\n").unwrap();
    fs::write(cwd.join("data.bin"), [0_u8, 255]).unwrap();
    symlink("/etc/passwd", cwd.join("link")).unwrap();
    let ask = |tool: &str, file: &str| {
        let file = cwd.join(file);
        json!([{ "ask": { "tool": tool, "input": { "file_path": file, "content": "new" } } }])
    };
    let decide = async |approval: &str| {
        let decided = rest.decide(&id, approval, json!({ "decision": "allow" })).await;
        decided.expect(200);
        rest.in_state(&id, &["idle"]).await;
    };
    for (tool, file, expected) in [
        ("Write", "plan.md", Ok((true, json!("# The plan\n")))),
        ("Edit", "new.md", Ok((false, Value::Null))),
        ("Write", "data.bin", Ok((true, Value::Null))),
        ("Write", "link", Err((403, "file_outside_roots"))),
        ("Write", "../../../etc/passwd", Err((403, "file_outside_roots"))),
        ("Read", "plan.md", Err((409, "file_not_named"))),
        ("Write", ".", Err((422, "file_unreadable"))),
    ] {
        act(&rest, &id, ask(tool, file)).await;
        let approval = rest.pending_approval(&id).await["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let route = path(&id, &format!("approvals/{approval}/file"));
        let found = rest.get(&route).await;
        match expected {
            Ok((exists, content)) => {
                let found = found.expect(200);
                assert_eq!(
                    (&found["exists"], &found["content"]),
                    (&json!(exists), &content),
                    "{file}"
                );
                assert_eq!(found["path"], cwd.join(file).display().to_string());
                assert_eq!(found["truncated"], false);
            }
            Err((status, code)) => assert_eq!(found.problem(status), code, "{tool} {file}"),
        }
        decide(&approval).await;
        assert_eq!(rest.get(&route).await.problem(409), "approval_not_pending");
    }
}

#[tokio::test]
async fn directories_are_completed_inside_of_the_roots() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("code");
    fs::create_dir_all(root.join("shop/src")).unwrap();
    fs::create_dir_all(root.join("site")).unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .start()
        .await;
    let rest = daemon.rest();
    let complete = async |prefix: &str| {
        let found = rest
            .get(&format!("/v1/directories?prefix={prefix}"))
            .await
            .expect(200);
        found["items"].clone()
    };
    let root = root.display();
    assert_eq!(
        complete(&format!("{root}/s")).await,
        json!([format!("{root}/shop"), format!("{root}/site")])
    );
    assert_eq!(complete("").await, json!([root.to_string()]));
    assert_eq!(complete("/etc/").await, json!([]));
    let one = rest
        .get(&format!("/v1/directories?limit=1&prefix={root}/"))
        .await
        .expect(200);
    assert_eq!(
        (&one["items"], &one["truncated"]),
        (&json!([format!("{root}/shop")]), &json!(true))
    );
    assert_eq!(
        rest.get("/v1/directories?prefix=code").await.problem(422),
        "cwd_not_absolute"
    );
    assert_eq!(
        rest.get("/v1/directories?limit=0").await.problem(400),
        "invalid_query"
    );
}

#[tokio::test]
async fn usage_is_summed_by_the_days_of_a_time_zone() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    act_through(&rest, &id, json!([{ "text": "done" }])).await;
    for zone in ["Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT%2B12"] {
        let sum = rest.get(&format!("/v1/usage?tz={zone}")).await.expect(200);
        assert_eq!(sum["items"][0]["turns"], 1, "{zone}");
    }
    let far = async |zone: &str| {
        let sum = rest.get(&format!("/v1/usage?tz={zone}")).await.expect(200);
        sum["items"][0]["key"].as_str().unwrap().to_owned()
    };
    assert!(
        far("Pacific/Kiritimati").await > far("Etc/GMT%2B12").await,
        "they are 26 hours apart"
    );
    assert_eq!(
        rest.get("/v1/usage?tz=Mars/Base").await.problem(400),
        "unknown_time_zone"
    );
    let wrong = rest.get("/v1/usage?tz=UTC&group_by=model").await;
    assert_eq!(wrong.problem(400), "invalid_query");
}

/// Reads the stream of all sessions until one does this.
async fn told(lobby: &mut EventStream, kind: &str) {
    loop {
        let change = lobby.next().await.data;
        if change["session"]["activity"]["kind"] == kind {
            assert!(
                change["changed"].as_array().unwrap().contains(&json!("state")),
                "{change:#}"
            );
            return;
        }
    }
}

/// A person who looks, or comes, sees that it is no plain thinking that takes so long.
#[tokio::test]
async fn a_cli_that_compacts_or_asks_the_model_again_is_shown_so() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    assert_eq!(rest.session(&id).await["activity"], Value::Null);
    let mut lobby = EventStream::open(&rest, "/v1/events", None).await;
    lobby.next().await;
    let gates = ["first", "second", "third"].map(|name| daemon.home().join(name));
    let system = |subtype: &str, more: Value| {
        let mut line = json!({ "type": "system", "subtype": subtype });
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "line": line })
    };
    let retry = |attempt: u64| {
        let more = json!({
            "attempt": attempt, "max_retries": 10, "retry_delay_ms": 550, "error_status": 529, "error": "overloaded"
        });
        system("api_retry", more)
    };
    let prompt = json!([
        system("status", json!({ "status": "compacting" })), { "wait_file": gates[0] },
        system("status", json!({ "status": null, "compact_result": "success" })), { "wait_file": gates[1] },
        retry(1), retry(2), { "wait_file": gates[2] }, { "text": "done" },
    ]);
    act(&rest, &id, prompt).await;
    let shown = async |kind: &'static str| {
        wait_for(kind, PATIENCE, async || {
            let view = rest.session(&id).await;
            (view["activity"]["kind"].as_str().unwrap_or("none") == kind).then_some(view)
        })
        .await
    };
    let view = shown("compacting").await;
    assert_eq!(
        (&view["state"], &view["activity"]["retry"]),
        (&json!("busy"), &Value::Null)
    );
    let mut late = daemon.attach(&id, None).await;
    let snapshot = late
        .find("the snapshot", |frame| frame["type"] == "trunkline.snapshot")
        .await;
    assert_eq!(snapshot["session"]["activity"]["kind"], "compacting");
    told(&mut lobby, "compacting").await;
    fs::write(&gates[0], "").unwrap();
    shown("none").await;
    fs::write(&gates[1], "").unwrap();
    let view = wait_for("the second retry", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["activity"]["retry"]["attempt"] == 2).then_some(view)
    })
    .await;
    let activity = &view["activity"];
    assert_eq!(
        (&activity["kind"], &activity["retry"]["error"]),
        (&json!("retrying"), &json!("overloaded"))
    );
    assert_eq!(
        (&activity["retry"]["error_status"], &activity["retry"]["delay_ms"]),
        (&json!(529), &json!(550))
    );
    told(&mut lobby, "retrying").await;
    fs::write(&gates[2], "").unwrap();
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["activity"], Value::Null);
    let metrics = rest.builder(Method::GET, "/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(
        metrics.contains(r#"trunkline_api_retries_total{error="overloaded"} 2"#),
        "{metrics}"
    );
}
