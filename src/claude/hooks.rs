//! Owns hooks as `initialize` carries them: which callbacks the CLI makes, and how long it waits for each answer.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{
    control::Fields,
    options::{Hook, OnFailure},
};
use crate::json;

/// How long the CLI waits when nothing else was asked for. Always said, so that nobody depends on the CLI's own default.
pub const DEFAULT_TIMEOUT_MS: u64 = 60_000;
/// The shortest time that can be asked for.
pub const MIN_TIMEOUT_MS: u64 = 1_000;
/// The longest time that can be asked for.
pub const MAX_TIMEOUT_MS: u64 = 3_600_000;

/// The prefix of the ids of the launch options' callbacks; those of a client begin with its client id and a slash.
pub const OPTION_PREFIX: &str = "trunkline/";

/// One matcher of one event, with the callbacks it makes.
#[derive(Clone, Debug)]
pub struct HookMatcher {
    /// The event.
    pub event: String,
    /// The callbacks' ids.
    pub callback_ids: Vec<String>,
    /// How long the CLI waits for each.
    pub timeout_ms: u64,
    /// All else, byte for byte: `matcher`, `onFailure`, what newer versions know.
    rest: Fields,
}

impl HookMatcher {
    /// The matcher of a hook in the launch options.
    fn of_option(hook: &Hook, callback_id: String) -> Self {
        let mut rest = Fields::new();
        if let Some(matcher) = &hook.matcher {
            rest.set("matcher", matcher);
        }
        match hook.on_failure {
            Some(OnFailure::Block) => rest.set("onFailure", "block"),
            Some(OnFailure::Continue) => rest.set("onFailure", "continue"),
            None => {}
        }
        Self {
            event: hook.event.clone(),
            callback_ids: vec![callback_id],
            timeout_ms: hook.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            rest,
        }
    }

    /// Whether a hook without an answer blocks what it was asked about.
    pub fn blocks(&self) -> bool {
        let said = self.rest.get("onFailure");
        said.and_then(|said| json::string(said.get())).as_deref() == Some("block")
    }

    fn read(event: &str, matcher: &str) -> Option<Self> {
        let [ids, timeout] = json::members(matcher, ["hookCallbackIds", "timeout"])?;
        let ids = json::items(ids?)?.into_iter().map(json::string);
        let mut rest = Fields::of_object(matcher)?;
        rest.remove("hookCallbackIds");
        rest.remove("timeout");
        Some(Self {
            event: event.to_owned(),
            callback_ids: ids.map(|id| id.map(Into::into)).collect::<Option<_>>()?,
            timeout_ms: timeout.map_or(Some(DEFAULT_TIMEOUT_MS), millis)?,
            rest,
        })
    }

    fn to_raw(&self) -> Option<Box<RawValue>> {
        let mut fields = self.rest.clone();
        fields.set("hookCallbackIds", &self.callback_ids);
        if self.timeout_ms.is_multiple_of(1_000) {
            fields.set("timeout", &(self.timeout_ms / 1_000));
        } else {
            fields.set(
                "timeout",
                &std::time::Duration::from_millis(self.timeout_ms).as_secs_f64(),
            );
        }
        fields.to_object()
    }
}

/// The matchers of the hooks in the launch options. Their callbacks' ids are [`OPTION_PREFIX`] and the place in the list.
pub fn of_options(hooks: &[Hook]) -> Vec<HookMatcher> {
    let hooks = hooks.iter().enumerate();
    hooks
        .map(|(index, hook)| HookMatcher::of_option(hook, format!("{OPTION_PREFIX}{index}")))
        .collect()
}

/// Whether these are the same hooks. Events have no order among each other.
pub fn are_same(one: &[HookMatcher], other: &[HookMatcher]) -> bool {
    let by_event = |matchers: &[HookMatcher]| {
        let mut events = BTreeMap::<String, Vec<String>>::new();
        for matcher in matchers {
            let raw = matcher.to_raw().map(|raw| raw.get().to_owned());
            let of_event = events.entry(matcher.event.clone()).or_default();
            of_event.push(raw.unwrap_or_default());
        }
        events
    };
    one.len() == other.len() && by_event(one) == by_event(other)
}

