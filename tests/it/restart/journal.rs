//! Owns reading the journal of a session as it lies on the disk.

use serde_json::Value;

use crate::support::daemon::TestDaemon;

/// The records, whose numbers must be 1, 2, 3 and so on.
pub(crate) fn records(daemon: &TestDaemon, session: &str) -> Vec<Value> {
    parse(daemon.journal(session).as_bytes())
}

/// As [`records`], of bytes that were read before.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for (place, record) in (1_u64..).zip(&records) {
        assert_eq!(
            record["seq"].as_u64(),
            Some(place),
            "a gap in the journal: {record}"
        );
    }
    records
}

/// The CLI's lines of one type.
pub(crate) fn cli_lines<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["src"] == "cli" && record["data"]["type"] == kind)
        .map(|record| &record["data"])
        .collect()
}

/// The daemon's and the keeper's own records of one type.
pub(crate) fn own<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["src"] == "daemon" && record["data"]["type"] == kind)
        .map(|record| &record["data"])
        .collect()
}
