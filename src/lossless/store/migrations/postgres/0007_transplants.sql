-- History that was copied from another conversation and stands before everything that was said here.
SET LOCAL search_path TO lossless, public;

CREATE TABLE transplant (
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  first_seq  BIGINT NOT NULL,                   -- the messages that came with it
  last_seq   BIGINT NOT NULL,
  place      BIGINT NOT NULL,                   -- where the first of them stands in the order: 0 or below, where no seq is
  at         BIGINT NOT NULL,
  PRIMARY KEY (conversation_id, first_seq)
);

ALTER TABLE summary ADD COLUMN origin TEXT;     -- the public id of the summary it is a copy of
