-- How hosts know a conversation, where sub-agents belong, and what was taken out of a context by name.

ALTER TABLE conversation ADD COLUMN parent_id INTEGER REFERENCES conversation (id);  -- whose sub-agent this is
ALTER TABLE conversation ADD COLUMN renewed_at INTEGER;                              -- the last /new
ALTER TABLE conversation ADD COLUMN transcribed INTEGER NOT NULL DEFAULT 0;          -- 1: a transcript is read into it
CREATE INDEX IF NOT EXISTS conversation_parent ON conversation (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS session (            -- every session id a conversation was known by
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  session         TEXT    NOT NULL,
  first_at        INTEGER NOT NULL,
  last_at         INTEGER NOT NULL,             -- when it last took over from another
  PRIMARY KEY (conversation_id, session)
) WITHOUT ROWID;
INSERT INTO session SELECT id, session, created_at, updated_at FROM conversation WHERE session IS NOT NULL;

CREATE TABLE IF NOT EXISTS detached (           -- items that left the context, and why
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  ordinal         INTEGER NOT NULL,
  summary_id      INTEGER,
  tokens          INTEGER NOT NULL,
  depth           INTEGER NOT NULL,
  cause           TEXT    NOT NULL,             -- new, branch, import, ...
  at              INTEGER NOT NULL
);
-- A message and several summaries may have had the same ordinal, one after the other.
CREATE UNIQUE INDEX IF NOT EXISTS detached_item ON detached (conversation_id, ordinal, coalesce(summary_id, 0));
CREATE UNIQUE INDEX IF NOT EXISTS detached_summary ON detached (summary_id) WHERE summary_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS alias (              -- further event ids of a message
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  name            TEXT    NOT NULL,
  seq             INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, name)
) WITHOUT ROWID;
