//! Owns the subcommands about sessions as a whole: `new`, `ls`, `show`, `stop`, `park`, `resume`, `fork`, `interrupt`, `rm`.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::{
    CliError,
    args::{self, Common},
    client::Client,
    continuing::{self, Newest},
    messages::{self, Message},
    output::{Output, Tone, note},
    request::{self, Room},
    resolve,
    trouble::Trouble,
    view,
    words::{exact, not_json},
};

/// `new`: returns the id of the session.
pub(super) async fn create(
    common: &Common,
    client: &Client,
    output: &Output,
    new: &args::New,
) -> Result<String, CliError> {
    // Before anything is made. Without a prompt, a caller that waits for an answer gives it on stdin.
    let prompt = new.prompt.as_deref().or_else(|| new.wait.then_some("-"));
    let prompt = prompt.map(messages::read).transpose()?.map(Message::new);
    let mut conversation = new.resume.clone();
    if new.go_on {
        match continuing::newest(client, new.cwd.as_deref()).await? {
            Newest::Session(session) => {
                return continuing::go_on(common, client, output, new, &session, prompt).await;
            }
            Newest::Conversation(id) => conversation = Some(id),
        }
    }
    let mut body = Map::new();
    // It comes with the start, so that a CLI that dies there loses no message.
    set(&mut body, "prompt", prompt.as_ref().map(Message::body));
    let cwd = absolute(new.cwd.as_deref().unwrap_or_else(|| Path::new(".")))?;
    body.insert("cwd".into(), Value::from(cwd));
    set(&mut body, "title", new.title.clone());
    set(&mut body, "tag", new.tag.clone());
    if !new.labels.is_empty() {
        let labels: Map<String, Value> = new
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
            .collect();
        body.insert("labels".into(), Value::Object(labels));
    }
    let mut options = options(new)?;
    set(&mut options, "resume", conversation);
    // The agent CLI takes such a directory, and only some of them with a word.
    for missing in new.add_dirs.iter().filter(|dir| !dir.is_dir()) {
        note(&format!(
            "note: --add-dir: there is no directory {}, and the agent starts without it",
            missing.display()
        ));
    }
    if new.attach {
        // A person who watches wants to see the text as it is written.
        options
            .entry("include_partial_messages")
            .or_insert(Value::Bool(true));
    }
    if !options.is_empty() {
        body.insert("options".into(), Value::Object(options));
    }
    let session = client.post(&["v1", "sessions"], &Value::Object(body)).await?;
    let id = view::text(&session, &["id"]).to_owned();
    if view::at(&session, &["simulated"]).and_then(Value::as_bool) == Some(true) {
        note("note: no agent CLI was found, so this session is simulated");
    }
    match prompt {
        Some(message) if new.wait => {
            note(&format!("session {id}"));
            messages::ask(common, output, &id, &message, messages::LONGEST_WAIT).await?;
        }
        // The first line there has the id.
        _ if new.attach && !output.is_json() => {}
        _ => {
            if output.is_json() {
                let session = client.get(&["v1", "sessions", &id], &[]).await?;
                output.value(&session)?;
            } else {
                output.line(&id)?;
            }
        }
    }
    Ok(id)
}

/// The launch options that a person chose: the file, then the flags over it.
pub(super) fn options(new: &args::New) -> Result<Map<String, Value>, CliError> {
    let mut options = match &new.options {
        None => Map::new(),
        Some(path) => object_of("--options", path)?,
    };
    set(&mut options, "model", new.model.clone());
    set(&mut options, "permission_mode", new.permission_mode.clone());
    set(&mut options, "system_prompt", new.system_prompt.clone());
    if let Some(append) = &new.append_system_prompt {
        let preset = json!({"type": "preset", "preset": "claude_code", "append": append});
        set(&mut options, "system_prompt", Some(preset));
    }
    if let Some(file) = &new.mcp_config {
        set(&mut options, "mcp_servers", Some(mcp_servers(file)?));
    }
    set(&mut options, "effort", new.effort.clone());
    set(&mut options, "max_turns", new.max_turns);
    set(&mut options, "max_budget_usd", new.max_budget_usd);
    for (key, items) in [
        ("allowed_tools", &new.allowed_tools),
        ("disallowed_tools", &new.disallowed_tools),
    ] {
        if !items.is_empty() {
            set(&mut options, key, Some(items.clone()));
        }
    }
    if !new.add_dirs.is_empty() {
        let dirs = new
            .add_dirs
            .iter()
            .map(|dir| absolute(dir))
            .collect::<Result<Vec<_>, _>>()?;
        set(&mut options, "additional_directories", Some(dirs));
    }
    Ok(options)
}

