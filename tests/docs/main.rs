//! Keeps what the documents say true: what the README shows is run, and what the architecture page names is there.

mod architecture;
mod daemon;
mod readme;

use std::{fs, path::Path};

/// The text of a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
