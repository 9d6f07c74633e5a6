//! Keeps what the documents say true: what the README shows is run, what the pages about
//! the code name is there, and the parity page is whole.

mod architecture;
mod cases;
mod clients;
mod console;
mod contract;
mod daemon;
mod inline;
mod licence;
mod parity;
mod readme;
mod webhook;

use std::{fs, path::Path};

/// The documents for people.
const PAGES: [&str; 29] = [
    "README.md",
    "AGENTS.md",
    "clients/python/README.md",
    "clients/typescript/README.md",
    "docs/ARCHITECTURE.md",
    "docs/CASES.md",
    "docs/CLIENTS.md",
    "docs/CURL.md",
    "docs/GLOSSARY.md",
    "docs/INVARIANTS.md",
    "docs/JOURNAL.md",
    "docs/LIFECYCLE.md",
    "docs/LOGGING.md",
    "docs/OPERATING.md",
    "docs/PARITY.md",
    "docs/PERFORMANCE.md",
    "docs/PROTOCOL.md",
    "docs/RELIABILITY.md",
    "docs/protocol/approvals-and-rules.md",
    "docs/protocol/basics.md",
    "docs/protocol/errors.md",
    "docs/protocol/hooks-and-mcp.md",
    "docs/protocol/metrics.md",
    "docs/protocol/outbound.md",
    "docs/protocol/records.md",
    "docs/protocol/sessions.md",
    "docs/protocol/supervision.md",
    "docs/protocol/websocket.md",
    "tests/programs/README.md",
];

/// The text of a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
