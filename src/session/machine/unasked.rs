//! Owns the look-out for a CLI that never asks: a tool has changed a file in a mode in which that needs a permission, and the
//! process has asked for none. A rule of the CLI can be why; versions that ignore the host can be as well.

use std::path::{Component, Path, PathBuf};

use crate::{claude::Envelope, json, session::EDITING_TOOLS};

/// The two names of the mode in which the CLI asks before files are changed.
const ASKING_MODES: [&str; 2] = ["default", "manual"];
/// Calls whose results are waited for; of more that run at once, the first are watched.
const OPEN_CALLS: usize = 64;

/// The calls of one process, as far as they bear on permissions.
#[derive(Clone, Debug, Default)]
pub(super) struct SilentPermissions {
    has_asked: bool,
    cwd: Option<PathBuf>,
    /// The ids of calls that may need a permission, each with its tool.
    calls: Vec<(String, &'static str)>,
    tool: Option<&'static str>,
}

impl SilentPermissions {
    /// The tool that ran.
    pub(super) fn tool(&self) -> Option<&'static str> {
        self.tool
    }

    /// The CLI says where it works. Elsewhere it has files of its own, about which it does not ask.
    pub(super) fn on_init(&mut self, cwd: Option<String>) {
        self.cwd = cwd.map(PathBuf::from);
    }

    /// The CLI asked its host: it is one that does.
    pub(super) fn on_request(&mut self, subtype: &str) {
        if matches!(subtype, "can_use_tool" | "hook_callback") {
            *self = Self {
                has_asked: true,
                ..Self::default()
            };
        }
    }

    /// The model calls tools.
    pub(super) fn on_assistant(&mut self, line: &Envelope<'_>, mode: Option<&str>) {
        if self.is_over() || !mode.is_some_and(|mode| ASKING_MODES.contains(&mode)) {
            return;
        }
        for block in blocks(line) {
            if let Some(call) = self.call(block)
                && self.calls.len() < OPEN_CALLS
            {
                self.calls.push(call);
            }
        }
    }

    /// Tools have ended.
    pub(super) fn on_user(&mut self, line: &Envelope<'_>) {
        if self.is_over() || self.calls.is_empty() {
            return;
        }
        for block in blocks(line) {
            let Some([Some(id), is_error]) = json::members(block, ["tool_use_id", "is_error"]) else {
                continue;
            };
            let Some(at) = self
                .calls
                .iter()
                .position(|(call, _)| json::string(id).as_deref() == Some(call))
            else {
                continue;
            };
            let (_, tool) = self.calls.swap_remove(at);
            if is_error.and_then(json::boolean) != Some(true) {
                self.tool = Some(tool);
                self.calls.clear();
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.has_asked || self.tool.is_some()
    }

    /// The call in a content block, if it may need a permission.
    fn call(&self, block: &str) -> Option<(String, &'static str)> {
        let [Some(kind), Some(id), Some(name), Some(input)] =
            json::members(block, ["type", "id", "name", "input"])?
        else {
            return None;
        };
        if json::string(kind)? != "tool_use" {
            return None;
        }
        let name = json::string(name)?;
        let tool = EDITING_TOOLS.into_iter().find(|tool| *tool == name)?;
        let [file, notebook] = json::members(input, ["file_path", "notebook_path"])?;
        let path = json::string(file.or(notebook)?)?;
        let path = Path::new(path.as_ref());
        let leads_up = path.components().any(|part| part == Component::ParentDir);
        let is_inside = path.starts_with(self.cwd.as_ref()?) && !leads_up;
        is_inside.then(|| Some((json::string(id)?.into_owned(), tool)))?
    }
}

/// The content blocks of a message.
pub(super) fn blocks<'a>(line: &Envelope<'a>) -> Vec<&'a str> {
    let content = || {
        let [message] = json::members(line.line, ["message"])?;
        let [content] = json::members(message?, ["content"])?;
        json::items(content?)
    };
    content().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    /// A process that works in `/w` and says these lines.
    fn after(lines: &[&str], mode: &str) -> SilentPermissions {
        let mut unasked = SilentPermissions::default();
        unasked.on_init(Some("/w".to_owned()));
        for line in lines {
            let line = scan(line.as_bytes()).unwrap();
            match line.kind.as_deref() {
                Some("assistant") => unasked.on_assistant(&line, Some(mode)),
                Some("user") => unasked.on_user(&line),
                _ => unasked.on_request("can_use_tool"),
            }
        }
        unasked
    }

    const CALL: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},
        {"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/w/a","content":""}}]}}"#;
    const DONE: &str =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#;
    const ASKED: &str = r#"{"type":"control_request"}"#;

    #[test]
    fn a_file_that_was_changed_without_a_question_is_seen() {
        assert_eq!(after(&[CALL, DONE], "default").tool(), Some("Write"));
        assert_eq!(after(&[CALL, DONE], "manual").tool(), Some("Write"));
        let notebook = CALL
            .replace("Write", "NotebookEdit")
            .replace("file_path", "notebook_path");
        assert_eq!(after(&[&notebook, DONE], "default").tool(), Some("NotebookEdit"));
    }

    #[test]
    fn what_needs_no_question_is_none_of_it() {
        for mode in ["acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"] {
            assert_eq!(after(&[CALL, DONE], mode).tool(), None, "{mode}");
        }
        for (lines, why) in [
            (vec![CALL.to_owned()], "it has not run"),
            (vec![DONE.to_owned()], "nobody called it"),
            (
                vec![CALL.to_owned(), ASKED.to_owned(), DONE.to_owned()],
                "it asked",
            ),
            (
                vec![CALL.to_owned(), DONE.to_owned(), ASKED.to_owned()],
                "it asks after all",
            ),
            (
                vec![
                    CALL.to_owned(),
                    DONE.replace("\"content\":\"ok\"", "\"is_error\":true"),
                ],
                "it was refused",
            ),
            (
                vec![CALL.replace("Write", "Read"), DONE.to_owned()],
                "it changes nothing",
            ),
            (
                vec![CALL.replace("/w/a", "/home/.claude/plan"), DONE.to_owned()],
                "a file of the CLI",
            ),
            (
                vec![CALL.replace("/w/a", "/w/../a"), DONE.to_owned()],
                "a file elsewhere",
            ),
            (
                vec![CALL.replace("tool_use", "server_tool_use"), DONE.to_owned()],
                "no tool of the CLI",
            ),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(after(&lines, "default").tool(), None, "{why}");
        }
    }

    #[test]
    fn what_waits_has_a_bound() {
        let mut unasked = SilentPermissions::default();
        unasked.on_init(Some("/w".to_owned()));
        for n in 0..OPEN_CALLS + 9 {
            let line = CALL.replace("t1", &n.to_string());
            unasked.on_assistant(&scan(line.as_bytes()).unwrap(), Some("default"));
        }
        assert_eq!(unasked.calls.len(), OPEN_CALLS);
    }
}
