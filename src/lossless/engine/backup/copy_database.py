"""Copy every row of a database, of all owners and with the same ids, to another database of either kind.

The source is read in one snapshot and does not change. The target stores the rows in batches and remembers their source,
so that an interrupted copy continues: existing rows stay, changed ones are corrected. At the end both are read again and
compared row by row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from hashlib import sha256
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec import msgpack

from lossless.engine.shared.file_store import Files
from lossless.errors import FileUnavailable, InvalidInput, StoreError
from lossless.model import Migration, MovedTable
from lossless.store.rows.types import Shape
from lossless.store.store import Store

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a table (or `files`), the rows copied so far, and their total."""
BATCH = 500
_WHOLE = 1_000_000
"""The batch size for conversations: they refer to one another in any order, so all are copied at once."""

_Row = tuple[Any, ...]


def move(source: Store, files: Files, target: Store, their_files: Files, *, now: int, progress: Progress) -> Migration:
    """Copy everything, then compare. Raise before writing if the target contains anything else."""
    start = time.monotonic()
    with source.snapshot():
        resumed = _claim(source, target, now)
        copied, missing = _move_files(source, files, their_files, progress)
        for table in source.tables.names():
            _move_table(source, target, table, progress)
        tables = tuple(_compare(source, target, table) for table in source.tables.names())
    with target.transaction():
        target.renumber()
        target.tables.set_moving_in(None, now)
    return Migration(
        tables=tables,
        rows=sum(table.rows for table in tables),
        digest=sha256("".join(f"{each.name} {each.sha256}\n" for each in tables).encode()).hexdigest(),
        files=copied,
        missing_files=missing,
        resumed=resumed,
        seconds=time.monotonic() - start,
    )


def _claim(source: Store, target: Store, now: int) -> bool:
    """Claim an empty target, or the unfinished copy of this source; return True for the latter."""
    _refuse_other_versions(source, target)
    if source.tables.moving_in() is not None:
        raise InvalidInput(
            f"{source.location} is an unfinished migration itself.",
            hint="Finish that migration first, from its source.",
        )
    whose, identity = target.tables.moving_in(), source.tables.identity()
    if whose is None and any(target.tables.count(table) for table in target.tables.names()):
        raise InvalidInput(
            f"{target.location} is not empty.", hint="Name a new database; nothing was changed in either."
        )
    if whose is not None and whose != identity:
        raise InvalidInput(
            f"{target.location} holds part of another database ({whose}).",
            hint="Finish that migration, or name a new database; nothing was changed in either.",
        )
    with target.transaction():
        target.tables.set_moving_in(identity, now)
        if whose is not None:
            target.tables.take_back()
    return whose is not None


def _refuse_other_versions(source: Store, target: Store) -> None:
    for table in target.tables.names():
        if set(source.tables.shape(table).columns) != set(target.tables.shape(table).columns):
            raise StoreError(
                f"{source.location} has the tables of an older version ({table} differs).",
                hint="Open it once for writing, which migrates it, then try again.",
            )


def _move_table(source: Store, target: Store, table: str, progress: Progress) -> None:
    shape, total, done = source.tables.shape(table), source.tables.count(table), 0
    size = _WHOLE if table == "conversation" else BATCH
    with closing(_differing(source, target, shape)) as rows:
        while batch := list(islice(rows, size)):
            with target.transaction():
                target.tables.take(table, shape.columns, [row for row, is_there, _ in batch if not is_there])
                target.tables.change(shape, [row for row, is_there, _ in batch if is_there])
            done = batch[-1][2]
            progress(table, done, total)
    if done < total:
        progress(table, total, total)


def _differing(source: Store, target: Store, shape: Shape) -> Generator[tuple[_Row, bool, int], None, None]:
    """Yield the rows that the target lacks or has in another version, whether it has them, and the rows read so far.

    Both are read side by side in the order of their keys.
    """
    key = _key(shape)
    with closing(source.tables.rows(shape)) as ours, closing(target.tables.rows(shape)) as theirs:
        there = next(theirs, None)
        for number, row in enumerate(ours, 1):
            while there is not None and key(there) < key(row):
                there = next(theirs, None)
            is_there = there is not None and key(there) == key(row)
            if not is_there or there != row:
                yield row, is_there, number


def _key(shape: Shape) -> Callable[[_Row], Any]:
    return itemgetter(*(shape.columns.index(name) for name in shape.key))


def _compare(source: Store, target: Store, table: str) -> MovedTable:
    """Compare the rows of both one by one; return their number and hash."""
    shape, encode, seen, count = source.tables.shape(table), msgpack.Encoder().encode, sha256(), 0
    with closing(source.tables.rows(shape)) as ours, closing(target.tables.rows(shape)) as theirs:
        for row, other in zip_longest(ours, theirs):
            encoded = encode(row)
            if encoded != encode(other):
                key = _key(shape)(other if row is None else row)
                raise StoreError(
                    f"{target.location} differs from {source.location}: table {table}, key {key}.",
                    hint="The target was written to meanwhile, or a disk is failing. Migrate to a new database.",
                )
            seen.update(encoded)
            count += 1
    return MovedTable(table, count, seen.hexdigest())


def _move_files(source: Store, files: Files, their_files: Files, progress: Progress) -> tuple[int, tuple[str, ...]]:
    """Copy the payloads and check their hashes; return the number copied and the unreadable ones."""
    if files.root.absolute() == their_files.root.absolute():
        return 0, ()
    shape = source.tables.shape("file")
    with closing(source.tables.rows(shape)) as rows:
        names = sorted({row[shape.columns.index("sha256")] for row in rows})
    missing = [name for name in names if not _copy(name, files, their_files)]
    progress("files", len(names), len(names))
    return len(names) - len(missing), tuple(missing)


def _copy(name: str, files: Files, their_files: Files) -> bool:
    try:
        data = files.read_all(name)
    except FileUnavailable:
        return False  # already missing: copy the others
    their_files.put(name, data)
    their_files.read_all(name)
    return True
