-- Which messages instruct the model: the newest of a conversation is asked for in every turn.

CREATE INDEX IF NOT EXISTS message_system ON message (id) WHERE role IN ('system', 'developer');
