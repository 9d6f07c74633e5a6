//! Owns the file of a session: what no journal says of it, so that the database can be made again. It is JSON, has the mode 0600
//! as launch options may hold secrets, and is `session.json` in the folder of the session.
//!
//! The file is made of the rows of a session inside the transaction that changes them, and is in its place before that is
//! committed. A reader finds the old file or the new one, never a part. The old one comes back where the transaction fails.

mod replaced;
mod restore;
mod rows;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sqlx::SqliteConnection;
use uuid::Uuid;

use replaced::Replaced;
pub(super) use restore::{Restore, restore};

use super::{QueryError, StoreError, lists::List};
use crate::{
    domain::{
        AgentKind, CliSessionId, PromptUuid, Seq, SessionId, Timestamp, TokenUsage, Usd, fact::CliTotals,
    },
    files,
};

/// The name of the file in the folder of its session.
pub const SESSION_FILE: &str = "session.json";
/// The folder of the sessions' folders, beside the database.
const SESSIONS: &str = "sessions";
/// The form of the file that this program writes, and the newest that it reads.
const FORM: u32 = 1;

/// The title of a session of whose file nothing is left.
const RECOVERED: &str = "recovered";

/// The facts of a session that no journal has. They are true after the record `as_of_seq`: the records behind it may have changed
/// some of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionFile {
    /// The form of the file.
    pub form: u32,
    /// Grows by one with each write.
    pub revision: u64,
    /// The session.
    pub id: SessionId,
    /// The last record that the tables covered.
    pub as_of_seq: Seq,
    /// The resolved working directory.
    pub cwd: String,
    /// A person's name for it.
    pub title: Option<String>,
    /// A person's group for it.
    pub tag: Option<String>,
    /// A person's key-value pairs.
    pub labels: BTreeMap<String, String>,
    /// The start of the first prompt.
    pub first_prompt: Option<String>,
    /// The launch options.
    pub options: JsonText,
    /// Those that the last process was started with, if others are stored since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_options: Option<JsonText>,
    /// Whether their permission mode was set later than the session came into the one that was reported last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mode_of_options: bool,
    /// Its rules, in their order.
    pub rules: Vec<JsonText>,
    /// Its restart policy, in place of the configuration's.
    pub restart: Option<JsonText>,
    /// The session that this is a fork of.
    pub parent: Option<SessionId>,
    /// Whether the transcript of the conversation does not have the title and the tag yet.
    #[serde(default)]
    pub untold: bool,
    /// The session that this is a fork of, also when that is deleted.
    #[serde(default)]
    pub fork_of: Option<SessionId>,
    /// The CLI's id of the conversation that the fork copies.
    pub forked_from: Option<CliSessionId>,
    /// The message that the fork branches off at.
    pub forked_at: Option<Uuid>,
    /// The kind of agent.
    pub agent: Option<AgentKind>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last worked or was edited.
    pub updated_at: Timestamp,
    /// The last record that a person has seen.
    pub seen_seq: Seq,
    /// The reasons that a person put off.
    pub put_off: Option<JsonText>,
    /// The messages that wait for it, in their order.
    pub queued_prompts: Vec<WaitingPrompt>,
    /// The CLI's ids of the conversation, in their order.
    pub conversations: Vec<Conversation>,
    /// The sums over its turns, which hold also when records of them are missing.
    pub totals: Totals,
    /// The CLI's running totals of its conversations, and of the one that it copies.
    pub running_totals: Vec<RunningTotal>,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingPrompt {
    /// Its place in the line, which need not begin with 1.
    pub position: u64,
    /// The client's id.
    pub uuid: PromptUuid,
    /// The request that brought it.
    pub body: JsonText,
    /// Whether it waits until somebody lets it go.
    pub held: bool,
    /// When it came.
    pub at: Timestamp,
}

/// An id that the CLI gave the conversation, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The id.
    pub id: CliSessionId,
    /// When it began to hold.
    pub from: Timestamp,
}

