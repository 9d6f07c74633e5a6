//! Owns what happens when a process does not take what was set, or nobody can read it: nothing goes on without it.

use super::*;

/// Settings of a CLI of which each start but the first does this with the settings that it is given.
fn later(plan: Value) -> Value {
    json!({ "starts": [{}, { "controls": { "apply_flag_settings": plan } }] })
}

#[tokio::test]
async fn no_prompt_is_written_before_the_last_answer() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let id = session(&daemon, later(json!({ "wait_file": gate })), json!({})).await;
    set(&rest, &id, deny()).await;
    park(&rest, &id).await;
    let mut client = daemon.attach(&id, Some(0)).await;
    let message = json!({ "role": "user", "content": "second" });
    client.send(&json!({ "type": "user", "message": message })).await;
    wait_for("the settings are asked for", PATIENCE, async || {
        (heard(&daemon) == ["initialize", "apply_flag_settings"]).then_some(())
    })
    .await;
    // One more, while the process is being given what was set.
    let message = json!({ "role": "user", "content": "third" });
    client.send(&json!({ "type": "user", "message": message })).await;
    assert_eq!(rest.session(&id).await["state"], "starting");
    let prompts = |heard: &[String]| {
        heard
            .iter()
            .filter(|it| *it == "second" || *it == "third")
            .count()
    };
    assert_eq!(prompts(&heard(&daemon)), 0);
    fs::write(&gate, "").unwrap();
    wait_for("both prompts", PATIENCE, async || {
        (prompts(&heard(&daemon)) == 2).then_some(())
    })
    .await;
    let heard = heard(&daemon);
    assert_eq!(heard[heard.len() - 2..], ["second", "third"]);
}

#[tokio::test]
async fn a_prompt_that_was_not_begun_waits_for_the_settings() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let id = session(&daemon, later(json!({ "wait_file": gate })), json!({})).await;
    set(&rest, &id, deny()).await;
    let busy = crate::support::programs::fake_prompt(&json!([{ "silent": 1 }]));
    rest.prompt(&id, &busy).await;
    rest.in_turn(&id).await;
    rest.prompt(&id, "not begun").await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    wait_for("the settings are asked for", PATIENCE, async || {
        (heard(&daemon) == ["initialize", "apply_flag_settings"]).then_some(())
    })
    .await;
    fs::write(&gate, "").unwrap();
    wait_for("the turn", PATIENCE, async || {
        (rest.session(&id).await["state"] == "idle").then_some(())
    })
    .await;
    let heard = heard(&daemon);
    assert_eq!(heard, ["initialize", "apply_flag_settings", "not begun"]);
}

/// More messages than the daemon gives its keeper at once.
#[tokio::test]
async fn all_prompts_that_were_not_begun_come_after_the_settings_in_their_order() {
    const MESSAGES: usize = 300;
    let daemon = daemon().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let id = session(&daemon, later(json!({ "wait_file": gate })), json!({})).await;
    set(&rest, &id, deny()).await;
    let busy = crate::support::programs::fake_prompt(&json!([{ "silent": 1 }]));
    rest.prompt(&id, &busy).await;
    rest.in_turn(&id).await;
    let mut expected = vec!["initialize".to_owned(), "apply_flag_settings".to_owned()];
    for n in 0..MESSAGES {
        let text = format!("message {n}");
        rest.prompt(&id, &text).await;
        expected.push(text);
    }
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    wait_for("the settings are asked for", PATIENCE, async || {
        (heard(&daemon) == ["initialize", "apply_flag_settings"]).then_some(())
    })
    .await;
    let mut client = daemon.attach(&id, Some(0)).await;
    let newest = json!({ "role": "user", "content": "the newest" });
    client.send(&json!({ "type": "user", "message": newest })).await;
    expected.push("the newest".to_owned());
    fs::write(&gate, "").unwrap();
    wait_for("all messages", PATIENCE, async || {
        (heard(&daemon).len() >= expected.len()).then_some(())
    })
    .await;
    assert_eq!(heard(&daemon), expected);
    rest.in_state(&id, &["idle"]).await;
}

