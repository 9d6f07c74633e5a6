-- What a tool was given in the end, as a hash: hooks and answers may change what was asked. NULL where nothing was allowed, and
-- in rows from before.
ALTER TABLE approvals ADD COLUMN ran_sha256 TEXT;
