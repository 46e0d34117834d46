-- What is owed to a conversation, one row each; and what a summary was before it was made anew.
SET LOCAL search_path TO lossless, public;

CREATE TABLE debt (
  conversation_id BIGINT PRIMARY KEY REFERENCES conversation (id),
  pending       BIGINT NOT NULL,
  window_tokens BIGINT NOT NULL,               -- the model's window; 0: only summaries to be made anew are owed
  overhead      BIGINT NOT NULL,               -- what a host's prompt measures beyond the context
  model         TEXT,                           -- the host's model
  requested_at  BIGINT NOT NULL,
  attempts      BIGINT NOT NULL DEFAULT 0,     -- in a row without progress
  next_at       BIGINT NOT NULL DEFAULT 0,     -- not before
  worker        TEXT,                           -- who is at it
  lease_until   BIGINT,                        -- and until when that counts
  stop          TEXT,                           -- how the last compaction ended
  stop_seq      BIGINT,                        -- what the next message's seq was then
  failure       TEXT,                           -- what went wrong, if something did
  revision      BIGINT NOT NULL DEFAULT 1
);

ALTER TABLE summary ADD COLUMN stale BIGINT NOT NULL DEFAULT 0;  -- 1: a source was made anew since
ALTER TABLE summary ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;  -- to make it anew, in vain
CREATE INDEX summary_unsettled ON summary (conversation_id, depth, id)
  WHERE stale = 1 OR level = 'extractive' OR level = 'cut';

CREATE TABLE revision (           -- earlier texts of a summary
  summary_id     BIGINT NOT NULL REFERENCES summary (id),
  revision       BIGINT NOT NULL,
  text           TEXT    NOT NULL,
  tokens         BIGINT NOT NULL,
  model          TEXT    NOT NULL,
  level          TEXT    NOT NULL,
  prompt_version TEXT,
  faithful       DOUBLE PRECISION,
  created_at     BIGINT NOT NULL,
  PRIMARY KEY (summary_id, revision)
);
