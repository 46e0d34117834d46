-- Witness of the words that lie below a summary; NULL: it was made before there were any.

ALTER TABLE summary ADD COLUMN source_hash TEXT;