/// The servers of a file as the agent CLI takes it: `{"mcpServers": {…}}`, or the servers alone.
fn mcp_servers(file: &Path) -> Result<Value, CliError> {
    let mut members = object_of("--mcp-config", file)?;
    Ok(members.remove("mcpServers").unwrap_or(Value::Object(members)))
}

/// The object in the JSON file of a flag.
fn object_of(flag: &str, file: &Path) -> Result<Map<String, Value>, CliError> {
    let wrong = |why: &str| CliError::Usage(format!("{flag}: {} {why}", file.display()));
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::Usage(format!("{flag}: cannot read {}: {error}", file.display())))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(wrong("is no JSON object")),
        Err(error) => Err(wrong(&not_json(&error))),
    }
}

/// `ls`
pub(super) async fn ls(client: &Client, output: &Output, ls: &args::Ls) -> Result<(), CliError> {
    let limit = ls.limit.to_string();
    let cwd = ls.cwd.as_deref().map(absolute).transpose()?;
    let mut query = vec![("limit", limit.as_str())];
    for (key, value) in [
        ("state", &ls.state),
        ("cwd", &cwd),
        ("tag", &ls.tag),
        ("label", &ls.label),
        ("q", &ls.query),
    ] {
        query.extend(value.as_deref().map(|value| (key, value)));
    }
    let page = client.get(&["v1", "sessions"], &query).await?;
    if output.is_json() {
        return output.value(&page);
    }
    let sessions = view::list(&page, &["items"]);
    if sessions.is_empty() {
        let is_filtered = query.len() > 1;
        note(if is_filtered {
            "no session is like that; `trunkline ls` lists all"
        } else {
            "no sessions; `trunkline new` creates one"
        });
        return Ok(());
    }
    let ids: Vec<&str> = sessions
        .iter()
        .map(|session| view::text(session, &["id"]))
        .collect();
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .zip(resolve::short_ids(&ids))
        .map(|(session, id)| {
            let title = match view::text(session, &["title"]) {
                "" => view::text(session, &["first_prompt"]),
                title => title,
            };
            vec![
                id,
                state(session),
                view::number(session, &["turns"]).unwrap_or(0).to_string(),
                view::dollars(session.get("cost_usd")),
                view::ago(view::text(session, &["updated_at"])),
                view::text(session, &["cwd"]).into(),
                title.into(),
            ]
        })
        .collect();
    output.table(
        &["ID", "STATE", "TURNS", "COST", "ACTIVE", "DIRECTORY", "TITLE"],
        &rows,
    )?;
    if page.get("next_cursor").is_some_and(|cursor| !cursor.is_null()) {
        note(&format!("only the first {limit} are shown; -n shows more"));
    }
    Ok(())
}