#[tokio::test]
async fn a_daemon_that_dies_meanwhile_leaves_nothing_out() {
    let mut daemon = daemon().await;
    let gate = daemon.home().join("gate");
    let id = session(&daemon, later(json!({ "wait_file": gate })), json!({})).await;
    let rest = daemon.rest();
    set(&rest, &id, deny()).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    wait_for("the settings are asked for", PATIENCE, async || {
        (heard(&daemon) == ["initialize", "apply_flag_settings"]).then_some(())
    })
    .await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.session(&id).await["state"], "starting");
    fs::write(&gate, "").unwrap();
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", "second"]);
}

#[tokio::test]
async fn a_step_that_fails_stops_the_wake_with_its_reason() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, later(json!({ "error": "not this one" })), json!({})).await;
    set(&rest, &id, deny()).await;
    park(&rest, &id).await;
    for _ in 0..2 {
        let refused = rest
            .post(&path(&id, "messages"), json!({ "text": "second" }))
            .await;
        assert_eq!(
            refused.body["reason"], "choices_not_restored",
            "{:#}",
            refused.body
        );
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("not this one"), "{detail}");
        assert_eq!(refused.problem(502), "start_failed");
        let view = rest.session(&id).await;
        assert_eq!(view["state"], "parked", "{view:#}");
        assert_eq!(view["open_prompts"], json!([]), "{view:#}");
        assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings"]);
    }
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    rest.ask(&id, "third").await;
    assert_eq!(heard(&daemon), ["initialize", "third"]);
}

#[tokio::test]
async fn a_step_that_fails_fails_a_resume_and_the_first_way_out_works() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, later(json!({ "error": "not this one" })), json!({})).await;
    set(&rest, &id, deny()).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    // A resume tries the same again; only a fresh start goes without.
    for _ in 0..2 {
        rest.lifecycle(&id, "resume", json!({})).await;
        let view = rest.in_state(&id, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "choices_not_restored", "{view:#}");
        let detail = view["reason"]["detail"].as_str().unwrap();
        assert!(detail.contains("not this one"), "{detail}");
        assert_eq!(view["ways_out"], json!(["fresh_start", "resume"]), "{view:#}");
        assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings"]);
    }
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    rest.ask(&id, "third").await;
    assert_eq!(heard(&daemon), ["initialize", "third"]);
}

#[tokio::test]
async fn damaged_choices_are_an_error_until_a_fresh_start() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    set(&rest, &id, deny()).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let mut daemon = daemon;
    assert!(daemon.stop().success());
    let folder = daemon.data_dir().join("sessions").join(&id);
    fs::write(folder.join("choices.json"), "{").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let refused = rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(refused.body["code"], "choices_damaged", "{:#}", refused.body);
    let refused = rest.post(&path(&id, "fork"), json!({})).await;
    assert_eq!(refused.body["code"], "choices_damaged", "{:#}", refused.body);
    assert_eq!(rest.session(&id).await["state"], "stopped");
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    assert_eq!(
        fs::read_to_string(folder.join("choices.json.aside")).unwrap(),
        "{"
    );
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "second"]);
}

#[tokio::test]
async fn a_parked_session_with_damaged_choices_says_so_to_its_callers() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    set(&daemon.rest(), &id, deny()).await;
    park(&daemon.rest(), &id).await;
    assert!(daemon.stop().success());
    let folder = daemon.data_dir().join("sessions").join(&id);
    fs::write(folder.join("choices.json"), "{").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let refused = rest
        .post(&path(&id, "messages"), json!({ "text": "second" }))
        .await;
    assert_eq!(refused.body["code"], "choices_damaged", "{:#}", refused.body);
    assert_eq!(rest.session(&id).await["state"], "parked");
}

