//! The content of journals reaches the tables: once, whole, and only while the session is there.

use super::*;
use crate::domain::Chosen;

#[tokio::test]
async fn every_fact_shows_up_where_a_reader_looks_for_it() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let (run, uuid, new_cli_id) = (RunId::new(), *SessionId::new().as_uuid(), CliSessionId::new());
    let first_cli_id = test.row(id).await.cli_session_id;
    let mut finished = turn(1, Some(0.25));
    finished.run_id = run;
    finished.prompts = vec![uuid];
    finished.origin = Some("task-notification".to_owned());
    finished.is_error = true;
    finished.terminal_reason = Some("completed".to_owned());
    finished.num_turns = Some(3);
    finished.duration_ms = Some(1_234);
    finished.duration_api_ms = Some(1_000);
    finished.usage = Some(tokens(1, 2, 3, 4));
    finished.models = vec![
        ModelUsage {
            model: "zeta".to_owned(),
            tokens: tokens(1, 1, 1, 1),
            cost_usd: Some(usd(0.25)),
            ..ModelUsage::default()
        },
        ModelUsage {
            model: "alpha".to_owned(),
            tokens: tokens(0, 1, 2, 3),
            cost_usd: None,
            ..ModelUsage::default()
        },
    ];
    let reason = FailReason {
        code: "cli_killed".to_owned(),
        detail: "last words: \"ü\"".to_owned(),
    };
    let exit = RunExit {
        code: None,
        signal: Some(9),
        intent: StopIntent::Orphaned,
        killed: true,
        stderr_tail: "last words".to_owned(),
        spawn_error: None,
        unwritten_lines: 2,
        stop_steps: Vec::new(),
    };
    let facts = vec![
        Fact::RunStarted {
            id: run,
            mode: StartMode::Resume,
            agent: None,
            resume_at: None,
            seq: Seq::new(3),
            at: at(1),
        },
        Fact::RunReady {
            id: run,
            cli_version: Some("2.1.0".to_owned()),
            at: at(2),
        },
        Fact::CliSession {
            id: first_cli_id,
            at: at(3),
        },
        Fact::CliSession {
            id: new_cli_id,
            at: at(4),
        },
        Fact::CliSession {
            id: new_cli_id,
            at: at(5),
        },
        Fact::Model("zeta".to_owned()),
        Fact::PermissionMode("plan".to_owned()),
        prompt(uuid, PromptState::Sent, Some("hello"), 6),
        prompt(
            *SessionId::new().as_uuid(),
            PromptState::Sent,
            Some("and then"),
            7,
        ),
        prompt(uuid, PromptState::Completed, None, 8),
        ended(finished.clone()),
        Fact::RunExited {
            id: run,
            exit: exit.clone(),
            at: at(9),
        },
        Fact::State {
            state: SessionState::Failed,
            reason: Some(reason.clone()),
            at: at(10),
        },
    ];
    test.project(id, 12, facts).await;

    let row = test.row(id).await;
    assert_eq!(row.state, SessionState::Failed);
    assert_eq!(row.state_reason, Some(reason));
    assert_eq!(row.cli_session_id, new_cli_id);
    assert_eq!((row.run_id, row.run_seq), (Some(run), Seq::new(3)));
    assert_eq!(row.cli_version.as_deref(), Some("2.1.0"));
    assert_eq!(row.model.as_deref(), Some("zeta"));
    assert_eq!(row.permission_mode.as_deref(), Some("plan"));
    assert_eq!(row.projected_seq, Seq::new(12));
    assert_eq!(row.updated_at, at(8), "the last thing that was work");
    assert_eq!((row.turns, row.cost_usd), (1, usd(0.25)));
    assert_eq!(row.usage, tokens(1, 2, 3, 4));
    assert_eq!(row.first_prompt.as_deref(), Some("hello"));
    assert_eq!(row.last_prompt.as_deref(), Some("and then"));

    assert_eq!(test.store.turn(id, 1).await.unwrap(), Some(finished.clone()));
    assert_eq!(test.store.turn(id, 2).await.unwrap(), None);
    let turns = test.store.turns(id, PageRequest::default()).await.unwrap();
    assert_eq!(turns.items, [finished]);
    assert_eq!(turns.next, None);

    let runs = test.store.runs(id).await.unwrap();
    let expected = RunRow {
        id: run,
        session: id,
        mode: StartMode::Resume,
        started_seq: Seq::new(3),
        started_at: at(1),
        ready_at: Some(at(2)),
        cli_version: Some("2.1.0".to_owned()),
        ended: Some(RunEnd { at: at(9), exit }),
    };
    assert_eq!(runs, [expected]);

    let seen = test.store.prompt(id, uuid).await.unwrap().unwrap();
    let expected = PromptRow {
        uuid,
        state: PromptState::Completed,
        text: Some("hello".to_owned()),
        seq: Seq::new(6),
        at: at(6),
        state_at: at(8),
    };
    assert_eq!(seen, expected);

    let spans = test.store.cli_session_history(id).await.unwrap();
    let spans: Vec<_> = spans.into_iter().map(|span| (span.id, span.from)).collect();
    assert_eq!(spans, [(first_cli_id, at(0)), (new_cli_id, at(4))]);
}

