//! Tests the HTTP that the daemon makes itself, against servers on loopback whose every byte the test decides.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod mcp;
mod official;
mod streams;
mod webhook;

use std::error::Error;

use serde_json::value::RawValue;

/// Raw JSON.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// All that a log line could show of an error.
pub(crate) fn all_texts(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text = format!("{text} {error}");
        next = error.source();
    }
    text
}