/// Sums over turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Finished turns.
    pub turns: u64,
    /// The known costs.
    pub cost_usd: Usd,
    /// Turns whose cost is not known.
    pub unknown_cost_turns: u64,
    /// The tokens.
    pub usage: TokenUsage,
}

/// The CLI's running totals of one conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningTotal {
    /// The conversation.
    pub conversation: CliSessionId,
    /// Its totals.
    pub totals: CliTotals,
}

/// JSON as a column has it: a text that is kept byte for byte. A text that is no JSON is kept as a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(pub String);

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match RawValue::from_string(self.0.clone()) {
            // A string is how a text is kept that is no JSON.
            Ok(raw) if raw.get() == self.0 && !raw.get().starts_with('"') => raw.serialize(serializer),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            let text = serde_json::from_str(raw.get());
            return text.map(Self).map_err(serde::de::Error::custom);
        }
        Ok(Self(raw.get().to_owned()))
    }
}

impl SessionFile {
    /// The file of a session in its folder.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(SESSION_FILE)
    }

    /// Reads the file in the folder of a session; `None` when there is none. Blocks.
    ///
    /// # Errors
    /// The file cannot be read, or is none (`InvalidData`), or has the form of a newer program (`Unsupported`).
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let bytes = match files::read(&Self::path(dir)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        let parse_error = |error: serde_json::Error| invalid(error.to_string());
        let Form { form } = serde_json::from_slice(&bytes).map_err(parse_error)?;
        if form > FORM {
            let error = format!("it has the form {form}, this program knows forms up to {FORM}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, error));
        }
        let file: Self = serde_json::from_slice(&bytes).map_err(parse_error)?;
        Ok(Some(file))
    }

    /// The revision of the file in the folder of a session; `None` when there is none that can be read. Blocks.
    pub fn revision_in(dir: &Path) -> Option<u64> {
        #[derive(Deserialize)]
        struct Revision {
            revision: u64,
        }
        let bytes = files::read(&Self::path(dir)).ok()?;
        let file: Revision = serde_json::from_slice(&bytes).ok()?;
        Some(file.revision)
    }

    /// The rest of the file of a session without one: its first process was asked for then, and opened this conversation. Only
    /// a person knows the rest.
    pub fn recovered(
        id: SessionId,
        conversation: CliSessionId,
        agent: Option<AgentKind>,
        at: Timestamp,
    ) -> Self {
        Self {
            form: FORM,
            revision: 0,
            id,
            as_of_seq: Seq::ZERO,
            cwd: String::new(),
            title: Some(RECOVERED.to_owned()),
            tag: None,
            labels: BTreeMap::new(),
            first_prompt: None,
            options: JsonText("{}".to_owned()),
            started_options: None,
            mode_of_options: false,
            rules: Vec::new(),
            restart: None,
            parent: None,
            untold: false,
            fork_of: None,
            forked_from: None,
            forked_at: None,
            agent,
            created_at: at,
            updated_at: at,
            seen_seq: Seq::ZERO,
            put_off: None,
            queued_prompts: Vec::new(),
            conversations: vec![Conversation {
                id: conversation,
                from: at,
            }],
            totals: Totals::default(),
            running_totals: Vec::new(),
        }
    }

    /// The conversation that the session began with.
    pub fn first_conversation(&self) -> Option<CliSessionId> {
        self.conversations.first().map(|first| first.id)
    }

    /// The running totals of its conversation.
    pub fn running_total(&self) -> Option<CliTotals> {
        let current = self.conversations.last()?.id;
        let known = self.running_totals.iter();
        let mut known = known.filter(|total| total.conversation == current);
        known.next().map(|total| total.totals.clone())
    }
}

/// Where the files of the sessions are.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The folder of the database; `None` while the database is made of the files.
    folder: Option<Arc<PathBuf>>,
    replaced: Replaced,
}

