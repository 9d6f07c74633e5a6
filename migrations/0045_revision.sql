-- How often the file of a session was written that has what no journal says; 0 when it has none yet.
ALTER TABLE sessions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
