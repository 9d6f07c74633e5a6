//! Owns how a file of settings is read that a client named. The CLI reads it by itself, unless rules must join the settings that
//! no flag can say.

use std::path::{Path, PathBuf};

use super::SupervisorError;
use crate::{
    claude::InvalidOption,
    files,
    json::JsonObject,
    session::{Looks, Unseen},
};

/// Most bytes of such a file.
const MOST_BYTES: usize = 1024 * 1024;

/// The settings in a file.
///
/// # Errors
/// `InvalidOption`: the rules would be lost without a word.
pub(super) async fn read(looks: &Looks, path: &str) -> Result<JsonObject, SupervisorError> {
    let file = PathBuf::from(path);
    let detail = match looks.at(Path::new(path), move || settings_in(&file)).await {
        Ok(Ok(settings)) => return Ok(settings),
        Ok(Err(detail)) => detail,
        Err(Unseen::Closing) => return Err(SupervisorError::ShuttingDown),
        Err(late) => late.to_string(),
    };
    Err(SupervisorError::InvalidOption(InvalidOption {
        field: "settings".to_owned(),
        reason: format!(
            "the rules that were given at run time cannot join the settings in the file: {detail}"
        ),
    }))
}

fn settings_in(path: &Path) -> Result<JsonObject, String> {
    let bytes = files::read_at_most(path, MOST_BYTES).map_err(|error| error.to_string())?;
    // Editors put a mark before the text, which the CLI overlooks.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    // The words of the error may repeat a value.
    serde_json::from_slice(text).map_err(|error| {
        format!(
            "line {}, column {} is not the JSON of an object",
            error.line(),
            error.column()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_of_bounded_size_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            settings_in(&path).map(|settings| settings.get().to_owned())
        };
        assert_eq!(read(b" {\"a\":1}\n").as_deref(), Ok("{\"a\":1}"));
        assert_eq!(read(b"\xef\xbb\xbf{}").as_deref(), Ok("{}"));
        for bytes in [&b""[..], b"[]", b"{\"a\":\"planted\",}", b"// no\n{}", b"\xff"] {
            let refusal = read(bytes).unwrap_err();
            assert!(!refusal.contains("planted"), "{refusal}");
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MOST_BYTES));
        assert!(read(large.as_bytes()).unwrap_err().contains("more than"));
        assert!(settings_in(dir.path()).unwrap_err().contains("a directory"));
    }
}
