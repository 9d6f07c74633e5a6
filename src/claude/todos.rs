//! Owns the reading of the tools with which an agent keeps a list of what it means to do: `TodoWrite`, and the family of `TaskCreate`.

use super::facts;
use crate::{
    domain::todo::{MAX_TODOS, Todo, TodoChange, TodoPatch},
    json,
};

/// The longest short text of an entry that is kept, in characters.
const MAX_SUBJECT_CHARS: usize = 500;
/// The longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 2_000;
/// The longest input of a call that is looked at, in bytes.
const MAX_INPUT_BYTES: usize = 256 * 1024;

/// A tool that changes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    TodoWrite,
    TaskCreate,
    TaskUpdate,
}

/// A call of such a tool whose result has not come.
#[derive(Clone, Debug)]
pub struct TodoCall {
    tool: Tool,
    /// Its input, byte for byte.
    input: String,
    /// Whether a sub-agent made it.
    is_of_agent: bool,
}

impl TodoCall {
    /// The call of the tool `name`; `None` when that changes no list.
    pub fn read(name: &str, input: &str, is_of_agent: bool) -> Option<Self> {
        let tool = match name {
            "TodoWrite" => Tool::TodoWrite,
            "TaskCreate" => Tool::TaskCreate,
            "TaskUpdate" => Tool::TaskUpdate,
            _ => return None,
        };
        (input.len() <= MAX_INPUT_BYTES).then(|| Self {
            tool,
            input: input.to_owned(),
            is_of_agent,
        })
    }

    /// The change that the call made, once its result is there; `result` is the line's `tool_use_result`.
    pub fn change(&self, result: Option<&str>) -> Option<TodoChange> {
        match self.tool {
            // Each agent writes a list of its own.
            Tool::TodoWrite if self.is_of_agent => None,
            Tool::TodoWrite => {
                let written = result.and_then(|result| json::member(result, "newTodos"));
                let list = written.or_else(|| json::member(&self.input, "todos"))?;
                let list = json::items(list)?.into_iter().take(MAX_TODOS);
                Some(TodoChange::Replace(list.filter_map(written_todo).collect()))
            }
            Tool::TaskCreate => {
                let [id, subject, description] =
                    json::members(json::member(result?, "task")?, ["id", "subject", "description"])?;
                let [asked, at_length, active] =
                    json::members(&self.input, ["subject", "description", "activeForm"])?;
                Some(TodoChange::Add(Todo {
                    id: Some(short(id)?),
                    subject: short(subject).or_else(|| short(asked))?,
                    description: long(description).or_else(|| long(at_length)),
                    active_form: short(active),
                    status: "pending".to_owned(),
                    ..Todo::default()
                }))
            }
            Tool::TaskUpdate => {
                let refused = result.and_then(|result| json::member_bool(result, "success")) == Some(false);
                (!refused)
                    .then(|| patch(&self.input))
                    .flatten()
                    .map(TodoChange::Update)
            }
        }
    }
}

fn written_todo(raw: &str) -> Option<Todo> {
    let [content, status, active] = json::members(raw, ["content", "status", "activeForm"])?;
    Some(Todo {
        subject: short(content)?,
        active_form: short(active),
        status: short(status).unwrap_or_else(|| "pending".to_owned()),
        ..Todo::default()
    })
}

fn patch(input: &str) -> Option<TodoPatch> {
    let [
        id,
        subject,
        description,
        active,
        status,
        owner,
        blocks,
        blocked_by,
    ] = json::members(
        input,
        [
            "taskId",
            "subject",
            "description",
            "activeForm",
            "status",
            "owner",
            "addBlocks",
            "addBlockedBy",
        ],
    )?;
    let ids = |raw: Option<&str>| {
        let items = raw.and_then(json::items).unwrap_or_default().into_iter();
        items.take(MAX_TODOS).filter_map(|id| short(Some(id))).collect()
    };
    Some(TodoPatch {
        id: short(id)?,
        subject: short(subject),
        description: long(description),
        active_form: short(active),
        status: short(status),
        owner: short(owner),
        add_blocks: ids(blocks),
        add_blocked_by: ids(blocked_by),
    })
}

fn short(raw: Option<&str>) -> Option<String> {
    cut(raw, MAX_SUBJECT_CHARS)
}

fn long(raw: Option<&str>) -> Option<String> {
    cut(raw, MAX_DESCRIPTION_CHARS)
}

fn cut(raw: Option<&str>, most: usize) -> Option<String> {
    let text = facts::text(raw)?;
    match text.char_indices().nth(most) {
        Some((end, _)) => Some(text[..end].to_owned()),
        None => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, input: &str, result: &str) -> Option<TodoChange> {
        TodoCall::read(name, input, false)?.change(Some(result))
    }

    #[test]
    fn both_families_are_read() {
        let written = r#"{"oldTodos":[],"newTodos":[{"content":"Mend it","status":"in_progress","activeForm":"Mending it"}]}"#;
        let Some(TodoChange::Replace(list)) = change("TodoWrite", r#"{"todos":[]}"#, written) else {
            panic!("no list");
        };
        assert_eq!(
            (list[0].subject.as_str(), list[0].status.as_str()),
            ("Mend it", "in_progress")
        );
        let input = r#"{"subject":"Look","description":"At all of it","activeForm":"Looking"}"#;
        let Some(TodoChange::Add(todo)) =
            change("TaskCreate", input, r#"{"task":{"id":"3","subject":"Look"}}"#)
        else {
            panic!("no entry");
        };
        assert_eq!(
            (todo.id.as_deref(), todo.description.as_deref()),
            (Some("3"), Some("At all of it"))
        );
        let input = r#"{"taskId":"3","status":"completed","addBlockedBy":["1"]}"#;
        let Some(TodoChange::Update(patch)) = change("TaskUpdate", input, r#"{"success":true,"taskId":"3"}"#)
        else {
            panic!("no change");
        };
        assert_eq!(
            (patch.status.as_deref(), patch.add_blocked_by.as_slice()),
            (Some("completed"), &["1".to_owned()][..])
        );
        assert_eq!(
            change("TaskUpdate", input, r#"{"success":false,"taskId":"3"}"#),
            None
        );
        assert_eq!(change("Bash", "{}", "{}"), None);
    }
}
