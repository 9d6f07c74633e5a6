//! Owns the comparison of two OpenAPI documents: the changes that break a client of the first one.
//!
//! A request of a client must be valid for the second document, and an answer of the daemon for the first one.
//! Beyond that nothing that has a name may vanish: a client may look for it. Members that are new in an answer break nobody,
//! for clients ignore what they do not know; a new value of an enumeration does, and a new form of a union, unless these
//! are open. An open enumeration is `anyOf` of its values and of any string; an open union is `anyOf` instead of `oneOf`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};

/// A change that breaks a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Break {
    /// The operation, or the schema, in which it is.
    pub(super) subject: String,
    place: String,
    fault: String,
}

impl Break {
    pub(super) fn of(subject: &str, place: &str, fault: impl Into<String>) -> Self {
        Self {
            subject: subject.to_owned(),
            place: place.to_owned(),
            fault: fault.into(),
        }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            place,
            fault,
        } = self;
        let gap = if place.is_empty() { "" } else { " " };
        write!(f, "{subject}:{gap}{place} {fault}")
    }
}

/// The side that says a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Client,
    Daemon,
}

/// The changes from `old` to `new` that break a client of `old`.
pub(super) fn breaks(old: &Value, new: &Value) -> Vec<Break> {
    let mut comparison = Comparison {
        old,
        new,
        seen: BTreeSet::new(),
        found: BTreeSet::new(),
    };
    comparison.operations();
    comparison.found.into_iter().collect()
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs of components that were compared, or are being compared.
    seen: BTreeSet<(String, String, Says)>,
    found: BTreeSet<Break>,
}

/// A place in the documents.
#[derive(Clone, Copy)]
struct At<'s> {
    subject: &'s str,
    place: &'s str,
}

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Bounds that a value must not go under, and those that it must not go over.
const LEAST: [&str; 5] = [
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
    "minProperties",
];
const MOST: [&str; 5] = [
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "maxProperties",
];

/// The item of a path, and one of its operations.
type Operation<'a> = (&'a Value, &'a Value);

impl<'a> Comparison<'a> {
    fn report(&mut self, at: At<'_>, fault: impl Into<String>) {
        self.found.insert(Break::of(at.subject, at.place, fault));
    }

    fn operations(&mut self) {
        let new_paths: BTreeMap<String, &Value> = members(&self.new["paths"])
            .map(|(path, item)| (nameless(path), item))
            .collect();
        for (path, old_item) in members(&self.old["paths"]) {
            let new_item = new_paths.get(&nameless(path)).copied().unwrap_or(&Value::Null);
            for method in METHODS {
                let Some(old) = old_item.get(method) else {
                    continue;
                };
                let subject = format!("{} {path}", method.to_uppercase());
                let at = At {
                    subject: &subject,
                    place: "",
                };
                match new_item.get(method) {
                    None => self.report(at, "is gone"),
                    Some(new) => self.operation(at, (old_item, old), (new_item, new)),
                }
            }
        }
    }

    fn operation(&mut self, at: At<'_>, old: Operation<'a>, new: Operation<'a>) {
        if let Some(name) = old.1["operationId"].as_str()
            && new.1["operationId"] != name
        {
            self.report(at, format!("has another operationId than {name}"));
        }
        self.parameters(at, old, new);
        self.body(at, &old.1["requestBody"], &new.1["requestBody"]);
        self.responses(at, &old.1["responses"], &new.1["responses"]);
    }

    fn parameters(&mut self, at: At<'_>, old: Operation<'a>, new: Operation<'a>) {
        let (old, new) = (parameters(self.old, old), parameters(self.new, new));
        for (key, after) in &new {
            let was_required = old.get(key).is_some_and(|before| is_true(&before["required"]));
            if is_true(&after["required"]) && !was_required {
                self.report(at, format!("requires the {} now", named(key)));
            }
        }
        for (key, before) in &old {
            let place = format!("the {}", named(key));
            match new.get(key) {
                None => self.report(at, format!("does not take {place} any more")),
                Some(after) => {
                    let at = At { place: &place, ..at };
                    self.schema(at, Says::Client, &before["schema"], &after["schema"]);
                }
            }
        }
    }

