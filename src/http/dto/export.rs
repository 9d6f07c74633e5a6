//! Owns what the export of a conversation is made of.

use utoipa::openapi::{Ref, RefOr, Schema, schema::AnyOfBuilder};

/// An item of an export, which is put together from the journal's bytes.
pub(in crate::http) struct ExportItem;

impl utoipa::PartialSchema for ExportItem {
    fn schema() -> RefOr<Schema> {
        AnyOfBuilder::new()
            .description(Some(
                "An item of an export: a record byte for byte, or the news that records are missing, or no longer kept.",
            ))
            .item(Ref::from_schema_name("Record"))
            .item(Ref::from_schema_name("GapFrame"))
            .into()
    }
}

impl utoipa::ToSchema for ExportItem {}
