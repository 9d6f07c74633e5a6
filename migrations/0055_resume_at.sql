-- The message after which the conversation goes on, until something is said behind it: the next process must be told again.
ALTER TABLE sessions ADD COLUMN resume_at TEXT;
