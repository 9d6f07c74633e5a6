//! Owns what a compaction may take out of a journal: pieces of messages that are there as a whole, and signs of life of tools.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::journal::{Printed, Run};

/// Whether a line of the agent is a piece of a message or a sign of life.
pub(crate) fn is_piece(line: &str) -> bool {
    if line.starts_with(r#"{"type":"stream_event""#) {
        return true;
    }
    let may_be = ["stream_event", "thinking_tokens", "tool_progress"];
    if !may_be.iter().any(|kind| line.contains(kind)) {
        return false;
    }
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    match line["type"].as_str() {
        Some("stream_event") => true,
        Some("system") => line["subtype"] == "thinking_tokens",
        Some("tool_progress") => line["heartbeat"] == true,
        _ => false,
    }
}

/// Texts of which a compaction took pieces out, and that no whole message of the run says.
pub(crate) fn unsaid(run: &Run) -> Vec<String> {
    let lines = &run.lines;
    if lines.iter().all(|line| !line.is_gone) {
        return Vec::new();
    }
    let said = whole_texts(lines);
    let mut faults = Vec::new();
    // By the number of the block in its message.
    let mut open: BTreeMap<u64, Text> = BTreeMap::new();
    for line in lines {
        let Some(text) = &line.text else {
            // The text of this one is not known, so nothing that was open is.
            open.clear();
            continue;
        };
        if !text.starts_with(r#"{"type":"stream_event""#) {
            continue;
        }
        let Ok(parsed) = serde_json::from_str::<Value>(text) else {
            continue;
        };
        let event = &parsed["event"];
        let block = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => open.clear(),
            Some("content_block_start") => {
                open.insert(block, Text::default());
            }
            Some("content_block_delta") => {
                if let (Some(open), Some(piece)) = (open.get_mut(&block), event["delta"]["text"].as_str()) {
                    open.text.push_str(piece);
                    open.is_gone |= line.is_gone;
                }
            }
            Some("content_block_stop") => {
                let text = open.remove(&block).filter(|text| text.is_gone);
                if let Some(text) = text
                    && !said.contains(&text.text)
                {
                    faults.push(format!(
                        "run {}: pieces of a text went that is nowhere as a whole: {:.200}",
                        run.id, text.text
                    ));
                }
            }
            _ => {}
        }
    }
    // A message that was cut short keeps its pieces.
    let cut = open.values().filter(|text| text.is_gone);
    faults.extend(cut.map(|text| {
        format!(
            "run {}: pieces of a text went that was cut short: {:.200}",
            run.id, text.text
        )
    }));
    faults
}

/// A text that comes in pieces.
#[derive(Default)]
struct Text {
    text: String,
    is_gone: bool,
}

/// The texts of whole messages that are there.
fn whole_texts(lines: &[Printed]) -> Vec<String> {
    let there = lines.iter().filter(|line| !line.is_gone);
    let whole = there.filter_map(|line| {
        let text = line.text.as_deref()?;
        let line = text.starts_with(r#"{"type":"assistant""#).then_some(text)?;
        serde_json::from_str::<Value>(line).ok()
    });
    whole
        .flat_map(|line| {
            let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
            blocks
                .into_iter()
                .filter_map(|block| block["text"].as_str().map(ToOwned::to_owned))
        })
        .collect()
}

#[test]
fn a_text_whose_pieces_went_is_there_as_a_whole() {
    let line = |text: &str, is_gone: bool| Printed {
        text: Some(text.to_owned()),
        is_gone,
    };
    let event =
        |event: &str, is_gone: bool| line(&format!(r#"{{"type":"stream_event","event":{event}}}"#), is_gone);
    let run = |is_over: bool, whole: &str| {
        let mut lines = vec![
            event(r#"{"type":"message_start"}"#, true),
            event(r#"{"type":"content_block_start","index":0}"#, true),
            event(
                r#"{"type":"content_block_delta","index":0,"delta":{"text":"a "}}"#,
                true,
            ),
            event(
                r#"{"type":"content_block_delta","index":0,"delta":{"text":"word"}}"#,
                true,
            ),
        ];
        if is_over {
            lines.push(event(r#"{"type":"content_block_stop","index":0}"#, true));
        }
        lines.push(line(
            &format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{whole}"}}]}}}}"#
            ),
            false,
        ));
        Run {
            lines,
            ..Run::default()
        }
    };
    assert!(unsaid(&run(true, "a word")).is_empty());
    assert_eq!(unsaid(&run(true, "a")).len(), 1);
    assert_eq!(unsaid(&run(false, "a word")).len(), 1);
}