    fn body(&mut self, at: At<'_>, old: &'a Value, new: &'a Value) {
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        if is_true(&new["required"]) && !is_true(&old["required"]) {
            self.report(at, "requires a body now");
        }
        self.content(
            At {
                place: "the body",
                ..at
            },
            Says::Client,
            old,
            new,
        );
    }

    fn responses(&mut self, at: At<'_>, old: &'a Value, new: &'a Value) {
        for (status, before) in members(old) {
            let place = format!("the response {status}");
            let at = At { place: &place, ..at };
            let Some(after) = new.get(status) else {
                // Other errors than before are read by their code.
                if matches!(status.as_bytes()[0], b'1' | b'2' | b'3') {
                    self.report(at, "is gone");
                }
                continue;
            };
            let (before, after) = (resolved(self.old, before), resolved(self.new, after));
            for (name, _) in members(&before["headers"]) {
                if after["headers"].get(name).is_none() {
                    self.report(at, format!("has no header {name} any more"));
                }
            }
            self.content(at, Says::Daemon, before, after);
        }
    }

    fn content(&mut self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value) {
        for (media_type, before) in members(&old["content"]) {
            match new["content"].get(media_type) {
                None => self.report(at, format!("is not {media_type} any more")),
                Some(after) => self.schema(at, says, &before["schema"], &after["schema"]),
            }
        }
    }

    /// Compares two schemas at the same place.
    fn schema(&mut self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value) {
        let names = (reference(old), reference(new));
        if let (Some(before), Some(after)) = names {
            if !self.seen.insert((before.to_owned(), after.to_owned(), says)) {
                return;
            }
            let at = At {
                subject: before,
                place: match says {
                    Says::Client => "in requests",
                    Says::Daemon => "in responses",
                },
            };
            let (old, new) = (resolved(self.old, old), resolved(self.new, new));
            return self.variants(at, says, old, new);
        }
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        self.variants(at, says, old, new);
    }

