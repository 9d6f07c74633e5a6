//! Owns what a person sees of a record: streamed text as it comes, a tool as one line, the end of a turn.

use serde_json::{Value, json};

use super::super::{
    messages,
    output::Tone,
    request,
    trouble::{self, Trouble},
    view,
    words::{exact, one_line},
};
use crate::domain::{ApprovalId, Seq, SessionId};

/// The meaning of a frame for the terminal.
#[derive(Debug)]
pub(in crate::cli) enum Event {
    /// Show this.
    Text(Tone, String),
    /// The snapshot: records up to `head` are history, and `pending` waits for an answer.
    Snapshot {
        /// The newest record when the connection was made.
        head: u64,
        /// The record before the first that will come.
        after: u64,
        /// Approvals that wait.
        pending: Vec<Value>,
        /// The session as it was.
        session: Value,
    },
    /// The agent asks something; the value has the form of an approval of the API.
    Asked(Value),
    /// The approval with this id needs no answer any more.
    Settled(String),
    /// The session is in another state.
    State(String),
    /// A turn is over.
    Turned,
    /// The agent has commands of its own, which begin with a slash.
    Commands(Vec<String>),
}

/// The content of the screen so far, as far as it matters for what comes next.
#[derive(Debug, Default)]
pub(in crate::cli) struct Screen {
    is_mid_line: bool,
    streamed: Option<String>,
    own: Vec<String>,
    /// Whether a tool and its outcome are one line, which is printed when it is over.
    joins: bool,
    tools: Vec<Tool>,
}

/// A tool that runs.
#[derive(Debug)]
struct Tool {
    id: String,
    name: String,
    line: String,
    /// The change of a file.
    diff: Vec<String>,
}

/// Lines of a change that are shown.
const LONGEST_DIFF: usize = 24;

/// Own messages that are remembered until they come back as records.
const OWN_MESSAGES: usize = 64;

impl Screen {
    /// For a screen on which lines can come later than they began.
    pub(in crate::cli) fn joining() -> Self {
        Self {
            joins: true,
            ..Self::default()
        }
    }

    /// The tool that has run for longest.
    pub(in crate::cli) fn running(&self) -> Option<&str> {
        self.tools.first().map(|tool| tool.name.as_str())
    }

    /// A message that we sent got this id; its record will not be shown, as the person has just typed it.
    pub(in crate::cli) fn sent(&mut self, uuid: &str) {
        if self.own.len() == OWN_MESSAGES {
            self.own.remove(0);
        }
        self.own.push(uuid.to_owned());
    }

    /// Shows a frame of the WebSocket.
    pub(in crate::cli) fn frame(&mut self, session: &str, frame: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(seq) = frame.get("seq").and_then(Value::as_u64) {
            let data = frame.get("data").unwrap_or(&Value::Null);
            match view::text(frame, &["src"]) {
                "cli" => self.cli(session, seq, data, &mut events),
                "client" => self.client(data, &mut events),
                "daemon" => self.daemon(session, data, &mut events),
                "stderr" | "stdout_text" => {
                    self.own_line(&mut events, Tone::Dim, view::text(data, &["text"]).trim_end());
                }
                _ => {}
            }
        } else if view::text(frame, &["type"]) == "trunkline.snapshot" {
            self.snapshot(frame, &mut events);
        }
        events
    }

    fn snapshot(&mut self, frame: &Value, events: &mut Vec<Event>) {
        let session = frame.get("session").unwrap_or(frame);
        let mut line = format!("session {}", view::text(session, &["id"]));
        // A sign tells what changes.
        let now = [view::text(session, &["state"]), view::text(session, &["model"])];
        let now = now.into_iter().filter(|_| !self.joins);
        for part in now.chain([view::text(session, &["cwd"])]) {
            if !part.is_empty() {
                line.push_str(", ");
                line.push_str(part);
            }
        }
        if view::at(session, &["simulated"]).and_then(Value::as_bool) == Some(true) {
            line.push_str(", simulated");
        }
        self.own_line(events, Tone::Dim, &line);
        let head = view::number(frame, &["head_seq"]).unwrap_or(0);
        let after = view::number(frame, &["after"]).unwrap_or(head);
        // Otherwise the records tell it.
        if let Some(trouble) = Trouble::of(session).filter(|_| after >= head) {
            self.trouble(view::text(session, &["id"]), &trouble, events);
        }
        events.push(Event::Snapshot {
            head,
            after,
            pending: view::list(frame, &["pending_approvals"]).to_vec(),
            session: session.clone(),
        });
    }

