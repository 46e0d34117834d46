-- What an assembly could neither show nor cover by a summary, in tokens.
SET LOCAL search_path TO lossless, public;

ALTER TABLE manifest ADD COLUMN uncovered BIGINT NOT NULL DEFAULT 0;
