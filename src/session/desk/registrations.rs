//! Owns who registered which hooks and MCP servers in this run, as the lines that were written to the CLI say.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use crate::{
    claude::{
        Envelope,
        hooks::{self, HookMatcher, OPTION_PREFIX},
    },
    domain::ClientId,
    json,
};

/// The prefix of `by` in a client's line.
pub(in crate::session) const CLIENT_PREFIX: &str = "ws:";

/// The party that serves an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum Server {
    /// The launch options say.
    OfOptions,
    /// The client that announced it.
    OfClient(ClientId),
}

/// Whose a hook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum HookOwner {
    /// The hook at this place in the launch options.
    Option(usize),
    /// The client that registered it.
    Client(ClientId),
}

impl HookOwner {
    /// Whose a callback is, by its id as the CLI knows it.
    pub(in crate::session) fn of(callback_id: &str) -> Option<Self> {
        if let Some(index) = callback_id.strip_prefix(OPTION_PREFIX) {
            return index.parse().ok().map(Self::Option);
        }
        let (client, _) = callback_id.split_once('/')?;
        client.parse().ok().map(Self::Client)
    }
}

/// The id that a client's callback has towards the CLI.
pub(in crate::session) fn minted(client: &ClientId, callback_id: &str) -> String {
    format!("{client}/{callback_id}")
}

/// All hooks that the CLI has.
#[derive(Debug, Default)]
struct Hooks {
    matchers: Vec<HookMatcher>,
    /// The place of the matcher of each callback. There may be thousands, and each is looked for often.
    by_callback: HashMap<String, usize>,
    /// The clients that own some.
    clients: HashSet<ClientId>,
}

impl Hooks {
    fn of(matchers: Vec<HookMatcher>) -> Self {
        let mut by_callback = HashMap::new();
        for (place, matcher) in matchers.iter().enumerate() {
            for id in &matcher.callback_ids {
                let known = by_callback.entry(id.clone()).or_insert(place);
                // If several matchers name it, the shortest timeout wins.
                if matcher.timeout_ms < matchers[*known].timeout_ms {
                    *known = place;
                }
            }
        }
        let owners = by_callback.keys().filter_map(|id| HookOwner::of(id));
        let clients = owners.filter_map(|owner| match owner {
            HookOwner::Client(client) => Some(client),
            HookOwner::Option(_) => None,
        });
        Self {
            clients: clients.collect(),
            matchers,
            by_callback,
        }
    }
}

/// The registered hooks and MCP servers.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Registrations {
    hooks: Arc<Hooks>,
    servers: HashMap<String, Server>,
    /// The newest `initialize` that carried hooks.
    newest_hooks: Option<String>,
    /// Changes since the oldest one that the CLI has not answered.
    changes: VecDeque<(String, Change)>,
    /// The registrations before these changes.
    before: Option<Box<Self>>,
}

/// The effect of a request on the registrations.
#[derive(Clone, Debug)]
struct Change {
    owner: Option<Server>,
    kind: Kind,
    is_accepted: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    /// New hooks replace all; servers come in addition.
    Initialize {
        hooks: Option<Arc<Hooks>>,
        servers: Vec<String>,
    },
    /// Removes each server that is no process of the CLI and is not named here.
    SetServers(Vec<(String, Option<ClientId>)>),
}

impl Registrations {
    /// All hooks that the CLI has.
    pub(in crate::session) fn hooks(&self) -> &[HookMatcher] {
        &self.hooks.matchers
    }

    /// Whether the CLI asks anything at this event.
    pub(in crate::session) fn has_event(&self, event: &str) -> bool {
        let mut hooks = self.hooks().iter();
        hooks.any(|matcher| matcher.event == event && !matcher.callback_ids.is_empty())
    }

    /// Whether the CLI has taken all that was asked of it.
    pub(in crate::session) fn are_settled(&self) -> bool {
        self.changes.is_empty()
    }

