//! Owns the small documents in which a contract breaks in each way, and those in which it grows and breaks nobody.

use serde_json::{Value, json};

use super::changes::breaks;

/// A document with one operation that takes and gives a thing.
fn base() -> Value {
    json!({
        "paths": {
            "/things/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "post": {
                    "operationId": "change",
                    "parameters": [{"name": "wait", "in": "query", "schema": {"type": "string", "enum": ["ready"]}}],
                    "requestBody": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Change"}}},
                    },
                    "responses": {
                        "200": {
                            "headers": {"etag": {"schema": {"type": "string"}}},
                            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
                        },
                        "404": {"content": {}},
                    },
                },
            },
        },
        "components": {"schemas": {
            "Change": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 9},
                    "size": {"type": "number"},
                    "mode": {"oneOf": [{"$ref": "#/components/schemas/Mode"}, {"type": "null"}]},
                    "form": {"oneOf": [
                        {"type": "object", "properties": {"kind": {"enum": ["a"]}}},
                        {"type": "object", "properties": {"kind": {"enum": ["b"]}, "more": {"type": "string"}}},
                    ]},
                },
                "required": ["name"],
            },
            "Mode": {"type": "string", "enum": ["plan", "auto"]},
            "Thing": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "state": {"type": "string", "enum": ["idle", "busy"]},
                    "code": {"anyOf": [{"type": "string", "enum": ["lost"]}, {"type": "string"}]},
                    "at": {"type": "string", "format": "date-time"},
                    "note": {"type": ["string", "null"]},
                    "reply": {"anyOf": [{"type": "object", "properties": {"kind": {"enum": ["a"]}}}]},
                    "about": {"oneOf": [{"type": "object", "properties": {"kind": {"enum": ["a"]}}}, {"type": "string"}]},
                    "any": {"type": "object"},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                },
                "required": ["name", "state"],
            },
        }},
    })
}

/// Every break between the base and the base with `value` at `pointer`; `null` takes away what is there.
#[expect(clippy::unwrap_used, reason = "a test's helper fails by panicking")]
fn after(pointer: &str, value: Value) -> Vec<String> {
    let mut changed = base();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    let parent = changed.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}"));
    match (parent, value) {
        (Value::Object(members), Value::Null) => drop(members.remove(&name)),
        (Value::Object(members), value) => drop(members.insert(name, value)),
        (Value::Array(items), value) if name == "-" => items.push(value),
        (Value::Array(items), Value::Null) => drop(items.remove(name.parse().unwrap())),
        (other, _) => panic!("{other}"),
    }
    breaks(&base(), &changed)
        .iter()
        .map(ToString::to_string)
        .collect()
}

const POST: &str = "/paths/~1things~1{id}/post";
const SCHEMAS: &str = "/components/schemas";

