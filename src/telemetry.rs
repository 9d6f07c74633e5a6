//! Owns how the program tells what it does: logs, and errors as one line.

use std::error::Error;

/// An error with all its causes, as one line.
pub fn chain(error: &(dyn Error + '_)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
