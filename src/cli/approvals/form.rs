//! Owns how a person fills in the form of an MCP server: its fields, and what was typed turned into what each wants.

use serde_json::{Map, Value};

use super::super::view;

/// A field of a form.
#[derive(Debug, PartialEq)]
pub(in crate::cli) struct Field {
    /// Its name.
    pub(in crate::cli) name: String,
    /// Its schema.
    schema: Value,
    /// Whether it must be filled in.
    pub(in crate::cli) is_required: bool,
}

/// The fields of an elicitation in the order that its server wants; none for a page to visit.
pub(in crate::cli) fn fields(approval: &Value) -> Vec<Field> {
    let request = approval.get("request").unwrap_or(&Value::Null);
    let Some(Value::Object(properties)) = view::at(request, &["requested_schema", "properties"]) else {
        return Vec::new();
    };
    let order = view::list(request, &["property_order"]);
    let place = |name: &str| order.iter().position(|it| it == name).unwrap_or(usize::MAX);
    let required = view::list(request, &["requested_schema", "required"]);
    let mut fields: Vec<Field> = properties
        .iter()
        .map(|(name, schema)| Field {
            name: name.clone(),
            schema: schema.clone(),
            is_required: required.iter().any(|it| it == name),
        })
        .collect();
    fields.sort_by_key(|field| place(&field.name));
    fields
}

impl Field {
    /// The fields of the form, with their choices.
    pub(in crate::cli) fn describe(&self) -> String {
        let title = match view::text(&self.schema, &["title"]) {
            "" => self.name.as_str(),
            title => title,
        };
        let mut lines = vec![match view::text(&self.schema, &["description"]) {
            "" => title.to_owned(),
            description => format!("{title} - {description}"),
        }];
        for (index, (value, title)) in self.choices().iter().enumerate() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), ToOwned::to_owned);
            lines.push(match title {
                Some(title) => format!("    {} {title} ({value})", index + 1),
                None => format!("    {} {value}", index + 1),
            });
        }
        let how = match view::text(&self.schema, &["type"]) {
            "boolean" => "y or n",
            "array" => "several with commas between them",
            "integer" => "a whole number",
            "number" => "a number",
            _ if !self.choices().is_empty() => "a number of the list",
            _ => "text",
        };
        let rest = if self.is_required { "" } else { ", or nothing" };
        lines.push(format!("  {how}{rest}: "));
        lines.join("\n")
    }

    /// The value of a typed text. A text that fits nothing stays text; the daemon then says what is wrong with it.
    pub(in crate::cli) fn value(&self, typed: &str) -> Value {
        let typed = typed.trim();
        if view::text(&self.schema, &["type"]) == "array" {
            return typed.split(',').map(|item| self.item(item.trim())).collect();
        }
        self.item(typed)
    }

    fn item(&self, typed: &str) -> Value {
        let choices = self.choices();
        let chosen = typed
            .parse::<usize>()
            .ok()
            .and_then(|number| choices.get(number.checked_sub(1)?));
        if let Some((value, _)) = chosen {
            return value.clone();
        }
        let number = || serde_json::from_str::<serde_json::Number>(typed).ok();
        match (view::text(&self.schema, &["type"]), typed) {
            ("boolean", "y" | "yes" | "true") => true.into(),
            ("boolean", "n" | "no" | "false") => false.into(),
            ("integer" | "number", _) => number().map_or_else(|| typed.into(), Value::Number),
            _ => typed.into(),
        }
    }

    /// The values to choose from, each with its title if it has one.
    fn choices(&self) -> Vec<(Value, Option<String>)> {
        let items = view::at(&self.schema, &["items"]).unwrap_or(&self.schema);
        let plain = view::list(items, &["enum"])
            .iter()
            .cloned()
            .map(|value| (value, None));
        let titled = ["oneOf", "anyOf"]
            .into_iter()
            .flat_map(|key| view::list(items, &[key]))
            .filter_map(|choice| {
                let title = choice.get("title").and_then(Value::as_str).map(ToOwned::to_owned);
                Some((choice.get("const")?.clone(), title))
            });
        plain.chain(titled).collect()
    }
}

/// The content of a form. A field that was left empty is not part of it.
pub(in crate::cli) fn content<'a>(typed: impl Iterator<Item = (&'a Field, &'a str)>) -> Value {
    let filled = typed.filter(|(_, text)| !text.trim().is_empty());
    let members: Map<String, Value> = filled
        .map(|(field, text)| (field.name.clone(), field.value(text)))
        .collect();
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_typed_becomes_what_each_field_wants() {
        let approval = json!({"request": {"property_order": ["name", "age"], "requested_schema": {
            "required": ["name"],
            "properties": {
                "age": {"type": "integer", "description": "in years"},
                "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]},
                "name": {"type": "string"},
                "sure": {"type": "boolean"},
                "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
            },
        }}});
        let fields = fields(&approval);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["name", "age", "colour", "sure", "tags"]);
        assert!(fields[0].is_required && !fields[1].is_required);
        assert!(fields[1].describe().contains("age - in years"));
        assert!(fields[2].describe().contains("2 Blue (b)"));
        let typed = ["12", "36", "2", "y", "1, 2"];
        assert_eq!(
            content(fields.iter().zip(typed)),
            json!({"name": "12", "age": 36, "colour": "b", "sure": true, "tags": ["x", "y"]})
        );
        let typed = ["Ada", "old", "", " ", ""];
        assert_eq!(
            content(fields.iter().zip(typed)),
            json!({"name": "Ada", "age": "old"})
        );
    }
}