    /// The hooks of one client, as the CLI has them.
    pub(super) fn hooks_of(&self, client: &ClientId) -> Vec<HookMatcher> {
        let owner = Some(HookOwner::Client(client.clone()));
        let mut own = self.hooks().to_vec();
        for matcher in &mut own {
            matcher.callback_ids.retain(|id| HookOwner::of(id) == owner);
        }
        own.retain(|matcher| !matcher.callback_ids.is_empty());
        own
    }

    /// Whether any request that was written in this run carried hooks.
    pub(super) fn has_hooks(&self) -> bool {
        self.newest_hooks.is_some()
    }

    /// Whether the hooks are those of this request, or newer ones.
    pub(in crate::session) fn has_hooks_of(&self, request_id: &str) -> bool {
        self.newest_hooks.as_deref() == Some(request_id)
    }

    /// The matcher that a callback belongs to; of several the one that waits least.
    pub(in crate::session) fn matcher(&self, callback_id: &str) -> Option<&HookMatcher> {
        let place = self.hooks.by_callback.get(callback_id)?;
        self.hooks.matchers.get(*place)
    }

    /// The party that serves an MCP server.
    pub(in crate::session) fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(name)
    }

    /// The clients that own something; some may come twice.
    pub(in crate::session) fn clients(&self) -> impl Iterator<Item = &ClientId> {
        let servers = self.servers.values().filter_map(|server| match server {
            Server::OfClient(client) => Some(client),
            Server::OfOptions => None,
        });
        self.hooks.clients.iter().chain(servers)
    }

    /// Whether a client owns anything.
    pub(in crate::session) fn names(&self, client: &ClientId) -> bool {
        self.clients().any(|owner| owner == client)
    }

    /// An `initialize` was written.
    pub(super) fn initialized(&mut self, line: &Envelope<'_>, by: Option<&str>) {
        self.asked(line, by, |request| {
            let hooks = json::member(request, "hooks").and_then(hooks::read);
            let servers = json::member(request, "sdkMcpServers").and_then(json::texts);
            Kind::Initialize {
                hooks: hooks.map(|hooks| Arc::new(Hooks::of(hooks))),
                servers: servers.unwrap_or_default(),
            }
        });
    }

    /// An `mcp_set_servers` was written.
    pub(super) fn set_servers(&mut self, line: &Envelope<'_>, by: Option<&str>) {
        self.asked(line, by, |request| {
            let mut named = Vec::new();
            let servers = json::member(request, "servers").unwrap_or("{}");
            // The daemon gives a new process the servers of several clients at once.
            let owners = json::member(request, "owners").filter(|_| by == Some("daemon"));
            json::for_each_member(servers, |name, config| {
                if json::member_text(config, "type").as_deref() == Some("sdk") {
                    let owner = owners.and_then(|owners| json::member_text(owners, name));
                    named.push((name.to_owned(), owner.and_then(|owner| owner.parse().ok())));
                }
            });
            Kind::SetServers(named)
        });
    }

    /// The CLI did what a request asked for.
    pub(super) fn accepted(&mut self, request_id: &str) {
        if let Some((_, change)) = self.changes.iter_mut().find(|(id, _)| id == request_id) {
            change.is_accepted = true;
            self.settle();
        }
    }

    /// The CLI did not do what a request asked for. Changes that other requests asked for stay.
    pub(super) fn refused(&mut self, request_id: &str) {
        let known = self.changes.len();
        self.changes.retain(|(id, _)| id != request_id);
        if self.changes.len() < known {
            let before = self.before.as_deref().cloned().unwrap_or_default();
            let changes = std::mem::take(&mut self.changes);
            (self.hooks, self.servers, self.newest_hooks) =
                (before.hooks, before.servers, before.newest_hooks);
            for (id, change) in &changes {
                self.apply(id, change);
            }
            self.changes = changes;
            self.settle();
        }
    }

    fn asked(&mut self, line: &Envelope<'_>, by: Option<&str>, kind: impl FnOnce(&str) -> Kind) {
        let (Some(request), Some(id)) = (line.request, line.request_id.as_deref()) else {
            return;
        };
        let change = Change {
            owner: owner(by),
            kind: kind(request),
            is_accepted: false,
        };
        if self.before.is_none() {
            self.before = Some(Box::new(self.clone()));
        }
        self.apply(id, &change);
        self.changes.push_back((id.to_owned(), change));
        self.settle();
    }

    fn apply(&mut self, id: &str, change: &Change) {
        match &change.kind {
            Kind::Initialize { hooks, servers } => {
                if let Some(hooks) = hooks {
                    self.hooks = Arc::clone(hooks);
                    self.newest_hooks = Some(id.to_owned());
                }
                if let Some(owner) = &change.owner {
                    let owned = servers.iter().map(|name| (name.clone(), owner.clone()));
                    self.servers.extend(owned);
                }
            }
            Kind::SetServers(named) => {
                let mut known = std::mem::take(&mut self.servers);
                for (name, client) in named {
                    // Only a client on a socket can serve: for any other sender the known owner stays.
                    let owner = match client
                        .clone()
                        .map(Server::OfClient)
                        .as_ref()
                        .or(change.owner.as_ref())
                    {
                        Some(Server::OfClient(client)) => Some(Server::OfClient(client.clone())),
                        Some(Server::OfOptions) | None => known.remove(name),
                    };
                    self.servers.extend(owner.map(|owner| (name.clone(), owner)));
                }
            }
        }
    }

    /// Lets go of changes that cannot be undone any more: those that were accepted, and the oldest of too many.
    fn settle(&mut self) {
        let mut spare = self.changes.len().saturating_sub(MOST_UNANSWERED);
        while let Some((id, change)) = self
            .changes
            .pop_front_if(|(_, change)| change.is_accepted || spare > 0)
        {
            spare = spare.saturating_sub(1);
            if let Some(before) = &mut self.before {
                before.apply(&id, &change);
            }
        }
        if self.changes.is_empty() {
            self.before = None;
        }
    }
}

