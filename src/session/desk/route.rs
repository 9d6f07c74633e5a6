//! Owns the decisions about a request of the CLI: whose it is, and until when the owner may answer. Pure.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::{
    claude::{
        LaunchOptions,
        hooks::DEFAULT_TIMEOUT_MS,
        options::{Hook, HookTarget, McpTarget, SdkMcpServer},
    },
    domain::{ClientId, Timestamp},
};

use super::{
    book::{About, Asked},
    fallback::FallbackReason,
    registrations::{HookOwner, Registrations, Server},
    state::DeskTimes,
};

/// How long a connection waits for the owner of an MCP server to be there. The CLI itself waits for half a minute.
const COMES_WITHIN_MS: u64 = 5_000;
/// How long it waits for each answer of one that is there.
const ANSWERS_WITHIN_MS: u64 = 5_000;
/// How long is waited for a client that acknowledges a notification, to which no answer is due: the CLI waits for it.
const ACKNOWLEDGES_WITHIN_MS: u64 = 5_000;

/// Where the launch options send things.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(super) hooks: Vec<Hook>,
    pub(super) servers: BTreeMap<String, SdkMcpServer>,
    /// Whether the session may come into the mode `bypassPermissions`.
    pub(super) may_bypass: bool,
    /// Whether prompts reach the model as they are.
    pub(super) is_verbatim: bool,
}

impl Routes {
    /// The routes of a session with these options.
    pub fn of(options: &LaunchOptions) -> Self {
        Self {
            hooks: options.hooks.clone().unwrap_or_default(),
            servers: options.sdk_mcp_servers.clone().unwrap_or_default(),
            may_bypass: options.may_bypass(),
            is_verbatim: options.verbatim_prompts.unwrap_or(false),
        }
    }

    /// Whether anything goes to this client.
    pub(super) fn names(&self, client: &ClientId) -> bool {
        let is_hook =
            |hook: &Hook| matches!(&hook.target, HookTarget::Client { client_id } if client_id == client);
        let is_server = |server: &SdkMcpServer| matches!(&server.target, McpTarget::Client { client_id } if client_id == client);
        self.hooks.iter().any(is_hook) || self.servers.values().any(is_server)
    }
}

/// The party that answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This client.
    Client(ClientId),
    /// Any client that is attached.
    Anyone,
    /// The webhook of the hook at this place in the launch options.
    Webhook(usize),
    /// The MCP server behind the URL of the launch options.
    Url,
    /// The answer of the hook at this place in the launch options, at once.
    Fixed(usize),
    /// Nobody can.
    Nobody(FallbackReason),
}

/// Whose a request is, and what holds without an answer.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) owner: Owner,
    /// How long the CLI waits; of a hook only.
    timeout_ms: Option<u64>,
    /// Whether a hook without an answer blocks.
    pub(super) blocks: bool,
    /// The registered answer when there is no other.
    pub(super) fallback: Option<Box<RawValue>>,
}

/// Whose a request is. `takes_secrets` says whether an answer can be kept out of the journal.
pub(super) fn route(
    asked: &Asked,
    registrations: &Registrations,
    routes: &Routes,
    takes_secrets: bool,
) -> Route {
    match &asked.about {
        About::Hook { callback_id, .. } => {
            let matcher = registrations.matcher(callback_id);
            let (owner, fallback) = hook_owner(callback_id, matcher.is_some(), routes);
            Route {
                owner,
                timeout_ms: Some(matcher.map_or(DEFAULT_TIMEOUT_MS, |matcher| matcher.timeout_ms)),
                blocks: matcher.is_some_and(|matcher| matcher.blocks()),
                fallback,
            }
        }
        About::Mcp { server, .. } => Route::to(match registrations.server(server) {
            Some(Server::OfClient(client)) => Owner::Client(client.clone()),
            Some(Server::OfOptions) => match routes.servers.get(server).map(|server| &server.target) {
                Some(McpTarget::Client { client_id }) => Owner::Client(client_id.clone()),
                Some(McpTarget::Url { .. }) => Owner::Url,
                None => Owner::Nobody(FallbackReason::Unregistered),
            },
            None => Owner::Nobody(FallbackReason::Unregistered),
        }),
        About::Credentials if !takes_secrets => Route::to(Owner::Nobody(FallbackReason::Unsupported)),
        About::Credentials | About::Other => Route::to(Owner::Anyone),
    }
}

