-- POST requests that carried an Idempotency-Key. A row without a status is of a request that began and whose end nobody
-- wrote down.
CREATE TABLE idempotency_keys (
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    at INTEGER NOT NULL, -- when it began; once it has ended, when that was
    session_id TEXT, -- the session that the answer tells about
    status INTEGER,
    content_type TEXT,
    location TEXT,
    body BLOB, -- NULL when the answer is not kept
    PRIMARY KEY (method, path, key)
) STRICT;

CREATE INDEX idempotency_keys_by_time ON idempotency_keys (at);
CREATE INDEX idempotency_keys_by_session ON idempotency_keys (session_id) WHERE session_id IS NOT NULL;
