//! Owns the limits of requests that no attribute of a type can state: which unions take no other members, and how much fits into a
//! map or a text inside of one.

use utoipa::openapi::{
    Components, RefOr, Schema,
    schema::{AdditionalProperties, Array, ArrayBuilder, Object, ObjectBuilder, Type},
};

/// The unions whose forms take no other members than they name.
const CLOSED: [&str; 5] = [
    "HookTarget",
    "Matcher",
    "McpTarget",
    "SystemPromptSpec",
    "Thinking",
];

/// The member of a schema that is a map, how many entries it takes, and how many characters each text in it.
const MAPS: [(&str, &str, usize, Option<usize>); 10] = [
    ("CreateRequest", "labels", 64, Some(1024)),
    ("UpdateRequest", "labels", 64, Some(1024)),
    ("RuleSpec", "input", 32, None),
    ("LaunchOptions", "agents", ENTRIES, None),
    ("LaunchOptions", "env", ENTRIES, None),
    ("LaunchOptions", "extra_args", ENTRIES, None),
    ("LaunchOptions", "mcp_servers", ENTRIES, None),
    ("LaunchOptions", "sdk_mcp_servers", ENTRIES, None),
    ("LaunchOptions", "tool_aliases", ENTRIES, Some(1024)),
    ("McpTarget", "headers", ENTRIES, None),
];

/// The texts in forms of a union: neither empty nor longer than a pattern.
const PATTERNS: [(&str, &str); 3] = [
    ("Matcher", "glob"),
    ("Matcher", "regex"),
    ("Matcher", "path_prefix"),
];

/// Most entries of a map of the launch options.
const ENTRIES: usize = 1_000;

/// States the limits of the schemas that have them.
pub(super) fn state(components: &mut Components) {
    for name in CLOSED {
        for form in forms(components, name) {
            form.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
    for (name, member) in PATTERNS {
        for text in members(components, name, member) {
            text.min_length = Some(1);
            text.max_length = Some(1024);
        }
    }
    for form in forms(components, "Matcher") {
        if let Some(RefOr::T(Schema::Array(words))) = form.properties.get_mut("command_prefix") {
            *words = command_words(words);
        }
    }
    for (name, member, entries, chars) in MAPS {
        for map in members(components, name, member) {
            map.max_properties = Some(entries);
            if chars.is_some() {
                let text = ObjectBuilder::new().schema_type(Type::String).max_length(chars);
                map.additional_properties = Some(Box::new(AdditionalProperties::RefOr(text.into())));
            }
        }
    }
}

/// A command: a program and its first arguments.
fn command_words(described: &Array) -> Array {
    let word = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(1024))
        .pattern(Some(r"^[^\x00-\x1f\x7f-\x9f]+$"));
    ArrayBuilder::new()
        .items(word)
        .min_items(Some(1))
        .max_items(Some(32))
        .description(described.description.clone())
        .build()
}

/// The member of each form of a schema that has it.
fn members<'a>(
    components: &'a mut Components,
    name: &str,
    member: &'a str,
) -> impl Iterator<Item = &'a mut Object> {
    let forms = forms(components, name).into_iter();
    forms.filter_map(|form| match form.properties.get_mut(member) {
        Some(RefOr::T(Schema::Object(object))) => Some(object),
        _ => None,
    })
}

/// The objects that a schema is, or is one of.
fn forms<'a>(components: &'a mut Components, name: &str) -> Vec<&'a mut Object> {
    let object = |schema: &'a mut RefOr<Schema>| match schema {
        RefOr::T(Schema::Object(object)) => Some(object),
        _ => None,
    };
    match components.schemas.get_mut(name) {
        Some(RefOr::T(Schema::OneOf(union))) => union.items.iter_mut().filter_map(object).collect(),
        Some(schema) => object(schema).into_iter().collect(),
        None => Vec::new(),
    }
}