/// `show`
pub(super) async fn show(client: &Client, output: &Output, name: &str) -> Result<(), CliError> {
    let id = resolve::session(client, name).await?;
    let session = client.get(&["v1", "sessions", &id], &[]).await?;
    if output.is_json() {
        return output.value(&session);
    }
    let trouble = Trouble::of(&session);
    let to_do = trouble
        .as_ref()
        .map(|trouble| trouble.advice(&id))
        .unwrap_or_default();
    let mut rows = vec![
        ("id", view::text(&session, &["id"]).to_owned()),
        ("title", view::text(&session, &["title"]).to_owned()),
        ("state", state(&session)),
        ("reason", view::text(&session, &["reason", "detail"]).to_owned()),
        ("restart", restart_due(&session, trouble.as_ref())),
        ("what to do", to_do),
        ("directory", view::text(&session, &["cwd"]).to_owned()),
        ("model", view::text(&session, &["model"]).to_owned()),
        (
            "permission mode",
            view::text(&session, &["permission_mode"]).to_owned(),
        ),
        (
            "agent version",
            view::text(&session, &["cli", "version"]).to_owned(),
        ),
        (
            "agent session",
            view::text(&session, &["cli", "session_id"]).to_owned(),
        ),
        (
            "turns",
            view::number(&session, &["turns"]).unwrap_or(0).to_string(),
        ),
        ("cost", view::dollars(session.get("cost_usd"))),
        ("tag", view::text(&session, &["tag"]).to_owned()),
        ("forked from", view::text(&session, &["parent_id"]).to_owned()),
        ("created", view::ago(view::text(&session, &["created_at"]))),
        ("active", view::ago(view::text(&session, &["updated_at"]))),
        ("last prompt", view::text(&session, &["last_prompt"]).to_owned()),
    ];
    if let Some(Value::Object(labels)) = session.get("labels") {
        for (key, value) in labels {
            rows.push(("label", format!("{key}={}", value.as_str().unwrap_or(""))));
        }
    }
    for (key, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        output.line(&format!("{key:<16} {}", in_one(&value)))?;
    }
    let page = client
        .get(&["v1", "sessions", &id, "approvals"], &[("state", "pending")])
        .await?;
    // A screen holds so much; a file or a program has no end.
    let room = if io::stdout().is_terminal() {
        Room::SCREEN
    } else {
        Room::ALL
    };
    let mut is_cut = false;
    for approval in view::list(&page, &["items"]) {
        output.line(&format!(
            "{:<16} {} {}",
            "waits for you",
            view::text(approval, &["kind"]),
            view::text(approval, &["id"])
        ))?;
        let whole = request::completed(client, &id, approval.clone()).await;
        let shown = request::shown(&whole, room);
        output.text(Tone::Plain, &shown.text)?;
        is_cut |= shown.is_cut;
    }
    if is_cut {
        note(&format!(
            "not everything is shown; `trunkline approvals --session {id} --full` shows it"
        ));
    }
    Ok(())
}

/// Why the CLI is started again, while that is due.
fn restart_due(session: &Value, trouble: Option<&Trouble>) -> String {
    let Some(trouble) = trouble.filter(|trouble| !trouble.is_final()) else {
        return String::new();
    };
    let at = view::text(session, &["restart", "at"]);
    format!("at {at}: {}", trouble.told())
}

/// A value as one line, whole.
fn in_one(value: &str) -> String {
    exact(value).join(" ")
}

/// `stop`, `park` and `resume`: all answer with the session as it is afterwards.
pub(super) async fn change(
    client: &Client,
    output: &Output,
    name: &str,
    verb: &'static str,
) -> Result<(), CliError> {
    let id = resolve::session(client, name).await?;
    let session = client.post(&["v1", "sessions", &id, verb], &json!({})).await?;
    report(output, &session)
}

/// `resume`
pub(super) async fn resume(client: &Client, output: &Output, resume: &args::Resume) -> Result<(), CliError> {
    let Some(name) = resume.session.as_deref().filter(|_| !resume.all) else {
        return resume_all(client, output).await;
    };
    let id = resolve::session(client, name).await?;
    let mut body = Map::new();
    set(&mut body, "cwd", resume.cwd.as_deref().map(absolute).transpose()?);
    let body = Value::Object(body);
    let session = client.post(&["v1", "sessions", &id, "resume"], &body).await?;
    report(output, &session)
}

