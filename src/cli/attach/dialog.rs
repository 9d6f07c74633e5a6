//! Owns the questions to the person: one at a time, the oldest first, until each is settled by us or by somebody else.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::{
    approvals::{self, form},
    resolve, view,
};

/// What waits for the person, and how far the answer to the first has come.
#[derive(Debug, Default)]
pub(super) struct Dialog {
    waiting: VecDeque<Value>,
    typed: Vec<String>,
}

/// What a typed line meant.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
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
    pub(super) fn asked(&mut self, approval: Value) -> Option<String> {
        let id = view::text(&approval, &["id"]);
        if self.waiting.iter().any(|known| view::text(known, &["id"]) == id) {
            return None;
        }
        self.waiting.push_back(approval);
        (self.waiting.len() == 1).then(|| self.question()).flatten()
    }

    /// An approval needs no answer any more. Returns the next question, when there is one now.
    pub(super) fn settled(&mut self, id: &str) -> Option<String> {
        let index = self
            .waiting
            .iter()
            .position(|approval| view::text(approval, &["id"]) == id)?;
        self.waiting.remove(index);
        if index > 0 {
            return None;
        }
        self.typed.clear();
        self.question()
    }

    /// A line was typed.
    pub(super) fn reply(&mut self, line: &str) -> Reply {
        let Some(approval) = self.waiting.front() else {
            return Reply::NotAsked;
        };
        let text = line.trim();
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
                Ok(result) => json!({"decision": "complete", "result": result}),
                Err(_) => return self.again(),
            },
            _ if questions.is_empty() => match text {
                "y" | "Y" | "yes" => approvals::allow(None).unwrap_or_else(|_| approvals::refuse(None)),
                "n" | "N" | "no" => approvals::refuse(None),
                message => approvals::refuse(Some(message)),
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
                "y" | "Y" | "yes" if fields.is_empty() => return Some(json!({"decision": "accept"})),
                "y" | "Y" | "yes" => self.typed.push(text.to_owned()),
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

    /// The question that is to be answered now.
    pub(super) fn question(&self) -> Option<String> {
        let approval = self.waiting.front()?;
        let questions = approvals::questions(approval);
        if let Some(question) = questions.get(self.typed.len()) {
            let how = if view::at(question, &["multiSelect"]).and_then(Value::as_bool) == Some(true) {
                "numbers with commas, or your own words"
            } else {
                "a number, or your own words"
            };
            return Some(format!(
                "\n? {}\n  {how}: ",
                approvals::describe_question(question).trim_start()
            ));
        }
        let subject = view::text(approval, &["subject"]);
        match view::text(approval, &["kind"]) {
            "elicitation" => return Some(self.form_question(approval)),
            "dialog" => {
                let payload = view::at(approval, &["request", "payload"]).unwrap_or(&Value::Null);
                return Some(format!(
                    "\n? dialog {subject}: {payload}\n  its result as JSON, or c to cancel: "
                ));
            }
            _ => {}
        }
        let what = match view::text(approval, &["kind"]) {
            "plan" => format!(
                "the agent has a plan:\n{}\n  carry it out?",
                view::text(approval, &["request", "input", "plan"])
            ),
            _ => format!("may it run {}?", resolve::describe_approval(approval)),
        };
        Some(format!(
            "\n? {what}\n  y allows, n denies, anything else denies with that message: "
        ))
    }

    /// What is to be typed next for a form.
    fn form_question(&self, approval: &Value) -> String {
        let fields = form::fields(approval);
        match self
            .typed
            .len()
            .checked_sub(1)
            .and_then(|field| fields.get(field))
        {
            Some(field) => format!("\n? {}", field.describe()),
            None => format!(
                "\n? {}\n  y {}, n declines, c closes it: ",
                resolve::describe_approval(approval),
                if fields.is_empty() {
                    "accepts"
                } else {
                    "fills it in"
                }
            ),
        }
    }
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
            ("use rg", json!({"decision": "deny", "message": "use rg"})),
        ] {
            let mut dialog = Dialog::default();
            assert!(dialog.asked(tool("a")).unwrap().contains("Bash ls"));
            assert!(matches!(dialog.reply(""), Reply::Again(_)));
            let approval = "a".into();
            assert_eq!(dialog.reply(line), Reply::Decided { approval, decision });
        }
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
        assert!(dialog.asked(form()).unwrap().contains("shop asks: Who?"));
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
