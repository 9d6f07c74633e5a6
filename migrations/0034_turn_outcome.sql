-- How a turn ended. Of older turns it follows from the subtype.
ALTER TABLE turns ADD COLUMN outcome TEXT;
