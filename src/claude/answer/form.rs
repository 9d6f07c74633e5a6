//! Owns the check of a form's content against the schema that its server asked for: an object with flat fields, each a
//! string, a number, a boolean or a choice. Any further demand of the schema is left to the server.

use crate::json;

/// Checks `content` against `schema`.
///
/// # Errors
/// The fault, in words that name the field and never its value.
pub(super) fn check(schema: &str, content: &str) -> Result<(), String> {
    let mut given: Vec<(String, &str)> = Vec::new();
    json::for_each_member(content, |name, value| given.push((name.to_owned(), value)))
        .ok_or("must be an object")?;
    let Some([properties, required, additional]) =
        json::members(schema, ["properties", "required", "additionalProperties"])
    else {
        return Ok(());
    };
    for name in texts(required) {
        if given.iter().all(|(known, _)| *known != name) {
            return Err(format!("{name} is missing"));
        }
    }
    let mut fields: Vec<(String, &str)> = Vec::new();
    if let Some(properties) = properties {
        // A list of fields that is no object asks for nothing.
        let _ = json::for_each_member(properties, |name, field| fields.push((name.to_owned(), field)));
    }
    let is_closed = additional == Some("false");
    for (name, value) in given {
        match fields.iter().find(|(known, _)| *known == name) {
            Some((_, field)) => check_field(field, value).map_err(|wrong| format!("{name} {wrong}"))?,
            None if is_closed => return Err(format!("{name} is not asked for")),
            None => {}
        }
    }
    Ok(())
}

fn check_field(field: &str, value: &str) -> Result<(), String> {
    let names = ["type", "enum", "const", "oneOf", "anyOf", "items"];
    let Some([kind, choices, only, one_of, any_of, items]) = json::members(field, names) else {
        return Ok(());
    };
    check_type(kind, value)?;
    let mut allowed = choices.and_then(json::items);
    if let Some(only) = only {
        allowed = Some(vec![only]);
    }
    for titled in [one_of, any_of] {
        allowed = allowed.or_else(|| constants(titled?));
    }
    if let Some(allowed) = allowed
        && !allowed.iter().any(|choice| is_same(choice, value))
    {
        return Err("is none of the choices".to_owned());
    }
    check_bounds(field, value)?;
    if let (Some(items), Some(values)) = (items, json::items(value)) {
        for value in values {
            check_field(items, value).map_err(|wrong| format!("has an item that {wrong}"))?;
        }
    }
    Ok(())
}