    fn cli(&mut self, session: &str, seq: u64, data: &Value, events: &mut Vec<Event>) {
        match view::text(data, &["type"]) {
            "stream_event" => self.stream_event(data, events),
            "assistant" => self.assistant(data, events),
            "user" => self.tool_results(data, events),
            "result" => self.result(data, events),
            "control_request" => {
                if let Some(approval) = asked(session, seq, data) {
                    self.end_line(events);
                    events.push(Event::Asked(approval));
                }
            }
            "system" => self.system(data, events),
            _ => {}
        }
    }

    fn stream_event(&mut self, data: &Value, events: &mut Vec<Event>) {
        if !view::text(data, &["parent_tool_use_id"]).is_empty() {
            return;
        }
        match view::text(data, &["event", "type"]) {
            "message_start" => {
                self.streamed = Some(view::text(data, &["event", "message", "id"]).into());
            }
            "content_block_delta" => {
                let text = view::text(data, &["event", "delta", "text"]);
                if !text.is_empty() {
                    self.is_mid_line = !text.ends_with('\n');
                    events.push(Event::Text(Tone::Plain, text.into()));
                }
            }
            "content_block_stop" => self.end_line(events),
            _ => {}
        }
    }

    fn assistant(&mut self, data: &Value, events: &mut Vec<Event>) {
        let is_sub_agent = !view::text(data, &["parent_tool_use_id"]).is_empty();
        let was_streamed = self
            .streamed
            .as_deref()
            .is_some_and(|id| id == view::text(data, &["message", "id"]));
        for block in view::list(data, &["message", "content"]) {
            match view::text(block, &["type"]) {
                "text" if !is_sub_agent && !was_streamed => {
                    self.own_line(events, Tone::Plain, view::text(block, &["text"]));
                }
                "tool_use" if self.joins => self.begin(block, is_sub_agent),
                "tool_use" => {
                    let input = match view::text(block, &["name"]) {
                        // The dialog asks these in full.
                        "AskUserQuestion" | "ExitPlanMode" => String::new(),
                        _ => view::tool_input(block.get("input").unwrap_or(&Value::Null)),
                    };
                    let indent = if is_sub_agent { "  " } else { "" };
                    let line = format!("{indent}* {} {}", view::text(block, &["name"]), one_line(&input));
                    self.own_line(events, Tone::Dim, line.trim_end());
                }
                _ => {}
            }
        }
    }

    fn tool_results(&mut self, data: &Value, events: &mut Vec<Event>) {
        for block in view::list(data, &["message", "content"]) {
            if view::text(block, &["type"]) != "tool_result" {
                continue;
            }
            let text = view::content_text(block.get("content").unwrap_or(&Value::Null));
            let is_error = view::at(block, &["is_error"]).and_then(Value::as_bool) == Some(true);
            if let Some(tool) = self.take(view::text(block, &["tool_use_id"])) {
                self.finished(events, tool, is_error, &text);
                continue;
            }
            let word = if is_error { "failed: " } else { "" };
            self.own_line(events, Tone::Dim, &format!("  > {word}{}", one_line(&text)));
        }
    }

    fn result(&mut self, data: &Value, events: &mut Vec<Event>) {
        self.streamed = None;
        self.given_up(events);
        events.push(Event::Turned);
        let is_error = view::at(data, &["is_error"]).and_then(Value::as_bool) == Some(true);
        let mut line = if is_error {
            messages::turn_error(data)
        } else {
            "turn done".into()
        };
        let advice = trouble::advice(&line).filter(|_| is_error);
        if let Some(milliseconds) = view::number(data, &["duration_ms"]) {
            line.push_str(", ");
            line.push_str(&view::duration(milliseconds));
        }
        // The agent's own sum begins anew with a new conversation: the daemon is asked for the session's.
        self.own_line(events, Tone::Dim, &format!("- {line}"));
        self.advise(events, advice);
    }

