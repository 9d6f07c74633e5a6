//! Owns everything that speaks HTTP: guards, routes, sockets, streams, errors on the wire and the OpenAPI document. It
//! decides nothing about sessions; it asks the supervisor and the store.

mod asyncapi;
mod behind;
mod closing;
mod config;
mod connections;
mod console;
mod contract;
mod conversation;
mod cors;
mod cursor;
mod documents;
mod download;
mod dto;
mod entity_tag;
mod error;
mod examination;
mod export;
mod extract;
mod find;
mod guard;
mod idempotency;
mod lobby;
mod logins;
mod observe;
mod openapi;
mod page;
mod restart;
mod routes;
mod serve;
mod state;
mod stream;
mod thin;
mod ws;

pub use crate::domain::ErrorCode;
pub use asyncapi::{asyncapi_yaml, document as asyncapi_document};
pub use config::{HttpConfig, InForce};
pub use console::{Console, ConsoleFile};
pub use dto::{Finding, FindingGrade};
pub use error::{ApiError, PROBLEM_JSON};
pub use examination::Examiner;
pub use openapi::openapi_json;
pub use restart::{RestartRequest, Successor};
pub use routes::router;
pub use serve::{serve, serve_unix};
pub use state::AppState;
