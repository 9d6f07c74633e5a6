-- People's programs that are told of what happens, those of the configuration (with a name) and those made over HTTP.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT UNIQUE,
    secret TEXT NOT NULL,
    spec TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_status INTEGER,
    last_error TEXT,
    last_attempt_at INTEGER,
    delivered INTEGER NOT NULL DEFAULT 0,
    given_up INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What waits to be delivered; written together with the facts that it tells of.
CREATE TABLE webhook_deliveries (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    approval_id TEXT,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL
) STRICT;

CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (webhook_id, next_at, position);
CREATE INDEX webhook_deliveries_by_session ON webhook_deliveries (session_id);

-- The reasons to look at sessions that no record tells of, and that the receivers were told of.
CREATE TABLE webhook_attention (
    session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    reason TEXT NOT NULL
) STRICT;