    fn variants(&mut self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value) {
        let (before, after) = (variants(old), variants(new));
        if before.len() == 1 && after.len() == 1 {
            return self.plain(at, says, before[0], after[0], false);
        }
        // The values that are said must be among those that are understood.
        let (said, understood, gone) = match says {
            Says::Client => (&before, &after, "is not taken any more"),
            Says::Daemon => (&after, &before, "is new"),
        };
        let is_open = understood.iter().any(|it| is_any_string(it));
        let may_grow = says == Says::Daemon && !old["anyOf"].is_null();
        for one in said {
            let (one_root, other_root) = match says {
                Says::Client => (self.old, self.new),
                Says::Daemon => (self.new, self.old),
            };
            let kind = kind(one_root, one);
            let alike = understood
                .iter()
                .find(|other| self::kind(other_root, other) == kind);
            let in_order = |other: &'a Value| match says {
                Says::Client => (*one, other),
                Says::Daemon => (other, *one),
            };
            if let Some(other) = alike {
                let (old, new) = in_order(other);
                if reference(old).is_some() || reference(new).is_some() {
                    self.schema(at, says, old, new);
                } else {
                    self.plain(at, says, old, new, is_open);
                }
            } else if !may_grow
                && !understood.iter().any(|other| {
                    let (old, new) = in_order(other);
                    self.fits(at, says, old, new)
                })
            {
                self.report(at, format!("the form {kind} {gone}"));
            }
        }
        if says == Says::Daemon {
            for one in &before {
                let kind = kind(self.old, one);
                let is_there = after.iter().any(|other| self::kind(self.new, other) == kind);
                // Any object has nothing to look for: it may become certain ones.
                if !is_there && kind != "null" && !is_any_object(one) {
                    self.report(at, format!("the form {kind} is gone"));
                }
            }
        }
    }

    /// Whether a value of the one that is said is one of the other. Nothing is reported.
    fn fits(&self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value) -> bool {
        let mut trial = Comparison {
            old: self.old,
            new: self.new,
            seen: BTreeSet::new(),
            found: BTreeSet::new(),
        };
        trial.schema(at, says, old, new);
        trial.found.is_empty()
    }

    /// Compares two schemas that are no unions.
    fn plain(&mut self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value, is_open: bool) {
        if reference(old).is_some() || reference(new).is_some() {
            return self.schema(at, says, old, new);
        }
        if old["allOf"] != new["allOf"] || old["not"] != new["not"] {
            self.report(at, "has another allOf or not, which this test does not compare");
        }
        let (said, understood) = match says {
            Says::Client => (old, new),
            Says::Daemon => (new, old),
        };
        if !types_within(said, understood) {
            self.report(at, format!("is {} now and was {}", types_of(new), types_of(old)));
            return;
        }
        if !understood["format"].is_null() && said["format"] != understood["format"] {
            self.report(
                at,
                format!("has the format {} now and had {}", new["format"], old["format"]),
            );
        }
        if !understood["pattern"].is_null() && said["pattern"] != understood["pattern"] {
            self.report(at, "has another pattern");
        }
        self.values(at, says, old, new, is_open);
        self.bounds(at, said, understood);
        self.object(at, says, old, new);
        self.inner(at, says, "of each item", &old["items"], &new["items"]);
        self.inner(
            at,
            says,
            "of each member",
            &old["additionalProperties"],
            &new["additionalProperties"],
        );
    }

    fn inner(&mut self, at: At<'_>, says: Says, words: &str, old: &'a Value, new: &'a Value) {
        if old.is_object() && new.is_object() {
            let place = format!("{} {words}", at.place).trim_start().to_owned();
            self.schema(At { place: &place, ..at }, says, old, new);
        }
    }

    fn values(&mut self, at: At<'_>, says: Says, old: &Value, new: &Value, is_open: bool) {
        match (list(&old["enum"]), list(&new["enum"])) {
            (None, None) => {}
            (None, Some(_)) if says == Says::Client => self.report(at, "takes certain values only now"),
            (None, Some(_)) => {}
            (Some(_), None) if says == Says::Daemon => self.report(at, "may have any value now"),
            (Some(_), None) => {}
            (Some(before), Some(after)) => {
                for value in before.iter().filter(|value| !after.contains(value)) {
                    self.report(at, format!("the value {value} is gone"));
                }
                let may_grow = is_open || says == Says::Client;
                for value in after.iter().filter(|value| !may_grow && !before.contains(value)) {
                    self.report(
                        at,
                        format!("the value {value} is new, and the values are not open"),
                    );
                }
            }
        }
    }

    fn bounds(&mut self, at: At<'_>, said: &Value, understood: &Value) {
        let outside = |name: &str, is_over: fn(f64, f64) -> bool| {
            let bound = understood[name].as_f64()?;
            let fits = said[name].as_f64().is_some_and(|it| !is_over(it, bound));
            (!fits).then(|| format!("{name} is {} on one side and {bound} on the other", said[name]))
        };
        let least = LEAST
            .iter()
            .filter_map(|name| outside(name, |it, bound| it < bound));
        let most = MOST
            .iter()
            .filter_map(|name| outside(name, |it, bound| it > bound));
        for fault in least.chain(most).collect::<Vec<_>>() {
            self.report(at, fault);
        }
    }

    fn object(&mut self, at: At<'_>, says: Says, old: &'a Value, new: &'a Value) {
        let (before, after) = (required(old), required(new));
        match says {
            Says::Client => {
                for name in after.difference(&before) {
                    self.report(at, format!("requires the member {name} now"));
                }
            }
            Says::Daemon => {
                for name in before.difference(&after) {
                    self.report(at, format!("may lack the member {name} now"));
                }
            }
        }
        for (name, was) in members(&old["properties"]) {
            match new["properties"].get(name) {
                None => self.report(at, format!("has no member {name} any more")),
                Some(is) => {
                    let place = format!("{} .{name}", at.place).trim_start().to_owned();
                    self.schema(At { place: &place, ..at }, says, was, is);
                }
            }
        }
    }
}