/// Starts again what was stopped. One that cannot be is told and does not hold the others up.
async fn resume_all(client: &Client, output: &Output) -> Result<(), CliError> {
    let mut ids = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("state", "stopped"), ("limit", "500")];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = client.get(&["v1", "sessions"], &query).await?;
        let items = view::list(&page, &["items"]).iter();
        ids.extend(items.map(|session| view::text(session, &["id"]).to_owned()));
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    if ids.is_empty() {
        note("no session is stopped");
    }
    let mut failed = 0;
    for id in ids {
        match client.post(&["v1", "sessions", &id, "resume"], &json!({})).await {
            Ok(session) => report(output, &session)?,
            Err(error) => {
                failed += 1;
                note(&format!("{id}: {}", error.chain()));
            }
        }
    }
    match failed {
        0 => Ok(()),
        count => Err(CliError::Other(anyhow::anyhow!(
            "{count} sessions could not be resumed"
        ))),
    }
}

/// `model` and `mode`: shows the setting, or changes it.
pub(super) async fn setting(
    client: &Client,
    output: &Output,
    setting: &args::Setting,
    what: Of,
) -> Result<(), CliError> {
    let id = resolve::session(client, &setting.session).await?;
    let (shown, path, member) = match what {
        Of::Model => ("model", "model", "model"),
        Of::Mode => ("permission_mode", "permission_mode", "mode"),
    };
    let Some(value) = &setting.value else {
        let session = client.get(&["v1", "sessions", &id], &[]).await?;
        let value = session.get(shown).cloned().unwrap_or_default();
        if output.is_json() {
            return output.value(&json!({ shown: value }));
        }
        return output.line(value.as_str().unwrap_or("not known yet"));
    };
    if value.trim().is_empty() {
        return Err(CliError::Usage(format!(
            "the new {} is empty; leave it out to see the one that holds",
            shown.replace('_', " ")
        )));
    }
    let (path, body) = (["v1", "sessions", &id, path], json!({ member: value }));
    let answer = client.put(&path, &body).await.map_err(|error| match what {
        Of::Mode => {
            error.or_hint("modes are default, acceptEdits, plan, dontAsk, auto and bypassPermissions")
        }
        Of::Model => error,
    })?;
    if output.is_json() {
        return output.value(&answer);
    }
    note(&format!("changed to {value}"));
    Ok(())
}

/// A setting that can be changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Model,
    Mode,
}

/// `status`
pub(super) async fn status(client: &Client, output: &Output) -> Result<(), CliError> {
    let ready = client.get(&["readyz"], &[]).await?;
    let pending = client
        .get(&["v1", "approvals"], &[("state", "pending"), ("limit", "500")])
        .await?;
    let waiting = view::list(&pending, &["items"]).len();
    if output.is_json() {
        return output.value(&json!({"daemon": ready, "pending_approvals": waiting}));
    }
    let url = client.url(&[], &[])?;
    output.line(&format!(
        "trunkline {} at {url}",
        view::text(&ready, &["version"])
    ))?;
    output.line(&format!(
        "started          {}",
        view::ago(view::text(&ready, &["started_at"]))
    ))?;
    let live = view::number(&ready, &["live_sessions"]).unwrap_or(0);
    output.line(&format!("live sessions    {live}"))?;
    output.line(&format!("wait for you     {waiting}"))
}

/// `fork`
pub(super) async fn fork(client: &Client, output: &Output, fork: &args::Fork) -> Result<(), CliError> {
    let id = resolve::session(client, &fork.session).await?;
    // Before anything is made.
    let prompt = fork.prompt.as_deref().map(messages::read).transpose()?;
    let mut body = Map::new();
    set(&mut body, "at", fork.at.map(|uuid| uuid.to_string()));
    set(&mut body, "cwd", fork.cwd.as_deref().map(absolute).transpose()?);
    set(&mut body, "title", fork.title.clone());
    let session = client
        .post(&["v1", "sessions", &id, "fork"], &Value::Object(body))
        .await?;
    let copy = view::text(&session, &["id"]).to_owned();
    if let Some(text) = prompt {
        messages::post(client, &copy, &text).await?;
    }
    if output.is_json() {
        output.value(&session)
    } else {
        output.line(&copy)
    }
}