/// Changes the stored options of a session, as an older version would have written them.
#[expect(clippy::disallowed_methods, reason = "another program changes the database")]
fn store_model(daemon: &TestDaemon, id: &str, model: &str) {
    let program = "import sqlite3, sys\n\
                   db = sqlite3.connect(sys.argv[1])\n\
                   db.execute(\"UPDATE sessions SET options = json_set(options, '$.model', ?) WHERE id = ?\", sys.argv[2:])\n\
                   db.commit()";
    let done = std::process::Command::new("python3")
        .args(["-c", program])
        .arg(daemon.database())
        .args([model, id])
        .status();
    assert!(done.unwrap().success());
}

#[tokio::test]
async fn a_stored_value_that_no_process_starts_with_holds_up_no_start() {
    let mut daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({ "model": "opus" })).await;
    let thinking = json!({ "max_thinking_tokens": 8000, "display": "omitted" });
    rest.put(&path(&id, "thinking"), thinking).await.expect(200);
    park(&rest, &id).await;
    assert!(daemon.stop().success());
    store_model(&daemon, &id, "a\nb");
    let file = daemon.data_dir().join("sessions").join(&id).join("choices.json");
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.contains("omitted"), "{kept}");
    fs::write(&file, kept.replace("omitted", "weird")).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    rest.ask(&id, "second").await;
    let given = argv(&daemon);
    let is_given = |argv: &[String], flag: &str| argv.iter().any(|arg| arg.starts_with(flag));
    assert!(!is_given(&given, "--model"), "{given:?}");
    assert!(!is_given(&given, "--thinking-display"), "{given:?}");
    let records = records(&rest, &id).await;
    let notices = of_type(&records, "daemon", "notice");
    let notice = notices.iter().find(|it| it["code"] == "options_left_out");
    let detail = notice.expect("a notice")["detail"].as_str().unwrap();
    assert!(
        detail.contains("model") && detail.contains("display of thinking"),
        "{detail}"
    );

    // The way out that it names.
    rest.put(&path(&id, "model"), json!({ "model": "haiku" }))
        .await
        .expect(200);
    let thinking = json!({ "max_thinking_tokens": 8000, "display": "omitted" });
    rest.put(&path(&id, "thinking"), thinking).await.expect(200);
    park(&rest, &id).await;
    rest.ask(&id, "third").await;
    let given = argv(&daemon);
    assert!(is_given(&given, "--model=haiku"), "{given:?}");
    assert!(is_given(&given, "--thinking-display=omitted"), "{given:?}");
}

/// The next daemon gives the process what was set, and knows no more than what is written down.
#[tokio::test]
async fn directories_stay_left_out_when_the_daemon_dies_before_it_gives_the_settings() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let (cwd, extra, stays) = (root.join("in"), root.join("extra"), root.join("stays"));
    for dir in [&cwd, &extra, &stays] {
        fs::create_dir(dir).unwrap();
    }
    let plan = json!({
        "record_stdin": daemon.home().join("stdin"),
        "starts": [{}, { "controls": { "initialize": { "wait_file": gate } } }],
    });
    fs::write(cwd.join(".fake-claude.json"), plan.to_string()).unwrap();
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    rest.ask(&id, "first").await;
    let adding = |directories: Value| json!({ "permissions": { "additionalDirectories": directories } });
    set(&rest, &id, adding(json!([extra, stays]))).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::remove_dir(&extra).unwrap();
    std::os::unix::fs::symlink(daemon.work_dir("outside"), &extra).unwrap();
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    wait_for("the process is asked", PATIENCE, async || {
        (heard(&daemon) == ["initialize"]).then_some(())
    })
    .await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    fs::write(&gate, "").unwrap();
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", "second"]);
    let given = last_request(&daemon, "apply_flag_settings")["settings"].clone();
    assert_eq!(given, adding(json!([stays])));
}

