-- How hosts know a conversation, where sub-agents belong, and what was taken out of a context by name.
SET LOCAL search_path TO lossless, public;

ALTER TABLE conversation ADD COLUMN parent_id BIGINT REFERENCES conversation (id);   -- whose sub-agent this is
ALTER TABLE conversation ADD COLUMN renewed_at BIGINT;                               -- the last /new
ALTER TABLE conversation ADD COLUMN transcribed BIGINT NOT NULL DEFAULT 0;           -- 1: a transcript is read into it
CREATE INDEX conversation_parent ON conversation (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE session (            -- every session id a conversation was known by
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  session         TEXT   NOT NULL,
  first_at        BIGINT NOT NULL,
  last_at         BIGINT NOT NULL,              -- when it last took over from another
  PRIMARY KEY (conversation_id, session)
);
INSERT INTO session SELECT id, session, created_at, updated_at FROM conversation WHERE session IS NOT NULL;

CREATE TABLE detached (           -- items that left the context, and why
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  ordinal         BIGINT NOT NULL,
  summary_id      BIGINT,
  tokens          BIGINT NOT NULL,
  depth           BIGINT NOT NULL,
  cause           TEXT   NOT NULL,              -- new, branch, import, ...
  at              BIGINT NOT NULL
);
-- A message and several summaries may have had the same ordinal, one after the other.
CREATE UNIQUE INDEX detached_item ON detached (conversation_id, ordinal, coalesce(summary_id, 0));
CREATE UNIQUE INDEX detached_summary ON detached (summary_id) WHERE summary_id IS NOT NULL;

CREATE TABLE alias (              -- further event ids of a message
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  name            TEXT   NOT NULL COLLATE "C",
  seq             BIGINT NOT NULL,
  PRIMARY KEY (conversation_id, name)
);
