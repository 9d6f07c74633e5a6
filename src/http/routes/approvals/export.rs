//! Owns the export of approvals: all that match, page by page, as lines of JSON or of CSV.

use std::{collections::VecDeque, io};

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
    response::Response,
};

use crate::{
    auth::Tenure,
    http::{
        ApiError, AppState, ErrorCode,
        download::{self, File},
        dto::{APPROVALS_CSV_HEADING, Approval},
        stream::Source,
    },
    store::{ApprovalFilter, BadLimit, PageRequest, StoreError},
};

/// Approvals that are read at once. Each may hold a whole file that a tool wants to write.
const PAGE: u64 = 100;

/// How approvals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One object per line.
    Lines,
    /// A table.
    Csv,
}

impl Form {
    /// The form that the client prefers; `None` for a page.
    pub(super) fn wanted(headers: &HeaderMap) -> Option<Self> {
        headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .find_map(|range| match range.split(';').next().unwrap_or_default().trim() {
                "application/x-ndjson" => Some(Some(Self::Lines)),
                "text/csv" => Some(Some(Self::Csv)),
                "application/json" => Some(None),
                _ => None,
            })
            .flatten()
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Self::Lines => "ndjson",
            Self::Csv => "csv",
        }
    }

    fn write(self, approval: &Approval, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Lines => {
                serde_json::to_writer(&mut *out, approval)?;
                out.push(b'\n');
            }
            Self::Csv => out.extend_from_slice(approval.to_csv().as_bytes()),
        }
        Ok(())
    }
}

/// A response with all approvals that match, newest first. The first page is read before it begins, so what is wrong with
/// the question is a problem; what goes wrong later breaks the response off, so that a part never looks like the whole.
pub(super) async fn open(
    state: &AppState,
    filter: ApprovalFilter,
    form: Form,
    tenure: Tenure,
) -> Result<Response, ApiError> {
    let mut export = Export {
        state: state.clone(),
        filter,
        form,
        cursor: None,
        ready: VecDeque::new(),
        is_done: false,
    };
    if form == Form::Csv {
        export
            .ready
            .push_back(Bytes::from_static(APPROVALS_CSV_HEADING.as_bytes()));
    }
    export.read().await?;
    let file = File {
        name: format!("approvals.{}", form.ending()),
        content_type: form.content_type(),
    };
    Ok(download::respond(state, export, &file, None, tenure))
}

struct Export {
    state: AppState,
    filter: ApprovalFilter,
    form: Form,
    cursor: Option<String>,
    /// Written and not sent yet.
    ready: VecDeque<Bytes>,
    is_done: bool,
}

impl Source for Export {
    /// A page that is read in vain costs nothing, and ends the export.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.ready.is_empty()
            && !self.is_done
            && let Err(error) = self.read().await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "an export ended early");
            return Some(Err(io::Error::other("the approvals cannot be read")));
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Export {
    /// Reads the next page.
    async fn read(&mut self) -> Result<(), ReadFailed> {
        let page = PageRequest::new(PAGE, self.cursor.take())?;
        let store = self.state.supervisor().store();
        let page = store.approvals(self.filter.clone(), page).await?;
        let mut out = Vec::new();
        for row in page.items {
            self.form.write(&Approval::from(row), &mut out)?;
        }
        if !out.is_empty() {
            self.ready.push_back(out.into());
        }
        self.is_done = page.next.is_none();
        self.cursor = page.next;
        Ok(())
    }
}

/// Why a page could not be read or written.
#[derive(Debug, thiserror::Error)]
enum ReadFailed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Limit(#[from] BadLimit),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl From<ReadFailed> for ApiError {
    fn from(failed: ReadFailed) -> Self {
        match failed {
            ReadFailed::Store(error) => error.into(),
            failed => Self::new(ErrorCode::Internal).caused_by(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn accept_chooses_the_form() {
        let form = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            Form::wanted(&headers)
        };
        assert_eq!(form("text/csv"), Some(Form::Csv));
        assert_eq!(form("application/x-ndjson; q=1, */*"), Some(Form::Lines));
        assert_eq!(form("application/json, text/csv"), None);
        assert_eq!(form("*/*"), None);
        assert_eq!(Form::wanted(&HeaderMap::new()), None);
    }
}
