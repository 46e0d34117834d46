-- Which messages are calls of our own recall tools (lcm_*) or their results: a search leaves them out by default.
-- `spans` says where in the text they are, as JSON [[start, length], ...]; NULL: the whole message is one.
-- The search index holds the other words of such a message under its id, and all of its words under the id below zero.
SET LOCAL search_path TO lossless, public;

CREATE TABLE recall_call (
  message_id BIGINT PRIMARY KEY,
  spans      TEXT
);
