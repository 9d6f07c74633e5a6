//! Owns the values that the types of controls are made of where the usual ones would be too strict.

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema},
};

/// A JSON string of any content. Unlike a Rust string it may hold a lone surrogate, as the CLI's own texts may. The contract
/// shows it as a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(());

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            Ok(Self(()))
        } else {
            Err(de::Error::custom("expected a string"))
        }
    }
}

/// A request without fields of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
pub struct NoFields {}

/// A success that says nothing more: none, or an empty object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPayload;

impl<'de> Deserialize<'de> for NoPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<NoFields>::deserialize(deserializer).map(|_| Self)
    }
}

impl PartialSchema for NoPayload {
    fn schema() -> RefOr<schema::Schema> {
        schema::ObjectBuilder::new()
            .description(Some("Nothing more is said."))
            .into()
    }
}

impl ToSchema for NoPayload {}

/// A payload whose form no recording shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyPayload;

impl<'de> Deserialize<'de> for AnyPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl PartialSchema for AnyPayload {
    fn schema() -> RefOr<schema::Schema> {
        schema::ObjectBuilder::new()
            .schema_type(schema::SchemaType::AnyValue)
            .into()
    }
}

impl ToSchema for AnyPayload {}
