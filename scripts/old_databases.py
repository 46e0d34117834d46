"""Write a database of every earlier schema version into `tests/databases`, with rows in every table it has.

    python scripts/old_databases.py            # the versions that are not there yet

A database is filled by this version (`tests/histories.py`). Its rows are then copied into a new file that only the migrations
up to the earlier version have made, as far as that version has the tables and the columns. Files are never written
again once they are there: a database of an earlier version does not change.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from lossless import Lossless, Message, ToolCall
from lossless.store import migrate
from lossless.store.header import APPLICATION_ID

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.histories import lived_in

TARGET: Final = Path(__file__).parents[1] / "tests" / "databases"
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"

# Before version 6 nothing left a context: what /new took out of it is put back.
ATTACH: Final = """
INSERT INTO main.item SELECT conversation_id, ordinal, summary_id, tokens, depth FROM newest.detached;
UPDATE main.conversation
   SET context_tokens = (SELECT coalesce(sum(tokens), 0) FROM main.item i WHERE i.conversation_id = conversation.id);
"""
# Before version 4 a grant was for one conversation.
GRANTS: Final = """
INSERT INTO main.recall_grant
SELECT g.id, c.conversation_id, g.max_tokens, g.used_tokens, g.created_at, g.expires_at, g.revoked_at
  FROM newest.recall_grant g JOIN newest.grant_conversation c ON c.grant_id = g.id;
"""


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    steps = migrate.steps("sqlite")
    with tempfile.TemporaryDirectory() as name:
        newest = Path(name) / "newest.db"
        lived_in(newest, Path(name) / "lcm-files")
        with Lossless.open(newest) as lcm:
            lookup = Message("assistant", (ToolCall("look-1", "lcm_grep", '{"pattern": "words"}'),))
            lcm.conversation("agent:main:main").ingest([lookup, Message.tool("no hits", call_id="look-1")])
        for version in steps:
            if (packed := TARGET / f"schema-{version:02}.tar.xz").exists():
                continue
            database = Path(name) / f"{version}.db"
            write(newest, database, [path for number, path in steps.items() if number <= version])
            pack(packed, database, Path(name) / "lcm-files")
            print(f"{packed.name}: {packed.stat().st_size:,} bytes")


def write(newest: Path, database: Path, scripts: list[Path]) -> None:
    """Copy the rows of the newest version into a new file that these migrations make."""
    version = len(scripts)
    with closing(apsw.Connection(str(database))) as target:
        target.execute("PRAGMA foreign_keys = OFF")
        for script in scripts:
            target.execute(script.read_text("utf-8"))
        target.execute("ATTACH ? AS newest", (str(newest),))
        for table in (row[0] for row in target.execute(TABLES)):
            if table == "recall_grant" and version < 4:
                target.execute(GRANTS)
                continue
            columns = ", ".join(
                name for name in _columns(target, "main", table) if name in _columns(target, "newest", table)
            )
            # An index for search is created with rows of its own.
            target.execute(f"DELETE FROM main.{table}")  # noqa: S608 - names of tables
            target.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newest.{table}")  # noqa: S608 - names of tables
        if version < 6:
            target.execute(ATTACH)
        target.execute("DETACH newest")
        target.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        target.execute(f"PRAGMA user_version = {version:d}")
        target.execute("PRAGMA journal_mode = WAL")


def _columns(connection: apsw.Connection, schema: str, table: str) -> list[str]:
    """Return the names of the columns that are stored."""
    rows: list[Any] = connection.execute(f"PRAGMA {schema}.table_xinfo({table})").fetchall()
    return [row[1] for row in rows if not row[6]]


def pack(packed: Path, database: Path, files: Path) -> None:
    """Write a database and the files beside it into one archive, without traces of the machine."""
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(database, "lcm.db", filter=_anonymous)
        archive.add(files, "lcm-files", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(mtime=0, uid=0, gid=0, uname="", gname="", deep=False)


if __name__ == "__main__":
    main()
