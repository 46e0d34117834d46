-- History that was copied from another conversation and stands before everything that was said here.

CREATE TABLE IF NOT EXISTS transplant (
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  first_seq  INTEGER NOT NULL,                  -- the messages that came with it
  last_seq   INTEGER NOT NULL,
  place      INTEGER NOT NULL,                  -- where the first of them stands in the order: 0 or below, where no seq is
  at         INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, first_seq)
) WITHOUT ROWID;

ALTER TABLE summary ADD COLUMN origin TEXT;     -- the public id of the summary it is a copy of
