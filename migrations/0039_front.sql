-- For lists that people look at: what the agent said or did last, as JSON; the end of the last turn; up to which record a person
-- has seen it; and what a person put off, as JSON. Turns that ended before this count as seen.
ALTER TABLE sessions ADD COLUMN last_line TEXT;
ALTER TABLE sessions ADD COLUMN last_turn_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN seen_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN put_off TEXT;
UPDATE sessions SET
    last_turn_seq = ifnull((SELECT max(last_seq) FROM turns WHERE turns.session_id = sessions.id), 0),
    seen_seq = ifnull((SELECT max(last_seq) FROM turns WHERE turns.session_id = sessions.id), 0);
