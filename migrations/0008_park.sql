-- Since when a session is parked, and why, as JSON.
ALTER TABLE sessions ADD COLUMN parked TEXT;
