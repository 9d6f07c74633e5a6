//! Owns the list of what an agent means to do: its entries, and the changes that the agent's tools make to it.

use serde::{Deserialize, Serialize};

/// The most entries that are kept.
pub const MAX_TODOS: usize = 500;

/// One thing that the agent means to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = TodoEntry)]
pub struct Todo {
    /// The CLI's id of it; `null` in a list that `TodoWrite` wrote.
    pub id: Option<String>,
    /// The work, in a few words.
    pub subject: String,
    /// The same at length.
    pub description: Option<String>,
    /// The words for it while it is done, such as `Running the tests`.
    pub active_form: Option<String>,
    /// `pending`, `in_progress`, `completed`, or a newer word of the CLI.
    pub status: String,
    /// The agent that does it.
    pub owner: Option<String>,
    /// The ids of those that come first.
    pub blocked_by: Vec<String>,
}

/// The change that a tool made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoChange {
    /// The list is this one.
    Replace(Vec<Todo>),
    /// One more, or the same one again.
    Add(Todo),
    /// These fields of one are new.
    Update(TodoPatch),
    /// The conversation is another one.
    Clear,
}

/// The new fields of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoPatch {
    /// The entry.
    pub id: String,
    /// Its new words.
    pub subject: Option<String>,
    /// Its new description.
    pub description: Option<String>,
    /// Its new words for the time while it is done.
    pub active_form: Option<String>,
    /// Its new state; `deleted` takes it away.
    pub status: Option<String>,
    /// Its new owner.
    pub owner: Option<String>,
    /// Entries that come before it from now on.
    pub add_blocked_by: Vec<String>,
    /// Entries that come after it from now on.
    pub add_blocks: Vec<String>,
}

impl TodoChange {
    /// Changes the list.
    pub fn apply(self, list: &mut Vec<Todo>) {
        match self {
            Self::Replace(new) => *list = new,
            Self::Clear => list.clear(),
            Self::Add(todo) => {
                list.retain(|known| known.id.is_some() && known.id != todo.id);
                list.push(todo);
            }
            Self::Update(patch) => patch.apply(list),
        }
        list.truncate(MAX_TODOS);
    }
}

impl TodoPatch {
    fn apply(self, list: &mut Vec<Todo>) {
        let is_it = |todo: &Todo| todo.id.as_deref() == Some(self.id.as_str());
        if self.status.as_deref() == Some("deleted") {
            list.retain(|todo| !is_it(todo));
            for todo in list {
                todo.blocked_by.retain(|id| *id != self.id);
            }
            return;
        }
        for other in list.iter_mut() {
            let is_after = |id: &String| self.add_blocks.contains(id);
            if other.id.as_ref().is_some_and(is_after) && !other.blocked_by.contains(&self.id) {
                other.blocked_by.push(self.id.clone());
            }
        }
        let Some(todo) = list.iter_mut().find(|todo| is_it(todo)) else {
            return;
        };
        let set = |field: &mut String, new: Option<String>| {
            if let Some(new) = new {
                *field = new;
            }
        };
        set(&mut todo.subject, self.subject);
        set(&mut todo.status, self.status);
        todo.description = self.description.or(todo.description.take());
        todo.active_form = self.active_form.or(todo.active_form.take());
        todo.owner = self.owner.or(todo.owner.take());
        for id in self.add_blocked_by {
            if !todo.blocked_by.contains(&id) {
                todo.blocked_by.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn todo(id: Option<&str>, subject: &str) -> Todo {
        Todo {
            id: id.map(ToOwned::to_owned),
            subject: subject.to_owned(),
            status: "pending".to_owned(),
            ..Todo::default()
        }
    }

    #[test]
    fn changes_of_both_families_of_tools_make_one_list() {
        let mut list = Vec::new();
        TodoChange::Replace(vec![todo(None, "a"), todo(None, "b")]).apply(&mut list);
        assert_eq!(list.len(), 2);
        // The other family begins a list of its own.
        TodoChange::Add(todo(Some("1"), "one")).apply(&mut list);
        TodoChange::Add(todo(Some("2"), "two")).apply(&mut list);
        TodoChange::Add(todo(Some("1"), "one again")).apply(&mut list);
        let subjects: Vec<_> = list.iter().map(|todo| todo.subject.as_str()).collect();
        assert_eq!(subjects, ["two", "one again"]);
        TodoChange::Update(TodoPatch {
            id: "2".to_owned(),
            status: Some("in_progress".to_owned()),
            add_blocks: vec!["1".to_owned()],
            ..TodoPatch::default()
        })
        .apply(&mut list);
        assert_eq!(
            (list[0].status.as_str(), list[0].subject.as_str()),
            ("in_progress", "two")
        );
        assert_eq!(list[1].blocked_by, ["2"]);
        TodoChange::Update(TodoPatch {
            id: "2".to_owned(),
            status: Some("deleted".to_owned()),
            ..TodoPatch::default()
        })
        .apply(&mut list);
        assert_eq!(list.len(), 1);
        assert!(list[0].blocked_by.is_empty());
        TodoChange::Clear.apply(&mut list);
        assert!(list.is_empty());
    }
}
