-- The start of the first prompt, by which people know a session that has no title.
ALTER TABLE sessions ADD COLUMN first_prompt TEXT;
UPDATE sessions SET first_prompt = coalesce(
    (SELECT text FROM prompts WHERE session_id = sessions.id AND text IS NOT NULL ORDER BY seq LIMIT 1),
    last_prompt
);
