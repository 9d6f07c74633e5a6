-- The rules of sessions, in their order; each as the JSON that it was written as, with its id.
CREATE TABLE session_rules (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

-- The rule that matched an approval, and when it decides if nobody has.
ALTER TABLE approvals ADD COLUMN rule TEXT;
ALTER TABLE approvals ADD COLUMN deadline INTEGER;

CREATE INDEX approvals_by_how ON approvals (how, requested_at, id);
