//! Owns the schemas that no type of this program has: records, the CLI's tools and frames of sockets pass through byte by
//! byte, or are put together from such parts. Their files stand beside this one. A test holds them against what is sent.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::{Components, OpenApi, RefOr, Schema};

const FILES: [&str; 3] = [
    include_str!("records.json"),
    include_str!("tools.json"),
    include_str!("frames.json"),
];

/// The document together with these schemas.
#[derive(Serialize)]
pub(super) struct Whole {
    #[serde(flatten)]
    document: OpenApi,
    components: Parts,
}

#[derive(Serialize)]
struct Parts {
    schemas: BTreeMap<String, AnySchema>,
    #[serde(flatten)]
    others: Components,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnySchema {
    /// The schema of a type.
    Derived(Box<RefOr<Schema>>),
    /// One of a file.
    Written(Value),
}

impl Whole {
    /// The document, whose own schemas may refer to those of the files by name.
    pub(super) fn of(mut document: OpenApi) -> Result<Self, serde_json::Error> {
        let mut others = document.components.take().unwrap_or_default();
        let derived = std::mem::take(&mut others.schemas).into_iter();
        let mut schemas: BTreeMap<_, _> = derived
            .map(|(name, schema)| (name, AnySchema::Derived(Box::new(schema))))
            .collect();
        for file in FILES {
            let written: BTreeMap<String, Value> = serde_json::from_str(file)?;
            schemas.extend(
                written
                    .into_iter()
                    .map(|(name, schema)| (name, AnySchema::Written(schema))),
            );
        }
        let components = Parts { schemas, others };
        Ok(Self { document, components })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::openapi::document;

    #[test]
    fn a_written_schema_takes_the_name_of_no_other() {
        let mut names: BTreeSet<String> = document()
            .components
            .unwrap_or_default()
            .schemas
            .into_keys()
            .collect();
        // Types without a schema of their own stand for these.
        assert!(
            ["Record", "LobbyStreamEvent"]
                .iter()
                .all(|name| names.remove(*name))
        );
        for file in FILES {
            let written: BTreeMap<String, Value> = serde_json::from_str(file).unwrap();
            for name in written.into_keys() {
                assert!(names.insert(name.clone()), "{name} is there twice");
            }
        }
    }
}
