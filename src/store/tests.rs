//! Tests of the store on real files, and what they share.

mod edits;
mod files;
mod idempotency;
mod lists;
mod load;
mod logins;
mod money;
mod plans;
mod projection;
mod rules;
mod session_files;
mod webhooks;

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::domain::{
    AgentKind, Approval, ApprovalHow, ApprovalKind, ApprovalState, CliSessionId, Fact, FailReason,
    ModelUsage, Resolution, RunExit, RunId, Seq, SessionState, StartMode, StopIntent, TokenUsage, Usd,
};

/// A store in a directory of its own.
struct TestStore {
    dir: TempDir,
    store: Store,
}

impl TestStore {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("trunkline.db")).await.unwrap();
        Self { dir, store }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("trunkline.db")
    }

    /// Closes the store and opens the same file again.
    async fn reopen(self) -> Self {
        self.store.close().await;
        let store = Store::open(&self.path()).await.unwrap();
        Self { dir: self.dir, store }
    }

    /// Adds a session that differs from [`new_session`] as `change` says.
    async fn session_with(&self, change: impl FnOnce(&mut NewSession)) -> SessionId {
        let mut session = new_session();
        change(&mut session);
        let id = session.id;
        self.store.insert_session(session).await.unwrap();
        id
    }

    async fn session(&self) -> SessionId {
        self.session_with(|_| ()).await
    }

    async fn row(&self, id: SessionId) -> SessionRow {
        self.store.session(id).await.unwrap().unwrap()
    }

    /// Applies facts as the records up to `seq`.
    async fn project(&self, session: SessionId, seq: u64, facts: Vec<Fact>) {
        let projection = projection(session, seq, facts);
        self.store.apply(vec![projection]).await.unwrap();
    }

    /// One number that `sql` selects.
    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&self.store.readers)
            .await
            .unwrap()
    }
}

fn new_session() -> NewSession {
    NewSession {
        id: SessionId::new(),
        cwd: "/work".to_owned(),
        title: None,
        tag: None,
        labels: [].into(),
        options: "{}".to_owned(),
        rules: Vec::new(),
        restart: None,
        parent: None,
        forked_from: None,
        forked_at: None,
        agent: None,
        cli_session_id: CliSessionId::new(),
        created_at: at(0),
        state: SessionState::Starting,
    }
}

/// `seconds` after a fixed instant, 2026-01-02T03:04:05Z.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros((1_767_323_045 + seconds) * 1_000_000)
}

fn projection(session: SessionId, seq: u64, facts: Vec<Fact>) -> Projection {
    Projection {
        session,
        seq: Seq::new(seq),
        facts,
    }
}

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

fn tokens(input: u64, output: u64, cache_read: u64, cache_creation: u64) -> TokenUsage {
    TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_input_tokens: cache_read,
        cache_creation_input_tokens: cache_creation,
        ..TokenUsage::default()
    }
}

/// A turn with little to say.
fn turn(number: u64, cost: Option<f64>) -> TurnEnd {
    TurnEnd {
        number,
        run_id: RunId::new(),
        first_seq: Seq::new(number * 10),
        last_seq: Seq::new(number * 10 + 9),
        started_at: at(0),
        ended_at: at(1),
        prompts: Vec::new(),
        origin: None,
        subtype: "success".to_owned(),
        is_error: false,
        outcome: "success".to_owned(),
        terminal_reason: None,
        num_turns: None,
        duration_ms: None,
        duration_api_ms: None,
        service_tier: None,
        cost_usd: cost.map(usd),
        usage: None,
        models: Vec::new(),
    }
}

fn ended(turn: TurnEnd) -> Fact {
    Fact::TurnEnded(Box::new(turn))
}

fn state(state: SessionState, seconds: i64) -> Fact {
    Fact::State {
        state,
        reason: None,
        at: at(seconds),
    }
}

fn prompt(uuid: PromptUuid, state: PromptState, text: Option<&str>, seq: u64) -> Fact {
    Fact::Prompt {
        uuid,
        state,
        text: text.map(str::to_owned),
        seq: Seq::new(seq),
        at: at(i64::try_from(seq).unwrap()),
    }
}

fn approval(session: SessionId, seq: u64, request: &str) -> Approval {
    Approval {
        id: ApprovalId::of_record(session, Seq::new(seq)),
        run_id: RunId::new(),
        seq: Seq::new(seq),
        request_id: format!("request-{seq}"),
        kind: ApprovalKind::Tool,
        subject: "Bash".to_owned(),
        request: raw(request),
        left_out: None,
        input_sha256: Some("00ff".to_owned()),
        requested_at: at(i64::try_from(seq).unwrap()),
        deadline: None,
        rule: None,
    }
}

fn raw(json: &str) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(json.to_owned()).unwrap()
}

fn page(limit: u64, cursor: Option<String>) -> PageRequest {
    PageRequest::new(limit, cursor).unwrap()
}

/// Follows a list to its end in pages of `limit`, and checks that no page is too long or empty.
async fn all_pages<T, F>(limit: u64, list: impl Fn(PageRequest) -> F) -> Vec<T>
where
    F: Future<Output = Result<Page<T>, StoreError>>,
{
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let part = list(page(limit, cursor)).await.unwrap();
        assert!(part.items.len() as u64 <= limit);
        assert!(part.next.is_none() || part.items.len() as u64 == limit);
        items.extend(part.items);
        assert!(items.len() < 10_000, "the list does not end");
        cursor = part.next;
        if cursor.is_none() {
            return items;
        }
    }
}