    fn system(&mut self, data: &Value, events: &mut Vec<Event>) {
        let line = match view::text(data, &["subtype"]) {
            "init" => {
                let names = view::list(data, &["slash_commands"])
                    .iter()
                    .filter_map(Value::as_str);
                events.push(Event::Commands(names.map(|name| format!("/{name}")).collect()));
                return;
            }
            "api_retry" => {
                let words = trouble::retry(data);
                self.own_line(events, Tone::Dim, &format!("- {words}"));
                if view::number(data, &["attempt"]).unwrap_or(1) == 1 {
                    self.advise(events, trouble::advice(&words));
                }
                return;
            }
            "permission_denied" => format!("denied: {}", view::text(data, &["message"])),
            "informational" | "local_command_output" => view::text(data, &["content"]).into(),
            "compact_boundary" => "the conversation was compacted".into(),
            "model_fallback" => format!("the model is now {}", view::text(data, &["fallback_model"])),
            _ => return,
        };
        self.own_line(events, Tone::Dim, &format!("- {}", one_line(&line)));
    }

    fn client(&mut self, data: &Value, events: &mut Vec<Event>) {
        if view::text(data, &["type"]) != "user" {
            return;
        }
        let uuid = view::text(data, &["uuid"]);
        if let Some(index) = self.own.iter().position(|own| own == uuid) {
            self.own.remove(index);
            return;
        }
        let text = view::content_text(view::at(data, &["message", "content"]).unwrap_or(&Value::Null));
        self.own_line(events, Tone::Strong, &format!("> {text}"));
    }

    /// Tells that the agent CLI died, and what to do.
    fn trouble(&mut self, session: &str, trouble: &Trouble, events: &mut Vec<Event>) {
        self.own_line(events, Tone::Strong, &format!("- {}", trouble.told()));
        self.advise(events, Some(trouble.advice(session)));
    }

    fn advise(&mut self, events: &mut Vec<Event>, advice: Option<String>) {
        if let Some(advice) = advice {
            self.own_line(events, Tone::Plain, &format!("  hint: {advice}"));
        }
    }

    fn daemon(&mut self, session: &str, data: &Value, events: &mut Vec<Event>) {
        match view::text(data, &["type"]) {
            "state" => {
                let state = view::text(data, &["state"]);
                events.push(Event::State(state.to_owned()));
                if let Some(trouble) = Trouble::of(data) {
                    self.given_up(events);
                    self.trouble(session, &trouble, events);
                } else if matches!(state, "stopped" | "parked") {
                    self.given_up(events);
                    self.own_line(events, Tone::Strong, &format!("- session {state}"));
                }
            }
            "decision" => {
                // The API's own route does not say who uses it.
                let line = match (view::text(data, &["state"]), view::text(data, &["by"])) {
                    (state, "rest") => format!("- {state}"),
                    (state, by) => format!("- {state} by {}", view::by(by)),
                };
                self.own_line(events, Tone::Dim, &line);
                events.push(Event::Settled(view::text(data, &["approval_id"]).into()));
            }
            "notice" => {
                let text = match view::text(data, &["detail"]) {
                    "" => view::text(data, &["code"]),
                    detail => detail,
                };
                self.own_line(events, Tone::Dim, &format!("- {text}"));
            }
            _ => {}
        }
    }

