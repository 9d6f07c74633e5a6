//! Owns the questions to the person: one at a time, the oldest first, until each is settled by us or by somebody else.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::{
    approvals::{self, form},
    request::{self, Room},
    view,
};

/// The approvals that wait for the person, and how far the answer to the first has come.
#[derive(Debug, Default)]
pub(in crate::cli) struct Dialog {
    waiting: VecDeque<Value>,
    typed: Vec<String>,
    /// Whether the person has asked for all of the first.
    is_whole: bool,
    /// Whether the answer to the first is on its way.
    is_deciding: bool,
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum Reply {
    /// Nothing was asked: it is a message to the agent.
    NotAsked,
    /// More is needed; this is the next question.
    Again(String),
    /// A decision.
    Decided {
        /// The approval's id.
        approval: String,
        /// The decision as the API takes it.
        decision: Value,
    },
}

impl Dialog {
    /// The agent asks something. Returns the question to show, when it is its turn.
    pub(in crate::cli) fn asked(&mut self, approval: Value) -> Option<String> {
        let id = view::text(&approval, &["id"]);
        if self.waiting.iter().any(|known| view::text(known, &["id"]) == id) {
            return None;
        }
        self.waiting.push_back(approval);
        (self.waiting.len() == 1).then(|| self.question()).flatten()
    }

    /// An approval needs no answer any more. Returns the next question, when there is one now.
    pub(in crate::cli) fn settled(&mut self, id: &str) -> Option<String> {
        let index = self
            .waiting
            .iter()
            .position(|approval| view::text(approval, &["id"]) == id)?;
        self.waiting.remove(index);
        if index > 0 {
            return None;
        }
        self.typed.clear();
        self.is_whole = false;
        self.is_deciding = false;
        self.question()
    }

    /// Whether the question on the screen is about this approval.
    pub(in crate::cli) fn is_asking(&self, id: &str) -> bool {
        self.waiting
            .front()
            .is_some_and(|approval| view::text(approval, &["id"]) == id)
    }

    /// A line was typed.
    pub(in crate::cli) fn reply(&mut self, line: &str) -> Reply {
        let Some(approval) = self.waiting.front().filter(|_| !self.is_deciding) else {
            return Reply::NotAsked;
        };
        let text = line.trim();
        if text == "v" && self.typed.is_empty() && self.shown(approval).is_cut {
            self.is_whole = true;
            return self.again();
        }
        let kind = view::text(approval, &["kind"]);
        let questions = approvals::questions(approval);
        let decision = match kind {
            "elicitation" => match self.fill_in(text) {
                Some(decision) => decision,
                None => return self.again(),
            },
            _ if text.is_empty() => return self.again(),
            "dialog" => match serde_json::from_str::<Value>(text) {
                _ if text == "c" => json!({"decision": "cancel"}),
                Ok(result) if !self.shown(approval).is_cut => {
                    json!({"decision": "complete", "result": result})
                }
                Ok(_) => return self.again(),
                Err(_) => return self.again(),
            },
            _ if questions.is_empty() => match refusal(text) {
                Some("") => approvals::refuse(None),
                Some(why) => approvals::refuse(Some(why)),
                // A plain yes allows nothing that was not shown.
                None if self.shown(approval).is_cut => return self.again(),
                None if is_yes(text) => json!({"decision": "allow"}),
                None if text == "e" && kind == "plan" => {
                    json!({"decision": "allow", "next_mode": "acceptEdits"})
                }
                None if text == "a" => match approvals::always(approval) {
                    Some(always) => always.decision,
                    None => return self.again(),
                },
                None => return self.again(),
            },
            _ => {
                self.typed.push(text.to_owned());
                if self.typed.len() < questions.len() {
                    return self.again();
                }
                approvals::answer(questions.iter().zip(self.typed.iter().map(String::as_str)))
            }
        };
        let Some(approval) = self.waiting.front() else {
            return Reply::NotAsked;
        };
        let id = view::text(approval, &["id"]).to_owned();
        self.typed.clear();
        self.is_deciding = true;
        Reply::Decided {
            approval: id,
            decision,
        }
    }

    /// Takes the next line for a form: first whether it is filled in at all, then its fields. Returns the decision, once
    /// there is one.
    fn fill_in(&mut self, text: &str) -> Option<Value> {
        let fields = form::fields(self.waiting.front()?);
        let Some(field) = self.typed.len().checked_sub(1) else {
            match text {
                yes if is_yes(yes) && self.shown(self.waiting.front()?).is_cut => {}
                yes if is_yes(yes) && fields.is_empty() => return Some(json!({"decision": "accept"})),
                yes if is_yes(yes) => self.typed.push(text.to_owned()),
                "n" | "N" | "no" => return Some(json!({"decision": "decline"})),
                "c" => return Some(json!({"decision": "cancel"})),
                _ => {}
            }
            return None;
        };
        if text.is_empty() && fields.get(field).is_some_and(|field| field.is_required) {
            return None;
        }
        self.typed.push(text.to_owned());
        let typed = self.typed.iter().skip(1).map(String::as_str);
        (self.typed.len() > fields.len())
            .then(|| json!({"decision": "accept", "content": form::content(fields.iter().zip(typed))}))
    }

