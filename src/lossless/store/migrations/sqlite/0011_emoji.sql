-- The search index is made again: emoji are words in it, and so is what the escapes of JSON stand for.

SELECT 1;
