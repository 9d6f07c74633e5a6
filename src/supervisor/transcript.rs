//! Owns what a person says about a session and the conversation's own transcript is told: its title and its tag. The agent CLI and the
//! SDKs then show the same. They take a line at the end of the file for it, as the SDK's `renameSession` and `tagSession` write it.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde_json::json;

use tokio::sync::mpsc;

use crate::{
    domain::{AgentKind, CliSessionId, SessionId},
    files,
    store::{MetaPatch, SessionRow, StoreError},
    telemetry,
};

use super::{SessionView, Supervisor, messages::read_options, plan};

/// Sessions whose turn ended that may wait to be looked at; one that finds no place is looked at after its next turn.
pub(super) const ENDED_TURNS: usize = 256;

/// The longest name of a folder of a project that has no digest.
const MAX_FOLDER_CHARS: usize = 200;
/// The folders of projects that are looked through for a conversation.
const MOST_PROJECTS: usize = 10_000;

/// A person changed the title or the tag of a session: the transcript is told now, or once something was said in it. Returns whether
/// the row was edited, as it remembers the latter.
pub(super) async fn tell_of(
    supervisor: &Supervisor,
    before: &SessionRow,
    patch: &MetaPatch,
    view: &SessionView,
) -> bool {
    let conversation = view.live.cli_session_id.unwrap_or(view.row.cli_session_id);
    let lines = lines(before, patch, conversation);
    if lines.is_empty() || view.simulated {
        return false;
    }
    let is_told = append_to(supervisor, before, conversation, lines).await;
    let is_edit = is_told == Some(false) && !before.untold;
    if is_edit {
        let marked = supervisor.shared.store.set_untold(before.id, true).await;
        warn_unless(marked, before.id);
    }
    is_edit
}

/// Looks after each turn whether its session has a title or a tag that no transcript was there for.
pub(super) async fn run(supervisor: Supervisor, mut ended: mpsc::Receiver<SessionId>) {
    let closing = supervisor.shared.closing.clone();
    // The branch only receives, and so is cancel-safe.
    while let Some(Some(id)) = closing.run_until_cancelled(ended.recv()).await {
        let Ok(Some(row)) = supervisor.shared.store.session(id).await else {
            continue;
        };
        if row.untold {
            tell_all(&supervisor, row).await;
        }
    }
}

async fn tell_all(supervisor: &Supervisor, row: SessionRow) {
    let patch = MetaPatch {
        title: Some(row.title.clone()),
        tag: Some(row.tag.clone()),
        ..MetaPatch::default()
    };
    let unsaid = SessionRow {
        title: None,
        tag: None,
        ..row.clone()
    };
    let lines = lines(&unsaid, &patch, row.cli_session_id);
    // The simulated agent has no transcript.
    let is_simulated = row.agent == Some(AgentKind::Simulated);
    if is_simulated || append_to(supervisor, &row, row.cli_session_id, lines).await == Some(true) {
        let marked = supervisor.shared.store.set_untold(row.id, false).await;
        warn_unless(marked, row.id);
    }
}

/// Writes lines to the transcript of a session's conversation; `Some(false)` when there is none, `None` when it cannot be written.
async fn append_to(
    supervisor: &Supervisor,
    row: &SessionRow,
    conversation: CliSessionId,
    lines: String,
) -> Option<bool> {
    let options = read_options(&row.options).ok()?;
    let home = home(&plan::environment(
        &supervisor.shared.settings,
        Vec::new(),
        &options,
    ))?;
    let cwd = PathBuf::from(&row.cwd);
    let told = tokio::task::spawn_blocking(move || tell(&home, &cwd, conversation, &lines));
    match told.await.ok()? {
        Ok(told) => Some(told),
        Err(error) => {
            let (id, error) = (row.id, telemetry::chain(&error));
            tracing::warn!(session.id = %id, error, "the transcript of the conversation does not know its new title or tag");
            None
        }
    }
}

fn warn_unless(marked: Result<(), StoreError>, id: SessionId) {
    if let Err(error) = marked {
        let error = telemetry::chain(&error);
        tracing::warn!(session.id = %id, error, "it may be forgotten that the transcript knows no title or tag yet");
    }
}

/// The lines that tell of a change, each with its 0x0A; empty when the transcript need not know.
pub(super) fn lines(before: &SessionRow, patch: &MetaPatch, conversation: CliSessionId) -> String {
    let mut lines = String::new();
    let id = conversation.to_string();
    // A title cannot be taken away there.
    let title = patch.title.as_ref().filter(|title| **title != before.title);
    let title = title.and_then(Option::as_deref).map(str::trim);
    if let Some(title) = title.filter(|title| !title.is_empty()) {
        lines += &json!({"type": "custom-title", "customTitle": title, "sessionId": id}).to_string();
        lines.push('\n');
    }
    if let Some(tag) = patch.tag.as_ref().filter(|tag| **tag != before.tag) {
        let tag: String = tag
            .as_deref()
            .unwrap_or_default()
            .chars()
            .filter(|c| !c.is_control())
            .collect();
        lines += &json!({"type": "tag", "tag": tag.trim(), "sessionId": id}).to_string();
        lines.push('\n');
    }
    lines
}

/// The directory of the CLI in this environment.
pub(super) fn home(env: &[(String, String)]) -> Option<PathBuf> {
    let variable = |wanted: &str| {
        let found = env
            .iter()
            .find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| value)
    };
    variable("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(home).join(".claude")))
}