    fn begin(&mut self, block: &Value, is_sub_agent: bool) {
        let name = view::text(block, &["name"]);
        let input = block.get("input").unwrap_or(&Value::Null);
        let telling = match name {
            "AskUserQuestion" | "ExitPlanMode" => String::new(),
            _ => one_line(&view::tool_input(input)),
        };
        let indent = if is_sub_agent { "  " } else { "" };
        let mut diff = Vec::new();
        if name == "Edit" {
            let (old, new) = (
                view::text(input, &["old_string"]),
                view::text(input, &["new_string"]),
            );
            request::diff(&mut diff, old, new);
        } else if name == "Write" {
            let content = view::text(input, &["content"]);
            diff.extend(
                content
                    .lines()
                    .map(|line| format!("    | + {}", exact(line).concat())),
            );
        }
        if diff.len() > LONGEST_DIFF {
            let more = diff.len() - LONGEST_DIFF;
            diff.truncate(LONGEST_DIFF);
            diff.push(format!("    … and {more} more lines"));
        }
        self.tools.push(Tool {
            id: view::text(block, &["id"]).to_owned(),
            name: one_line(name),
            line: format!("{indent}* {} {telling}", one_line(name))
                .trim_end()
                .to_owned(),
            diff,
        });
    }

    fn take(&mut self, id: &str) -> Option<Tool> {
        let index = self.tools.iter().position(|tool| tool.id == id)?;
        Some(self.tools.remove(index))
    }

    fn finished(&mut self, events: &mut Vec<Event>, tool: Tool, is_error: bool, text: &str) {
        let outcome = match (is_error, one_line(text)) {
            (true, text) => format!("failed: {text}"),
            (false, text) if text.is_empty() => "done".into(),
            (false, text) => text,
        };
        self.own_line(events, Tone::Dim, &format!("{} -> {outcome}", tool.line));
        if !is_error {
            for line in tool.diff {
                self.own_line(events, Tone::Dim, &line);
            }
        }
    }

    /// No outcome of the tools that ran is to come.
    fn given_up(&mut self, events: &mut Vec<Event>) {
        for tool in std::mem::take(&mut self.tools) {
            self.own_line(events, Tone::Dim, &format!("{} -> no outcome", tool.line));
        }
    }

    fn own_line(&mut self, events: &mut Vec<Event>, tone: Tone, text: &str) {
        self.end_line(events);
        events.push(Event::Text(tone, format!("{text}\n")));
    }

    /// Something else is to be printed. Whether a line has to be ended first.
    pub(in crate::cli) fn breaks_line(&mut self) -> bool {
        std::mem::take(&mut self.is_mid_line)
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        if std::mem::take(&mut self.is_mid_line) {
            events.push(Event::Text(Tone::Plain, "\n".into()));
        }
    }
}

