-- The options that the last process was started with, if they were changed since; and whether the permission mode of the options counts
-- more than the one that the CLI reported last, as somebody changed it since.
ALTER TABLE sessions ADD COLUMN started_options TEXT;
ALTER TABLE sessions ADD COLUMN mode_of_options INTEGER NOT NULL DEFAULT 0;
