//! Owns what changes with the clients of a session: they come, go, come back, and register hooks and servers.

use serde_json::value::RawValue;

use crate::{
    claude::{
        BadLine, ControlResponse,
        control::Fields,
        hooks::{self, HookMatcher},
        scan,
    },
    domain::{ClientId, Clock, ConnectionId, Timestamp},
    json,
    session::actor::Actor,
};

use super::{
    registrations::{CLIENT_PREFIX, HookOwner, Server, minted},
    route::Presence,
};

/// The part of the answer to an `initialize` beside the payload: the requests that are open.
const PENDING: &str = "pending_permission_requests";

const NO_HOOKS: BadLine = BadLine::BadControl("has hooks that are no map of lists of matchers");

/// The hooks that a client's `initialize` registers, as the CLI gets them; `None` when it leaves them as they are.
///
/// # Errors
/// They are no hooks.
pub fn own_hooks(client: &ClientId, request: &str) -> Result<Option<Vec<HookMatcher>>, BadLine> {
    let Some(given) = json::member(request, "hooks").filter(|hooks| *hooks != "null") else {
        return Ok(None);
    };
    let mut own = hooks::read(given).ok_or(NO_HOOKS)?;
    for callback in own.iter_mut().flat_map(|matcher| &mut matcher.callback_ids) {
        *callback = minted(client, callback);
    }
    Ok(Some(own))
}

/// The author of a client's lines, as records name it.
pub fn name_of_client(client: &ClientId) -> String {
    format!("{CLIENT_PREFIX}{client}")
}

impl Actor {
    /// A client's connection is over.
    pub(in crate::session) fn detach(&mut self, connection: ConnectionId) {
        let host_until = Clock.now().plus_millis(self.settings.desk.host_grace_ms);
        let Some((client, is_named)) = self.clients.detach(connection, host_until) else {
            return;
        };
        let heir = self.clients.connection_of(&client);
        self.forget_client(connection, heir);
        if heir.is_none() {
            let registrations = self.machine.desk().registrations();
            if registrations.names(&client) || self.desk.names(&client) {
                self.desk.left(client, Clock.now(), is_named);
            }
        }
    }

    /// The author of a client's lines, as records name it.
    pub(in crate::session) fn name_of(&self, connection: ConnectionId) -> String {
        match self.clients.client(connection) {
            Some(client) => name_of_client(client),
            None => format!("{CLIENT_PREFIX}{connection}"),
        }
    }

    /// Lets go of clients that did not take what they were sent.
    pub(in crate::session) fn detach_cut(&mut self) {
        while let Some(connection) = self.clients.next_cut() {
            self.detach(connection);
        }
    }

    /// The fields of a client's `initialize` as the CLI gets them: new hooks replace all that it has, so those of the
    /// launch options and of other clients go along. `id` is the request's.
    pub(in crate::session) fn merged_initialize(
        &mut self,
        id: &str,
        client: &ClientId,
        request: &str,
    ) -> Result<Fields, BadLine> {
        let mut fields = Fields::of_object(request).ok_or(BadLine::BadControl("has no request object"))?;
        let Some(mut own) = own_hooks(client, request)? else {
            // As with the CLI: without new hooks the old ones stay.
            fields.remove("hooks");
            return Ok(fields);
        };
        let mut all = hooks::of_options(&self.desk.routes.hooks);
        all.extend(self.hooks_of_others(client));
        all.append(&mut own);
        fields.set_raw("hooks", hooks::to_raw(&all).ok_or(NO_HOOKS)?);
        self.desk.sent_hooks = Some((id.to_owned(), all));
        Ok(fields)
    }

    /// The CLI's answer to a client's `initialize` that changes nothing: it is the same as the last one that the CLI has
    /// taken. New hooks, also if they are the old ones, would end those that are open. `None` when the CLI is to be asked.
    pub(in crate::session) fn answer_unchanged(
        &self,
        client: &ClientId,
        request: &str,
    ) -> Option<ControlResponse> {
        let book = self.machine.desk();
        let registrations = book.registrations();
        let own = own_hooks(client, request).ok()??;
        let servers = json::member(request, "sdkMcpServers").and_then(json::texts);
        let is_own = |name: &String| registrations.server(name) == Some(&Server::OfClient(client.clone()));
        let is_same = self.desk.sent_hooks.is_none()
            && registrations.are_settled()
            && hooks::are_same(&own, &registrations.hooks_of(client))
            && servers.unwrap_or_default().iter().all(is_own);
        let seq = book.answer_to_greeting(client, request).filter(|_| is_same)?;
        let answer = self.record_data(seq)?;
        let mut answer = ControlResponse::read(&scan(&answer)?)?;
        // Requests that were open then may be answered by now.
        let open = self.machine.open_approvals().iter();
        let open: Vec<_> = open
            .filter_map(|approval| self.record_data(approval.seq))
            .filter_map(|line| RawValue::from_string(String::from_utf8(line).ok()?).ok())
            .collect();
        answer.beside.set(PENDING, &open);
        Some(answer)
    }

    /// Whether a client that registered something in this process is there, or is still waited for.
    pub(in crate::session) fn serves_callbacks(&self) -> bool {
        let now = Clock.now();
        let mut clients = self.machine.desk().registrations().clients();
        clients.any(|client| {
            self.clients.is_attached(client) || self.awaited_until(client).is_some_and(|until| until > now)
        })
    }

    /// When the next client that registered something, or the host, is waited for no longer.
    pub(super) fn next_given_up(&self) -> Option<Timestamp> {
        let now = Clock.now();
        let host = self.clients.next_host_given_up(now);
        let clients = self.machine.desk().registrations().clients();
        let away = clients.filter(|client| !self.clients.is_attached(client));
        let until = away.filter_map(|client| self.awaited_until(client));
        until.filter(|until| *until > now).chain(host).min()
    }

    /// Until when a client that is not there is waited for; `None` when it cannot come back.
    fn awaited_until(&self, client: &ClientId) -> Option<Timestamp> {
        match self.desk.absence(client) {
            Presence::Left {
                may_return: false, ..
            } => None,
            Presence::Left { at: since, .. } | Presence::Unseen { since } => {
                Some(self.desk.times.return_by(since))
            }
            Presence::Attached => None,
        }
    }

    /// The hooks of all other clients that are there or may come back.
    fn hooks_of_others(&self, client: &ClientId) -> Vec<HookMatcher> {
        let registrations = self.machine.desk().registrations();
        let kept = self.controls.choices.hooks();
        let known = match &self.desk.sent_hooks {
            // The newest that were sent may not be in the journal yet.
            Some((id, sent)) if !registrations.has_hooks_of(id) => sent.as_slice(),
            _ if self.machine.has_run() && registrations.has_hooks() => registrations.hooks(),
            // The next process begins with these, or this one has, and the journal has no word of it yet.
            _ => kept.as_slice(),
        };
        let stays = |callback: &String| match HookOwner::of(callback) {
            Some(HookOwner::Client(owner)) => owner != *client && !self.desk.is_lost(&owner),
            Some(HookOwner::Option(_)) | None => false,
        };
        let mut others = known.to_vec();
        for matcher in &mut others {
            matcher.callback_ids.retain(stays);
        }
        others.retain(|matcher| !matcher.callback_ids.is_empty());
        others
    }
}