fn hook_owner(callback_id: &str, is_registered: bool, routes: &Routes) -> (Owner, Option<Box<RawValue>>) {
    let unregistered = (Owner::Nobody(FallbackReason::Unregistered), None);
    if !is_registered {
        return unregistered;
    }
    match HookOwner::of(callback_id) {
        Some(HookOwner::Client(client)) => (Owner::Client(client), None),
        Some(HookOwner::Option(index)) => {
            let Some(hook) = routes.hooks.get(index) else {
                return unregistered;
            };
            let owner = match &hook.target {
                HookTarget::Client { client_id } => Owner::Client(client_id.clone()),
                HookTarget::Webhook { .. } => Owner::Webhook(index),
                HookTarget::Fixed { .. } => Owner::Fixed(index),
            };
            (
                owner,
                hook.fallback.as_ref().map(|fallback| fallback.raw().to_owned()),
            )
        }
        None => unregistered,
    }
}

/// Where the owner of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It can be given the request.
    Attached,
    /// It was there in this run and left.
    Left {
        at: Timestamp,
        /// Whether it can be known again when it comes back.
        may_return: bool,
    },
    /// It has not been seen since the daemon or the run began.
    Unseen { since: Timestamp },
}

impl Route {
    fn to(owner: Owner) -> Self {
        Self {
            owner,
            timeout_ms: None,
            blocks: false,
            fallback: None,
        }
    }

    /// The same when the owner has ended what it registered.
    pub(super) fn ended(self) -> Self {
        Self::to(Owner::Nobody(FallbackReason::NoClient))
    }

    #[cfg(test)]
    pub(super) fn without_answer(blocks: bool, fallback: Option<Box<RawValue>>) -> Self {
        Self {
            blocks,
            fallback,
            ..Self::to(Owner::Anyone)
        }
    }

    /// When the stated answer is due so that no client that is away, or silent, holds up the first turn of a process: the CLI
    /// waits until it is connected with its servers.
    pub(super) fn due_early(&self, asked: &Asked, presence: Presence) -> Option<(Timestamp, FallbackReason)> {
        let About::Mcp { id, connects, .. } = &asked.about else {
            return None;
        };
        if !matches!(self.owner, Owner::Client(_)) {
            return None;
        }
        let after = |at: Timestamp, ms, reason| Some((at.plus_millis(ms), reason));
        match presence {
            Presence::Attached if id.is_none() => {
                after(asked.at, ACKNOWLEDGES_WITHIN_MS, FallbackReason::Late)
            }
            Presence::Attached if *connects => after(asked.at, ANSWERS_WITHIN_MS, FallbackReason::Late),
            Presence::Unseen { since } if *connects => {
                after(asked.at.max(since), COMES_WITHIN_MS, FallbackReason::NoClient)
            }
            Presence::Attached | Presence::Unseen { .. } | Presence::Left { .. } => None,
        }
    }

    /// When the stated answer is due, and why then; `None` while the owner may take as long as it likes.
    pub(super) fn due(
        &self,
        asked: &Asked,
        presence: Presence,
        times: DeskTimes,
    ) -> Option<(Timestamp, FallbackReason)> {
        let late = self
            .timeout_ms
            .map(|timeout| (asked.at.plus_millis(patience(timeout)), FallbackReason::Late));
        let absent = |from: Timestamp| Some((from, FallbackReason::NoClient));
        let gone = match (&self.owner, presence) {
            (Owner::Nobody(reason), _) => return Some((asked.at, *reason)),
            (Owner::Anyone, Presence::Attached) => {
                return Some((asked.at.plus_millis(times.offer_ms), FallbackReason::Late));
            }
            (Owner::Anyone, _) => return absent(asked.at),
            (
                Owner::Client(_),
                Presence::Left {
                    at,
                    may_return: false,
                },
            ) => absent(asked.at.max(at)),
            (Owner::Client(_), Presence::Left { at, may_return: true }) => match &asked.about {
                About::Mcp { .. } => absent(asked.at.max(at)),
                _ => absent(asked.at.max(times.return_by(at))),
            },
            (Owner::Client(_), Presence::Unseen { since }) => match &asked.about {
                About::Mcp { id: None, .. } => absent(asked.at),
                _ => absent(asked.at.max(times.return_by(since))),
            },
            (Owner::Client(_) | Owner::Webhook(_) | Owner::Url | Owner::Fixed(_), _) => None,
        };
        late.into_iter().chain(gone).min_by_key(|(at, _)| *at)
    }
}

/// How long an owner may take for a hook that the CLI waits `timeout_ms` for. The rest is for the stated answer to arrive.
fn patience(timeout_ms: u64) -> u64 {
    let margin = (timeout_ms / 10).max(1_000).min(timeout_ms / 2);
    timeout_ms - margin
}

#[cfg(test)]
mod tests;
