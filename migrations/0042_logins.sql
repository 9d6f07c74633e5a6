-- Browsers that a person let in. Each has two secrets, of which the table has the SHA-256.
CREATE TABLE logins (
    id TEXT PRIMARY KEY NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    cookie_digest BLOB NOT NULL,
    key_digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL
) STRICT;
