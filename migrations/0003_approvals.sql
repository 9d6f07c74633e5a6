-- What an audit needs to know of each approval: what it was about, a hash of what was asked, by what it ended and whether
-- the answer changed the input or the permissions.
ALTER TABLE approvals RENAME COLUMN tool_name TO subject;
ALTER TABLE approvals ADD COLUMN input_sha256 TEXT; -- NULL in rows from before
ALTER TABLE approvals ADD COLUMN how TEXT; -- NULL while it is pending
ALTER TABLE approvals ADD COLUMN input_changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN permissions_updated INTEGER NOT NULL DEFAULT 0;

UPDATE approvals SET how = CASE state
    WHEN 'withdrawn' THEN 'withdrawal'
    WHEN 'abandoned' THEN 'abandonment'
    ELSE 'person'
END WHERE state <> 'pending';

CREATE INDEX approvals_by_kind ON approvals (kind, requested_at, id);
CREATE INDEX approvals_by_subject ON approvals (subject, requested_at, id);
CREATE INDEX approvals_by_answerer ON approvals (resolved_by, requested_at, id);