    fn again(&self) -> Reply {
        self.question().map_or(Reply::NotAsked, Reply::Again)
    }

    /// The answer was not taken: the question is open again.
    pub(in crate::cli) fn refused(&mut self, id: &str) -> Option<String> {
        if self.is_asking(id) {
            self.is_deciding = false;
        }
        self.question()
    }

    /// The question that is to be answered now.
    pub(in crate::cli) fn question(&self) -> Option<String> {
        let approval = self.waiting.front().filter(|_| !self.is_deciding)?;
        let questions = approvals::questions(approval);
        if let Some(question) = questions.get(self.typed.len()) {
            let how = if view::at(question, &["multiSelect"]).and_then(Value::as_bool) == Some(true) {
                "numbers with commas, or your own words"
            } else {
                "a number, or your own words"
            };
            let lines = approvals::describe_question(question);
            return Some(format!("\n? {}\n  {how}: ", lines.join("\n").trim_start()));
        }
        let field = self.typed.len().checked_sub(1);
        if let Some(field) = field.and_then(|field| form::fields(approval).into_iter().nth(field)) {
            return Some(format!("\n? {}", field.describe()));
        }
        let shown = self.shown(approval);
        let (what, yes, no) = match view::text(approval, &["kind"]) {
            "elicitation" if form::fields(approval).is_empty() => (
                "it asks for your consent",
                "y accepts",
                ", n declines, c closes it",
            ),
            "elicitation" => (
                "it has a form for you",
                "y fills it in",
                ", n declines, c closes it",
            ),
            "dialog" => ("it shows a dialog", "its result as JSON", ", or c to cancel"),
            "plan" => (
                "carry it out?",
                "y carries it out, e does so and accepts its edits",
                ", n denies, `n` and a reason says why",
            ),
            _ => (
                "may it run this?",
                "y allows",
                ", n denies, `n` and a reason says why",
            ),
        };
        let always = match approvals::always(approval) {
            Some(always) if !shown.is_cut => format!("\n  a allows this and always {}", always.words),
            _ => String::new(),
        };
        let yes = if shown.is_cut { "v shows all of it" } else { yes };
        Some(format!("\n? {}  {what}{always}\n  {yes}{no}: ", shown.text))
    }

