-- What was done to old data, and what every row it touched was before: enough to undo it.

SET LOCAL search_path TO lossless, public;

CREATE TABLE operation (
  id              TEXT   PRIMARY KEY COLLATE "C", -- op_ and 12 hex digits
  owner           TEXT   NOT NULL COLLATE "C",
  conversation_id BIGINT NOT NULL REFERENCES conversation (id),
  kind            TEXT   NOT NULL,              -- rewrite, repair, dissolve, merge
  at              BIGINT NOT NULL,
  status          TEXT   NOT NULL,              -- planned, partly, applied, undone
  plan            TEXT   NOT NULL,              -- JSON: what was to be done, and how
  summary         TEXT   NOT NULL               -- the same for people, in a sentence
);
CREATE INDEX operation_at ON operation (owner, at);

CREATE TABLE change (
  operation_id TEXT   NOT NULL COLLATE "C" REFERENCES operation (id) ON DELETE CASCADE,
  number       BIGINT NOT NULL,
  table_name   TEXT   NOT NULL COLLATE "C",
  key          TEXT   NOT NULL COLLATE "C",     -- JSON: the values of its primary key
  before       TEXT,                            -- JSON: the columns that changed, all of a row that went; NULL: a row that came
  after        TEXT,                            -- digest of the same columns as the operation left them; NULL: the row went
  PRIMARY KEY (operation_id, number)
);
CREATE UNIQUE INDEX change_row ON change (operation_id, table_name, key);
