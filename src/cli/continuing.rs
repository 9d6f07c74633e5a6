//! Owns `new --continue`: the session of a directory that goes on, or else the agent CLI's own conversation there.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    CliError,
    args::{self, Common},
    client::Client,
    messages::{self, Message},
    output::{Output, note},
    sessions, view,
};
use crate::domain::FailReason;

/// So many sessions of the directory are looked at, the newest first.
const LOOKED_AT: &str = "100";

/// The conversation that goes on.
pub(super) enum Newest {
    /// A session, as the API shows it.
    Session(Value),
    /// A conversation that no session has, by its id.
    Conversation(String),
}

/// Finds what goes on in a directory: the session with the newest activity among those that can, else the newest conversation.
pub(super) async fn newest(client: &Client, cwd: Option<&Path>) -> Result<Newest, CliError> {
    let cwd =
        std::fs::canonicalize(cwd.unwrap_or_else(|| Path::new("."))).context("cannot find the directory")?;
    let path = sessions::absolute(&cwd)?;
    let page = client
        .get(&["v1", "sessions"], &[("cwd", &path), ("limit", LOOKED_AT)])
        .await?;
    let all = view::list(&page, &["items"]);
    let (able, unable): (Vec<_>, Vec<_>) = all.iter().partition(|session| can_go_on(session));
    let newest = able.first().copied();
    let real = able.into_iter().find(|session| !is_simulated(session));
    let chosen = match newest {
        // It may be from before the agent CLI was installed.
        Some(newest) if is_simulated(newest) => match agent_is_simulated(client).await {
            Some(true) => Some(newest),
            Some(false) => real,
            None => real.or(Some(newest)),
        },
        newest => newest,
    };
    if let Some(session) = chosen {
        return Ok(Newest::Session(session.clone()));
    }
    // No second session may have the conversation of one that cannot go on.
    let taken: Vec<&str> = all
        .iter()
        .map(|session| view::text(session, &["cli", "session_id"]))
        .collect();
    if let Some(id) = newest_conversation(&cwd, &taken) {
        return Ok(Newest::Conversation(id));
    }
    // It has no turn yet, and perhaps a message that waits for one.
    match unable.iter().find(|session| was_refused(session)) {
        Some(session) => Ok(Newest::Session((*session).clone())),
        None => Err(nothing(&path, unable.first().copied())),
    }
}

fn nothing(cwd: &str, unable: Option<&Value>) -> CliError {
    match unable.map(|session| view::text(session, &["id"])) {
        None => CliError::not_found(
            format!("the agent CLI had no conversation in {cwd}"),
            Some("leave out --continue to begin one"),
        ),
        Some(id) => CliError::not_found(
            format!("the session {id} cannot go on, and there is no other conversation in {cwd}"),
            Some(&format!(
                "`trunkline show {id}` says why; leave out --continue to begin another"
            )),
        ),
    }
}

/// Whether a message to this session would have a turn, after a resume if it has no process.
fn can_go_on(session: &Value) -> bool {
    let state = view::text(session, &["state"]);
    let ways_out = view::list(session, &["ways_out"]).iter();
    // Nobody is asked for options here.
    let ways_out: Vec<_> = ways_out.filter(|way| *way != "change_options").collect();
    let has_turns = view::number(session, &["turns"]).is_some_and(|turns| turns > 0);
    if ways_out.is_empty() && state == "failed" && !(was_refused(session) && has_turns) {
        return false;
    }
    if !ways_out.is_empty() && !ways_out.iter().any(|way| *way == "resume") {
        return false;
    }
    let dollars = |path: &[&str]| view::at(session, path).and_then(Value::as_f64);
    let limit = dollars(&["options", "max_budget_usd"]);
    if limit.is_some_and(|limit| dollars(&["cost_usd"]).is_some_and(|spent| spent >= limit)) {
        return false;
    }
    let ends_with_process = view::at(session, &["options", "persist_session"]) == Some(&Value::Bool(false));
    !(is_over(state) && ends_with_process && has_turns)
}

/// Whether the agent CLI refused to start for a reason that lasts, as when nobody is logged in. It starts once somebody mended that, and
/// says so again if nobody did.
fn was_refused(session: &Value) -> bool {
    view::text(session, &["state"]) == "failed"
        && view::text(session, &["reason", "code"]) == FailReason::START_FAILED
}

