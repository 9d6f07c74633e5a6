//! Owns what the CLI says of calls that it does not let run: the model's calls, its own denials, and the list of a `result`.

use serde_json::value::RawValue;

use super::{Envelope, control::raw_value};
use crate::json;

/// A call of a tool, as the model made it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The input, byte for byte.
    pub input: Box<RawValue>,
}

impl ToolCall {
    /// The calls in an `assistant` line.
    pub fn of_assistant(line: &Envelope<'_>) -> Vec<Self> {
        let blocks = || {
            let [message] = json::members(line.line, ["message"])?;
            let [content] = json::members(message?, ["content"])?;
            json::items(content?)
        };
        let blocks = blocks().unwrap_or_default().into_iter();
        blocks.filter_map(Self::of_block).collect()
    }

    fn of_block(block: &str) -> Option<Self> {
        let [kind, id, input] = json::members(block, ["type", "id", "input"])?;
        (json::string(kind?)? == "tool_use").then_some(())?;
        Some(Self {
            id: json::string(id?)?.into_owned(),
            input: raw_value(input?)?,
        })
    }
}

/// A call that the CLI did not let run.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The tool.
    pub tool: String,
    /// The call.
    pub tool_use_id: String,
    /// The input, byte for byte, where it is said.
    pub input: Option<Box<RawValue>>,
    /// The CLI's words, byte for byte.
    pub said: Box<RawValue>,
}

impl Denial {
    /// The denial that a `permission_denied` line tells.
    pub fn of_line(line: &Envelope<'_>) -> Option<Self> {
        line.is_system("permission_denied")
            .then(|| Self::read(line.line))
            .flatten()
    }

    /// The denials that a `result` line lists.
    pub fn of_result(line: &Envelope<'_>) -> Vec<Self> {
        let denials = json::members(line.line, ["permission_denials"])
            .and_then(|[denials]| json::items(denials?))
            .unwrap_or_default();
        denials.into_iter().filter_map(Self::read).collect()
    }

    fn read(object: &str) -> Option<Self> {
        let [tool, id, input] = json::members(object, ["tool_name", "tool_use_id", "tool_input"])?;
        Some(Self {
            tool: json::decode_lossy(tool?)?.into_owned(),
            tool_use_id: json::decode_lossy(id?)?.into_owned(),
            input: input.filter(|input| json::is_object(input)).and_then(raw_value),
            said: raw_value(object.trim())?,
        })
    }

    /// The CLI's words, with the input of the call.
    #[must_use]
    pub fn with_input(self, input: Box<RawValue>) -> Self {
        let said = self.said.get().trim_end().strip_suffix('}');
        let said = said.and_then(|said| raw_value(&format!(r#"{said},"tool_input":{input}}}"#)));
        Self {
            said: said.unwrap_or(self.said),
            input: Some(input),
            ..self
        }
    }
}

/// How a `user` line says that calls of tools ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsEnded {
    /// The calls that have a result, by their ids.
    pub all: Vec<String>,
    /// The calls among them that somebody held, so that they did not run.
    pub held: Vec<String>,
}

impl CallsEnded {
    /// Reads a `user` line.
    pub fn of_user(line: &Envelope<'_>) -> Self {
        let blocks = || {
            let [message] = json::members(line.line, ["message"])?;
            let [content] = json::members(message?, ["content"])?;
            json::items(content?)
        };
        let result = |block: &str| {
            let [kind, id] = json::members(block, ["type", "tool_use_id"])?;
            (json::string(kind?)? == "tool_result").then_some(())?;
            Some(json::string(id?)?.into_owned())
        };
        // A call that was interrupted or cancelled may have begun.
        let held = |meta: &str| {
            let [id, kind] = json::members(meta, ["id", "non_execution_kind"])?;
            let kind = json::string(kind?)?;
            let is_held =
                matches!(&*kind, "permission-rule" | "user-rejected") || kind.starts_with("automode-");
            is_held.then(|| Some(json::string(id?)?.into_owned()))?
        };
        let meta = json::members(line.line, ["tool_result_meta"]).and_then(|[meta]| json::items(meta?));
        let (blocks, meta) = (blocks().unwrap_or_default(), meta.unwrap_or_default());
        Self {
            all: blocks.into_iter().filter_map(result).collect(),
            held: meta.into_iter().filter_map(held).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::envelope::scan;

    #[test]
    fn a_denial_is_read_and_gets_the_input_of_its_call() {
        let line = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","n":1.0}}]}}"#;
        let calls = ToolCall::of_assistant(&scan(line).unwrap());
        assert_eq!((calls.len(), calls[0].id.as_str()), (1, "t1"));
        let line = br#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t1","decision_reason_type":"mode"}"#;
        let denial = Denial::of_line(&scan(line).unwrap()).unwrap();
        assert!(denial.input.is_none());
        let whole = denial.with_input(calls[0].input.clone());
        assert!(
            whole
                .said
                .get()
                .ends_with(r#""decision_reason_type":"mode","tool_input":{"command":"ls","n":1.0}}"#)
        );
        let line = br#"{"type":"result","permission_denials":[{"tool_name":"Bash","tool_use_id":"t2","tool_input":{"command":"rm"}},{"tool_name":7}]}"#;
        let denials = Denial::of_result(&scan(line).unwrap());
        assert_eq!(denials.len(), 1);
        assert_eq!(denials[0].input.as_ref().unwrap().get(), r#"{"command":"rm"}"#);
    }

    #[test]
    fn the_end_of_a_call_says_whether_somebody_held_it() {
        let line = br#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t2"},{"type":"text","text":"x"}]},"tool_result_meta":[{"id":"t1","non_execution_kind":"permission-rule"},{"id":"t2","non_execution_kind":"interrupted"},{"id":"t3"}]}"#;
        let ended = CallsEnded::of_user(&scan(line).unwrap());
        assert_eq!(ended.all, ["t1", "t2"]);
        assert_eq!(ended.held, ["t1"]);
        let line = br#"{"type":"user","message":{"content":"hello"}}"#;
        assert_eq!(CallsEnded::of_user(&scan(line).unwrap()), CallsEnded::default());
    }
}
