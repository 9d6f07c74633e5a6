-- Whether the transcript of the conversation does not have the title and the tag yet.
ALTER TABLE sessions ADD COLUMN untold INTEGER NOT NULL DEFAULT 0;
