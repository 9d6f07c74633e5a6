//! Owns how large a type with behaviour may become: its fields, and the files that its `impl` is spread over.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Fields, Item, ItemImpl, Type};

use super::{fail_on, source::sources};

/// The most fields of a type with behaviour.
const MOST_FIELDS: usize = 25;

/// The most files that hold an inherent `impl` of one type.
const MOST_FILES: usize = 3;

/// Types that are larger today, with their fields and files. A number only falls, and a type that has become small enough leaves the list.
const LARGER_TODAY: &[(&str, usize, usize)] = &[
    ("session::actor::Actor", 55, 18),
    ("session::machine::Machine", 38, 10),
    ("sim::agent::Agent", 17, 5),
    ("supervisor::Supervisor", 1, 19),
];

/// Derives of wire shapes, launch options, settings and command-line arguments: their fields are what somebody else laid down.
const SHAPES: &[&str] = &[
    "Serialize",
    "Deserialize",
    "ToSchema",
    "FromRow",
    "Args",
    "Parser",
    "Subcommand",
];

/// A type of the program: the path of its module and its name, such as `session::actor::Actor`.
type Name = String;

/// One type as the sources show it.
#[derive(Default)]
struct Seen {
    fields: usize,
    files: BTreeSet<String>,
}

/// An inherent `impl`, before its type is known.
struct Impl {
    module: Vec<String>,
    file: String,
    of: String,
}

#[derive(Default)]
struct Program {
    types: BTreeMap<Name, Seen>,
    impls: Vec<Impl>,
}

impl Program {
    fn read() -> Self {
        let mut program = Self::default();
        for file in sources("src").into_iter().filter(|file| !is_of_tests(&file.path)) {
            let parsed = syn::parse_file(&file.text).expect("Rust that compiles");
            program.items(&parsed.items, &module_of(&file.path), &file.path);
        }
        program.assign();
        program
    }

    fn items(&mut self, items: &[Item], module: &[String], file: &str) {
        for item in items {
            match item {
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let below = [module, &[inner.ident.to_string()]].concat();
                    if let Some((_, items)) = &inner.content {
                        self.items(items, &below, file);
                    }
                }
                Item::Struct(found) if !is_test(&found.attrs) => {
                    let fields = if is_shape(&found.attrs) {
                        0
                    } else {
                        count(&found.fields)
                    };
                    self.found(module, &found.ident.to_string(), fields);
                }
                Item::Enum(found) if !is_test(&found.attrs) => {
                    self.found(module, &found.ident.to_string(), 0)
                }
                Item::Impl(found) if found.trait_.is_none() && !is_test(&found.attrs) => {
                    self.impls.extend(type_of(found).map(|of| Impl {
                        module: module.to_vec(),
                        file: file.to_owned(),
                        of,
                    }));
                }
                _ => {}
            }
        }
    }

    fn found(&mut self, module: &[String], name: &str, fields: usize) {
        let name = [module, &[name.to_owned()]].concat().join("::");
        self.types.entry(name).or_default().fields = fields;
    }

    /// Gives each `impl` to the type of its name that stands nearest: the two paths have the longest beginning in common.
    fn assign(&mut self) {
        for found in std::mem::take(&mut self.impls) {
            let suffix = format!("::{}", found.of);
            let nearest = self
                .types
                .iter_mut()
                .filter(|(name, _)| **name == found.of || name.ends_with(&suffix))
                .max_by_key(|(name, _)| {
                    let module: Vec<&str> = name.split("::").collect();
                    let common = module.iter().zip(&found.module).take_while(|(a, b)| a == b);
                    (common.count(), usize::MAX - module.len())
                });
            if let Some((_, seen)) = nearest {
                seen.files.insert(found.file);
            }
        }
    }
}

/// `src/session/actor.rs` is `["session", "actor"]`.
fn module_of(path: &str) -> Vec<String> {
    path.trim_start_matches("src/")
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect()
}

/// Modules of unit tests that are files of their own.
fn is_of_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn is_shape(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"))
    {
        // An error means a derive in another form, which is no shape.
        let _ = attribute.parse_nested_meta(|derive| {
            let name = derive
                .path
                .segments
                .last()
                .map(|segment| segment.ident.to_string());
            found |= name.is_some_and(|name| SHAPES.contains(&name.as_str()));
            Ok(())
        });
    }
    found
}

fn count(fields: &Fields) -> usize {
    fields.iter().count()
}

/// The last name of the type of an `impl`.
fn type_of(found: &ItemImpl) -> Option<String> {
    match &*found.self_ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

#[test]
fn types_with_behaviour_stay_small() {
    let mut faults = Vec::new();
    let mut listed: BTreeMap<&str, (usize, usize)> = LARGER_TODAY
        .iter()
        .map(|&(name, fields, files)| (name, (fields, files)))
        .collect();
    for (name, seen) in Program::read().types {
        let (fields, files) = (seen.fields, seen.files.len());
        let has_behaviour = files > 0;
        let is_small = !has_behaviour || (fields <= MOST_FIELDS && files <= MOST_FILES);
        match listed.remove(name.as_str()) {
            Some(_) if is_small => faults.push(format!("{name} is small enough: take it off the list")),
            Some((most_fields, most_files)) if fields > most_fields || files > most_files => faults.push(format!(
                "{name} has {fields} fields and {files} files with an impl; it had {most_fields} and {most_files}. \
                 Put what is new into a type of its own"
            )),
            Some(numbers) if numbers != (fields, files) => faults.push(format!(
                "{name} has {fields} fields and {files} files by now: lower its numbers in the list"
            )),
            None if !is_small => faults.push(format!(
                "{name} has {fields} fields and {files} files with an impl; {MOST_FIELDS} and {MOST_FILES} are the most"
            )),
            Some(_) | None => {}
        }
    }
    faults.extend(
        listed
            .keys()
            .map(|name| format!("{name} is on the list and not in the program")),
    );
    fail_on(&faults);
}

#[test]
fn impls_are_counted_by_file_and_fields_without_shapes() {
    let mut program = Program::default();
    for (path, text) in [
        (
            "src/a/big.rs",
            "pub struct Big { x: u8, y: u8 } impl Big {} #[cfg(test)] mod tests { impl Big {} }",
        ),
        (
            "src/a/big/more.rs",
            "impl super::Big {} impl Clone for super::Big {}",
        ),
        (
            "src/b.rs",
            "#[derive(Debug, serde::Serialize)] struct Big { x: u8 } impl Big {}",
        ),
    ] {
        let parsed = syn::parse_file(text).expect("Rust");
        program.items(&parsed.items, &module_of(path), path);
    }
    program.assign();
    let seen = |name: &str| {
        program
            .types
            .get(name)
            .map(|seen| (seen.fields, seen.files.len()))
    };
    assert_eq!(seen("a::big::Big"), Some((2, 2)));
    assert_eq!(seen("b::Big"), Some((0, 1)));
}
