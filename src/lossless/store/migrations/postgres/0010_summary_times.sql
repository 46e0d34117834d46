-- The summaries of a conversation by the time of their newest source: a page of them is a stretch of this index.

CREATE INDEX summary_time ON summary (conversation_id, coalesce(latest_at, created_at), id, depth);
