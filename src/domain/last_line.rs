//! Owns the last line of a session: what the agent said last or does now, short enough for a list.

use serde::{Deserialize, Serialize};

use super::{Seq, Timestamp};

/// The longest such line, in characters.
pub const MAX_LAST_LINE_CHARS: usize = 200;

/// The last thing that the agent said or did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastLine {
    /// Whether it is something that the agent said, or a call of a tool.
    pub kind: LastLineKind,
    /// The last line of the text, or what the tool is called with: a command, a path, a pattern. At most 200 characters.
    pub text: String,
    /// The name of the tool; `null` for text.
    pub tool: Option<String>,
    /// Its record.
    pub seq: Seq,
    /// When it came.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// The kind of a last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LastLineKind {
    /// The agent said it.
    Said,
    /// The agent called a tool.
    Tool,
}

/// One line of a text without control characters, cut to the length of a last line.
pub fn short_line(text: &str) -> String {
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    let line: String = text
        .trim_matches(is_blank)
        .chars()
        .take(MAX_LAST_LINE_CHARS + 1)
        .collect();
    let mut line: String = line.chars().map(|c| if is_blank(c) { ' ' } else { c }).collect();
    if line.chars().count() > MAX_LAST_LINE_CHARS {
        line = line.chars().take(MAX_LAST_LINE_CHARS - 1).chain(['…']).collect();
    }
    line
}