/// `interrupt`
pub(super) async fn interrupt(
    client: &Client,
    output: &Output,
    interrupt: &args::Interrupt,
) -> Result<(), CliError> {
    let id = resolve::session(client, &interrupt.session).await?;
    let before = client.get(&["v1", "sessions", &id], &[]).await?;
    let ran = before.get("turn").is_some_and(|turn| !turn.is_null())
        || !view::list(&before, &["open_prompts"]).is_empty();
    let body = json!({"cancel_queued": interrupt.cancel_queued});
    let answer = client.post(&["v1", "sessions", &id, "interrupt"], &body).await?;
    if output.is_json() {
        output.value(&answer)?;
    } else if !ran {
        note("nothing ran, so nothing was interrupted");
    } else {
        note("interrupted");
    }
    Ok(())
}

/// `rm`
pub(super) async fn rm(client: &Client, rm: &args::Rm) -> Result<(), CliError> {
    let mut ids = Vec::new();
    for name in &rm.sessions {
        ids.push(resolve::deletable(client, name).await?);
    }
    for id in ids {
        if !rm.force && !may_delete(client, &id).await? {
            note(&format!("kept {id}"));
            continue;
        }
        client.delete(&["v1", "sessions", &id]).await?;
        note(&format!("deleted {id}"));
    }
    Ok(())
}

/// On a terminal it is asked before something that runs is ended.
async fn may_delete(client: &Client, id: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Ok(true);
    }
    // A session that cannot be read has no process, and may be deleted for it.
    let session = client.get(&["v1", "sessions", id], &[]).await.unwrap_or_default();
    let state = view::text(&session, &["state"]);
    if matches!(state, "" | "stopped" | "failed" | "parked") {
        return Ok(true);
    }
    note(&format!(
        "session {id} is {state}; end it and delete its conversation? y or n:"
    ));
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .context("cannot read the answer")?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn report(output: &Output, session: &Value) -> Result<(), CliError> {
    if output.is_json() {
        return output.value(session);
    }
    output.line(&format!("{} {}", view::text(session, &["id"]), state(session)))
}

/// The state as a word, with what a person must know about it.
fn state(session: &Value) -> String {
    let mut state = view::text(session, &["state"]).to_owned();
    if let Some(position) = view::at(session, &["start_queue_position"]).and_then(Value::as_u64) {
        state = format!("{state} (waits, {position} in the queue)");
    }
    if view::at(session, &["simulated"]).and_then(Value::as_bool) == Some(true) {
        state.push_str(" (simulated)");
    }
    state
}

fn set(fields: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(key.into(), value.into());
    }
}

/// The daemon has another working directory, so it gets absolute paths only.
pub(super) fn absolute(path: &Path) -> Result<String, CliError> {
    let absolute: PathBuf = if path == Path::new(".") {
        std::env::current_dir().context("cannot find the current directory")?
    } else {
        std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))?
    };
    absolute
        .into_os_string()
        .into_string()
        .map_err(|path| CliError::Usage(format!("{} is not valid UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn parsed(arguments: &[&str]) -> args::New {
        let cli = args::Cli::try_parse_from(["trunkline", "new"].iter().chain(arguments).copied()).unwrap();
        match cli.command {
            Some(args::Command::New(new)) => *new,
            _ => panic!("not `new`"),
        }
    }

    #[test]
    fn flags_win_over_the_options_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("options.json");
        std::fs::write(&file, r#"{"model": "a", "betas": ["x"]}"#).unwrap();
        let path = file.to_str().unwrap();
        let new = parsed(&[
            "--options",
            path,
            "--model",
            "b",
            "--allowed-tools",
            "Read,Bash(ls *)",
        ]);
        assert_eq!(
            Value::Object(options(&new).unwrap()),
            json!({
                "model": "b", "betas": ["x"], "allowed_tools": ["Read", "Bash(ls *)"],
            })
        );
        for text in ["[]", "{"] {
            std::fs::write(&file, text).unwrap();
            let error = options(&parsed(&["--options", path])).unwrap_err();
            assert!(matches!(error, CliError::Usage(_)));
        }
    }

    #[test]
    fn without_flags_no_option_is_sent() {
        assert!(options(&parsed(&[])).unwrap().is_empty());
    }
}
