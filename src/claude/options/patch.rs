//! Owns changes of the launch options of a session that is there: which options may change, how a change joins those that are stored,
//! and which options differ between two starts.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny},
};
use serde_json::{Map, Value, value::RawValue};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema, schema},
};

use super::{InvalidOption, LaunchOptions};
use crate::claude::control::Fields;

/// The option that is merged by its keys.
const ENV: &str = "env";
/// The options that a session is made with, and keeps.
const FIXED: [(&str, &str); 7] = [
    ("resume", "says how the session began"),
    ("continue", "says how the session began"),
    ("fork_session", "says how the session began"),
    ("resume_session_at", "says how the session began"),
    ("session_id", "says how the session began"),
    (
        "title",
        "is of the beginning of a conversation; a session's own 'title' can change",
    ),
    ("persist_session", "holds for the whole session"),
];
/// The options that the daemon itself follows: they hold at once.
const OF_DAEMON: [&str; 1] = ["verbatim_prompts"];

/// A change of launch options: an option that is left out stays, `null` takes one away, and so it is with the variables in `env`.
/// Any other option is replaced as a whole.
#[derive(Clone)]
pub struct OptionsPatch(BTreeMap<String, Box<RawValue>>);

/// Names alone: the values may hold secrets.
impl fmt::Debug for OptionsPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl OptionsPatch {
    /// Whether it says something of this option.
    pub fn names(&self, option: &str) -> bool {
        self.0.contains_key(option)
    }

    /// Whether it says something of one of these options.
    pub fn names_any(&self, options: &[&str]) -> bool {
        options.iter().any(|option| self.names(option))
    }

    /// The value that it gives to an option; `None` when it leaves the option as it is, or takes it away.
    pub fn value(&self, option: &str) -> Option<&RawValue> {
        let value = self.0.get(option)?;
        (value.get() != "null").then_some(&**value)
    }

    /// The change as JSON.
    pub fn to_value(&self) -> Value {
        let read = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or_default();
        Value::Object(
            self.0
                .iter()
                .map(|(name, raw)| (name.clone(), read(raw)))
                .collect(),
        )
    }

    /// Stored options with this change; `None` when those cannot be read.
    ///
    /// # Errors
    /// An option cannot change.
    pub fn merged(&self, stored: &str) -> Result<Option<(String, LaunchOptions)>, InvalidOption> {
        for (name, why) in FIXED {
            if self.names(name) {
                return Err(InvalidOption {
                    field: name.to_owned(),
                    reason: format!("cannot be changed: it {why}"),
                });
            }
        }
        let joined = || {
            let mut fields = Fields::of_object(stored)?;
            for (name, value) in &self.0 {
                join(&mut fields, name, value)?;
            }
            let text = fields.to_object()?.get().to_owned();
            let options = serde_json::from_str(&text).ok()?;
            Some((text, options))
        };
        Ok(joined())
    }
}

/// Joins a member of a change to what is there.
fn join(fields: &mut Fields, name: &str, value: &RawValue) -> Option<()> {
    if value.get() == "null" {
        fields.remove(name);
        return Some(());
    }
    if name != ENV {
        fields.set_raw(name, value.to_owned());
        return Some(());
    }
    // A variable may have any name.
    let read = |text: &str| serde_json::from_str::<BTreeMap<String, Option<String>>>(text).ok();
    let mut all = fields
        .get(ENV)
        .map_or(Some(BTreeMap::new()), |raw| read(raw.get()))?;
    all.extend(read(value.get())?);
    all.retain(|_, value| value.is_some());
    match all.is_empty() {
        true => fields.remove(ENV),
        false => fields.set(ENV, &all),
    }
    Some(())
}

/// The names of the options that are not the same, in their order, apart from those that the daemon itself follows.
pub fn differing(one: &str, other: &str) -> Vec<String> {
    let read = |text: &str| -> Map<String, Value> {
        let mut all: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        all.retain(|name, value| !value.is_null() && !OF_DAEMON.contains(&name.as_str()));
        all
    };
    let (one, other) = (read(one), read(other));
    let mut names: Vec<String> = one.keys().chain(other.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| one.get(name) != other.get(name));
    names
}

