-- What matters for a task, found by recall: shown to a model until it is taken away. It is derived, and can be made again.
SET LOCAL search_path TO lossless, public;

CREATE TABLE brief (
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  id         TEXT    NOT NULL,
  name       TEXT    NOT NULL,                  -- '' for the brief without a name
  task       TEXT    NOT NULL,
  text       TEXT    NOT NULL,
  size       BIGINT,                            -- the tokens that were asked for; NULL: by the size of the history
  model      TEXT    NOT NULL,                  -- 'extractive': quotations
  sources    TEXT    NOT NULL,                  -- JSON [[id, version], ...]: the texts it was made from
  covered    TEXT    NOT NULL,                  -- JSON [[conversation, next seq], ...]: the history it was made from
  active     BIGINT  NOT NULL,                  -- one of a key
  created_at BIGINT  NOT NULL,
  PRIMARY KEY (conversation_id, id)
);
