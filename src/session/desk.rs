//! Owns what the CLI asks its host and no approval is made of: hooks, messages to MCP servers, and what is not known. Each
//! has an owner, and gets exactly one answer: the owner's, or a stated one.
//!
//! What is open and who registered what is read from the journal ([`book`], [`registrations`]), so a daemon that starts
//! again routes alike. Whose a request is and until when is decided by pure functions ([`route`]). The rest is wiring.

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
pub(super) use outside::Outside;
pub(super) use state::Desk;
