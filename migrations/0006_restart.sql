-- What a session has in place of the configuration's restart policy, as JSON.
ALTER TABLE sessions ADD COLUMN restart TEXT;