fn check_type(kind: Option<&str>, value: &str) -> Result<(), String> {
    let Some(kind) = kind else { return Ok(()) };
    let kinds = match json::string(kind) {
        Some(kind) => vec![kind.into_owned()],
        None => texts(Some(kind)),
    };
    if kinds.is_empty() || kinds.iter().any(|kind| is_of_type(kind, value)) {
        return Ok(());
    }
    let article = if kinds[0].starts_with(['a', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    Err(format!("must be {article} {}", kinds.join(" or ")))
}

fn is_of_type(kind: &str, value: &str) -> bool {
    match kind {
        "string" => value.starts_with('"'),
        "number" => json::float(value).is_some(),
        "integer" => json::float(value).is_some_and(|number| number.fract() == 0.0),
        "boolean" => json::boolean(value).is_some(),
        "array" => value.starts_with('['),
        "object" => json::is_object(value),
        "null" => value == "null",
        // A type that we do not know is the server's to check.
        _ => true,
    }
}

fn check_bounds(field: &str, value: &str) -> Result<(), String> {
    let names = [
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
    ];
    let Some([min_length, max_length, minimum, maximum, min_items, max_items]) = json::members(field, names)
    else {
        return Ok(());
    };
    let count = |bound: Option<&str>| bound.and_then(json::count);
    let within = |size: usize, least: Option<u64>, most: Option<u64>| {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        least.is_none_or(|least| size >= least) && most.is_none_or(|most| size <= most)
    };
    if let Some(text) = json::decode_lossy(value)
        && !within(text.chars().count(), count(min_length), count(max_length))
    {
        return Err("is too short or too long".to_owned());
    }
    if let Some(items) = json::items(value)
        && !within(items.len(), count(min_items), count(max_items))
    {
        return Err("has too few or too many items".to_owned());
    }
    if let Some(number) = json::float(value) {
        let bound = |raw: Option<&str>| raw.and_then(json::float);
        if bound(minimum).is_some_and(|least| number < least)
            || bound(maximum).is_some_and(|most| number > most)
        {
            return Err("is too small or too large".to_owned());
        }
    }
    Ok(())
}

/// The constants of titled choices (`[{"const": …, "title": …}]`); `None` when one of them is no constant.
fn constants(choices: &str) -> Option<Vec<&str>> {
    json::items(choices)?
        .into_iter()
        .map(|choice| {
            let [constant] = json::members(choice, ["const"])?;
            constant
        })
        .collect()
}

/// Whether two raw values say the same.
fn is_same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (json::decode_lossy(one), json::decode_lossy(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => json::float(one).is_some_and(|one| json::float(other) == Some(one)),
        _ => false,
    }
}

/// The texts of a raw list; none when it is no list.
fn texts(list: Option<&str>) -> Vec<String> {
    let items = list.and_then(json::items).unwrap_or_default();
    items
        .into_iter()
        .filter_map(|item| Some(json::decode_lossy(item)?.into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","required":["name","age"],"properties":{
        "name":{"type":"string","minLength":2,"maxLength":4},
        "age":{"type":"integer","minimum":0,"maximum":150},
        "size":{"type":"number"},
        "sure":{"type":"boolean"},
        "colour":{"type":"string","enum":["red","bl\u0075e"]},
        "shape":{"type":"string","oneOf":[{"const":"c","title":"Circle"},{"const":"s","title":"Square"}]},
        "tags":{"type":"array","maxItems":2,"items":{"type":"string","enum":["a","b","c"]}},
        "maybe":{"type":["string","null"]},
        "odd":{"type":"from_the_future"}}}"#;

    fn of(more: &str) -> Result<(), String> {
        check(SCHEMA, &format!(r#"{{"name":"Ada","age":36{more}}}"#))
    }

    #[test]
    fn what_the_schema_asks_for_passes() {
        for good in [
            "",
            r#","size":1.5"#,
            r#","sure":false"#,
            r#","colour":"blue""#,
            r#","colour":"\u0072ed""#,
            r#","shape":"s""#,
            r#","tags":["a","c"]"#,
            r#","maybe":null"#,
            r#","odd":{}"#,
            r#","other":[1]"#,
        ] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        assert_eq!(check(SCHEMA, r#"{"name":"Ada","age":3.6e1}"#), Ok(()));
        assert_eq!(check("{}", "{}"), Ok(()));
    }

    #[test]
    fn what_it_does_not_ask_for_is_named() {
        for (bad, wrong) in [
            (r#","size":"1""#, "size must be a number"),
            (r#","sure":1"#, "sure must be a boolean"),
            (r#","colour":"green""#, "colour is none of the choices"),
            (r#","colour":null"#, "colour must be a string"),
            (r#","shape":"Circle""#, "shape is none of the choices"),
            (r#","tags":"a""#, "tags must be an array"),
            (r#","tags":["x"]"#, "tags has an item that is none of the choices"),
            (r#","tags":["a","b","c"]"#, "tags has too few or too many items"),
            (r#","maybe":1"#, "maybe must be a string or null"),
            (r#","name":"A""#, "name is too short or too long"),
            (r#","age":1.5"#, "age must be an integer"),
            (r#","age":151"#, "age is too small or too large"),
        ] {
            assert_eq!(of(bad).unwrap_err(), wrong, "{bad}");
        }
        assert_eq!(check(SCHEMA, r#"{"name":"Ada"}"#).unwrap_err(), "age is missing");
        assert_eq!(check(SCHEMA, "[]").unwrap_err(), "must be an object");
        let closed = r#"{"properties":{},"additionalProperties":false}"#;
        assert_eq!(check(closed, r#"{"x":1}"#).unwrap_err(), "x is not asked for");
    }
}
