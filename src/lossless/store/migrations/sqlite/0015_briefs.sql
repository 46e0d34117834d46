-- What matters for a task, found by recall: shown to a model until it is taken away. It is derived, and can be made again.

CREATE TABLE IF NOT EXISTS brief (
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  id         TEXT    NOT NULL,
  name       TEXT    NOT NULL,                  -- '' for the brief without a name
  task       TEXT    NOT NULL,
  text       TEXT    NOT NULL,
  size       INTEGER,                           -- the tokens that were asked for; NULL: by the size of the history
  model      TEXT    NOT NULL,                  -- 'extractive': quotations
  sources    TEXT    NOT NULL,                  -- JSON [[id, version], ...]: the texts it was made from
  covered    TEXT    NOT NULL,                  -- JSON [[conversation, next seq], ...]: the history it was made from
  active     INTEGER NOT NULL,                  -- one of a key
  created_at INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, id)
) WITHOUT ROWID;
