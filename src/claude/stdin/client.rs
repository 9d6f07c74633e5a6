//! Owns which lines of a client may pass to the CLI's stdin, and what they say.

use std::{borrow::Cow, fmt};

use serde_json::value::RawValue;

use super::Priority;
use crate::{claude::control::raw_value, domain::PromptUuid, json};

/// A line of a client that may reach stdin once its ids are ours.
#[derive(Clone)]
pub enum ClientLine<'a> {
    /// A user message.
    User {
        /// Its id, when the client gave one.
        uuid: Option<PromptUuid>,
        /// The content, byte for byte: a string or a list of blocks.
        content: &'a str,
        /// The line without its surrounding white space.
        line: &'a str,
    },
    /// A request to the CLI.
    ControlRequest {
        /// The client's id of it.
        request_id: Cow<'a, str>,
        /// The subtype of the request.
        subtype: Cow<'a, str>,
        /// The whole `request` object.
        request: &'a str,
    },
    /// An answer to a request of the CLI.
    ControlResponse {
        /// The id of the request.
        request_id: Cow<'a, str>,
        /// The payload (`None` when there is none), or the error's text and code.
        outcome: Result<Option<Box<RawValue>>, ClientError>,
    },
    /// A request is taken back.
    ControlCancelRequest {
        /// The client's id of it.
        request_id: Cow<'a, str>,
    },
    /// A sign of life, for nobody.
    KeepAlive,
    /// Fresh credentials.
    UpdateEnvironmentVariables {
        /// The client's id of it, when it wants to know what was taken.
        request_id: Option<Cow<'a, str>>,
        /// The line without its surrounding white space.
        line: &'a str,
    },
}

/// Shows only what kind of line it is: some hold secrets.
impl fmt::Debug for ClientLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User { .. } => "User",
            Self::ControlRequest { .. } => "ControlRequest",
            Self::ControlResponse { .. } => "ControlResponse",
            Self::ControlCancelRequest { .. } => "ControlCancelRequest",
            Self::KeepAlive => "KeepAlive",
            Self::UpdateEnvironmentVariables { .. } => "UpdateEnvironmentVariables",
        })
    }
}

/// A client's refusal of a request of the CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// The reason.
    pub error: String,
    /// Its code.
    pub error_code: Option<String>,
}

/// A line that must not reach stdin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// Nothing but white space.
    #[error("the line is empty")]
    Empty,
    /// A line break inside.
    #[error("the line has a line break inside")]
    LineBreak,
    /// Not one JSON value in UTF-8.
    #[error("the line is not valid JSON")]
    NotJson,
    /// JSON, but no object.
    #[error("the line is not a JSON object")]
    NotAnObject,
    /// No `type`, or one that is no string.
    #[error("the line has no type")]
    NoType,
    /// A `type` that the CLI does not take from a client.
    #[error("lines of type {0:?} cannot be sent")]
    UnknownType(String),
    /// A user message that the CLI would not take.
    #[error("the user message {0}")]
    BadUser(&'static str),
    /// A control message without what it needs.
    #[error("the control message {0}")]
    BadControl(&'static str),
    /// `update_environment_variables` without a map of strings.
    #[error("the variables are not a map of strings")]
    BadVariables,
}

/// Longest type that an error repeats, in characters.
const MAX_NAMED_TYPE: usize = 64;

/// Checks a line of a client.
///
/// # Errors
/// Why it must not reach stdin.
pub fn check_client_line(line: &[u8]) -> Result<ClientLine<'_>, BadLine> {
    let line = std::str::from_utf8(line)
        .map_err(|_| BadLine::NotJson)?
        .trim_matches([' ', '\t', '\r', '\n']);
    if line.is_empty() {
        return Err(BadLine::Empty);
    }
    if line.contains(['\n', '\r']) {
        return Err(BadLine::LineBreak);
    }
    let names = [
        "type",
        "request_id",
        "request",
        "response",
        "message",
        "uuid",
        "priority",
        "variables",
    ];
    let [
        kind,
        given_id,
        request,
        response,
        message,
        uuid,
        priority,
        variables,
    ] = json::members(line, names).ok_or_else(|| {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok();
        if is_json {
            BadLine::NotAnObject
        } else {
            BadLine::NotJson
        }
    })?;
    let kind = kind.and_then(json::string).ok_or(BadLine::NoType)?;
    let request_id = |absent| {
        given_id
            .and_then(json::string)
            .filter(|id| !id.is_empty())
            .ok_or(BadLine::BadControl(absent))
    };
    match kind.as_ref() {
        "user" => check_user(line, message, uuid, priority),
        "control_request" => {
            let request = request
                .filter(|request| json::is_object(request))
                .ok_or(BadLine::BadControl("has no request object"))?;
            let subtype = json::members(request, ["subtype"])
                .and_then(|[subtype]| subtype)
                .and_then(json::string)
                .filter(|subtype| !subtype.is_empty())
                .ok_or(BadLine::BadControl("has no subtype"))?;
            Ok(ClientLine::ControlRequest {
                request_id: request_id("has no request_id")?,
                subtype,
                request,
            })
        }
        "control_response" => check_response(response),
        "control_cancel_request" => Ok(ClientLine::ControlCancelRequest {
            request_id: request_id("has no request_id")?,
        }),
        "keep_alive" => Ok(ClientLine::KeepAlive),
        "update_environment_variables" => {
            let mut all_strings = true;
            variables
                .and_then(|map| json::for_each_member(map, |_, value| all_strings &= value.starts_with('"')))
                .filter(|()| all_strings)
                .ok_or(BadLine::BadVariables)?;
            let request_id = match given_id.filter(|id| *id != "null") {
                None => None,
                Some(_) => Some(request_id("has a request_id that is no text")?),
            };
            Ok(ClientLine::UpdateEnvironmentVariables { request_id, line })
        }
        other => Err(BadLine::UnknownType(other.chars().take(MAX_NAMED_TYPE).collect())),
    }
}

