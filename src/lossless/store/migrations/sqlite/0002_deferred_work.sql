-- What is owed to a conversation, one row each; and what a summary was before it was made anew.

CREATE TABLE IF NOT EXISTS debt (
  conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
  pending       INTEGER NOT NULL,
  window_tokens INTEGER NOT NULL,               -- the model's window; 0: only summaries to be made anew are owed
  overhead      INTEGER NOT NULL,               -- what a host's prompt measures beyond the context
  model         TEXT,                           -- the host's model
  requested_at  INTEGER NOT NULL,
  attempts      INTEGER NOT NULL DEFAULT 0,     -- in a row without progress
  next_at       INTEGER NOT NULL DEFAULT 0,     -- not before
  worker        TEXT,                           -- who is at it
  lease_until   INTEGER,                        -- and until when that counts
  stop          TEXT,                           -- how the last compaction ended
  stop_seq      INTEGER,                        -- what the next message's seq was then
  failure       TEXT,                           -- what went wrong, if something did
  revision      INTEGER NOT NULL DEFAULT 1
);

ALTER TABLE summary ADD COLUMN stale INTEGER NOT NULL DEFAULT 0;  -- 1: a source was made anew since
ALTER TABLE summary ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;  -- to make it anew, in vain
CREATE INDEX IF NOT EXISTS summary_unsettled ON summary (conversation_id, depth, id)
  WHERE stale = 1 OR level = 'extractive' OR level = 'cut';

CREATE TABLE IF NOT EXISTS revision (           -- earlier texts of a summary
  summary_id     INTEGER NOT NULL REFERENCES summary (id),
  revision       INTEGER NOT NULL,
  text           TEXT    NOT NULL,
  tokens         INTEGER NOT NULL,
  model          TEXT    NOT NULL,
  level          TEXT    NOT NULL,
  prompt_version TEXT,
  faithful       REAL,
  created_at     INTEGER NOT NULL,
  PRIMARY KEY (summary_id, revision)
) WITHOUT ROWID;