#[test]
fn each_break_is_found_and_told() {
    let operation = |rest: &str| format!("{POST}{rest}");
    let schema = |rest: &str| format!("{SCHEMAS}{rest}");
    let required = json!({"name": "x", "in": "query", "required": true, "schema": {"type": "string"}});
    for (pointer, value, expected) in [
        (
            "/paths/~1things~1{id}".to_owned(),
            Value::Null,
            "POST /things/{id}: is gone",
        ),
        (operation(""), Value::Null, "POST /things/{id}: is gone"),
        (
            operation("/operationId"),
            json!("alter"),
            "POST /things/{id}: has another operationId than change",
        ),
        (
            operation("/parameters/0"),
            Value::Null,
            "POST /things/{id}: does not take the query parameter wait any more",
        ),
        (
            operation("/parameters/-"),
            required,
            "POST /things/{id}: requires the query parameter x now",
        ),
        (
            operation("/parameters/0/required"),
            json!(true),
            "POST /things/{id}: requires the query parameter wait now",
        ),
        (
            operation("/parameters/0/schema/enum"),
            json!(["done"]),
            "POST /things/{id}: the query parameter wait the value \"ready\" is gone",
        ),
        (
            operation("/requestBody/required"),
            json!(true),
            "POST /things/{id}: requires a body now",
        ),
        (
            operation("/requestBody/content"),
            json!({}),
            "POST /things/{id}: the body is not application/json any more",
        ),
        (
            operation("/responses/200"),
            Value::Null,
            "POST /things/{id}: the response 200 is gone",
        ),
        (
            operation("/responses/200/headers"),
            Value::Null,
            "POST /things/{id}: the response 200 has no header etag any more",
        ),
        (
            schema("/Change/required"),
            json!(["name", "size"]),
            "Change: in requests requires the member size now",
        ),
        (
            schema("/Change/properties/size"),
            Value::Null,
            "Change: in requests has no member size any more",
        ),
        (
            schema("/Change/properties/size/type"),
            json!("integer"),
            "Change: in requests .size is integer now and was number",
        ),
        (
            schema("/Change/properties/name/maxLength"),
            json!(8),
            "Change: in requests .name maxLength is 9 on one side and 8 on the other",
        ),
        (
            schema("/Change/properties/name/pattern"),
            json!("a+"),
            "Change: in requests .name has another pattern",
        ),
        (
            schema("/Change/properties/name/format"),
            json!("uuid"),
            "Change: in requests .name has the format \"uuid\" now and had null",
        ),
        (
            schema("/Change/properties/name/enum"),
            json!(["x"]),
            "Change: in requests .name takes certain values only now",
        ),
        (
            schema("/Change/properties/mode/oneOf/1"),
            Value::Null,
            "Change: in requests .mode the form null is not taken any more",
        ),
        (
            schema("/Change/properties/form/oneOf/0"),
            Value::Null,
            "Change: in requests .form the form kind=a is not taken any more",
        ),
        (
            schema("/Change/properties/form/oneOf/1/required"),
            json!(["more"]),
            "Change: in requests .form requires the member more now",
        ),
        (
            schema("/Mode/enum/1"),
            Value::Null,
            "Mode: in requests the value \"auto\" is gone",
        ),
        (
            schema("/Thing/required"),
            json!(["name"]),
            "Thing: in responses may lack the member state now",
        ),
        (
            schema("/Thing/properties/note"),
            Value::Null,
            "Thing: in responses has no member note any more",
        ),
        (
            schema("/Thing/properties/name/type"),
            json!(["string", "null"]),
            "Thing: in responses .name is null or string now and was string",
        ),
        (
            schema("/Thing/properties/state/enum/-"),
            json!("lost"),
            "Thing: in responses .state the value \"lost\" is new, and the values are not open",
        ),
        (
            schema("/Thing/properties/state/enum/0"),
            Value::Null,
            "Thing: in responses .state the value \"idle\" is gone",
        ),
        (
            schema("/Thing/properties/state/enum"),
            Value::Null,
            "Thing: in responses .state may have any value now",
        ),
        (
            schema("/Thing/properties/code/anyOf/0/enum/0"),
            Value::Null,
            "Thing: in responses .code the value \"lost\" is gone",
        ),
        (
            schema("/Thing/properties/at/format"),
            Value::Null,
            "Thing: in responses .at has the format null now and had \"date-time\"",
        ),
        (
            schema("/Thing/properties/about/oneOf/-"),
            json!({"type": "object", "properties": {"kind": {"enum": ["b"]}}}),
            "Thing: in responses .about the form kind=b is new",
        ),
        (
            schema("/Thing/properties/about/oneOf/1"),
            Value::Null,
            "Thing: in responses .about the form string is gone",
        ),
        (
            schema("/Thing/properties/parts/items"),
            json!({"type": "string"}),
            "Thing: in responses .parts of each item is string now and was object",
        ),
    ] {
        assert_eq!(after(&pointer, value), [expected], "{pointer}");
    }
}

#[test]
fn growth_breaks_nobody() {
    let optional = json!({"name": "x", "in": "query", "schema": {"type": "string"}});
    for (pointer, value) in [
        ("/paths/~1more".to_owned(), json!({"get": {"responses": {}}})),
        (format!("{POST}/parameters/-"), optional),
        (format!("{POST}/parameters/0/schema/enum/-"), json!("result")),
        (format!("{POST}/responses/202"), json!({"content": {}})),
        (format!("{POST}/responses/404"), Value::Null),
        (format!("{POST}/description"), json!("Longer.")),
        (
            format!("{SCHEMAS}/Change/properties/more"),
            json!({"type": "string"}),
        ),
        (format!("{SCHEMAS}/Change/properties/name/maxLength"), json!(99)),
        (
            format!("{SCHEMAS}/Change/properties/name/type"),
            json!(["string", "null"]),
        ),
        (
            format!("{SCHEMAS}/Change/properties/form/oneOf/-"),
            json!({"type": "object", "properties": {"kind": {"enum": ["c"]}}}),
        ),
        (format!("{SCHEMAS}/Change/required"), Value::Null),
        (format!("{SCHEMAS}/Mode/enum/-"), json!("default")),
        (
            format!("{SCHEMAS}/Thing/properties/more"),
            json!({"type": "string"}),
        ),
        (
            format!("{SCHEMAS}/Thing/properties/code/anyOf/0/enum/-"),
            json!("found"),
        ),
        (
            format!("{SCHEMAS}/Thing/properties/any"),
            json!({"type": "object", "anyOf": [{"type": "object", "properties": {"kind": {"enum": ["a"]}}}, {"type": "object"}]}),
        ),
        (format!("{SCHEMAS}/Thing/properties/note/type"), json!("string")),
        (format!("{SCHEMAS}/Thing/required/-"), json!("note")),
        (
            format!("{SCHEMAS}/Thing/properties/reply/anyOf/-"),
            json!({"type": "object", "properties": {"kind": {"enum": ["b"]}}}),
        ),
    ] {
        assert_eq!(after(&pointer, value), Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn a_path_may_name_its_parameters_anew() {
    let text = base()
        .to_string()
        .replace("{id}", "{thing}")
        .replace("\"id\"", "\"thing\"");
    let renamed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(breaks(&base(), &renamed), []);
}