fn check_user<'a>(
    line: &'a str,
    message: Option<&'a str>,
    uuid: Option<&'a str>,
    priority: Option<&'a str>,
) -> Result<ClientLine<'a>, BadLine> {
    let [role, content] = message
        .and_then(|message| json::members(message, ["role", "content"]))
        .ok_or(BadLine::BadUser("has no message object"))?;
    if role.and_then(json::string).as_deref() != Some("user") {
        return Err(BadLine::BadUser("has another role than user"));
    }
    let content = content
        .filter(|content| content.starts_with(['"', '[']))
        .ok_or(BadLine::BadUser(
            "has content that is neither text nor a list of blocks",
        ))?;
    if json::items(content).is_some_and(|blocks| !blocks.into_iter().all(json::is_object)) {
        return Err(BadLine::BadUser("has a content block that is no object"));
    }
    let uuid = match uuid.filter(|uuid| *uuid != "null") {
        None => None,
        Some(uuid) => Some(
            json::string(uuid)
                .and_then(|uuid| uuid.parse().ok())
                .ok_or(BadLine::BadUser("has a uuid that is no UUID"))?,
        ),
    };
    if priority
        .filter(|priority| *priority != "null")
        .is_some_and(|priority| serde_json::from_str::<Priority>(priority).is_err())
    {
        return Err(BadLine::BadUser(
            "has a priority that is none of now, next and later",
        ));
    }
    Ok(ClientLine::User { uuid, content, line })
}

fn check_response(response: Option<&str>) -> Result<ClientLine<'_>, BadLine> {
    let [subtype, request_id, payload, error, error_code] = response
        .and_then(|response| {
            json::members(
                response,
                ["subtype", "request_id", "response", "error", "error_code"],
            )
        })
        .ok_or(BadLine::BadControl("has no response object"))?;
    let request_id = request_id
        .and_then(json::string)
        .filter(|id| !id.is_empty())
        .ok_or(BadLine::BadControl("has no request_id"))?;
    let outcome = match subtype.and_then(json::string).as_deref() {
        Some("success") => Ok(payload.and_then(raw_value)),
        Some("error") => Err(ClientError {
            error: error
                .and_then(json::decode_lossy)
                .unwrap_or_default()
                .into_owned(),
            error_code: error_code.and_then(json::decode_lossy).map(Cow::into_owned),
        }),
        _ => return Err(BadLine::BadControl("is neither a success nor an error")),
    };
    Ok(ClientLine::ControlResponse { request_id, outcome })
}