impl SessionFiles {
    /// The files beside this database.
    pub(super) fn beside(database: &Path) -> Self {
        Self {
            folder: database.parent().map(|folder| Arc::new(folder.to_owned())),
            replaced: Replaced::default(),
        }
    }

    /// No files are written.
    pub(super) fn unchanged() -> Self {
        Self {
            folder: None,
            replaced: Replaced::default(),
        }
    }

    /// Ends a transaction: where it failed, each file is as it was before.
    pub(super) async fn end(&self, is_committed: bool) {
        if self.replaced.is_empty() {
            return;
        }
        let replaced = self.replaced.clone();
        // Only the end of the runtime cancels it; the next start looks at what it left.
        drop(tokio::task::spawn_blocking(move || replaced.end(is_committed)).await);
    }

    /// As [`Self::save`], where an older file is of use too: nothing that a person was told depends on it.
    pub(super) async fn save_if_possible(&self, connection: &mut SqliteConnection, id: SessionId) {
        if let Err(error) = self.save(connection, id).await {
            tracing::warn!(session.id = %id, error = &error as &dyn std::error::Error, "the file of a session stays as it was");
        }
    }

    /// Puts the file of a session in its place, as its rows are in this transaction. A session without a folder gets none.
    pub(super) async fn save(
        &self,
        connection: &mut SqliteConnection,
        id: SessionId,
    ) -> Result<(), QueryError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let path = SessionFile::path(&folder.join(SESSIONS).join(id.to_string()));
        let Some(file) = rows::next_file(connection, id).await? else {
            return Ok(());
        };
        let bytes = serde_json::to_vec(&file).map_err(|error| unwritten(&path, error.into()))?;
        self.put(path, bytes).await
    }

    /// As [`Self::save`], if the file is newer than the rows: the change that it is of was not committed. Says whether it was.
    pub(super) async fn mend(
        &self,
        connection: &mut SqliteConnection,
        id: SessionId,
    ) -> Result<bool, QueryError> {
        let Some(folder) = &self.folder else {
            return Ok(false);
        };
        let dir = folder.join(SESSIONS).join(id.to_string());
        let found = tokio::task::spawn_blocking(move || SessionFile::revision_in(&dir)).await;
        // Only the end of the runtime cancels it.
        let found = found.map_err(|_| StoreError::Closed)?;
        let committed = rows::revision(connection, id).await?;
        match (found, committed) {
            (Some(found), Some(committed)) if found > committed => {
                self.save(connection, id).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Puts the file of a list in its place, as its rows are in this transaction.
    pub(super) async fn save_list(
        &self,
        connection: &mut SqliteConnection,
        list: List,
    ) -> Result<(), QueryError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let rows = list.rows(connection).await?;
        self.put(folder.join(list.file()), rows.into_bytes()).await
    }

    /// Puts a file in its place. One without a folder is not written.
    async fn put(&self, path: PathBuf, bytes: Vec<u8>) -> Result<(), QueryError> {
        let (replaced, place) = (self.replaced.clone(), path.clone());
        match tokio::task::spawn_blocking(move || replaced.put(&place, &bytes)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(put) => Ok(put.map_err(|error| unwritten(&path, error))?),
            // Only the end of the runtime cancels it.
            Err(_) => Err(StoreError::Closed.into()),
        }
    }
}

fn unwritten(path: &Path, source: io::Error) -> StoreError {
    StoreError::SessionFile {
        path: path.to_owned(),
        source: Arc::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_comes_back_byte_for_byte() {
        for text in ["{}", r#"{ "a" : 1.50 }"#, "no JSON", r#""a string""#, " {}", ""] {
            let json = serde_json::to_string(&JsonText(text.to_owned())).unwrap();
            let back: JsonText = serde_json::from_str(&json).unwrap();
            assert_eq!(back.0, text, "{json}");
        }
    }
}
