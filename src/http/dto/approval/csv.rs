//! Owns approvals as lines of CSV (RFC 4180), which a spreadsheet opens without running what is in them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Approval;
use crate::json;

/// Characters that a spreadsheet takes for the beginning of a formula, or passes over on the way to one.
const FORMULA_STARTS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// The names of the columns.
pub(in crate::http) const HEADING: &str = "id,session_id,run_id,seq,request_id,kind,subject,state,requested_at,how,by,\
    resolved_at,input_sha256,input_changed,permissions_updated,agent_id,tool_use_id,reason,deadline,rule,request,response,ran_sha256\r\n";

impl Approval {
    /// The line of this approval, in the order of [`HEADING`]. An unknown value is empty.
    pub(in crate::http) fn to_csv(&self) -> String {
        let end = self.resolution.as_ref();
        let yes_no = |value: bool| Cow::Borrowed(if value { "true" } else { "false" });
        let text = |raw: &Option<Box<RawValue>>| {
            let text = raw.as_deref().and_then(|raw| json::decode_lossy(raw.get()));
            Cow::Owned(text.unwrap_or_default().into_owned())
        };
        let cells: [Cow<'_, str>; 23] = [
            self.id.to_string().into(),
            self.session_id.to_string().into(),
            self.run_id.to_string().into(),
            self.seq.to_string().into(),
            self.request_id.as_str().into(),
            self.kind.as_str().into(),
            self.subject.as_str().into(),
            self.state.as_str().into(),
            self.requested_at.to_string().into(),
            end.map_or("", |end| end.how.as_str()).into(),
            end.map_or("", |end| end.by.as_str()).into(),
            end.map_or_else(String::new, |end| end.at.to_string()).into(),
            self.input_sha256.as_deref().unwrap_or_default().into(),
            end.map_or(Cow::Borrowed(""), |end| yes_no(end.input_changed)),
            end.map_or(Cow::Borrowed(""), |end| yes_no(end.permissions_updated)),
            text(&self.agent_id),
            text(&self.tool_use_id),
            text(&self.reason),
            self.deadline.map_or_else(String::new, |at| at.to_string()).into(),
            self.rule.as_deref().unwrap_or_default().into(),
            self.request.get().into(),
            end.and_then(|end| end.response.as_deref())
                .map_or("", RawValue::get)
                .into(),
            end.and_then(|end| end.ran_sha256.as_deref())
                .unwrap_or_default()
                .into(),
        ];
        let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        format!("{}\r\n", cells.join(","))
    }
}

/// A cell. One that would be a formula gets an apostrophe in front, which spreadsheets take for "this is text".
fn quoted(cell: &str) -> String {
    let guard = if cell.starts_with(FORMULA_STARTS) { "'" } else { "" };
    if guard.is_empty() && !cell.contains(['"', ',', '\r', '\n']) {
        return cell.to_owned();
    }
    format!("\"{guard}{}\"", cell.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (cell, expected) in [
            ("Bash", "Bash"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "\"'=1+1\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("＝1", "\"'＝1\""),
        ] {
            assert_eq!(quoted(cell), expected, "{cell:?}");
        }
    }
}
