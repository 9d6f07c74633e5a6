//! Owns answers that are files: a browser keeps them under their name, and one that cannot be finished is broken off, so that a part
//! never looks like the whole.

use std::{fmt::Write as _, io};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream::unfold};
use tokio_util::sync::CancellationToken;

use super::{AppState, connections::ConnectionPermit, stream::Source};
use crate::auth::Tenure;

/// The longest name of a file without its ending, in characters.
const MAX_NAME_CHARS: usize = 60;

/// A file to be sent.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Its name, with its ending.
    pub(super) name: String,
    /// The media type.
    pub(super) content_type: &'static str,
}

/// The text as a name of a file that every system takes: letters, digits, `.`, `_` and `-`; `None` when nothing is left.
pub(super) fn file_name(text: &str) -> Option<String> {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '.' | '_') {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    let is_edge = |c: char| matches!(c, '.' | '-');
    let name: String = name.trim_matches(is_edge).chars().take(MAX_NAME_CHARS).collect();
    let name = name.trim_end_matches(is_edge);
    (!name.is_empty()).then(|| name.to_owned())
}

/// A response that sends a source to its end. The end of the daemon or of the login that asked breaks it off.
pub(super) fn respond<S: Source>(
    state: &AppState,
    source: S,
    file: &File,
    permit: Option<ConnectionPermit>,
    tenure: Tenure,
) -> Response {
    let download = Download {
        source,
        shutdown: state.shutdown().clone(),
        tenure,
        is_over: false,
        _permit: permit,
    };
    let parts = unfold(download, |mut download| async move {
        download.next().await.map(|part| (part, download))
    });
    // Compression asks once more after the end.
    let body = Body::from_stream(parts.fuse());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(file.content_type)),
        (header::CONTENT_DISPOSITION, disposition(&file.name)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// The header that names a file, also in letters that headers have not (RFC 6266).
fn disposition(name: &str) -> HeaderValue {
    let plain: String = name.chars().map(|c| if c.is_ascii() { c } else { '_' }).collect();
    let mut text = format!("attachment; filename=\"{plain}\"");
    if plain != name {
        text.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
                text.push(char::from(byte));
            } else {
                // A text takes all that is written into it.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

struct Download<S> {
    source: S,
    shutdown: CancellationToken,
    tenure: Tenure,
    is_over: bool,
    /// Gives the place back when the client is gone.
    _permit: Option<ConnectionPermit>,
}

impl<S: Source> Download<S> {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.is_over {
            return None;
        }
        // The client asks for nothing again that is dropped here.
        let part = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Some(Err(io::Error::other("the daemon is shutting down"))),
            () = self.tenure.over() => Some(Err(io::Error::other("the login has ended"))),
            part = self.source.next() => part,
        };
        self.is_over = !matches!(part, Some(Ok(_)));
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_wherever_it_is_kept() {
        for (text, name) in [
            ("Fix the login", Some("Fix-the-login")),
            ("../../etc/passwd", Some("etc-passwd")),
            ("a\r\nSet-Cookie: x=\"1\"", Some("a-Set-Cookie-x-1")),
            ("  Überprüfung — 日本 ", Some("Überprüfung-日本")),
            (".-/ ", None),
            ("", None),
        ] {
            assert_eq!(file_name(text).as_deref(), name, "{text:?}");
        }
        assert_eq!(file_name(&"x".repeat(500)).unwrap().len(), MAX_NAME_CHARS);
    }

    #[test]
    fn the_header_has_the_name_in_any_letters() {
        assert_eq!(disposition("a.md"), "attachment; filename=\"a.md\"");
        assert_eq!(
            disposition("Prüfung.md"),
            "attachment; filename=\"Pr_fung.md\"; filename*=UTF-8''Pr%C3%BCfung.md"
        );
    }
}
