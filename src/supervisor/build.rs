//! Owns the id of the program that runs, by which a page sees that the daemon was upgraded behind it.

use std::{os::unix::fs::MetadataExt as _, path::Path, sync::LazyLock};

use super::VERSION;

/// Tells this program from every other build on the machine: the version, and what its file says of the build.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    // The link leads to the file that runs, also when another is at its path by now.
    let link = Path::new("/proc/self/exe");
    let file = link.metadata().or_else(|_| std::env::current_exe()?.metadata());
    match file {
        Ok(file) => format!("{VERSION}+{:x}.{:x}", file.mtime(), file.size()),
        Err(_) => VERSION.to_owned(),
    }
});

/// The id of the program that runs.
pub fn build_id() -> &'static str {
    &BUILD
}
