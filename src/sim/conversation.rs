//! Owns what outlives the process: a conversation's messages and running totals, in one small file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::flags::Flags;

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    id: String,
    file: PathBuf,
    stored: Stored,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Stored {
    turns: u64,
    totals: Tokens,
    messages: Vec<Message>,
}

/// Tokens read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Message {
    uuid: String,
    role: String,
    text: String,
    /// The turn that the message belongs to.
    turn: u64,
}

/// Why a conversation cannot be opened.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The message of the agent on stderr.
    pub(super) message: String,
    /// The id that was asked for and is not known.
    pub(super) unknown: Option<String>,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            unknown: None,
        }
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
    }
}

impl Conversation {
    /// Begins, resumes or forks, as the flags say and as the agent CLI does it.
    pub(super) fn open(directory: &Path, flags: &Flags) -> Result<Self, Refusal> {
        let Some(parent) = &flags.resume else {
            let id = match &flags.session_id {
                Some(id) => id.clone(),
                None => super::wire::random_uuid(),
            };
            let file = file_of(directory, &id)?;
            if file.exists() {
                return Err(in_use(&id));
            }
            return Ok(Self {
                id,
                file,
                stored: Stored::default(),
            });
        };
        if flags.session_id.is_some() && !flags.is_fork {
            return Err(Refusal::new(
                "--session-id can only be used with --resume if --fork-session is also given",
            ));
        }
        let parent_file = file_of(directory, parent)?;
        let mut stored = match fs::read(&parent_file) {
            Ok(bytes) => serde_json::from_slice::<Stored>(&bytes)
                .map_err(|error| Refusal::new(format!("{} is damaged: {error}", parent_file.display())))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Refusal {
                    message: format!("No conversation found with session ID: {parent}"),
                    unknown: Some(parent.clone()),
                });
            }
            Err(error) => return Err(Refusal::new(format!("{}: {error}", parent_file.display()))),
        };
        if let Some(at) = &flags.resume_at {
            let index = stored.messages.iter().position(|message| message.uuid == *at);
            let Some(index) = index else {
                return Err(Refusal::new(format!(
                    "No message found with message.uuid of: {at}"
                )));
            };
            stored.messages.truncate(index + 1);
            stored.turns = stored.messages.last().map_or(0, |message| message.turn);
        }
        if !flags.is_fork {
            return Ok(Self {
                id: parent.clone(),
                file: parent_file,
                stored,
            });
        }
        let id = flags.session_id.clone().unwrap_or_else(super::wire::random_uuid);
        let file = file_of(directory, &id)?;
        if file.exists() {
            return Err(in_use(&id));
        }
        Ok(Self { id, file, stored })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Turns so far.
    pub(super) const fn turns(&self) -> u64 {
        self.stored.turns
    }

    /// Running totals.
    pub(super) const fn totals(&self) -> Tokens {
        self.stored.totals
    }

    /// The first prompt of the person.
    pub(super) fn first_prompt(&self) -> Option<&str> {
        self.stored
            .messages
            .iter()
            .find(|message| message.role == "user")
            .map(|message| message.text.as_str())
    }

    /// Remembers a message.
    pub(super) fn add(&mut self, uuid: &str, role: &str, text: &str) {
        self.stored.messages.push(Message {
            uuid: uuid.into(),
            role: role.into(),
            text: text.into(),
            turn: self.stored.turns + 1,
        });
    }

    /// Counts a turn, and saves everything.
    pub(super) fn end_turn(&mut self, used: Tokens) -> io::Result<()> {
        self.stored.turns += 1;
        self.stored.totals += used;
        self.save()
    }

    /// Keeps what there is.
    pub(super) fn save(&self) -> io::Result<()> {
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory)?;
        }
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec(&self.stored)?)?;
        fs::rename(new, &self.file)
    }
}

/// Only UUIDs are ids, so an id cannot name another file.
fn file_of(directory: &Path, id: &str) -> Result<PathBuf, Refusal> {
    match id.parse::<uuid::Uuid>() {
        Ok(id) => Ok(directory.join(format!("{id}.json"))),
        Err(_) => Err(Refusal::new(format!(
            "{id:?} is not a valid session ID: it must be a UUID"
        ))),
    }
}

fn in_use(id: &str) -> Refusal {
    Refusal::new(format!("Session ID {id} is already in use."))
}