/// The approval that a request opens. Its id follows from its record, so no other request is needed.
fn asked(session: &str, seq: u64, data: &Value) -> Option<Value> {
    let request = data.get("request")?;
    let (kind, subject) = match view::text(request, &["subtype"]) {
        "can_use_tool" => match view::text(request, &["tool_name"]) {
            tool @ "AskUserQuestion" => ("question", tool),
            tool @ "ExitPlanMode" => ("plan", tool),
            tool => ("tool", tool),
        },
        "elicitation" => ("elicitation", view::text(request, &["mcp_server_name"])),
        "request_user_dialog" => ("dialog", view::text(request, &["dialog_kind"])),
        _ => return None,
    };
    let session: SessionId = session.parse().ok()?;
    Some(json!({
        "id": ApprovalId::of_record(session, Seq::new(seq)).to_string(),
        "kind": kind,
        "subject": subject,
        "request": request,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0196aa00-0000-7000-8000-000000000001";

    fn shown(screen: &mut Screen, src: &str, data: &Value) -> String {
        let frame = json!({"seq": 1, "ts": "x", "src": src, "by": "ws:1", "data": data});
        screen
            .frame(SESSION, &frame)
            .into_iter()
            .map(|event| match event {
                Event::Text(_, text) => text,
                Event::Snapshot { head, pending, .. } => format!("[head {head}, {} pending]", pending.len()),
                Event::Asked(approval) => format!("[asked {}]", view::text(&approval, &["kind"])),
                Event::Settled(request) => format!("[settled {request}]"),
                Event::State(_) | Event::Turned | Event::Commands(_) => String::new(),
            })
            .collect()
    }

    fn delta(text: &str) -> Value {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}})
    }

    #[test]
    fn streamed_text_is_shown_once() {
        let mut screen = Screen::default();
        let start =
            json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m1"}}});
        let whole = json!({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "One two"}]}});
        let stop = json!({"type": "stream_event", "event": {"type": "content_block_stop"}});
        let mut text = shown(&mut screen, "cli", &start);
        text += &shown(&mut screen, "cli", &delta("One "));
        text += &shown(&mut screen, "cli", &delta("two"));
        text += &shown(&mut screen, "cli", &whole);
        text += &shown(&mut screen, "cli", &stop);
        assert_eq!(text, "One two\n");

        let other = json!({"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "Three"}]}});
        assert_eq!(shown(&mut screen, "cli", &other), "Three\n");
    }

    #[test]
    fn a_tool_is_one_line_and_interrupts_no_line() {
        let mut screen = Screen::default();
        assert_eq!(shown(&mut screen, "cli", &delta("half")), "half");
        let tool = json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls\n-l"}}]}});
        assert_eq!(shown(&mut screen, "cli", &tool), "\n* Bash ls -l\n");
        let failed = json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": "no\nway", "is_error": true}]}});
        assert_eq!(shown(&mut screen, "cli", &failed), "  > failed: no way\n");
    }

    #[test]
    fn a_tool_and_its_outcome_are_one_line_with_the_change() {
        let mut screen = Screen::joining();
        let edit = json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "one\n2"});
        let tools = json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "id": "t1", "name": "Edit", "input": edit},
            {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "make"}}]}});
        assert_eq!(shown(&mut screen, "cli", &tools), "");
        assert_eq!(screen.running(), Some("Edit"));
        let done = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}});
        assert_eq!(
            shown(&mut screen, "cli", &done),
            "* Edit a.rs -> ok\n    |   one\n    | - two\n    | + 2\n"
        );
        let result =
            json!({"type": "result", "is_error": false, "duration_ms": 1200, "total_cost_usd": 0.0016});
        assert_eq!(
            shown(&mut screen, "cli", &result),
            "* Bash make -> no outcome\n- turn done, 1.2 s\n"
        );
    }

    #[test]
    fn own_messages_are_not_repeated_and_those_of_others_are_shown() {
        let mut screen = Screen::default();
        screen.sent("u1");
        let own = json!({"type": "user", "uuid": "u1", "message": {"content": "mine"}});
        let other = json!({"type": "user", "uuid": "x", "message": {"content": [{"type": "text", "text": "theirs"}]}});
        assert_eq!(shown(&mut screen, "client", &own), "");
        assert_eq!(shown(&mut screen, "client", &other), "> theirs\n");
    }

    #[test]
    fn requests_are_asked_and_settled() {
        let mut screen = Screen::default();
        let request = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {}}});
        assert_eq!(shown(&mut screen, "cli", &request), "[asked plan]");
        let hook =
            json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "hook_callback"}});
        assert_eq!(shown(&mut screen, "cli", &hook), "");
        let decision = json!({"type": "decision", "approval_id": "a1", "state": "denied", "by": "ws:1"});
        assert_eq!(
            shown(&mut screen, "daemon", &decision),
            "- denied by a client\n[settled a1]"
        );
    }

    #[test]
    fn the_snapshot_says_what_waits() {
        let frame = json!({"type": "trunkline.snapshot", "head_seq": 7, "after": 7, "pending_approvals": [{"id": "a1"}],
            "session": {"id": "s", "state": "waiting", "simulated": true}});
        let events = Screen::default().frame(SESSION, &frame);
        assert!(matches!(&events[0], Event::Text(_, line) if line == "session s, waiting, simulated\n"));
        assert!(
            matches!(&events[1], Event::Snapshot { head: 7, after: 7, pending, .. } if pending.len() == 1)
        );
    }

    #[test]
    fn a_turn_ends_with_its_time() {
        let mut screen = Screen::default();
        let result =
            json!({"type": "result", "is_error": false, "duration_ms": 1200, "total_cost_usd": 0.0016});
        assert_eq!(shown(&mut screen, "cli", &result), "- turn done, 1.2 s\n");
    }
}
