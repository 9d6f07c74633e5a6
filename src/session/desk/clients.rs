//! Owns what changes with the clients of a session: they come, go, come back, and register hooks and servers.

use bytes::Bytes;

use crate::{
    claude::{BadLine, control::Fields, glance, hooks, stdin},
    domain::{ClientId, Clock, ConnectionId},
    session::{
        actor::Actor,
        outbox::{Entry, Payload, Subject},
    },
};

use super::registrations::{HookOwner, minted};

/// What registers something that only a client on a socket can answer.
const OF_CLIENTS: [&str; 3] = ["sdkMcpServers", "sdkMcpServerManifests", "sdkMcpServerConfigs"];

/// Requests that are carried out also when who asked does not stay for the answer.
const CARRIED_OUT: [&str; 2] = ["interrupt", "end_session"];

impl Actor {
    /// A client's connection is over.
    pub(in crate::session) fn detach(&mut self, connection: ConnectionId) {
        let Some((client, is_named)) = self.clients.detach(connection) else {
            return;
        };
        let heir = self.clients.connection_of(&client);
        for (id, subtype) in self.controls.leave(connection, heir) {
            if !CARRIED_OUT.contains(&subtype.as_str()) && self.outbox.is_some() {
                let line = Bytes::from(stdin::control_cancel_request(&id));
                let by = "daemon".to_owned();
                self.enqueue(Entry::new(Payload::Line { by, line }, Subject::Nobody));
            }
        }
        if heir.is_none() {
            let registrations = self.machine.desk().registrations();
            if registrations.names(&client) || self.desk.routes.names(&client) {
                self.desk.left(client, Clock.now(), is_named);
            }
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
        let bad = BadLine::BadControl("has hooks that are no map of lists of matchers");
        let mut fields = Fields::of_object(request).ok_or(BadLine::BadControl("has no request object"))?;
        let Some(given) = glance::member(request, "hooks").filter(|hooks| *hooks != "null") else {
            // As with the CLI: without new hooks the old ones stay.
            fields.remove("hooks");
            return Ok(fields);
        };
        let mut own = hooks::read(given).ok_or_else(|| bad.clone())?;
        for callback in own.iter_mut().flat_map(|matcher| &mut matcher.callback_ids) {
            *callback = minted(client, callback);
        }
        let mut all = hooks::of_options(&self.desk.routes.hooks);
        all.extend(self.hooks_of_others(client));
        all.append(&mut own);
        fields.set_raw("hooks", hooks::to_raw(&all).ok_or(bad)?);
        self.desk.sent_hooks = Some((id.to_owned(), all));
        Ok(fields)
    }

    /// The hooks of all other clients that are there or may come back.
    fn hooks_of_others(&self, client: &ClientId) -> Vec<hooks::HookMatcher> {
        let registrations = self.machine.desk().registrations();
        let known = match &self.desk.sent_hooks {
            // The newest that were sent may not be in the journal yet.
            Some((id, sent)) if !registrations.has_hooks_of(id) => sent.as_slice(),
            _ if !self.machine.has_run() => &[],
            _ => registrations.hooks(),
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

/// Refuses an `initialize` by which somebody registers what only a client on a socket can answer.
pub(in crate::session) fn check_unattended(subtype: &str, request: &str) -> Result<(), BadLine> {
    let has = |name| glance::member(request, name).is_some_and(|value| value != "null");
    if subtype == "initialize" && (has("hooks") || OF_CLIENTS.into_iter().any(has)) {
        return Err(BadLine::BadControl(
            "registers hooks or servers, which only a client on a WebSocket can serve; use the launch options hooks and sdk_mcp_servers",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_somebody_to_answer_is_refused() {
        for request in [
            r#"{"subtype":"initialize","hooks":{}}"#,
            r#"{"subtype":"initialize","sdkMcpServers":["a"]}"#,
            r#"{"subtype":"initialize","sdkMcpServerManifests":{}}"#,
        ] {
            assert!(check_unattended("initialize", request).is_err(), "{request}");
        }
        let quiet = r#"{"subtype":"initialize","hooks":null,"title":"x"}"#;
        check_unattended("initialize", quiet).unwrap();
        check_unattended("other", r#"{"subtype":"other","hooks":{}}"#).unwrap();
    }
}