/// Writes the lines to the end of the transcript of a conversation; `false` when there is none.
///
/// # Errors
/// The transcript is there and cannot be written.
pub(super) fn tell(home: &Path, cwd: &Path, conversation: CliSessionId, lines: &str) -> io::Result<bool> {
    let name = format!("{conversation}.jsonl");
    let projects = home.join("projects");
    if append(&projects.join(folder(cwd)).join(&name), lines)? {
        return Ok(true);
    }
    // It may have been begun in another directory.
    let Ok(entries) = std::fs::read_dir(&projects) else {
        return Ok(false);
    };
    for entry in entries.flatten().take(MOST_PROJECTS) {
        if append(&entry.path().join(&name), lines)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The conversation that was written to last of those that the CLI had in this directory.
pub(super) fn newest(home: &Path, cwd: &Path) -> Option<CliSessionId> {
    let entries = std::fs::read_dir(home.join("projects").join(folder(cwd))).ok()?;
    let conversation = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let is_transcript = path.extension().is_some_and(|end| end == "jsonl");
        let id = path.file_stem()?.to_str()?.parse::<CliSessionId>().ok()?;
        let about = entry
            .metadata()
            .ok()
            .filter(|about| is_transcript && about.len() > 0)?;
        Some((about.modified().ok()?, id.to_string(), id))
    };
    entries
        .flatten()
        .filter_map(conversation)
        .max()
        .map(|(.., id)| id)
}

/// The folder of a project whose directory is `cwd`, as the CLI names it: by the units of its text, and a long one by its start and a
/// digest of the whole.
fn folder(cwd: &Path) -> String {
    let text = cwd.to_string_lossy();
    let units: Vec<u16> = text.encode_utf16().collect();
    let plain = |unit: &u16| match u8::try_from(*unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let mut name: String = units.iter().take(MAX_FOLDER_CHARS).map(plain).collect();
    if units.len() > MAX_FOLDER_CHARS {
        let digest = units.iter().fold(0_i32, |sum, unit| {
            sum.wrapping_mul(31).wrapping_add(i32::from(*unit))
        });
        name.push('-');
        name.push_str(&in_base_36(digest.unsigned_abs()));
    }
    name
}

fn in_base_36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

fn append(path: &Path, lines: &str) -> io::Result<bool> {
    let mut file = match files::open(path, OpenOptions::new().read(true).append(true)) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    // A CLI that was killed may have left half a line.
    let mut last = [b'\n'];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    let whole = match last {
        [b'\n'] => lines.to_owned(),
        _ => format!("\n{lines}"),
    };
    // In one piece, as the CLI may write at the same time.
    file.write_all(whole.as_bytes())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_to_the_transcript_of_the_conversation_and_to_no_other() {
        let home = tempfile::tempdir().unwrap();
        let (own, other) = (CliSessionId::new(), CliSessionId::new());
        let cwd = Path::new("/srv/my project");
        assert!(!tell(home.path(), cwd, own, "x\n").unwrap(), "there is none");
        let project = home.path().join("projects/-srv-my-project");
        std::fs::create_dir_all(&project).unwrap();
        let file = |id: CliSessionId| project.join(format!("{id}.jsonl"));
        std::fs::write(file(own), "{}\n{\"half").unwrap();
        std::fs::write(file(other), "{}\n").unwrap();
        assert!(tell(home.path(), cwd, own, "x\n").unwrap());
        assert!(tell(home.path(), Path::new("/elsewhere"), own, "y\n").unwrap());
        assert_eq!(std::fs::read_to_string(file(own)).unwrap(), "{}\n{\"half\nx\ny\n");
        assert_eq!(std::fs::read_to_string(file(other)).unwrap(), "{}\n");
        std::fs::write(file(other), "").unwrap();
        assert!(
            !tell(home.path(), cwd, other, "x\n").unwrap(),
            "nothing was said in it"
        );
    }

    #[test]
    fn a_folder_is_named_by_its_directory() {
        assert_eq!(folder(Path::new("/srv/my project")), "-srv-my-project");
        assert_eq!(folder(Path::new("/é/😀")), "-----");
        let long = format!("/{}", "a".repeat(300));
        let name = folder(Path::new(&long));
        assert!(name.starts_with(&format!("-{}-", "a".repeat(199))), "{name}");
        assert_eq!(
            (in_base_36(0), in_base_36(35), in_base_36(36)),
            ("0".to_owned(), "z".to_owned(), "10".to_owned())
        );
    }

    #[test]
    fn the_newest_conversation_of_a_directory_is_the_one_that_was_written_to_last() {
        let home = tempfile::tempdir().unwrap();
        let cwd = Path::new("/srv/p");
        assert_eq!(newest(home.path(), cwd), None);
        let project = home.path().join("projects/-srv-p");
        std::fs::create_dir_all(&project).unwrap();
        let (old, new, empty) = (CliSessionId::new(), CliSessionId::new(), CliSessionId::new());
        for (id, text, seconds) in [(new, "{}\n", 2_000), (old, "{}\n", 1_000), (empty, "", 3_000)] {
            let file = std::fs::File::create(project.join(format!("{id}.jsonl"))).unwrap();
            (&file).write_all(text.as_bytes()).unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(at).unwrap();
        }
        std::fs::write(project.join("notes.txt"), "x").unwrap();
        assert_eq!(newest(home.path(), cwd), Some(new));
    }

    #[test]
    fn the_directory_of_the_cli_is_that_of_its_environment() {
        let env = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            home(&pairs.collect::<Vec<_>>())
        };
        assert_eq!(env(&[("HOME", "/h")]), Some("/h/.claude".into()));
        assert_eq!(
            env(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")]),
            Some("/c".into())
        );
        assert_eq!(env(&[("CLAUDE_CONFIG_DIR", "")]), None);
    }
}
