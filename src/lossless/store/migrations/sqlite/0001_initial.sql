-- Singular names are ours. Plural names are read-only views that speak the words of older tools.
-- Times are microseconds since 1970 in UTC. A message's id is conversation_id * 1000000000 + seq, so a
-- conversation is one range of ids, neighbours are id +- 1, and no second index is needed for the order.

CREATE TABLE IF NOT EXISTS conversation (
  id             INTEGER PRIMARY KEY,
  owner          TEXT    NOT NULL,
  key            TEXT    NOT NULL,
  active         INTEGER NOT NULL DEFAULT 1,
  session        TEXT,                          -- the host's newest session id
  continues      INTEGER REFERENCES conversation (id),
  archive_cause  TEXT,
  archived_at    INTEGER,
  title          TEXT,
  next_seq       INTEGER NOT NULL DEFAULT 1,
  context_tokens INTEGER NOT NULL DEFAULT 0,    -- the sum over its items
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS conversation_active ON conversation (owner, key) WHERE active = 1;
CREATE INDEX IF NOT EXISTS conversation_family ON conversation (owner, key, id);

CREATE TABLE IF NOT EXISTS message (
  id         INTEGER PRIMARY KEY,
  role       TEXT    NOT NULL,
  text       TEXT    NOT NULL,                  -- the words, once; what a search reads
  parts      TEXT,                              -- NULL: one plain text; else JSON whose pieces point into text
  meta       TEXT,                              -- name, stop reason, what the wire format said beyond that
  tokens     INTEGER NOT NULL,
  digest     BLOB    NOT NULL,
  at         INTEGER,
  created_at INTEGER NOT NULL,
  event_id   TEXT,
  outside    TEXT,                              -- why it is kept out of the context, if it is
  conversation_id INTEGER GENERATED ALWAYS AS (id / 1000000000) VIRTUAL,
  seq             INTEGER GENERATED ALWAYS AS (id % 1000000000) VIRTUAL
);
-- Which message an event id belongs to, by a 32-bit hash: a third of the pages an index over the ids themselves would
-- touch at random. The id in the message's row decides; writers are one at a time, so nothing comes in twice.
CREATE TABLE IF NOT EXISTS event (
  conversation_id INTEGER NOT NULL,
  hash            INTEGER NOT NULL,
  seq             INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, hash, seq)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS copy (               -- another text under the same event id: kept, never shown
  message_id INTEGER NOT NULL REFERENCES message (id),
  digest     BLOB    NOT NULL,
  text       TEXT    NOT NULL,
  parts      TEXT,
  meta       TEXT,
  at         INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (message_id, digest)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS summary (
  id             INTEGER PRIMARY KEY,
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  public_id      TEXT    NOT NULL UNIQUE,
  depth          INTEGER NOT NULL,
  text           TEXT    NOT NULL,
  tokens         INTEGER NOT NULL,
  earliest_at    INTEGER,
  latest_at      INTEGER,
  descendants    INTEGER NOT NULL DEFAULT 0,
  source_tokens  INTEGER NOT NULL DEFAULT 0,
  file_ids       TEXT    NOT NULL DEFAULT '[]',
  model          TEXT    NOT NULL,
  level          TEXT    NOT NULL,              -- normal, aggressive, extractive, cut
  prompt_version TEXT,
  faithful       REAL,                          -- share of its claims that its sources support
  revision       INTEGER NOT NULL DEFAULT 1,
  created_at     INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS summary_conversation ON summary (conversation_id, depth);

CREATE TABLE IF NOT EXISTS summary_message (
  message_id INTEGER NOT NULL REFERENCES message (id),
  summary_id INTEGER NOT NULL REFERENCES summary (id),
  PRIMARY KEY (message_id, summary_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS summary_message_summary ON summary_message (summary_id);

CREATE TABLE IF NOT EXISTS summary_source (
  summary_id INTEGER NOT NULL REFERENCES summary (id),
  source_id  INTEGER NOT NULL REFERENCES summary (id),
  ordinal    INTEGER NOT NULL,
  PRIMARY KEY (summary_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS summary_source_source ON summary_source (source_id);

-- A message's ordinal is its seq; a summary takes the first ordinal of its run, so gaps appear by themselves.
CREATE TABLE IF NOT EXISTS item (
  conversation_id INTEGER NOT NULL,
  ordinal         INTEGER NOT NULL,
  summary_id      INTEGER,                      -- NULL: the message whose seq is the ordinal
  tokens          INTEGER NOT NULL,
  depth           INTEGER NOT NULL,             -- -1 for a message, -2 for a user's
  PRIMARY KEY (conversation_id, ordinal)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS item_summary ON item (summary_id) WHERE summary_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS file (
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  id         TEXT    NOT NULL,
  sha256     TEXT    NOT NULL,
  name       TEXT,
  mime       TEXT,
  bytes      INTEGER NOT NULL,
  lines      INTEGER,
  summary    TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_sha256 ON file (sha256);

CREATE TABLE IF NOT EXISTS cursor (             -- how far a source has been read, moved only with the rows it covers
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  source     TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, source)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS guard (              -- what holds calls to models back, across restarts
  name       TEXT    PRIMARY KEY,
  state      TEXT    NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS recall_grant (
  id              TEXT    PRIMARY KEY,
  conversation_id INTEGER NOT NULL REFERENCES conversation (id),
  max_tokens      INTEGER NOT NULL,
  used_tokens     INTEGER NOT NULL DEFAULT 0,
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER NOT NULL,
  revoked_at      INTEGER
);

CREATE VIRTUAL TABLE IF NOT EXISTS search_message USING fts5 (
  text, content = '', contentless_delete = 1, tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS search_summary USING fts5 (
  text, content = '', contentless_delete = 1, tokenize = 'porter unicode61');

CREATE VIEW IF NOT EXISTS conversations AS
  SELECT id AS conversation_id, coalesce(session, key) AS session_id, key AS session_key, active, archive_cause, title,
         strftime('%Y-%m-%d %H:%M:%S', archived_at / 1000000.0, 'unixepoch') AS archived_at,
         strftime('%Y-%m-%d %H:%M:%S', created_at / 1000000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%d %H:%M:%S', updated_at / 1000000.0, 'unixepoch') AS updated_at
    FROM conversation;

CREATE VIEW IF NOT EXISTS messages AS
  SELECT id AS message_id, conversation_id, seq, role, text AS content, tokens AS token_count,
         strftime('%Y-%m-%d %H:%M:%S', coalesce(at, created_at) / 1000000.0, 'unixepoch') AS created_at,
         lower(hex(digest)) AS identity_hash, event_id AS transcript_entry_id
    FROM message;

CREATE VIEW IF NOT EXISTS message_parts AS
  SELECT id || '.0' AS part_id, id AS message_id, 'text' AS part_type, 0 AS ordinal, text AS text_content,
         NULL AS tool_call_id, NULL AS tool_name, NULL AS tool_input, NULL AS tool_output, NULL AS metadata
    FROM message WHERE parts IS NULL
  UNION ALL
  SELECT m.id || '.' || p.key, m.id,
         CASE p.value ->> 'type' WHEN 'tool_call' THEN 'tool' WHEN 'tool_result' THEN 'tool'
              WHEN 'opaque' THEN 'agent' ELSE p.value ->> 'type' END,
         p.key,
         CASE WHEN p.value ->> 'type' IN ('text', 'reasoning')
              THEN coalesce(p.value ->> 'text', substr(m.text, (p.value ->> '$.span[0]') + 1, p.value ->> '$.span[1]')) END,
         p.value ->> 'call_id', p.value ->> 'name',
         CASE WHEN p.value ->> 'type' = 'tool_call'
              THEN coalesce(p.value ->> 'arguments', substr(m.text, (p.value ->> '$.span[0]') + 1, p.value ->> '$.span[1]')) END,
         CASE WHEN p.value ->> 'type' = 'tool_result'
              THEN substr(m.text, (p.value ->> '$.span[0]') + 1, p.value ->> '$.span[1]') END,
         p.value
    FROM message m, json_each(m.parts) p WHERE m.parts IS NOT NULL;

CREATE VIEW IF NOT EXISTS summaries AS
  SELECT public_id AS summary_id, conversation_id, CASE depth WHEN 0 THEN 'leaf' ELSE 'condensed' END AS kind, depth,
         text AS content, tokens AS token_count,
         strftime('%Y-%m-%d %H:%M:%S', earliest_at / 1000000.0, 'unixepoch') AS earliest_at,
         strftime('%Y-%m-%d %H:%M:%S', latest_at / 1000000.0, 'unixepoch') AS latest_at,
         descendants AS descendant_count, source_tokens AS source_message_token_count, file_ids, model,
         strftime('%Y-%m-%d %H:%M:%S', created_at / 1000000.0, 'unixepoch') AS created_at
    FROM summary;

CREATE VIEW IF NOT EXISTS summary_messages AS
  SELECT s.public_id AS summary_id, l.message_id,
         row_number() OVER (PARTITION BY l.summary_id ORDER BY l.message_id) - 1 AS ordinal
    FROM summary_message l JOIN summary s ON s.id = l.summary_id;

CREATE VIEW IF NOT EXISTS summary_parents AS
  SELECT s.public_id AS summary_id, p.public_id AS parent_summary_id, l.ordinal
    FROM summary_source l JOIN summary s ON s.id = l.summary_id JOIN summary p ON p.id = l.source_id;

CREATE VIEW IF NOT EXISTS context_items AS
  SELECT i.conversation_id, row_number() OVER (PARTITION BY i.conversation_id ORDER BY i.ordinal) - 1 AS ordinal,
         CASE WHEN i.summary_id IS NULL THEN 'message' ELSE 'summary' END AS item_type,
         CASE WHEN i.summary_id IS NULL THEN i.conversation_id * 1000000000 + i.ordinal END AS message_id,
         s.public_id AS summary_id
    FROM item i LEFT JOIN summary s ON s.id = i.summary_id;

CREATE VIEW IF NOT EXISTS large_files AS
  SELECT id AS file_id, conversation_id, name AS file_name, mime AS mime_type, bytes AS byte_size, lines AS line_count,
         substr(sha256, 1, 2) || '/' || sha256 AS storage_uri, summary AS exploration_summary,
         strftime('%Y-%m-%d %H:%M:%S', created_at / 1000000.0, 'unixepoch') AS created_at
    FROM file;

CREATE VIEW IF NOT EXISTS expansion_grants AS
  SELECT id AS grant_id, conversation_id, max_tokens AS token_cap, used_tokens AS tokens_used,
         strftime('%Y-%m-%d %H:%M:%S', created_at / 1000000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%d %H:%M:%S', expires_at / 1000000.0, 'unixepoch') AS expires_at,
         strftime('%Y-%m-%d %H:%M:%S', revoked_at / 1000000.0, 'unixepoch') AS revoked_at
    FROM recall_grant;
