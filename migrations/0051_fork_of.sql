-- The session that a fork is of, also when that is deleted.
ALTER TABLE sessions ADD COLUMN fork_of TEXT;
UPDATE sessions SET fork_of = parent_id;