#[tokio::test]
async fn reading_a_journal_again_changes_nothing() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let other = test.session().await;
    let uuid = *SessionId::new().as_uuid();
    let journal = vec![
        projection(
            id,
            5,
            vec![
                prompt(uuid, PromptState::Sent, Some("one"), 5),
                ended(turn(1, Some(0.1))),
            ],
        ),
        projection(other, 2, vec![ended(turn(1, Some(1.0)))]),
        projection(
            id,
            9,
            vec![
                prompt(uuid, PromptState::Completed, None, 9),
                ended(turn(2, Some(0.2))),
            ],
        ),
    ];
    test.store.apply(journal.clone()).await.unwrap();
    let (before, before_other) = (test.row(id).await, test.row(other).await);
    assert_eq!(before.cost_usd, usd(0.3));

    test.store.apply(journal.clone()).await.unwrap();
    for projection in journal.into_iter().rev() {
        test.store.apply(vec![projection]).await.unwrap();
    }
    assert_eq!(test.row(id).await, before);
    assert_eq!(test.row(other).await, before_other);
    assert_eq!(test.number("SELECT count(*) FROM turns").await, 3);
    let seen = test.store.prompt(id, uuid).await.unwrap().unwrap();
    assert_eq!(
        seen.state,
        PromptState::Completed,
        "an older state does not come back"
    );
}

#[tokio::test]
async fn what_was_answered_is_on_disk_when_the_daemon_dies() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let journal: Vec<_> = (1..=20)
        .map(|number| projection(id, number, vec![ended(turn(number, Some(0.01)))]))
        .collect();
    for (applied, projection) in (1_u64..).zip(&journal) {
        test.store.apply(vec![projection.clone()]).await.unwrap();
        if applied % 5 != 0 {
            continue;
        }
        // The files that a killed daemon leaves: as they are, never closed.
        let crashed = tempfile::tempdir().unwrap();
        for file in ["trunkline.db", "trunkline.db-wal"] {
            std::fs::copy(test.dir.path().join(file), crashed.path().join(file)).unwrap();
        }
        let store = Store::open(&crashed.path().join("trunkline.db")).await.unwrap();
        let survived = store.session(id).await.unwrap().unwrap();
        assert_eq!(survived.projected_seq, Seq::new(applied));
        assert_eq!(survived.turns, applied);

        store.apply(journal.clone()).await.unwrap();
        let caught_up = store.session(id).await.unwrap().unwrap();
        assert_eq!((caught_up.turns, caught_up.cost_usd), (20, usd(0.2)));
        store.close().await;
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_without_closing_loses_nothing() {
    let TestStore { dir, store } = TestStore::new().await;
    let session = new_session();
    let id = session.id;
    store.insert_session(session).await.unwrap();
    store
        .apply(vec![projection(id, 1, vec![ended(turn(1, Some(0.5)))])])
        .await
        .unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("trunkline.db")).await.unwrap();
    assert_eq!(store.session(id).await.unwrap().unwrap().cost_usd, usd(0.5));
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_undo_its_write() {
    let test = TestStore::new().await;
    let id = test.session().await;
    for number in 1..=50 {
        let given_up = test.store.apply(vec![projection(
            id,
            number,
            vec![ended(turn(number, Some(0.01)))],
        )]);
        tokio::select! {
            biased;
            _ = given_up => {}
            () = std::future::ready(()) => {}
        }
    }
    // The queue is in order, so the answer to a later request means that the earlier ones were written.
    test.store.ping().await.unwrap();
    let row = test.row(id).await;
    assert_eq!((row.turns, row.cost_usd), (50, usd(0.5)));
}

#[tokio::test]
async fn a_prompt_is_kept_by_its_start_in_whole_characters() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let long = "ü🙂".repeat(5_000);
    test.project(
        id,
        1,
        vec![prompt(
            *SessionId::new().as_uuid(),
            PromptState::Sent,
            Some(&long),
            1,
        )],
    )
    .await;
    assert_eq!(
        test.row(id).await.last_prompt,
        Some("ü🙂".repeat(PROMPT_TEXT_CHARS / 2))
    );
}

