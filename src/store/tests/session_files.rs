//! Owns the tests of the files of sessions: each has what no journal says, and is there before its row is changed.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

use super::*;
use crate::{domain::QueuedPrompt, store::session_file::JsonText};

impl TestStore {
    fn session_dir(&self, id: SessionId) -> PathBuf {
        self.dir.path().join("sessions").join(id.to_string())
    }

    /// Adds a session that has a folder, as all have but those of the other tests.
    async fn with_folder(&self, change: impl FnOnce(&mut NewSession)) -> SessionId {
        let mut session = new_session();
        change(&mut session);
        fs::create_dir_all(self.session_dir(session.id)).unwrap();
        let id = session.id;
        self.store.insert_session(session).await.unwrap();
        id
    }

    fn file(&self, id: SessionId) -> SessionFile {
        SessionFile::read(&self.session_dir(id)).unwrap().unwrap()
    }
}

#[tokio::test]
async fn every_column_of_a_session_is_in_its_file_or_in_its_journal() {
    let in_file = "agent created_at cwd first_prompt fork_of forked_at forked_from id mode_of_options options parent_id put_off queued_prompts restart \
                   revision seen_seq started_options tag title untold updated_at";
    let in_journal = "cli_session_id cli_version last_line last_prompt last_turn_seq model parked permission_mode projected_seq \
                      resume_at run_id run_seq state state_reason";
    // The file keeps them for the case that records are lost.
    let in_both = "cache_creation_1h_tokens cache_creation_5m_tokens cache_creation_tokens cache_read_tokens cost_nanos \
                   input_tokens output_tokens turns unknown_cost_turns web_searches";
    let of_session = "approvals cli_sessions prompts queued_prompts rate_limits runs session_labels session_rules tasks \
                      todos turn_models turns webhook_attention webhook_deliveries";
    let it = TestStore::new().await;
    let columns: BTreeSet<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info('sessions')")
        .fetch_all(&it.store.readers)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let decided = [in_file, in_journal, in_both].join(" ");
    let decided: BTreeSet<String> = decided.split_whitespace().map(str::to_owned).collect();
    assert_eq!(
        columns, decided,
        "decide whether the file of a session has the new column"
    );
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT t.name FROM sqlite_schema t, pragma_table_info(t.name) c
         WHERE t.type = 'table' AND c.name = 'session_id' AND t.name <> 'idempotency_keys' ORDER BY t.name",
    )
    .fetch_all(&it.store.readers)
    .await
    .unwrap();
    assert_eq!(
        tables.join(" "),
        of_session.split_whitespace().collect::<Vec<_>>().join(" ")
    );
}

