-- What messages are about, as vectors of a model: derived, and made anew where missing.

CREATE TABLE IF NOT EXISTS vector (
  message_id INTEGER PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,
  model      TEXT    NOT NULL,
  data       BLOB    NOT NULL                   -- a signed byte for each dimension
);