#[tokio::test]
async fn prompts_can_be_asked_for_by_state() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let states = [
        PromptState::Completed,
        PromptState::Queued,
        PromptState::Started,
        PromptState::Queued,
    ];
    for (seq, state) in (1_u64..).zip(states) {
        test.project(
            id,
            seq,
            vec![prompt(*SessionId::new().as_uuid(), state, Some("p"), seq)],
        )
        .await;
    }
    let seqs = async |states: &[PromptState]| {
        let prompts = test.store.prompts(id, states).await.unwrap();
        prompts.iter().map(|prompt| prompt.seq.get()).collect::<Vec<_>>()
    };
    assert_eq!(seqs(&[]).await, [1, 2, 3, 4]);
    assert_eq!(seqs(&[PromptState::Queued]).await, [2, 4]);
    assert_eq!(
        seqs(&[PromptState::Started, PromptState::Queued]).await,
        [2, 3, 4]
    );
    assert!(seqs(&[PromptState::Cancelled]).await.is_empty());
}

#[tokio::test]
async fn an_approval_keeps_the_bytes_of_both_sides_and_its_first_end() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let request = r#"{"subtype":"can_use_tool", "input":{"text":"\ud83d","b":1.0,"a":1e2}}"#;
    let asked = approval(id, 7, request);
    test.project(id, 7, vec![Fact::ApprovalOpened(Box::new(asked.clone()))])
        .await;
    let pending = test.store.approval(asked.id).await.unwrap().unwrap();
    assert_eq!(pending.state(), ApprovalState::Pending);
    assert_eq!(pending.session, id);
    assert_eq!(pending.approval.request.get(), request);
    assert_eq!(pending.approval.request_id, "request-7");
    assert_eq!(pending.approval.subject, "Bash");

    let close = |state, by: &str, seconds| Fact::ApprovalClosed {
        id: asked.id,
        resolution: Resolution {
            state,
            how: ApprovalHow::Person,
            by: by.to_owned(),
            response: Some(raw(r#"{"behavior": "allow"}"#)),
            input_changed: true,
            permissions_updated: false,
            ran_sha256: None,
            at: at(seconds),
        },
    };
    test.project(id, 8, vec![close(ApprovalState::Allowed, "rest", 20)])
        .await;
    test.project(id, 9, vec![close(ApprovalState::Abandoned, "daemon", 30)])
        .await;
    let decided = test.store.approval(asked.id).await.unwrap().unwrap();
    assert_eq!(decided.state(), ApprovalState::Allowed);
    let resolution = decided.resolution.unwrap();
    assert_eq!((resolution.by.as_str(), resolution.at), ("rest", at(20)));
    assert_eq!(
        (
            resolution.how,
            resolution.input_changed,
            resolution.permissions_updated
        ),
        (ApprovalHow::Person, true, false)
    );
    assert_eq!(decided.approval.input_sha256.as_deref(), Some("00ff"));
    assert_eq!(resolution.response.unwrap().get(), r#"{"behavior": "allow"}"#);
    assert_eq!(
        test.row(id).await.updated_at,
        at(20),
        "a decision is activity, the end of a process is not"
    );
}

#[tokio::test]
async fn sessions_that_had_a_process_are_found_at_start() {
    let test = TestStore::new().await;
    let mut live = Vec::new();
    for name in [
        "starting", "idle", "busy", "waiting", "stopping", "stopped", "failed", "parked",
    ] {
        let wanted = SessionState::parse(name).unwrap();
        let id = test.session().await;
        test.project(id, 1, vec![state(wanted, 1)]).await;
        if wanted.is_live() {
            live.push(id);
        }
    }
    let test = test.reopen().await;
    let rows = test.store.unsettled_sessions().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), live);
}

