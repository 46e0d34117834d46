-- What was shown to a model, turn by turn; and what an operator wants it to see always.

CREATE TABLE IF NOT EXISTS manifest (           -- the last 1,000 assemblies of a conversation
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  turn       INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  window_tokens INTEGER NOT NULL,
  tokens     INTEGER NOT NULL,
  prefix     TEXT    NOT NULL,                  -- changes when anything before the fresh tail does
  reason     TEXT    NOT NULL,
  shown      BLOB    NOT NULL,                  -- the ids, compressed JSON
  PRIMARY KEY (conversation_id, turn)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS pin (
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  id         TEXT    NOT NULL,
  message_id INTEGER REFERENCES message (id),
  text       TEXT    NOT NULL,
  tokens     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, id)
) WITHOUT ROWID;
