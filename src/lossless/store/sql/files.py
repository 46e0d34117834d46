"""Rows of payloads that are kept out of line."""

from __future__ import annotations

from lossless.store.rows.types import (
    FileRow,
)
from lossless.store.sql.columns import (
    FILE_COLUMNS,
    OWNED,
)
from lossless.store.sql.section import Section


class Files(Section):
    """Rows of payloads that are kept out of line."""

    def add(self, conversation_id: int, row: FileRow) -> None:
        """Add a payload's row; the same id again changes nothing (in a transaction)."""
        self.run(
            "INSERT INTO file (conversation_id, id, sha256, name, mime, bytes, lines, summary, created_at) VALUES"
            " (:conversation, :id, :sha256, :name, :mime, :bytes, :lines, :summary, :created_at) ON CONFLICT DO NOTHING",
            conversation=conversation_id,
            id=row.id,
            sha256=row.sha256,
            name=row.name,
            mime=row.mime,
            bytes=row.bytes,
            lines=row.lines,
            summary=row.summary,
            created_at=row.created_at,
        )

    def get(self, conversation_id: int, file_id: str) -> FileRow | None:
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM file WHERE conversation_id = :conversation AND id = :id AND {OWNED}",
            conversation=conversation_id,
            id=file_id,
            owner=self.owner,
        )
        return FileRow(*rows[0]) if rows else None

    def of_conversation(self, conversation_id: int) -> list[FileRow]:
        """Return the payloads of a conversation, oldest first."""
        rows = self.all(
            f"SELECT {FILE_COLUMNS} FROM file WHERE conversation_id = :conversation AND {OWNED} ORDER BY created_at, id",
            conversation=conversation_id,
            owner=self.owner,
        )
        return [FileRow(*row) for row in rows]

    def is_used(self, sha256: str) -> bool:
        """Tell whether any row, of any owner, refers to these bytes."""
        # The one question that is not asked for one owner: equal bytes are kept once for all of them.
        return bool(self.all("SELECT 1 FROM file WHERE sha256 = :sha256 LIMIT 1", sha256=sha256))
