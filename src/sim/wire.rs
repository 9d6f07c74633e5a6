//! Owns stdout: every line gets its uuid and session id here, and is flushed.

use std::io::{self, Write};

use serde_json::{Value, json};
use uuid::Uuid;

use super::conversation::Tokens;

/// Writes lines.
#[derive(Debug)]
pub(super) struct Wire<W> {
    out: W,
    session_id: String,
    namespace: Uuid,
    count: u64,
}

impl<W: Write> Wire<W> {
    pub(super) fn new(out: W, session_id: String) -> Self {
        Self {
            out,
            session_id,
            namespace: random().unwrap_or_default(),
            count: 0,
        }
    }

    /// An id that was not used before.
    pub(super) fn new_id(&mut self) -> String {
        self.count += 1;
        Uuid::new_v5(&self.namespace, &self.count.to_be_bytes()).to_string()
    }

    /// Writes a message with uuid and session id. Returns the uuid.
    pub(super) fn message(&mut self, mut message: Value) -> io::Result<String> {
        let uuid = self.new_id();
        if let Value::Object(fields) = &mut message {
            fields.insert("session_id".into(), self.session_id.as_str().into());
            fields.entry("uuid").or_insert_with(|| uuid.as_str().into());
        }
        self.line(&message)?;
        Ok(uuid)
    }

    /// Writes a line as it is: control messages have neither uuid nor session id.
    pub(super) fn line(&mut self, line: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    pub(super) fn success(&mut self, request_id: &str, payload: Option<Value>) -> io::Result<()> {
        let mut response = json!({"subtype": "success", "request_id": request_id});
        if let (Some(payload), Value::Object(fields)) = (payload, &mut response) {
            fields.insert("response".into(), payload);
        }
        self.line(&json!({"type": "control_response", "response": response}))
    }

    pub(super) fn error(&mut self, request_id: &str, code: Option<&str>, error: &str) -> io::Result<()> {
        let mut response = json!({"subtype": "error", "request_id": request_id, "error": error});
        if let (Some(code), Value::Object(fields)) = (code, &mut response) {
            fields.insert("error_code".into(), code.into());
        }
        self.line(&json!({"type": "control_response", "response": response}))
    }
}

/// The line that the agent CLI prints before it refuses to resume what it does not know.
pub(super) fn conversation_not_found(out: impl Write, id: &str) -> io::Result<()> {
    let mut wire = Wire::new(out, id.into());
    wire.message(json!({
        "type": "result", "subtype": "error_during_execution", "duration_ms": 0, "duration_api_ms": 0,
        "is_error": true, "num_turns": 0, "stop_reason": null, "total_cost_usd": 0, "usage": usage(Tokens::default()),
        "modelUsage": {}, "permission_denials": [],
        "errors": [format!("No conversation found with session ID: {id}")],
    }))?;
    Ok(())
}

/// `usage` of a message or a result.
pub(super) fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input, "output_tokens": tokens.output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

/// An id that nobody else has.
pub(super) fn random_uuid() -> String {
    random().unwrap_or_default().to_string()
}

fn random() -> Option<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
