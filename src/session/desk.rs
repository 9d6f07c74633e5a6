//! Owns what the CLI asks its host and no approval is made of: hooks, messages to MCP servers, and what is not known. Each
//! has an owner, and gets exactly one answer: the owner's, or a stated one.
//!
//! The journal tells which requests are open and who registered them ([`book`], [`registrations`]), so a daemon that
//! starts again routes alike. Pure functions decide who owns a request and until when ([`route`]). The rest is wiring.

mod book;
mod bridge;
mod clients;
mod fallback;
mod greetings;
mod outside;
mod registrations;
mod route;
mod serve;
mod state;

pub(super) use registrations::{CLIENT_PREFIX, minted};
pub use route::Routes;
pub use state::DeskTimes;

pub(super) use book::{Asked, Book};
pub use clients::{name_of_client, own_hooks};
pub(super) use fallback::{Fallback, FallbackReason};
pub(super) use outside::CallbackResult;
pub(super) use state::Desk;