/// Whether a session in this state has no process before somebody resumes it.
fn is_over(state: &str) -> bool {
    matches!(state, "stopped" | "failed")
}

fn is_simulated(session: &Value) -> bool {
    view::at(session, &["simulated"]) == Some(&Value::Bool(true))
}

/// Whether a new session would be simulated; `None` while that cannot be known, as while the CLI is away.
async fn agent_is_simulated(client: &Client) -> Option<bool> {
    let ready = client.readiness().await.ok()?;
    view::at(&ready, &["cli", "simulated"])?.as_bool()
}

/// Goes on with a session as it is.
pub(super) async fn go_on(
    common: &Common,
    client: &Client,
    output: &Output,
    new: &args::New,
    session: &Value,
    prompt: Option<Message>,
) -> Result<String, CliError> {
    let id = view::text(session, &["id"]).to_owned();
    let is_described = new.title.is_some() || new.tag.is_some() || !new.labels.is_empty();
    if is_described || !sessions::options(new)?.is_empty() {
        return Err(CliError::Usage(format!(
            "--continue goes on with the session {id} as it is, and options of a new one do not go with that"
        )));
    }
    note(&format!("going on with the session {id}"));
    if is_over(view::text(session, &["state"])) {
        client
            .post(&["v1", "sessions", &id, "resume"], &json!({}))
            .await?;
    }
    match prompt {
        Some(message) if new.wait => {
            messages::ask(common, output, &id, &message, messages::LONGEST_WAIT).await?;
            return Ok(id);
        }
        Some(message) => {
            client
                .post(&["v1", "sessions", &id, "messages"], &message.body())
                .await?;
        }
        None => {}
    }
    if output.is_json() {
        output.value(&client.get(&["v1", "sessions", &id], &[]).await?)?;
    } else if !new.attach {
        output.line(&id)?;
    }
    Ok(id)
}

/// The id of the newest conversation that the agent CLI had in a directory, and that is not taken.
fn newest_conversation(cwd: &Path, taken: &[&str]) -> Option<String> {
    let of_home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".claude"));
    let root = std::env::var_os("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(of_home);
    let name: String = cwd
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let dir = root.unwrap_or_default().join("projects").join(name);
    let found = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    let conversations = found.filter_map(|entry| {
        let path = entry.path();
        let id = path.file_stem()?.to_str()?.to_owned();
        let is_one = path.extension().is_some_and(|end| end == "jsonl") && id.parse::<uuid::Uuid>().is_ok();
        let is_free = is_one && !taken.contains(&id.as_str());
        is_free.then_some((entry.metadata().ok()?.modified().ok()?, id))
    });
    conversations.max().map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_goes_on_unless_a_resume_of_it_is_refused() {
        let session = |state: &str, ways_out: Value, options: Value| json!({"state": state, "ways_out": ways_out, "options": options, "turns": 2, "cost_usd": 0.03});
        let unkept = || json!({"persist_session": false});
        let failed = |code: &str, turns: u64| {
            let mut session = session("failed", json!([]), json!({}));
            session["reason"] = json!({ "code": code });
            session["turns"] = json!(turns);
            session
        };
        for (session, expected) in [
            (failed("start_failed", 2), true),
            (failed("start_failed", 0), false),
            (failed("budget_spent", 2), false),
            (session("idle", json!([]), json!({})), true),
            (session("stopped", json!([]), json!({})), true),
            (
                session("stopped", json!([]), json!({"max_budget_usd": 0.05})),
                true,
            ),
            (session("failed", json!(["fork", "resume"]), json!({})), true),
            (session("idle", json!([]), unkept()), true),
            (session("failed", json!([]), json!({})), false),
            (session("failed", json!(["fork"]), json!({})), false),
            (session("idle", json!(["fork", "fresh_start"]), json!({})), false),
            (
                session("parked", json!([]), json!({"max_budget_usd": 0.03})),
                false,
            ),
            (session("stopped", json!([]), unkept()), false),
        ] {
            assert_eq!(can_go_on(&session), expected, "{session}");
        }
    }
}
