-- What messages are about, as vectors of a model: derived, and made anew where missing.
SET LOCAL search_path TO lossless, public;

CREATE TABLE vector (
  message_id BIGINT PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,
  model      TEXT   NOT NULL,
  data       BYTEA  NOT NULL                    -- a signed byte for each dimension
);
