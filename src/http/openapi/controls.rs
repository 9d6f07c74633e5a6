//! Owns how control requests and their answers look in the OpenAPI document: two unions, told apart by `subtype`.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Components, Ref, RefOr, Schema,
        schema::{AdditionalProperties, AnyOfBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type},
    },
};

use crate::{
    claude::controls::*,
    http::dto::{AnyReply, ControlReply, ControlRequest},
};

/// The name of the variant for subtypes that are not known here.
const OTHER: &str = "Other";

type Named = (String, RefOr<Schema>);

/// One subtype.
struct Variant {
    subtype: &'static str,
    request: RefOr<Schema>,
    payload: RefOr<Schema>,
    /// The schemas that the two refer to.
    parts: Vec<Named>,
}

macro_rules! variants {
    ($($subtype:literal: $request:ty => $payload:ty,)*) => {
        fn variants() -> Vec<Variant> {
            vec![$(variant::<$request, $payload>($subtype)),*]
        }
    };
}
with_typed_controls!(variants);

fn variant<Q: ToSchema, P: ToSchema>(subtype: &'static str) -> Variant {
    let mut parts = Vec::new();
    Q::schemas(&mut parts);
    P::schemas(&mut parts);
    if P::name() != AnyPayload::name() {
        parts.push((P::name().into_owned(), P::schema()));
    }
    Variant {
        subtype,
        request: Q::schema(),
        payload: payload::<P>(),
        parts,
    }
}

/// The payload of an answer, or `null`.
fn payload<P: ToSchema>() -> RefOr<Schema> {
    if P::name() == AnyPayload::name() {
        return P::schema();
    }
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(Ref::from_schema_name(P::name().into_owned()))
        .into()
}

/// `get_context_usage` becomes `GetContextUsage`.
fn camel(subtype: &str) -> String {
    subtype
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters)
        })
        .collect()
}

/// The `subtype` of one variant.
fn tag(subtype: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some([subtype]))
}

fn open() -> Option<AdditionalProperties<Schema>> {
    Some(AdditionalProperties::FreeForm(true))
}

/// A request with its `subtype`; fields that it does not name pass too.
fn request(variant: &Variant) -> RefOr<Schema> {
    let object = match &variant.request {
        RefOr::T(Schema::Object(object)) => ObjectBuilder::from(object.clone()),
        _ => ObjectBuilder::new(),
    };
    object
        .property("subtype", tag(variant.subtype))
        .required("subtype")
        .additional_properties(open())
        .into()
}

fn reply(variant: &Variant) -> RefOr<Schema> {
    ObjectBuilder::new()
        .property("subtype", tag(variant.subtype))
        .required("subtype")
        .property("response", variant.payload.clone())
        .required("response")
        .into()
}

/// A union whose member with the name `<Subtype><suffix>` is the one for that subtype, and any other for [`OTHER`]. It has no
/// discriminator, with which a client would refuse the subtypes that are not known here.
fn union(suffix: &str, description: &str) -> RefOr<Schema> {
    let mut union = AnyOfBuilder::new().description(Some(description));
    for variant in variants() {
        let schema = Ref::from_schema_name(camel(variant.subtype) + suffix);
        union = union.item(schema);
    }
    union
        .item(Ref::from_schema_name(format!("{OTHER}{suffix}")))
        .into()
}

const REQUEST: &str = "Control";
const REPLY: &str = "ControlReply";

impl PartialSchema for ControlRequest {
    fn schema() -> RefOr<Schema> {
        union(
            REQUEST,
            "A control request as the CLI takes it: its subtype, and the fields of that subtype. It reaches the CLI byte for \
             byte.",
        )
    }
}

impl ToSchema for ControlRequest {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ControlRequest")
    }

    fn schemas(schemas: &mut Vec<Named>) {
        for variant in variants() {
            schemas.push((camel(variant.subtype) + REQUEST, request(&variant)));
            schemas.extend(variant.parts);
        }
        let other = ObjectBuilder::new()
            .description(Some("A request of another subtype, with fields of any kind."))
            .property("subtype", ObjectBuilder::new().schema_type(Type::String))
            .required("subtype")
            .additional_properties(open());
        schemas.push((format!("{OTHER}{REQUEST}"), other.into()));
    }
}

impl PartialSchema for AnyReply {
    fn schema() -> RefOr<Schema> {
        union(
            REPLY,
            "The CLI's answer. `response` is byte for byte its own, and `null` when it has nothing to say beyond success.",
        )
    }
}

impl ToSchema for AnyReply {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("AnyControlReply")
    }

    fn schemas(schemas: &mut Vec<Named>) {
        for variant in variants() {
            schemas.push((camel(variant.subtype) + REPLY, reply(&variant)));
            schemas.extend(variant.parts);
        }
        let other = ObjectBuilder::new()
            .description(Some("The answer to a request of another subtype."))
            .property("subtype", ObjectBuilder::new().schema_type(Type::String))
            .required("subtype")
            .property("response", ObjectBuilder::new().schema_type(SchemaType::AnyValue))
            .required("response");
        schemas.push((format!("{OTHER}{REPLY}"), other.into()));
    }
}

impl<P: ToSchema> PartialSchema for ControlReply<P> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some(
                "The CLI's answer. `response` is byte for byte its own, and `null` when it has nothing to say beyond success.",
            ))
            .property("response", payload::<P>())
            .required("response")
            .into()
    }
}

impl<P: ToSchema> ToSchema for ControlReply<P> {
    fn name() -> Cow<'static, str> {
        let name = P::name();
        Cow::Owned(format!("{}Reply", name.strip_suffix("Payload").unwrap_or(&name)))
    }

    fn schemas(schemas: &mut Vec<Named>) {
        schemas.push((P::name().into_owned(), P::schema()));
        P::schemas(schemas);
    }
}

/// The CLI may say more than the types of its answers name.
pub(super) fn open_payloads(components: &mut Components) {
    let mut parts: Vec<Named> = variants().into_iter().flat_map(|variant| variant.parts).collect();
    for (name, schema) in [
        (BackgroundTask::name(), BackgroundTask::schema()),
        (AccountInfo::name(), AccountInfo::schema()),
    ] {
        parts.push((name.into_owned(), schema));
    }
    for (name, _) in parts {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(&name) {
            object
                .additional_properties
                .get_or_insert_with(|| Box::new(AdditionalProperties::FreeForm(true)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_subtypes() {
        assert_eq!(camel("get_context_usage"), "GetContextUsage");
        assert_eq!(camel("interrupt"), "Interrupt");
    }

    #[test]
    fn each_variant_is_told_by_its_subtype() {
        let mut schemas = Vec::new();
        ControlRequest::schemas(&mut schemas);
        for variant in variants() {
            let name = camel(variant.subtype) + REQUEST;
            let (_, schema) = schemas.iter().find(|(known, _)| *known == name).unwrap();
            let json = serde_json::to_value(schema).unwrap();
            assert_eq!(
                json["properties"]["subtype"]["enum"],
                serde_json::json!([variant.subtype])
            );
            assert!(json["required"].as_array().unwrap().contains(&"subtype".into()));
            assert_eq!(json["additionalProperties"], true);
        }
    }
}
