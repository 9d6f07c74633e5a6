-- The CLI's id of the conversation that a fork copies, also when its parent is deleted.
ALTER TABLE sessions ADD COLUMN forked_from TEXT;
UPDATE sessions SET forked_from = (SELECT cli_session_id FROM sessions AS parents WHERE parents.id = sessions.parent_id)
WHERE parent_id IS NOT NULL;
