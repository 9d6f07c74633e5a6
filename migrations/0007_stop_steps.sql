-- The steps of a stop, as JSON: what was done, and when.
ALTER TABLE runs ADD COLUMN exit_stop_steps TEXT NOT NULL DEFAULT '[]';
