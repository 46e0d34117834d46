-- Witness of the words that lie below a summary; NULL: it was made before there were any.
SET LOCAL search_path TO lossless, public;

ALTER TABLE summary ADD COLUMN source_hash TEXT;
