-- What the CLI of a session last said about each limit of its account. The kind is empty when the CLI named none.
CREATE TABLE rate_limits (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    said TEXT NOT NULL,
    PRIMARY KEY (session_id, kind)
) STRICT;

CREATE INDEX rate_limits_by_kind ON rate_limits (kind, at);
