-- What was done to old data, and what every row it touched was before: enough to undo it.

CREATE TABLE IF NOT EXISTS operation (
  id              TEXT    PRIMARY KEY,          -- op_ and 12 hex digits
  owner           TEXT    NOT NULL,
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  kind            TEXT    NOT NULL,             -- rewrite, repair, dissolve, merge
  at              INTEGER NOT NULL,
  status          TEXT    NOT NULL,             -- planned, partly, applied, undone
  plan            TEXT    NOT NULL,             -- JSON: what was to be done, and how
  summary         TEXT    NOT NULL              -- the same for people, in a sentence
);
CREATE INDEX IF NOT EXISTS operation_at ON operation (owner, at);

CREATE TABLE IF NOT EXISTS change (
  operation_id TEXT    NOT NULL REFERENCES operation (id) ON DELETE CASCADE,
  number       INTEGER NOT NULL,
  table_name   TEXT    NOT NULL,
  key          TEXT    NOT NULL,                -- JSON: the values of its primary key
  before       TEXT,                            -- JSON: the columns that changed, all of a row that went; NULL: a row that came
  after        TEXT,                            -- digest of the same columns as the operation left them; NULL: the row went
  PRIMARY KEY (operation_id, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS change_row ON change (operation_id, table_name, key);
