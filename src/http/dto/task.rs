//! Owns the lists of tasks and of what the agent means to do.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::RawList;
use crate::{
    claude::controls::BackgroundTask,
    domain::{Seq, Task, Timestamp, Todo, task::TaskUsage},
    store::TodoRow,
    supervisor::Offered,
};

/// The deepest sub-agent that the tree shows; the CLI itself allows a few.
const MAX_DEPTH: usize = 16;
/// The type of the tasks that are sub-agents.
const AGENT: &str = "local_agent";

/// The tasks of a session.
#[derive(utoipa::ToSchema)]
#[expect(
    dead_code,
    reason = "documents a body that is made of the CLI's bytes in part"
)]
pub(in crate::http) struct TaskList {
    /// Those that run in the background now, each as the CLI says it.
    items: Vec<BackgroundTask>,
    /// The record that says it; `null` when the CLI had no reason to say anything.
    seq: Option<Seq>,
    /// All that the CLI told of, those that ended too, the newest first: at most a thousand.
    history: Vec<Task>,
    /// The sub-agents among them, as a tree.
    agents: Vec<SubAgent>,
}

/// The tasks of a session, as they are sent.
#[derive(Serialize)]
pub(in crate::http) struct Tasks {
    items: Box<RawValue>,
    seq: Option<Seq>,
    history: Vec<Task>,
    agents: Vec<SubAgent>,
}

impl Tasks {
    pub(in crate::http) fn of(running: Option<Offered>, history: Vec<Task>) -> Self {
        let RawList { items, seq } = running.into();
        let agents = SubAgent::tree(&history);
        Self {
            items,
            seq,
            history,
            agents,
        }
    }
}

/// A sub-agent with those that it began.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(no_recursion)]
pub(in crate::http) struct SubAgent {
    /// The CLI's id of its task.
    task_id: String,
    /// Its kind.
    agent: Option<String>,
    /// The work, in a few words.
    description: Option<String>,
    /// Its state, as in `history`.
    status: String,
    /// Its own use, as the CLI counts it; `null` when the CLI did not say.
    usage: Option<TaskUsage>,
    /// The sum of its own use and that of all below it, as far as the CLI said. The times may overlap.
    total: TaskUsage,
    /// The sub-agents that it began, the first one first.
    children: Vec<SubAgent>,
}

impl SubAgent {
    /// The agents that the conversation itself began, the first one first. One whose parent is not known is among them.
    fn tree(tasks: &[Task]) -> Vec<Self> {
        let agents: HashMap<&str, &Task> = tasks
            .iter()
            .filter(|task| task.kind.as_deref() == Some(AGENT))
            .map(|task| (task.task_id.as_str(), task))
            .collect();
        let mut below: HashMap<Option<&str>, Vec<&Task>> = HashMap::new();
        for task in tasks
            .iter()
            .rev()
            .filter(|task| agents.contains_key(task.task_id.as_str()))
        {
            let parent = task.parent_task_id.as_deref();
            let parent = parent.filter(|parent| agents.contains_key(parent) && *parent != task.task_id);
            below.entry(parent).or_default().push(task);
        }
        Self::below(None, &below, MAX_DEPTH)
    }

    fn below(parent: Option<&str>, below: &HashMap<Option<&str>, Vec<&Task>>, depth: usize) -> Vec<Self> {
        if depth == 0 {
            return Vec::new();
        }
        let children = below.get(&parent).into_iter().flatten();
        let node = |task: &&Task| {
            let children = Self::below(Some(&task.task_id), below, depth - 1);
            let own = task.usage.unwrap_or_default();
            let total = children.iter().fold(own, |sum, child| TaskUsage {
                total_tokens: sum.total_tokens.saturating_add(child.total.total_tokens),
                tool_uses: sum.tool_uses.saturating_add(child.total.tool_uses),
                duration_ms: sum.duration_ms.saturating_add(child.total.duration_ms),
            });
            Self {
                task_id: task.task_id.clone(),
                agent: task.agent.clone(),
                description: task.description.clone(),
                status: task.status.clone(),
                usage: task.usage,
                total,
                children,
            }
        };
        children.map(node).collect()
    }
}

/// The to-do list of the agent, as its tools left it.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TodoList {
    /// The entries, in their order: at most 500.
    items: Vec<Todo>,
    /// The record that changed it last; `null` when the agent never kept a list.
    seq: Option<Seq>,
    /// When that was.
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Timestamp>,
}

impl From<Option<TodoRow>> for TodoList {
    fn from(row: Option<TodoRow>) -> Self {
        match row {
            Some(row) => Self {
                items: row.items,
                seq: Some(row.seq),
                at: Some(row.at),
            },
            None => Self {
                items: Vec::new(),
                seq: None,
                at: None,
            },
        }
    }
}
