-- A grant covers several conversations, and remembers what was read under it. Those before it lived five minutes.

DROP VIEW IF EXISTS expansion_grants;
DROP TABLE IF EXISTS recall_grant;
CREATE TABLE recall_grant (
  id          TEXT    PRIMARY KEY,
  owner       TEXT    NOT NULL,
  origin      TEXT    NOT NULL,                 -- the key of the conversation that gave it
  request_id  TEXT    NOT NULL,                 -- the question it was given for
  max_tokens  INTEGER NOT NULL,
  used_tokens INTEGER NOT NULL DEFAULT 0,       -- read, or held by a read that is under way
  max_depth   INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  revoked_at  INTEGER
);
CREATE TABLE IF NOT EXISTS grant_conversation (
  grant_id        TEXT    NOT NULL REFERENCES recall_grant (id) ON DELETE CASCADE,
  conversation_id INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
  PRIMARY KEY (grant_id, conversation_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grant_read (         -- the ledger: what was given out, and what it cost
  grant_id TEXT    NOT NULL REFERENCES recall_grant (id) ON DELETE CASCADE,
  verb     TEXT    NOT NULL,
  what     TEXT    NOT NULL,                    -- the id that was read
  tokens   INTEGER NOT NULL,
  at       INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS grant_read_grant ON grant_read (grant_id);

CREATE VIEW expansion_grants AS
  SELECT g.id AS grant_id,
         (SELECT max(c.conversation_id) FROM grant_conversation c WHERE c.grant_id = g.id HAVING count(*) = 1) AS conversation_id,
         (SELECT json_group_array(c.conversation_id) FROM grant_conversation c WHERE c.grant_id = g.id) AS allowed_conversation_ids,
         g.max_tokens AS token_cap, g.used_tokens AS tokens_used,
         strftime('%Y-%m-%d %H:%M:%S', g.created_at / 1000000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%d %H:%M:%S', g.expires_at / 1000000.0, 'unixepoch') AS expires_at,
         strftime('%Y-%m-%d %H:%M:%S', g.revoked_at / 1000000.0, 'unixepoch') AS revoked_at
    FROM recall_grant g;
