//! Owns secrets: what children may see, what logs, arguments and answers may not show, and who may read the files.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    api::common::{dumps, id_of},
    support::{daemon::TestDaemon, proc, programs::fake_prompt, ws::Ws},
};

#[tokio::test]
async fn children_get_an_environment_from_a_list_and_never_each_others() {
    let dump = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .fake(json!({"dump": dump.path()}))
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .env("CLAUDE_CODE_SESSION_ID", "outer")
        .env("TRUNKLINE_LOG_LEVEL", "debug")
        .env("TRUNKLINE_SOMETHING_SECRET", "own-secret")
        .env("NODE_OPTIONS", "--inspect")
        .env("LD_PRELOAD", "")
        .env("GITHUB_TOKEN", "unrelated-secret")
        .env("ANTHROPIC_AUTH_TOKEN", "auth-token")
        .env("TRUNKLINE_CLAUDE_ENV_ALLOW", "EXTRA_ONE,EXTRA_TWO_*")
        .env("TRUNKLINE_CLAUDE_ENV_DENY", "ANTHROPIC_AUTH_TOKEN")
        .env("EXTRA_ONE", "1")
        .env("EXTRA_TWO_B", "2")
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    let first =
        json!({"cwd": cwd, "options": {"env": {"OF_ONE": "secret-one", "ANTHROPIC_API_KEY": "sk-own"}}});
    let first = rest.create_ready(first).await;
    let second = rest
        .create_ready(json!({"cwd": cwd, "options": {"env": {"OF_TWO": "secret-two"}}}))
        .await;
    let starts = dumps(dump.path());
    let env = |index: usize| starts[index]["env"].as_object().unwrap();

    assert_eq!(
        env(0)["ANTHROPIC_API_KEY"],
        "sk-own",
        "what a session asks for wins"
    );
    assert_eq!(
        env(1)["ANTHROPIC_API_KEY"],
        crate::support::programs::FAKE_API_KEY
    );
    assert_eq!(
        (&env(0)["OF_ONE"], &env(1)["OF_TWO"]),
        (&json!("secret-one"), &json!("secret-two"))
    );
    assert!(!env(1).contains_key("OF_ONE") && !env(0).contains_key("OF_TWO"));
    for env in [env(0), env(1)] {
        for absent in [
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "NODE_OPTIONS",
            "GITHUB_TOKEN",
            "ANTHROPIC_AUTH_TOKEN",
        ] {
            assert!(!env.contains_key(absent), "{absent} was passed");
        }
        assert_ne!(env.get("CLAUDE_CODE_ENTRYPOINT"), Some(&json!("cli")));
        let own: Vec<&String> = env.keys().filter(|name| name.starts_with("TRUNKLINE_")).collect();
        assert_eq!(own, ["TRUNKLINE_DATA_MARK", "TRUNKLINE_RUN", "TRUNKLINE_SESSION"]);
        assert_eq!(
            (&env["EXTRA_ONE"], &env["EXTRA_TWO_B"]),
            (&json!("1"), &json!("2"))
        );
        assert!(!Value::Object(env.clone()).to_string().contains(daemon.token()));
    }
    // Names are shown, values are not.
    for (id, name, value) in [
        (&first, "OF_ONE", "secret-one"),
        (&second, "OF_TWO", "secret-two"),
    ] {
        let view = rest.session(id).await;
        assert!(
            view["options"]["env"].as_object().unwrap().contains_key(name),
            "{view:#}"
        );
        for path in ["", "/events", "/runs", "/approvals"] {
            let shown = rest
                .get(&format!("/v1/sessions/{id}{path}"))
                .await
                .expect(200)
                .to_string();
            assert!(!shown.contains(value), "{path}: {shown}");
        }
    }
    let list = rest.get("/v1/sessions").await.expect(200).to_string();
    assert!(!list.contains("secret-one") && !list.contains("sk-own"), "{list}");
    // After a resume the session still has what it asked for.
    rest.lifecycle(&first, "stop", json!({})).await.expect(200);
    rest.post(&format!("/v1/sessions/{first}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    assert_eq!(dumps(dump.path())[2]["env"]["OF_ONE"], "secret-one");
}

/// Everything that a session can carry and that nobody else may see.
fn secretive() -> Value {
    json!({
        "system_prompt": {"type": "preset", "preset": "claude_code", "append": "secret-in-system-prompt"},
        "mcp_servers": {
            "a": {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"Authorization": "secret-in-mcp-header"}},
            "b": {"type": "stdio", "command": "true", "env": {"KEY": "secret-in-mcp-env"}, "args": ["secret-in-mcp-args"]}
        },
        "settings": {"env": {"KEY": "secret-in-settings"}},
        "agents": {"helper": {"description": "d", "prompt": "secret-in-agent"}},
        "managed_settings": {"env": {"KEY": "secret-in-managed-settings"}},
        "plan_mode_instructions": "secret-in-plan-instructions",
        "json_schema": {"type": "object", "description": "secret-in-schema"},
        "env": {"KEY": "secret-in-env"}
    })
}

#[tokio::test]
async fn no_secret_is_in_an_argument_or_in_the_log() {
    let dump = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .fake(json!({"dump": dump.path()}))
        .arg("--log-level=trace")
        .start()
        .await;
    let rest = daemon.rest();
    let tool = json!({"command": "echo secret-in-tool-input"});
    let prompt = format!(
        "secret-in-prompt {}",
        fake_prompt(
            &json!([{"ask": {"input": tool}}, {"stderr": "secret-in-stderr\n"}, {"text": "secret-in-answer"}])
        )
    );
    let session = json!({"cwd": daemon.work_dir("w"), "prompt": prompt, "options": secretive()});
    let id = id_of(&rest.create(session).await);
    let approval = rest.pending_approval(&id).await;

    let processes = daemon.session_processes();
    assert!(!processes.is_empty(), "nothing runs");
    for process in &processes {
        assert!(!process.command.contains("secret-in"), "{process:?}");
    }
    let start = &dumps(dump.path())[0];
    assert!(
        !start["argv"].to_string().contains("secret-in"),
        "{}",
        start["argv"]
    );
    let keeper = i32::try_from(start["ppid"].as_i64().unwrap()).unwrap();
    let keeper = proc::read(keeper).unwrap();
    assert!(keeper.command.contains("keeper"), "{keeper:?}");
    assert!(!keeper.command.contains("secret-in"), "{keeper:?}");
    assert_eq!(
        keeper.env("KEY"),
        None,
        "the session's environment is the keeper's"
    );

    let decision = json!({"decision": "allow", "updated_input": {"command": "secret-in-decision"}});
    rest.decide(&id, &id_of(&approval), decision).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    // Tokens that are wrong, in every place where one may stand.
    let path = format!("/v1/sessions/{id}");
    let bare = rest.with_token(None);
    bare.get(&format!("{path}?token=secret-in-query")).await;
    rest.with_token(Some("secret-in-bearer")).get(&path).await;
    rest.get(&format!("{path}/secret-in-path")).await;
    rest.get("/v1/sessions?q=secret-in-search").await;
    rest.send(
        bare.builder(Method::GET, &path)
            .header(header::COOKIE, "token=secret-in-cookie"),
    )
    .await;
    let refused = Ws::try_connect(
        daemon.url(),
        &format!("{path}/ws"),
        &[],
        Some("secret-in-protocol"),
    )
    .await;
    assert!(refused.is_err());
    let mut socket = daemon.attach(&id, None).await;
    for line in [
        json!({"type": "auth", "token": "secret-in-auth-frame"}),
        json!({"type": "update_environment_variables", "variables": {"KEY": ["secret-in-variables"]}}),
        json!({"type": "user", "message": {"role": "assistant", "content": "secret-in-bad-line"}}),
    ] {
        socket.send(&line).await;
        let error = socket
            .find("an error", |frame| frame["type"] == "trunkline.error")
            .await;
        assert!(!error.to_string().contains("secret-in"), "{error:#}");
    }
    rest.post(
        &format!("{path}/messages"),
        json!({"text": "x", "secret-in-field": 1}),
    )
    .await;
    rest.delete(&path).await.expect(204);

    let log = daemon.log();
    assert!(log.len() > 2_000, "the log is not at level trace: {log}");
    let found: Vec<&str> = log.lines().filter(|line| line.contains("secret-in")).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(!log.contains(daemon.token()), "the token is in the log");
}

#[tokio::test]
async fn files_are_for_the_owner_only() {
    let runtime = tempfile::Builder::new().prefix("tl-run-").tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_DATA_RUNTIME_DIR", runtime.path().join("r"))
        .start()
        .await;
    let rest = daemon.rest();
    let session = json!({"cwd": daemon.work_dir("w"), "prompt": "hello", "options": secretive()});
    let id = id_of(&rest.post("/v1/sessions?wait=result", session).await.expect(201));
    let root = daemon.data_dir();
    let mut files = Vec::new();
    walk(&root, &mut files);
    for name in ["trunkline.db", "token", "viewer-token", "daemon.json"] {
        assert!(files.contains(&root.join(name)), "{name} is missing: {files:#?}");
    }
    let holding = |secret: &str| {
        files
            .iter()
            .filter(|path| fs::read(path).is_ok_and(|bytes| contains(&bytes, secret)))
            .count()
    };
    assert!(
        holding("secret-in-mcp-header") > 0,
        "the files of the launch are not below the data directory"
    );
    for file in &files {
        let meta = fs::symlink_metadata(file).unwrap();
        let mode = meta.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:03o}", file.display());
        assert!(!meta.file_type().is_symlink(), "{}", file.display());
    }
    let mut sockets = Vec::new();
    walk(&runtime.path().join("r"), &mut sockets);
    sockets.retain(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()));
    assert_eq!(sockets.len(), 1, "one keeper, one socket: {sockets:#?}");
    for place in [runtime.path().join("r"), sockets.remove(0)] {
        let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:03o}", place.display());
    }
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    let mut left = Vec::new();
    walk(&daemon.data_dir().join("sessions"), &mut left);
    assert!(left.is_empty(), "{left:#?}");
    let mut all = Vec::new();
    walk(&daemon.data_dir(), &mut all);
    for file in all
        .iter()
        .filter(|file| file.is_file())
        .filter(|file| !file.to_string_lossy().contains("trunkline.db"))
    {
        assert!(
            !contains(&fs::read(file).unwrap(), "secret-in"),
            "{} outlived the session",
            file.display()
        );
    }
}

/// A row that is deleted leaves its bytes in the room that becomes free, unless they are overwritten.
#[tokio::test]
async fn a_deleted_session_leaves_nothing_of_it_in_the_database() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut ids = Vec::new();
    for number in 0..5 {
        let body = json!({"cwd": daemon.work_dir("w"), "title": format!("secret-in-title {number}"),
            "prompt": "secret-in-prompt", "options": secretive()});
        ids.push(id_of(
            &rest.post("/v1/sessions?wait=result", body).await.expect(201),
        ));
    }
    let holds = |daemon: &TestDaemon| contains(&fs::read(daemon.database()).unwrap(), "secret-in");
    assert!(daemon.stop().success());
    assert!(holds(&daemon), "the database has the options of its sessions");
    daemon.start().await;
    for id in &ids {
        daemon
            .rest()
            .delete(&format!("/v1/sessions/{id}"))
            .await
            .expect(204);
    }
    assert!(daemon.stop().success());
    assert!(!holds(&daemon));
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        }
    }
}
