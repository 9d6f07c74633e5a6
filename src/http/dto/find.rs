//! Owns the hits of a search in a conversation.

use serde::Serialize;

use crate::{
    domain::{self, Seq, Timestamp},
    journal::Missing,
};

/// The source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Speaker {
    /// A person sent it.
    You,
    /// The agent answered it.
    Agent,
    /// The agent thought it.
    Thinking,
    /// The agent called a tool with it.
    Call,
    /// A tool gave it back.
    Result,
}

/// The words in their text, in one line. A side that is cut begins or ends with `…`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct FindExcerpt {
    /// The text before the words: at most 60 characters as a reader counts them, and 600 bytes.
    before: String,
    /// The words as the text has them.
    words: String,
    /// The text after the words: at most 60 characters as a reader counts them, and 600 bytes.
    after: String,
}

impl From<domain::Excerpt> for FindExcerpt {
    fn from(excerpt: domain::Excerpt) -> Self {
        Self {
            before: excerpt.before,
            words: excerpt.words,
            after: excerpt.after,
        }
    }
}

/// A text that has the words.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct FindHit {
    /// The record of the text.
    pub(in crate::http) seq: Seq,
    /// When it came.
    #[schema(value_type = String, format = DateTime)]
    pub(in crate::http) ts: Timestamp,
    /// The number of the finished turn that the record is in; of a prompt, that of the next one. `null` when there is none yet.
    pub(in crate::http) turn: Option<u64>,
    /// The source of the text.
    pub(in crate::http) who: Speaker,
    /// The tool that is called; `null` for other texts.
    pub(in crate::http) tool: Option<String>,
    /// The first place of the words in the text.
    pub(in crate::http) excerpt: FindExcerpt,
    /// The tool call of the sub-agent whose text it is; absent for the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) parent_tool_use_id: Option<String>,
}

/// A page of hits.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(example = json!({"items": [{"seq": 12, "ts": "2026-01-02T03:04:05.678901Z", "turn": 1, "who": "agent", "tool": null,
    "excerpt": {"before": "They pass now. ", "words": "Two", "after": " were wrong."}}],
    "next_cursor": null, "from_seq": 1, "head_seq": 14}))]
pub(in crate::http) struct FindPage {
    /// The hits, the newest first. A text is one hit, however often it has the words. A page may have few or none and still not be
    /// the last one: the search ends for now after a time.
    pub(in crate::http) items: Vec<FindHit>,
    /// Where the search goes on; `null` when all was looked at.
    pub(in crate::http) next_cursor: Option<String>,
    /// The oldest record that was looked at, on this page and those before; 1 at the end.
    pub(in crate::http) from_seq: Seq,
    /// The last record that there is.
    pub(in crate::http) head_seq: Seq,
    /// Records that this page would look at and that are missing: the journal was damaged, or they are no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) missing: Option<Vec<Missing>>,
}