/// A path without the names of its parameters.
fn nameless(path: &str) -> String {
    let parts = path
        .split('/')
        .map(|part| if part.starts_with('{') { "{}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let object = value.as_object().into_iter().flat_map(Map::iter);
    object.map(|(name, value)| (name.as_str(), value))
}

fn list(value: &Value) -> Option<&Vec<Value>> {
    value.as_array()
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn required(schema: &Value) -> BTreeSet<&str> {
    let names = list(&schema["required"]).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// The name of the component that a schema refers to.
fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

fn resolved<'a>(root: &'a Value, value: &'a Value) -> &'a Value {
    let mut value = value;
    while let Some(at) = value["$ref"].as_str() {
        let target = at.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        value = target.unwrap_or_else(|| panic!("{at} leads nowhere"));
    }
    value
}

/// The parameters of an operation by their place and name; those of the path's own are named by the path.
fn parameters<'a>(
    root: &'a Value,
    (item, operation): (&'a Value, &'a Value),
) -> BTreeMap<(String, String), &'a Value> {
    let all = [&item["parameters"], &operation["parameters"]];
    let all = all.into_iter().filter_map(list).flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|it| resolved(root, it))
        .filter(|it| it["in"] != "path")
        .map(|it| ((text(&it["in"]), text(&it["name"]).to_lowercase()), it))
        .collect()
}

fn named((place, name): &(String, String)) -> String {
    format!("{place} parameter {name}")
}

/// The forms that a value may have.
fn variants(schema: &Value) -> Vec<&Value> {
    let union = list(&schema["oneOf"]).or_else(|| list(&schema["anyOf"]));
    union.map_or_else(|| vec![schema], |union| union.iter().collect())
}

fn is_any_string(schema: &Value) -> bool {
    schema["type"] == "string" && schema["enum"].is_null() && schema["format"].is_null()
}

fn is_any_object(schema: &Value) -> bool {
    schema["type"] == "object"
        && schema["properties"].is_null()
        && !schema["additionalProperties"].is_object()
}

/// The name by which a form of a union is known: its tag, its component, or its type and the members that it needs.
fn kind(root: &Value, schema: &Value) -> String {
    let whole = resolved(root, schema);
    let tag = members(&whole["properties"]).find_map(|(name, property)| {
        match list(&property["enum"])?.as_slice() {
            [Value::String(value)] => Some(format!("{name}={value}")),
            _ => None,
        }
    });
    let component = || reference(schema).map(str::to_owned);
    let plain = || {
        let names: Vec<&str> = required(whole).into_iter().collect();
        match (names.is_empty(), whole["enum"].is_null()) {
            (false, _) => format!("{} with {}", types_of(whole), names.join(", ")),
            (true, false) => format!("{} of certain values", types_of(whole)),
            (true, true) => types_of(whole),
        }
    };
    tag.or_else(component).unwrap_or_else(plain)
}

fn types(schema: &Value) -> Option<BTreeSet<&str>> {
    match &schema["type"] {
        Value::String(one) => Some(BTreeSet::from([one.as_str()])),
        Value::Array(many) => Some(many.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn types_of(schema: &Value) -> String {
    let names = types(schema).map(|types| types.into_iter().collect::<Vec<_>>().join(" or "));
    names.unwrap_or_else(|| "anything".to_owned())
}

fn types_within(said: &Value, understood: &Value) -> bool {
    match (types(said), types(understood)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(said), Some(understood)) => said
            .iter()
            .all(|it| understood.contains(it) || (*it == "integer" && understood.contains("number"))),
    }
}
