-- What was shown to a model, turn by turn; and what an operator wants it to see always.
SET LOCAL search_path TO lossless, public;

CREATE TABLE manifest (           -- the last 1,000 assemblies of a conversation
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  turn       BIGINT NOT NULL,
  at         BIGINT NOT NULL,
  window_tokens BIGINT NOT NULL,
  tokens     BIGINT NOT NULL,
  prefix     TEXT    NOT NULL,                  -- changes when anything before the fresh tail does
  reason     TEXT    NOT NULL,
  shown      BYTEA   NOT NULL,                  -- the ids, compressed JSON
  PRIMARY KEY (conversation_id, turn)
);

CREATE TABLE pin (
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  id         TEXT    NOT NULL,
  message_id BIGINT REFERENCES message (id),
  text       TEXT    NOT NULL,
  tokens     BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (conversation_id, id)
);
