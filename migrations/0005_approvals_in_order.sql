-- The CLI can ask for several approvals in one write; their records then have the same time. Their order is that of the journal.
DROP INDEX approvals_by_session;
DROP INDEX approvals_by_state;
DROP INDEX approvals_by_time;
DROP INDEX approvals_by_kind;
DROP INDEX approvals_by_subject;
DROP INDEX approvals_by_answerer;
DROP INDEX approvals_by_how;

CREATE INDEX approvals_by_session ON approvals (session_id, requested_at, seq, id);
CREATE INDEX approvals_by_state ON approvals (state, requested_at, seq, id);
CREATE INDEX approvals_by_time ON approvals (requested_at, seq, id);
CREATE INDEX approvals_by_kind ON approvals (kind, requested_at, seq, id);
CREATE INDEX approvals_by_subject ON approvals (subject, requested_at, seq, id);
CREATE INDEX approvals_by_answerer ON approvals (resolved_by, requested_at, seq, id);
CREATE INDEX approvals_by_how ON approvals (how, requested_at, seq, id);
