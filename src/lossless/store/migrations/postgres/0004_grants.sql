-- A grant covers several conversations, and remembers what was read under it. Those before it lived five minutes.
SET LOCAL search_path TO lossless, public;

DROP VIEW expansion_grants;
DROP TABLE recall_grant;
CREATE TABLE recall_grant (
  id          TEXT   PRIMARY KEY,
  owner       TEXT   NOT NULL,
  origin      TEXT   NOT NULL,                  -- the key of the conversation that gave it
  request_id  TEXT   NOT NULL,                  -- the question it was given for
  max_tokens  BIGINT NOT NULL,
  used_tokens BIGINT NOT NULL DEFAULT 0,        -- read, or held by a read that is under way
  max_depth   BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  expires_at  BIGINT NOT NULL,
  revoked_at  BIGINT
);
CREATE TABLE grant_conversation (
  grant_id        TEXT   NOT NULL REFERENCES recall_grant (id) ON DELETE CASCADE,
  conversation_id BIGINT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
  PRIMARY KEY (grant_id, conversation_id)
);
CREATE TABLE grant_read (                       -- the ledger: what was given out, and what it cost
  grant_id TEXT   NOT NULL REFERENCES recall_grant (id) ON DELETE CASCADE,
  verb     TEXT   NOT NULL,
  what     TEXT   NOT NULL,                     -- the id that was read
  tokens   BIGINT NOT NULL,
  at       BIGINT NOT NULL
);
CREATE INDEX grant_read_grant ON grant_read (grant_id);

CREATE VIEW expansion_grants AS
  SELECT g.id AS grant_id,
         (SELECT max(c.conversation_id) FROM grant_conversation c WHERE c.grant_id = g.id HAVING count(*) = 1) AS conversation_id,
         (SELECT coalesce(json_agg(c.conversation_id ORDER BY c.conversation_id), '[]')::text
            FROM grant_conversation c WHERE c.grant_id = g.id) AS allowed_conversation_ids,
         g.max_tokens AS token_cap, g.used_tokens AS tokens_used,
         clock(g.created_at) AS created_at, clock(g.expires_at) AS expires_at, clock(g.revoked_at) AS revoked_at
    FROM recall_grant g;
CREATE TRIGGER read_only INSTEAD OF INSERT OR UPDATE OR DELETE ON expansion_grants
  FOR EACH ROW EXECUTE FUNCTION read_only_view();
