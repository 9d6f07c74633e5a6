//! Sessions are made, edited and deleted as people ask.

use super::*;

#[tokio::test]
async fn a_new_session_reads_back_as_it_was_given() {
    let test = TestStore::new().await;
    let parent = test.session().await;
    let mut given = new_session();
    given.cwd = "/häuser/ü".to_owned();
    given.title = Some("a 'title'".to_owned());
    given.tag = Some("tag".to_owned());
    given.labels = [
        ("quo\"te".to_owned(), "va'lue".to_owned()),
        ("empty".to_owned(), String::new()),
    ]
    .into();
    given.options = r#"{"model":"\ud83d", "z":1,"a":2}"#.to_owned();
    given.parent = Some(parent);
    given.forked_from = Some(CliSessionId::new());
    given.forked_at = Some(*SessionId::new().as_uuid());
    test.store.insert_session(given.clone()).await.unwrap();

    let row = test.row(given.id).await;
    assert_eq!(
        row,
        SessionRow {
            id: given.id,
            cwd: given.cwd.clone(),
            title: given.title.clone(),
            tag: given.tag.clone(),
            labels: given.labels.clone(),
            options: given.options.clone(),
            restart: given.restart.clone(),
            parent: given.parent,
            untold: given.title.is_some() || given.tag.is_some(),
            fork_of: given.parent,
            forked_from: given.forked_from,
            forked_at: given.forked_at,
            state: SessionState::Starting,
            state_reason: None,
            parked: None,
            cli_session_id: given.cli_session_id,
            agent: None,
            run_id: None,
            run_seq: Seq::ZERO,
            cli_version: None,
            model: None,
            permission_mode: None,
            created_at: at(0),
            updated_at: at(0),
            projected_seq: Seq::ZERO,
            turns: 0,
            cost_usd: Usd::ZERO,
            turns_with_unknown_cost: 0,
            usage: TokenUsage::default(),
            first_prompt: None,
            last_prompt: None,
            last_line: None,
            last_turn_seq: Seq::ZERO,
            seen_seq: Seq::ZERO,
            queued_prompts: 0,
            put_off: None,
            started_options: None,
            mode_of_options: false,
            resume_at: None,
            revision: 1,
            rate_limits: Vec::new(),
        }
    );
    let again = test.store.insert_session(given.clone()).await;
    assert!(matches!(again, Err(StoreError::SessionExists(id)) if id == given.id));

    let mut orphan = new_session();
    orphan.parent = Some(SessionId::new());
    let refused = test.store.insert_session(orphan.clone()).await;
    assert!(matches!(refused, Err(StoreError::UnknownSession(id)) if Some(id) == orphan.parent));
    assert_eq!(test.store.session(orphan.id).await.unwrap(), None);
}

#[tokio::test]
async fn facts_of_a_deleted_session_do_not_disturb_the_others() {
    let test = TestStore::new().await;
    let (gone, stays) = (test.session().await, test.session().await);
    assert!(test.store.delete_session(gone).await.unwrap());
    let late = projection(gone, 1, vec![ended(turn(1, Some(1.0)))]);
    let other = projection(stays, 1, vec![ended(turn(1, Some(0.5)))]);
    test.store.apply(vec![late, other]).await.unwrap();
    assert_eq!(test.store.session(gone).await.unwrap(), None);
    assert_eq!(test.row(stays).await.cost_usd, usd(0.5));
}

#[tokio::test]
async fn deleting_takes_everything_but_the_forks() {
    let test = TestStore::new().await;
    let parent = test
        .session_with(|session| session.labels = [("k".to_owned(), "v".to_owned())].into())
        .await;
    let fork = test.session_with(|session| session.parent = Some(parent)).await;
    let (parent_cli, fork_cli) = (
        test.row(parent).await.cli_session_id,
        test.row(fork).await.cli_session_id,
    );
    for (id, cli) in [(parent, parent_cli), (fork, fork_cli)] {
        let mut with_model = turn(1, Some(0.1));
        with_model.models = vec![ModelUsage {
            model: "m".to_owned(),
            tokens: tokens(1, 1, 1, 1),
            cost_usd: None,
            ..ModelUsage::default()
        }];
        let facts = vec![
            Fact::RunStarted {
                id: RunId::new(),
                mode: StartMode::New,
                agent: None,
                resume_at: None,
                seq: Seq::new(1),
                at: at(1),
            },
            prompt(*SessionId::new().as_uuid(), PromptState::Sent, Some("p"), 2),
            Fact::ApprovalOpened(Box::new(approval(id, 3, "{}"))),
            Fact::CliTotal {
                cli_session: cli,
                total: CliTotals {
                    cost_usd: Some(usd(0.1)),
                    models: with_model.models.clone(),
                },
            },
            ended(with_model),
        ];
        test.project(id, 4, facts).await;
    }

    assert!(test.store.delete_session(parent).await.unwrap());
    assert!(!test.store.delete_session(parent).await.unwrap());
    let left = test.row(fork).await;
    assert_eq!(left.parent, None);
    assert!(
        test.store.cli_totals(parent_cli).await.unwrap().is_some(),
        "the fork's first turn is charged by it"
    );

    assert!(test.store.delete_session(fork).await.unwrap());
    assert_eq!(test.store.cli_totals(fork_cli).await.unwrap(), None);
    let left = test
        .number(
            "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM session_labels) + (SELECT count(*) FROM runs)
                + (SELECT count(*) FROM cli_sessions) + (SELECT count(*) FROM turns) + (SELECT count(*) FROM turn_models)
                + (SELECT count(*) FROM prompts) + (SELECT count(*) FROM approvals)",
        )
        .await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn edits_change_what_they_name_and_nothing_else() {
    let test = TestStore::new().await;
    let label = |value: &str| [("k".to_owned(), value.to_owned())].into();
    let id = test
        .session_with(|session| {
            session.title = Some("old".to_owned());
            session.labels = label("old");
        })
        .await;
    let patch = |title: Option<Option<&str>>| MetaPatch {
        title: title.map(|title| title.map(str::to_owned)),
        ..MetaPatch::default()
    };

    test.store
        .update_meta(id, patch(Some(Some("new"))), at(5))
        .await
        .unwrap();
    let row = test.row(id).await;
    assert_eq!((row.title.as_deref(), row.updated_at), (Some("new"), at(5)));
    assert_eq!(row.labels, label("old"));

    test.store
        .update_meta(id, patch(Some(Some("new"))), at(6))
        .await
        .unwrap();
    test.store.update_meta(id, patch(None), at(7)).await.unwrap();
    assert_eq!(test.row(id).await.updated_at, at(5), "nothing changed");

    let emptied = MetaPatch {
        title: Some(None),
        tag: Some(Some("t".to_owned())),
        labels: Some(label("new")),
        ..MetaPatch::default()
    };
    test.store.update_meta(id, emptied, at(8)).await.unwrap();
    let row = test.row(id).await;
    assert_eq!((row.title, row.tag.as_deref()), (None, Some("t")));
    assert_eq!((row.labels, row.updated_at), (label("new"), at(8)));

    let missing = SessionId::new();
    let refused = test.store.update_meta(missing, patch(Some(None)), at(9)).await;
    assert!(matches!(refused, Err(StoreError::UnknownSession(id)) if id == missing));
}
