//! Owns the stated answers to requests of the CLI that no client can be given: never silence, never an invented decision of
//! a person.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::claude::{ControlRequest, glance, stdin};

/// The line that answers the request.
pub(super) fn answer(request: &ControlRequest) -> Bytes {
    let payload = match request.subtype.as_str() {
        // No opinion: the CLI goes on as if the hook were not there.
        "hook_callback" => Some("{}".to_owned()),
        "mcp_message" => glance::json_rpc_id(request.request.get()).map(|id| {
            format!(
                r#"{{"mcp_response":{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no client serves this server"}}}}}}"#
            )
        }),
        _ => None,
    };
    let line = match payload.and_then(|payload| RawValue::from_string(payload).ok()) {
        Some(payload) => stdin::control_success(&request.request_id, Some(&payload)),
        None => stdin::control_error(
            &request.request_id,
            "no client can answer this request",
            Some("unsupported_request"),
        ),
    };
    Bytes::from(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn check(request: &str, expected: &str) {
        let line = format!(r#"{{"type":"control_request","request_id":"r1","request":{request}}}"#);
        let request = ControlRequest::read(&scan(line.as_bytes()).unwrap()).unwrap();
        let answer = answer(&request);
        assert!(
            std::str::from_utf8(&answer).unwrap().contains(expected),
            "{} lacks {expected}",
            String::from_utf8_lossy(&answer)
        );
    }

    #[test]
    fn every_request_gets_an_answer() {
        check(
            r#"{"subtype":"hook_callback","callback_id":"h","input":{}}"#,
            r#""response":{}"#,
        );
        check(
            r#"{"subtype":"mcp_message","server_name":"calc","message":{"jsonrpc":"2.0","id":7,"method":"initialize"}}"#,
            r#""id":7,"error""#,
        );
        check(
            r#"{"subtype":"mcp_message","server_name":"calc","message":{"jsonrpc":"2.0","id":"a","method":"x"}}"#,
            r#""id":"a","error""#,
        );
        // A dialog that does not say of which kind it is.
        check(r#"{"subtype":"request_user_dialog"}"#, "unsupported_request");
        check(r#"{"subtype":"brand_new_thing"}"#, "unsupported_request");
    }
}