impl<'de> Deserialize<'de> for OptionsPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> de::Visitor<'de> for Members {
            type Value = OptionsPatch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<OptionsPatch, A::Error> {
                let mut members = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if members.contains_key(&name) {
                        map.next_value::<IgnoredAny>()?;
                        return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    let value = map.next_value_seed(Member(&name))?;
                    members.insert(name, value);
                }
                Ok(OptionsPatch(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The value of one option: of its type, or `null`.
struct Member<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Box<RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Box<RawValue>, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        let checked = if self.0 == ENV {
            serde_json::from_str::<Option<BTreeMap<String, Option<String>>>>(value.get()).map(drop)
        } else {
            let mut one = Fields::new();
            one.set_raw(self.0, value.clone());
            let one = one.to_object().unwrap_or_default();
            serde_json::from_str::<LaunchOptions>(one.get()).map(drop)
        };
        match checked {
            Ok(()) => Ok(value),
            Err(error) => {
                let words = error.to_string();
                // The place is one in a part of the body.
                let words = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
                Err(de::Error::custom(words))
            }
        }
    }
}

impl PartialSchema for OptionsPatch {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut options)) = LaunchOptions::schema() else {
            return LaunchOptions::schema();
        };
        for (name, _) in FIXED {
            options.properties.remove(name);
        }
        let variable = schema::ObjectBuilder::new().schema_type(schema::SchemaType::from_iter([
            schema::Type::String,
            schema::Type::Null,
        ]));
        if let Some(RefOr::T(Schema::Object(env))) = options.properties.get_mut(ENV) {
            env.additional_properties = Some(Box::new(schema::AdditionalProperties::RefOr(RefOr::T(
                Schema::Object(variable.build()),
            ))));
        }
        options.description = Some(
            "A change of launch options: an option that is left out stays, `null` takes one away, and so it is with the variables in `env`. Any other option is replaced as a whole."
                .to_owned(),
        );
        RefOr::T(Schema::Object(options))
    }
}

impl ToSchema for OptionsPatch {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        LaunchOptions::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(stored: &str, patch: &str) -> Value {
        let patch: OptionsPatch = serde_json::from_str(patch).unwrap();
        let (text, _) = patch.merged(stored).unwrap().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_change_joins_what_is_there() {
        let stored = r#"{"model":"opus","env":{"A":"1","B":"2"},"json_schema":{"a":1.50,"b":2}}"#;
        let patch = r#"{"model":null,"max_turns":3,"env":{"A":null,"C":"3"},"json_schema":{"c":null}}"#;
        let expected =
            serde_json::json!({"max_turns": 3, "env": {"B": "2", "C": "3"}, "json_schema": {"c": null}});
        assert_eq!(merged(stored, patch), expected);
        assert_eq!(
            merged(stored, r#"{"env":null,"json_schema":null}"#),
            serde_json::json!({"model": "opus"})
        );
        let emptied = r#"{"env":{"A":null,"B":null,"D":null}}"#;
        assert!(merged(stored, emptied).get("env").is_none());
        // Bytes of what is not changed stay.
        let patch: OptionsPatch = serde_json::from_str(r#"{"model":"haiku"}"#).unwrap();
        assert!(patch.merged(stored).unwrap().unwrap().0.contains("1.50"));
    }

    #[test]
    fn what_a_session_is_made_with_stays() {
        for (name, _) in FIXED {
            let patch: OptionsPatch = serde_json::from_str(&format!(r#"{{"{name}":null}}"#)).unwrap();
            assert_eq!(patch.merged("{}").unwrap_err().field, name);
        }
    }

    #[test]
    fn each_value_has_the_type_of_its_option() {
        for wrong in [
            r#"{"max_turns":"3"}"#,
            r#"{"nope":1}"#,
            r#"{"env":{"A":1}}"#,
            r#"{"model":"a","model":"b"}"#,
            "[]",
            "1",
        ] {
            assert!(serde_json::from_str::<OptionsPatch>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<OptionsPatch>(r#"{"max_turns":null,"env":null}"#).is_ok());
    }

    #[test]
    fn options_that_differ_are_named_once() {
        let one = r#"{"model":"a","env":{"A":"1"},"max_turns":1,"verbatim_prompts":true,"effort":null}"#;
        let other = r#"{"model":"b","env":{"A":"2"},"max_turns":1,"betas":[]}"#;
        assert_eq!(differing(one, other), ["betas", "env", "model"]);
        assert!(differing(one, one).is_empty());
    }
}
