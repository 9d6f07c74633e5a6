//! Owns how a conversation reads as Markdown: what was said, thought and called, and what came back. It leaves out the words of sub-agents,
//! as the call that started one has its result.

use std::fmt::Write as _;

use crate::{
    claude::said::{self, Said, Speech},
    journal::{Chunk, Missing, MissingReason, RecordRef, Source, unfold},
};

/// The title, and which records are no longer there.
pub(super) fn beginning(title: &str, not_kept: Option<Missing>) -> String {
    let mut out = format!("# {title}\n\n");
    if let Some(missing) = not_kept {
        gap(missing, &mut out);
    }
    out
}

/// The words of a chunk's records.
pub(super) fn records(chunk: &Chunk) -> String {
    let mut out = String::new();
    if let Some(missing) = chunk.missing {
        gap(missing, &mut out);
    }
    for record in chunk.records() {
        write(&record, &mut out);
    }
    out
}

// A text takes all that is written into it.
fn gap(missing: Missing, out: &mut String) {
    let Missing {
        first_seq,
        last_seq,
        reason,
    } = missing;
    let what = match reason {
        // All that they said is said by the whole messages.
        MissingReason::Compacted => return,
        MissingReason::Removed => "no longer kept",
        MissingReason::Lost => "missing: the journal was damaged",
    };
    let _ = match missing.count() {
        1 => write!(out, "_Record {first_seq} is {what}._\n\n"),
        _ => write!(out, "_Records {first_seq} to {last_seq} are {what}._\n\n"),
    };
}

fn write(record: &RecordRef<'_>, out: &mut String) {
    let record = unfold(*record);
    let speech = match record.source {
        Source::Client => Speech::sent(record.data),
        Source::Cli => Speech::printed(record.data),
        Source::Daemon | Source::StdoutText | Source::Stderr => None,
    };
    let speech = speech.filter(|speech| speech.parent_tool_use_id.is_none());
    for piece in speech.into_iter().flat_map(|speech| speech.pieces) {
        let _ = match piece {
            Said::Prompt(text) => write!(out, "## You\n\n{text}\n\n"),
            Said::Image => write!(out, "## You\n\n(image)\n\n"),
            Said::Answer(text) => write!(out, "{text}\n\n"),
            Said::Thought(text) => {
                for line in text.split('\n') {
                    let _ = writeln!(out, "> {line}");
                }
                writeln!(out)
            }
            Said::Call { tool, input } => write!(out, "**{tool}**\n\n{}\n", fenced(&said::call_text(input))),
            Said::Result { text, is_error } => {
                let heading = if is_error { "Failed:" } else { "Result:" };
                write!(out, "{heading}\n\n{}\n", fenced(&text))
            }
        };
    }
}

/// The text in a fence that it cannot close itself.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let text = text.strip_suffix('\n').unwrap_or(text);
    format!("{fence}\n{text}\n{fence}\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_says_what_is_not_there() {
        let missing = |first: u64, last: u64| Missing {
            first_seq: crate::domain::Seq::new(first),
            last_seq: crate::domain::Seq::new(last),
            reason: MissingReason::Removed,
        };
        assert_eq!(
            beginning("T", Some(missing(1, 4))),
            "# T\n\n_Records 1 to 4 are no longer kept._\n\n"
        );
        assert_eq!(
            beginning("T", Some(missing(1, 1))),
            "# T\n\n_Record 1 is no longer kept._\n\n"
        );
    }

    proptest! {
        #[test]
        fn a_fence_cannot_be_closed_by_what_it_holds(text in "[`a\n]{0,40}") {
            let whole = fenced(&text);
            let lines: Vec<&str> = whole.trim_end_matches('\n').split('\n').collect();
            prop_assert_eq!(lines[0], lines[lines.len() - 1]);
            prop_assert!(!text.contains(lines[0]));
        }
    }
}
