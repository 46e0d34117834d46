"""What several rooms of the engine need: files, cursors, model flows, call limits, the promise."""