#[tokio::test]
async fn a_reason_goes_when_the_session_lives_again() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let failed = Fact::State {
        state: SessionState::Failed,
        reason: Some(FailReason {
            code: "cli_exited".to_owned(),
            detail: String::new(),
        }),
        at: at(1),
    };
    test.project(id, 1, vec![failed]).await;
    assert!(test.row(id).await.state_reason.is_some());
    test.project(id, 2, vec![state(SessionState::Starting, 2)]).await;
    assert_eq!(test.row(id).await.state_reason, None);
}

#[tokio::test]
async fn a_chosen_model_joins_the_options_and_leaves_the_rest_alone() {
    let test = TestStore::new().await;
    let rest = r#""text":"\ud83d ü","big":12345678901234567890,"cost":1e-7,"list":[{"model":"inner"}]"#;
    let id = test
        .session_with(|session| session.options = format!(r#"{{"model":"old",{rest}}}"#))
        .await;
    test.project(
        id,
        1,
        vec![Fact::Chosen(Chosen::Model(Some("new \"one\"".to_owned())))],
    )
    .await;
    assert_eq!(
        test.row(id).await.options,
        format!(r#"{{"model":"new \"one\"",{rest}}}"#)
    );
    test.project(id, 2, vec![Fact::Chosen(Chosen::Model(None))]).await;
    assert_eq!(test.row(id).await.options, format!("{{{rest}}}"));

    let broken = test
        .session_with(|session| session.options = "no JSON".to_owned())
        .await;
    let facts = vec![
        Fact::Chosen(Chosen::Model(Some("m".to_owned()))),
        ended(turn(1, Some(0.1))),
    ];
    test.project(broken, 1, facts).await;
    let row = test.row(broken).await;
    assert_eq!((row.options.as_str(), row.cost_usd), ("no JSON", usd(0.1)));
}

#[tokio::test]
async fn a_session_that_the_cli_renamed_has_that_title() {
    let test = TestStore::new().await;
    let (id, other) = (test.session().await, test.session().await);
    test.project(id, 1, vec![Fact::Renamed("named".to_owned())]).await;
    assert_eq!(test.row(id).await.title.as_deref(), Some("named"));
    assert_eq!(test.row(other).await.title, None);
}

#[tokio::test]
async fn the_turn_that_answered_a_prompt_is_found() {
    let test = TestStore::new().await;
    let (id, other) = (test.session().await, test.session().await);
    let prompt = *SessionId::new().as_uuid();
    let answered = TurnEnd {
        prompts: vec![*SessionId::new().as_uuid(), prompt],
        ..turn(2, Some(0.1))
    };
    test.project(
        id,
        9,
        vec![
            ended(turn(1, None)),
            ended(answered.clone()),
            ended(turn(3, None)),
        ],
    )
    .await;
    test.project(other, 9, vec![ended(turn(1, None))]).await;

    let found = test.store.turn_of_prompt(id, prompt).await.unwrap();
    assert_eq!(found.map(|turn| turn.prompts), Some(answered.prompts));
    assert_eq!(test.store.turn_of_prompt(other, prompt).await.unwrap(), None);
    let unknown = *SessionId::new().as_uuid();
    assert_eq!(test.store.turn_of_prompt(id, unknown).await.unwrap(), None);
}
