//! Owns what the records say about giving a process what was set at run time: what is left to give, and what it refused.

use crate::{claude::ControlResponse, session::choices::tolerates};

/// The choices that a process still has to be given.
#[derive(Clone, Debug, Default)]
pub(super) struct Restore {
    /// Whether there was anything to give.
    pub(super) is_needed: bool,
    /// The requests that are not answered, by their ids, in their order.
    pub(super) left: Vec<String>,
    /// The directories that it does not get.
    pub(super) left_out: Vec<String>,
    /// The choice that it refused, and why.
    pub(super) refused: Option<String>,
}

impl Restore {
    pub(super) fn new(ids: Vec<String>, left_out: Vec<String>) -> Self {
        Self {
            is_needed: !ids.is_empty(),
            left: ids,
            left_out,
            refused: None,
        }
    }

    /// The CLI answered a request of ours.
    pub(super) fn answered(&mut self, answer: &ControlResponse) {
        let Some(place) = self.left.iter().position(|id| *id == answer.request_id) else {
            return;
        };
        match &answer.outcome {
            Err(refused) if !tolerates(&answer.request_id, &refused.error) => {
                let detail = format!("the CLI did not take what was set before: {}", refused.error);
                self.refused.get_or_insert(detail);
            }
            _ => drop(self.left.remove(place)),
        }
    }
}
