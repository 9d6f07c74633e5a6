//! Owns the part of JSON Schema that the contract uses, held tightly: a value whose tags name a form of a union must be of
//! that form, and a member that no schema names is a fault unless the schema is open.

use serde_json::{Map, Value};
use uuid::Uuid;

/// The value that a `$ref` points at.
pub(crate) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => resolved(document, document.pointer(&reference[1..]).unwrap()),
        None => value,
    }
}

/// The faults of a value.
pub(crate) fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    validate(document, schema, value, "", &mut found);
    found
}

fn validate(document: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let schema = resolved(document, schema);
    let Some(rules) = schema.as_object() else {
        return;
    };
    let mut fault = |text: String| faults.push(format!("{at}: {text}"));
    if let Some(rule) = rules.get("type") {
        let allowed: Vec<&str> = match rule {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        if !allowed.iter().any(|kind| is_kind(value, kind)) {
            fault(format!("{value} is none of {allowed:?}"));
        }
    }
    if let Some(rule) = rules.get("enum")
        && !rule.as_array().unwrap().contains(value)
    {
        fault(format!("{value} is none of {rule}"));
    }
    if let Some(text) = value.as_str() {
        let good = match rules.get("format").and_then(Value::as_str) {
            Some("uuid") => text.parse::<Uuid>().is_ok(),
            Some("date-time") => text.len() > 18 && text.ends_with('Z'),
            _ => true,
        };
        if !good {
            fault(format!("{value} is no {}", rules["format"]));
        }
    }
    if value.is_number() {
        if rules
            .get("minimum")
            .is_some_and(|least| value.as_f64() < least.as_f64())
        {
            fault(format!("{value} is below {}", rules["minimum"]));
        }
        if rules
            .get("maximum")
            .is_some_and(|most| value.as_f64() > most.as_f64())
        {
            fault(format!("{value} is above {}", rules["maximum"]));
        }
    }
    if let Some(members) = value.as_object() {
        object(document, rules, members, at, faults);
    }
    if let (Some(rule), Some(items)) = (rules.get("items"), value.as_array()) {
        for (index, item) in items.iter().enumerate() {
            validate(document, rule, item, &format!("{at}[{index}]"), faults);
        }
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(forms) = rules.get(key).and_then(Value::as_array) {
            one_of(document, forms, value, at, faults);
        }
    }
    for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        validate(document, part, value, at, faults);
    }
}

fn object(
    document: &Value,
    rules: &Map<String, Value>,
    members: &Map<String, Value>,
    at: &str,
    faults: &mut Vec<String>,
) {
    for name in rules
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !members.contains_key(name.as_str().unwrap()) {
            faults.push(format!("{at}: {name} is missing"));
        }
    }
    let known = rules.get("properties");
    let others = rules.get("additionalProperties");
    for (name, member) in members {
        let place = format!("{at}.{name}");
        match (known.and_then(|known| known.get(name)), others) {
            (Some(schema), _) => validate(document, schema, member, &place, faults),
            (None, Some(Value::Bool(true))) => {}
            (None, Some(schema)) if schema.is_object() => {
                validate(document, schema, member, &place, faults);
            }
            (None, Some(_)) => faults.push(format!("{at}: {name} is not taken")),
            (None, None) if known.is_some() => faults.push(format!("{at}: {name} is not documented")),
            (None, None) => {}
        }
    }
}

/// The forms whose tags fit best are those that the value must be one of.
fn one_of(document: &Value, forms: &[Value], value: &Value, at: &str, faults: &mut Vec<String>) {
    let scores: Vec<Option<usize>> = forms.iter().map(|form| tags(document, form, value)).collect();
    let best = scores.iter().copied().flatten().max();
    let candidates = forms.iter().zip(&scores);
    let candidates = candidates.filter(|(_, score)| score.is_some() && **score == best);
    let mut least: Option<Vec<String>> = None;
    for (form, _) in candidates {
        let mut found = Vec::new();
        validate(document, form, value, at, &mut found);
        if least.as_ref().is_none_or(|least| found.len() < least.len()) {
            least = Some(found);
        }
    }
    match least {
        Some(found) => faults.extend(found),
        None => faults.push(format!("{at}: {value} has the tags of no form")),
    }
}

/// How many of a schema's tags (members with few values) the value has; `None` when it has another value for one.
fn tags(document: &Value, schema: &Value, value: &Value) -> Option<usize> {
    let schema = resolved(document, schema);
    for key in ["anyOf", "oneOf"] {
        if let Some(forms) = schema[key].as_array() {
            let scores = forms.iter().map(|form| tags(document, form, value));
            return scores.max().flatten();
        }
    }
    let mut score = 0;
    for part in schema["allOf"].as_array().into_iter().flatten() {
        score += tags(document, part, value)?;
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let Some(values) = member["enum"].as_array() else {
            continue;
        };
        let is_required = schema["required"]
            .as_array()
            .is_some_and(|names| names.contains(&name.as_str().into()));
        match value.get(name) {
            Some(tag) if values.contains(tag) => score += 1,
            Some(_) => return None,
            None if is_required => return None,
            None => {}
        }
    }
    Some(score)
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no such kind: {other}"),
    }
}
