-- What an assembly could neither show nor cover by a summary, in tokens.

ALTER TABLE manifest ADD COLUMN uncovered INTEGER NOT NULL DEFAULT 0;