#[tokio::test]
async fn each_change_that_no_journal_has_is_in_the_file() {
    let it = TestStore::new().await;
    let labels = [("team".to_owned(), "a".to_owned())];
    let id = it
        .with_folder(|session| {
            session.title = Some("first".to_owned());
            session.labels = labels.clone().into();
            session.options = r#"{"env":{"KEY":"secret"}}"#.to_owned();
            session.restart = Some(r#"{"mode":"never"}"#.to_owned());
        })
        .await;
    let file = it.file(id);
    assert_eq!((file.revision, file.as_of_seq), (1, Seq::ZERO));
    assert_eq!(file.title.as_deref(), Some("first"));
    assert_eq!(file.labels, labels.into());
    assert_eq!(file.options.0, r#"{"env":{"KEY":"secret"}}"#);
    assert_eq!(file.restart, Some(JsonText(r#"{"mode":"never"}"#.to_owned())));
    assert_eq!(file.conversations.len(), 1);
    let path = SessionFile::path(&it.session_dir(id));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    // Facts are read again in the journal, and write no file.
    it.project(id, 7, vec![state(SessionState::Idle, 1)]).await;
    assert_eq!(it.file(id), file);
    let title = |title: &str| MetaPatch {
        title: Some(Some(title.to_owned())),
        ..MetaPatch::default()
    };
    let store = &it.store;
    store.update_meta(id, title("second"), at(5)).await.unwrap();
    let renamed = it.file(id);
    assert_eq!((renamed.revision, renamed.as_of_seq), (2, Seq::new(7)));
    assert_eq!(
        (renamed.title.as_deref(), renamed.updated_at),
        (Some("second"), at(5))
    );
    store.update_meta(id, title("second"), at(9)).await.unwrap();
    assert_eq!(it.file(id), renamed, "nothing was changed");

    let write = OptionsWrite {
        before: r#"{"env":{"KEY":"secret"}}"#.to_owned(),
        after: r#"{"model":"opus"}"#.to_owned(),
        sets_mode: true,
    };
    store.set_options(id, write.clone()).await.unwrap();
    let file = it.file(id);
    assert_eq!(file.options.0, write.after);
    let started = file.started_options.map(|started| started.0);
    assert_eq!(
        (started, file.mode_of_options),
        (Some(write.before.clone()), true)
    );
    let late = store.set_options(id, write).await.unwrap_err();
    assert!(matches!(late, StoreError::OptionsMoved), "{late}");
    store.set_seen(id, Seq::new(5)).await.unwrap();
    store.set_seen(id, Seq::new(4)).await.unwrap();
    assert_eq!((it.file(id).seen_seq, it.file(id).revision), (Seq::new(5), 4));
    let uuid = PromptUuid::from_u128(7);
    let prompt = QueuedPrompt {
        uuid,
        body: r#"{"text":"later"}"#.to_owned(),
        held: true,
        at: at(6),
    };
    store.queue_prompt(id, prompt).await.unwrap();
    let waiting = it.file(id).queued_prompts;
    assert_eq!((waiting[0].uuid, waiting[0].held), (uuid, true));
    assert_eq!(waiting[0].body.0, r#"{"text":"later"}"#);
    store.unqueue_prompt(id, uuid).await.unwrap();
    assert_eq!(it.file(id).queued_prompts, []);
    store.set_rules(id, Vec::new()).await.unwrap();
    assert_eq!(it.file(id).rules, []);
}

#[tokio::test]
async fn a_row_is_not_changed_when_its_file_cannot_be() {
    let it = TestStore::new().await;
    let id = it.with_folder(|_| ()).await;
    let other = it.with_folder(|_| ()).await;
    // Not even root puts a file into the place of a folder with something in it.
    let draft = it.session_dir(id).join("session.new");
    fs::create_dir_all(draft.join("in-the-way")).unwrap();
    let patch = MetaPatch {
        tag: Some(Some("urgent".to_owned())),
        ..MetaPatch::default()
    };
    let (refused, taken) = tokio::join!(
        it.store.update_meta(id, patch.clone(), at(1)),
        it.store.update_meta(other, patch.clone(), at(1)),
    );
    assert!(
        matches!(refused, Err(StoreError::SessionFile { .. })),
        "{refused:?}"
    );
    taken.unwrap();
    assert_eq!(it.row(id).await.tag, None);
    assert_eq!(it.row(other).await.tag.as_deref(), Some("urgent"));
    assert_eq!(it.file(id).tag, None);
    fs::remove_dir_all(&draft).unwrap();
    it.store.update_meta(id, patch, at(1)).await.unwrap();
    assert_eq!(it.file(id).tag.as_deref(), Some("urgent"));
}

#[tokio::test]
async fn a_fork_keeps_what_it_needs_of_a_parent_that_is_deleted() {
    let it = TestStore::new().await;
    let conversation = CliSessionId::new();
    let parent = it
        .with_folder(|session| session.cli_session_id = conversation)
        .await;
    let total = |cost| Fact::CliTotal {
        cli_session: conversation,
        total: CliTotals {
            cost_usd: Some(usd(cost)),
            models: Vec::new(),
        },
    };
    it.project(parent, 3, vec![total(0.25)]).await;
    let fork = it
        .with_folder(|session| {
            session.parent = Some(parent);
            session.forked_from = Some(conversation);
        })
        .await;
    let known = |file: &SessionFile| file.running_totals[0].totals.cost_usd;
    assert_eq!(known(&it.file(fork)), Some(usd(0.25)));
    it.project(parent, 4, vec![total(0.75)]).await;
    it.store.delete_session(parent).await.unwrap();
    let file = it.file(fork);
    assert_eq!((file.parent, file.forked_from), (None, Some(conversation)));
    assert_eq!(
        (file.fork_of, it.row(fork).await.fork_of),
        (Some(parent), Some(parent))
    );
    assert_eq!(known(&file), Some(usd(0.75)));
}

#[tokio::test]
async fn sums_over_records_that_are_missing_are_in_the_file() {
    let it = TestStore::new().await;
    let id = it.with_folder(|_| ()).await;
    it.project(id, 19, vec![ended(turn(1, Some(0.5)))]).await;
    assert_eq!(it.file(id).totals.turns, 0);
    it.project(id, 20, vec![Fact::RecordsMissing]).await;
    let file = it.file(id);
    assert_eq!((file.totals.turns, file.totals.cost_usd), (1, usd(0.5)));
    assert_eq!(file.as_of_seq, Seq::new(20));
}

#[tokio::test]
async fn a_session_of_a_version_before_is_given_its_file() {
    let it = TestStore::new().await;
    let id = it
        .with_folder(|session| session.tag = Some("old".to_owned()))
        .await;
    fs::remove_file(SessionFile::path(&it.session_dir(id))).unwrap();
    assert!(it.store.save_session_file(id).await.unwrap());
    assert_eq!(it.file(id).tag.as_deref(), Some("old"));
    assert!(!it.store.save_session_file(SessionId::new()).await.unwrap());
}