    fn shown(&self, approval: &Value) -> request::Shown {
        let room = if self.is_whole { Room::ALL } else { Room::SCREEN };
        request::shown(approval, room)
    }
}

fn is_yes(text: &str) -> bool {
    matches!(text, "y" | "Y" | "yes")
}

/// The reason of a refusal; nothing if it is none.
fn refusal(text: &str) -> Option<&str> {
    let word = text.split([' ', ',', ':']).next()?;
    let rest = text.get(word.len()..)?;
    matches!(word, "n" | "N" | "no").then(|| rest.trim_start_matches([' ', ',', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str) -> Value {
        json!({"id": id, "kind": "tool", "subject": "Bash",
               "request": {"input": {"command": "ls"}}})
    }

    #[test]
    fn a_tool_is_allowed_denied_or_denied_with_words() {
        for (line, decision) in [
            ("y", json!({"decision": "allow"})),
            (" n ", json!({"decision": "deny"})),
            ("n use rg", json!({"decision": "deny", "message": "use rg"})),
            ("no, use rg", json!({"decision": "deny", "message": "use rg"})),
        ] {
            let mut dialog = Dialog::default();
            assert!(dialog.asked(tool("a")).unwrap().contains("Bash\n  command: ls\n"));
            for nothing in ["", "use rg", "nope", "yy"] {
                assert!(matches!(dialog.reply(nothing), Reply::Again(_)), "{nothing}");
            }
            let approval = "a".into();
            assert_eq!(dialog.reply(line), Reply::Decided { approval, decision });
        }
    }

    #[test]
    fn always_is_what_the_agent_suggests_in_words() {
        let mut asked = tool("a");
        let rule = json!({"type": "addRules", "behavior": "allow", "destination": "session",
            "rules": [{"toolName": "Bash", "ruleContent": "ls *"}]});
        asked["request"]["permission_suggestions"] = json!([rule]);
        let mut dialog = Dialog::default();
        let question = dialog.asked(asked).unwrap();
        assert!(
            question.contains("a allows this and always Bash(ls *), for this session"),
            "{question}"
        );
        let Reply::Decided { decision, .. } = dialog.reply("a") else {
            panic!("no decision");
        };
        assert_eq!(
            decision,
            json!({"decision": "allow", "updated_permissions": [rule]})
        );
        let mut dialog = Dialog::default();
        assert!(!dialog.asked(tool("b")).unwrap().contains("always"));
        assert!(matches!(dialog.reply("a"), Reply::Again(_)));
    }

    #[test]
    fn what_was_cut_is_allowed_once_all_of_it_was_shown() {
        let mut dialog = Dialog::default();
        let mut long = tool("a");
        long["request"]["input"]["command"] = "line\n".repeat(500).into();
        let question = dialog.asked(long).unwrap();
        assert!(
            question.contains("cut here") && question.contains("v shows all"),
            "{question}"
        );
        assert!(matches!(dialog.reply("y"), Reply::Again(_)));
        let Reply::Again(all) = dialog.reply("v") else {
            panic!("nothing more is shown");
        };
        assert_eq!(all.matches("| line").count(), 500);
        assert!(matches!(dialog.reply("y"), Reply::Decided { .. }));
    }

    #[test]
    fn a_part_of_a_large_request_cannot_be_allowed() {
        let mut part = tool("a");
        part["request_truncated"] = true.into();
        part["request_bytes"] = 70_000.into();
        part["left_out"] = json!(["input.content"]);
        let mut dialog = Dialog::default();
        let question = dialog.asked(part).unwrap();
        assert!(
            question.contains("a part of 70000 bytes (input.content)")
                && question.contains("approvals --full"),
            "{question}"
        );
        for line in ["y", "v", "y", "a"] {
            assert!(matches!(dialog.reply(line), Reply::Again(_)), "{line}");
        }
        assert!(matches!(dialog.reply("n"), Reply::Decided { .. }));
    }

    #[test]
    fn several_requests_are_asked_one_after_the_other() {
        let mut dialog = Dialog::default();
        assert!(dialog.asked(tool("a")).is_some());
        assert!(dialog.asked(tool("b")).is_none());
        assert!(
            dialog.asked(tool("b")).is_none(),
            "the snapshot and the record name the same request"
        );
        assert!(dialog.settled("unknown").is_none());
        assert!(dialog.settled("a").is_some(), "b is next");
        assert!(dialog.settled("b").is_none());
        assert_eq!(dialog.reply("hello"), Reply::NotAsked);
    }

    #[test]
    fn questions_are_answered_one_by_one() {
        let mut dialog = Dialog::default();
        let approval = json!({"id": "q", "kind": "question", "request": {"input": {"questions": [
            {"question": "Colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
            {"question": "Sizes?", "options": [{"label": "S"}, {"label": "L"}], "multiSelect": true},
        ]}}});
        assert!(dialog.asked(approval).unwrap().contains("2 Blue"));
        assert!(matches!(dialog.reply("2"), Reply::Again(next) if next.contains("Sizes?")));
        let Reply::Decided { decision, .. } = dialog.reply("1,2") else {
            panic!("no decision");
        };
        assert_eq!(
            decision,
            json!({"decision": "answer", "answers": {"Colour?": "Blue", "Sizes?": "S, L"}})
        );
    }

    #[test]
    fn a_form_is_filled_in_field_by_field() {
        let form = || {
            json!({"id": "f", "kind": "elicitation", "subject": "shop", "request": {"message": "Who?",
                "requested_schema": {"required": ["name"], "properties": {
                    "name": {"type": "string"}, "note": {"type": "string"}, "sure": {"type": "boolean"}}}}})
        };
        let mut dialog = Dialog::default();
        assert!(dialog.asked(form()).unwrap().contains("shop asks:\n    | Who?"));
        assert!(matches!(dialog.reply("y"), Reply::Again(next) if next.contains("name")));
        assert!(matches!(dialog.reply(""), Reply::Again(next) if next.contains("name")));
        assert!(matches!(dialog.reply("Ada"), Reply::Again(next) if next.contains("note")));
        assert!(matches!(dialog.reply(""), Reply::Again(next) if next.contains("sure")));
        let decision = json!({"decision": "accept", "content": {"name": "Ada", "sure": true}});
        let approval = "f".into();
        assert_eq!(dialog.reply("y"), Reply::Decided { approval, decision });
        for (line, word) in [("n", "decline"), ("c", "cancel")] {
            let mut dialog = Dialog::default();
            dialog.asked(form());
            let decision = json!({"decision": word});
            let approval = "f".into();
            assert_eq!(dialog.reply(line), Reply::Decided { approval, decision });
        }
    }

    #[test]
    fn a_dialog_takes_json_or_is_cancelled() {
        let asked = json!({"id": "d", "kind": "dialog", "subject": "pick", "request": {"payload": {"n": 1}}});
        for (line, decision) in [
            ("c", json!({"decision": "cancel"})),
            ("{\"n\":2}", json!({"decision": "complete", "result": {"n": 2}})),
        ] {
            let mut dialog = Dialog::default();
            assert!(dialog.asked(asked.clone()).unwrap().contains("dialog pick"));
            assert!(matches!(dialog.reply("what?"), Reply::Again(_)));
            let approval = "d".into();
            assert_eq!(dialog.reply(line), Reply::Decided { approval, decision });
        }
    }
}