/// The daemon ends, somebody works on its files, and it starts again.
async fn next_daemon(daemon: &mut TestDaemon, meanwhile: impl FnOnce()) {
    assert!(daemon.stop().success());
    meanwhile();
    daemon.start().await;
}

/// The notices that a session's file is gone.
async fn told_of_a_lost_file(rest: &Rest, id: &str) -> usize {
    let records = records(rest, id).await;
    let notices = of_type(&records, "daemon", "notice");
    notices
        .iter()
        .filter(|it| it["code"] == "choices_missing")
        .count()
}

/// A `deny` may have been in it.
#[tokio::test]
async fn choices_whose_file_is_gone_are_an_error_until_a_fresh_start() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    let file = daemon.data_dir().join("sessions").join(&id).join("choices.json");
    let thinking = json!({ "max_thinking_tokens": 8000 });
    // In the process in which something was set, by a request that the journal has as it is too; and in one that was given it.
    for (choice, is_given) in [("settings", false), ("thinking", false), ("settings", true)] {
        let rest = daemon.rest();
        match choice {
            "thinking" => drop(rest.put(&path(&id, choice), thinking.clone()).await.expect(200)),
            _ => set(&rest, &id, deny()).await,
        }
        if is_given {
            park(&rest, &id).await;
            rest.ask(&id, "with it").await;
        }
        park(&rest, &id).await;
        let before = heard(&daemon);
        next_daemon(&mut daemon, || fs::remove_file(&file).unwrap()).await;
        // Also when a daemon before has refused it.
        for _ in 0..2 {
            let rest = daemon.rest();
            for (route, body) in [
                ("messages", json!({ "text": "without it" })),
                ("resume", json!({})),
                ("fork", json!({})),
            ] {
                let refused = rest.post(&path(&id, route), body).await;
                let detail = refused.body["detail"].as_str().unwrap_or_default();
                assert!(detail.contains("choices.json"), "{:#}", refused.body);
                assert_eq!(refused.problem(409), "choices_missing", "{choice}: {route}");
            }
            assert_eq!(rest.session(&id).await["state"], "parked");
            next_daemon(&mut daemon, || {}).await;
        }
        assert_eq!(heard(&daemon), before, "no process was started");
        let rest = daemon.rest();
        rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
            .await
            .expect(200);
        rest.ask(&id, "without it").await;
        assert_eq!(heard(&daemon), ["initialize", "without it"]);
    }
    // No file is missing where everything was taken back.
    let rest = daemon.rest();
    set(&rest, &id, json!({ "a": 1 })).await;
    set(&rest, &id, json!({ "a": null })).await;
    park(&rest, &id).await;
    next_daemon(&mut daemon, || {}).await;
    let rest = daemon.rest();
    rest.ask(&id, "with nothing").await;
    assert_eq!(told_of_a_lost_file(&rest, &id).await, 0);
}

/// The person has agreed to begin without it.
#[tokio::test]
async fn a_file_that_was_put_aside_is_not_missed_by_a_start_that_comes_later() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    let folder = daemon.data_dir().join("sessions").join(&id);
    set(&daemon.rest(), &id, deny()).await;
    daemon.rest().lifecycle(&id, "stop", json!({})).await.expect(200);
    next_daemon(&mut daemon, || {
        fs::write(folder.join("choices.json"), "{").unwrap();
    })
    .await;
    let rest = daemon.rest();
    let cwd = std::path::PathBuf::from(rest.session(&id).await["cwd"].as_str().unwrap());
    let away = cwd.with_file_name("away");
    fs::rename(&cwd, &away).unwrap();
    let refused = rest.lifecycle(&id, "resume", json!({ "fresh": true })).await;
    assert_eq!(refused.problem(422), "cwd_missing");
    assert!(folder.join("choices.json.aside").exists());
    next_daemon(&mut daemon, || fs::rename(&away, &cwd).unwrap()).await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "second"]);
    assert_eq!(told_of_a_lost_file(&rest, &id).await, 0);
}