/// The matchers in the `hooks` of an `initialize` request; `None` when it is no map of lists of matchers.
pub fn read(hooks: &str) -> Option<Vec<HookMatcher>> {
    let mut matchers = Some(Vec::new());
    json::for_each_member(hooks, |event, of_event| {
        let read = json::items(of_event).and_then(|items| {
            let read = items.into_iter().map(|item| HookMatcher::read(event, item));
            read.collect::<Option<Vec<_>>>()
        });
        match (read, &mut matchers) {
            (Some(read), Some(matchers)) => matchers.extend(read),
            (None, _) => matchers = None,
            (Some(_), None) => {}
        }
    })?;
    matchers
}

/// The `hooks` of an `initialize` request. Events come in the order of their first matcher.
pub fn to_raw(matchers: &[HookMatcher]) -> Option<Box<RawValue>> {
    let mut events: Vec<(&str, Vec<Box<RawValue>>)> = Vec::new();
    for matcher in matchers {
        let raw = matcher.to_raw()?;
        match events.iter_mut().find(|(event, _)| *event == matcher.event) {
            Some((_, of_event)) => of_event.push(raw),
            None => events.push((&matcher.event, vec![raw])),
        }
    }
    let mut fields = Fields::new();
    for (event, of_event) in &events {
        fields.set(event, of_event);
    }
    fields.to_object()
}

/// Seconds, perhaps with a fraction, in the range that is allowed.
fn millis(seconds: &str) -> Option<u64> {
    let seconds: f64 = if seconds == "null" {
        return Some(DEFAULT_TIMEOUT_MS);
    } else {
        seconds.parse().ok()?
    };
    let asked = std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis();
    let most = u64::try_from(asked).unwrap_or(MAX_TIMEOUT_MS);
    Some(most.clamp(MIN_TIMEOUT_MS, MAX_TIMEOUT_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_matcher_stays() {
        let hooks = r#"{"PreToolUse":[{"matcher":"Edit|Write","hookCallbackIds":["a","b"],"new":1.50,"onFailure":"block"},{"hookCallbackIds":["c"],"timeout":1.5}],"Stop":[{"hookCallbackIds":[]}]}"#;
        let read = read(hooks).unwrap();
        let times: Vec<_> = read
            .iter()
            .map(|it| (it.event.as_str(), it.timeout_ms, it.blocks()))
            .collect();
        assert_eq!(
            times,
            [
                ("PreToolUse", 60_000, true),
                ("PreToolUse", 1_500, false),
                ("Stop", 60_000, false)
            ]
        );
        assert_eq!(
            to_raw(&read).unwrap().get(),
            r#"{"PreToolUse":[{"matcher":"Edit|Write","new":1.50,"onFailure":"block","hookCallbackIds":["a","b"],"timeout":60},{"hookCallbackIds":["c"],"timeout":1.5}],"Stop":[{"hookCallbackIds":[],"timeout":60}]}"#
        );
    }

    #[test]
    fn the_order_of_events_makes_no_difference() {
        let stop = r#""Stop":[{"hookCallbackIds":["s"]}]"#;
        let tools = r#""PreToolUse":[{"hookCallbackIds":["a"]},{"hookCallbackIds":["b"],"timeout":60}]"#;
        let other = r#""PreToolUse":[{"hookCallbackIds":["b"]},{"hookCallbackIds":["a"]}]"#;
        let read = |events: [&str; 2]| read(&format!("{{{}}}", events.join(","))).unwrap();
        assert!(are_same(&read([stop, tools]), &read([tools, stop])));
        assert!(!are_same(&read([stop, tools]), &read([stop, other])));
        assert!(!are_same(&read([stop, tools]), &[]));
        assert!(are_same(&[], &[]));
    }

    #[test]
    fn what_is_no_map_of_matchers_is_refused() {
        for hooks in [
            "[]",
            r#"{"Stop":{}}"#,
            r#"{"Stop":[1]}"#,
            r#"{"Stop":[{}]}"#,
            r#"{"Stop":[{"hookCallbackIds":[1]}]}"#,
            r#"{"Stop":[{"hookCallbackIds":["a"],"timeout":"1"}]}"#,
            r#"{"Stop":[{"hookCallbackIds":["a"],"timeout":-1}]}"#,
        ] {
            assert!(read(hooks).is_none(), "{hooks}");
        }
        assert!(read("{}").unwrap().is_empty());
        let long = read(r#"{"Stop":[{"hookCallbackIds":["a"],"timeout":1e9}]}"#).unwrap();
        assert_eq!(long[0].timeout_ms, MAX_TIMEOUT_MS);
    }
}