/// Requests that change registrations and whose failure can be undone at the same time.
const MOST_UNANSWERED: usize = 16;

fn owner(by: Option<&str>) -> Option<Server> {
    let by = by?;
    if by == "daemon" {
        return Some(Server::OfOptions);
    }
    let client = by.strip_prefix(CLIENT_PREFIX)?;
    client.parse().ok().map(Server::OfClient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn feed(registrations: &mut Registrations, id: &str, request: &str, by: &str) {
        let line = format!(r#"{{"type":"control_request","request_id":"{id}","request":{request}}}"#);
        let line = scan(line.as_bytes()).unwrap();
        match line.request_subtype().as_deref() {
            Some("initialize") => registrations.initialized(&line, Some(by)),
            _ => registrations.set_servers(&line, Some(by)),
        }
    }

    fn of_client(name: &str) -> Option<Server> {
        Some(Server::OfClient(name.parse().unwrap()))
    }

    #[test]
    fn hooks_are_replaced_and_servers_added_by_initialize() {
        let mut it = Registrations::default();
        let launch = r#"{"subtype":"initialize","hooks":{"Stop":[{"hookCallbackIds":["trunkline/0"],"timeout":60}]},"sdkMcpServers":["web"]}"#;
        feed(&mut it, "i", launch, "daemon");
        assert!(it.matcher("trunkline/0").is_some());
        feed(
            &mut it,
            "1",
            r#"{"subtype":"initialize","sdkMcpServers":["calc"]}"#,
            "ws:x",
        );
        assert!(it.matcher("trunkline/0").is_some(), "without hooks, they stay");
        assert_eq!(it.server("web"), Some(&Server::OfOptions));
        assert_eq!(it.server("calc").cloned(), of_client("x"));
        let hooks = r#"{"subtype":"initialize","hooks":{"Stop":[{"hookCallbackIds":["x/a"],"timeout":5},{"hookCallbackIds":["x/a"],"timeout":2}]}}"#;
        feed(&mut it, "2", hooks, "ws:x");
        assert!(it.matcher("trunkline/0").is_none());
        assert_eq!(it.matcher("x/a").unwrap().timeout_ms, 2_000);
        assert!(it.has_hooks_of("2") && !it.has_hooks_of("1"));
        it.refused("2");
        assert!(it.matcher("trunkline/0").is_some() && it.matcher("x/a").is_none());
    }

    #[test]
    fn set_servers_leaves_only_what_it_names() {
        let mut it = Registrations::default();
        feed(
            &mut it,
            "i",
            r#"{"subtype":"initialize","sdkMcpServers":["web","calc"]}"#,
            "daemon",
        );
        let set = r#"{"subtype":"mcp_set_servers","servers":{"web":{"type":"sdk","name":"web"},"files":{"command":"x"},"new":{"type":"sdk"}}}"#;
        feed(&mut it, "1", set, "rest");
        assert_eq!(
            it.server("web"),
            Some(&Server::OfOptions),
            "who asks over REST cannot serve"
        );
        assert_eq!(
            (it.server("calc"), it.server("files"), it.server("new")),
            (None, None, None)
        );
        feed(&mut it, "2", set, "ws:x");
        assert_eq!(it.server("web").cloned(), of_client("x"));
        it.refused("2");
        assert_eq!(it.server("web"), Some(&Server::OfOptions));
        assert!(!it.names(&"x".parse().unwrap()));
    }

    #[test]
    fn what_is_refused_takes_nothing_along_that_others_asked_for() {
        let mut it = Registrations::default();
        let hooks_of = |client: &str| {
            format!(r#"{{"subtype":"initialize","hooks":{{"Stop":[{{"hookCallbackIds":["{client}/a"]}}]}}}}"#)
        };
        let servers = r#"{"subtype":"initialize","sdkMcpServers":["calc"]}"#;
        feed(&mut it, "0", &hooks_of("w"), "ws:w");
        it.accepted("0");
        feed(
            &mut it,
            "1",
            r#"{"subtype":"mcp_set_servers","servers":{}}"#,
            "rest",
        );
        feed(&mut it, "2", servers, "ws:x");
        feed(&mut it, "3", &hooks_of("y"), "ws:y");
        it.accepted("2");
        it.refused("1");
        assert_eq!(it.server("calc").cloned(), of_client("x"));
        assert!(it.matcher("y/a").is_some() && it.matcher("w/a").is_none());
        it.refused("3");
        assert_eq!(it.server("calc").cloned(), of_client("x"));
        assert!(it.matcher("w/a").is_some() && it.has_hooks_of("0"));
        assert!(
            it.changes.is_empty() && it.before.is_none(),
            "nothing is left over"
        );
    }

    #[test]
    fn what_is_never_answered_is_bounded() {
        let mut it = Registrations::default();
        for n in 0..3 * MOST_UNANSWERED {
            let id = n.to_string();
            let request = format!(r#"{{"subtype":"initialize","sdkMcpServers":["{n}"]}}"#);
            feed(&mut it, &id, &request, "ws:x");
        }
        assert_eq!(it.changes.len(), MOST_UNANSWERED);
        it.refused("0");
        let last = (3 * MOST_UNANSWERED - 1).to_string();
        it.refused(&last);
        assert!(it.server("0").is_some(), "it is too old to be undone");
        assert_eq!(it.server(&last), None);
    }

    #[test]
    fn a_callback_names_its_owner() {
        for (id, owner) in [
            ("trunkline/3", Some(HookOwner::Option(3))),
            ("x.1/hook_0/b", Some(HookOwner::Client("x.1".parse().unwrap()))),
            ("trunkline/x", None),
            ("hook_0", None),
            ("a b/hook_0", None),
        ] {
            assert_eq!(HookOwner::of(id), owner, "{id}");
        }
    }
}
