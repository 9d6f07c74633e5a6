-- Messages that wait in the daemon until the session does nothing, in their order. The body is the request that brought it.
CREATE TABLE queued_prompts (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    uuid TEXT NOT NULL,
    body TEXT NOT NULL,
    held INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (session_id, position),
    UNIQUE (session_id, uuid)
) STRICT;

ALTER TABLE sessions ADD COLUMN queued_prompts INTEGER NOT NULL DEFAULT 0;
