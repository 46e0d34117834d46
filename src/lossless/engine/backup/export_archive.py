"""Write conversations to a portable archive (`lossless.imports.archive` describes and reads it).

Each conversation is read in one snapshot and written as it is read, so memory does not grow with the history. The same
conversations give the same bytes, apart from the time in the manifest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from msgspec import structs

from lossless.engine.shared.file_store import Files
from lossless.engine.shared.output_paths import refuse_ours
from lossless.errors import FileUnavailable, InvalidInput, NotFound, StoreFull, StoreReadOnly
from lossless.imports.archive import FORMAT, MANIFEST, VERSION, ArchiveManifest, Member, conversation_dir, encode_line
from lossless.imports.base import (
    History,
    PastCopy,
    PastCursor,
    PastFile,
    PastItem,
    PastMessage,
    PastPin,
    PastRevision,
    PastSession,
    PastSummary,
    PastTransplant,
)
from lossless.model import Exported
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.store.rows.codec import moment
from lossless.store.rows.types import SPAN, ConversationRow, Rows
from lossless.store.store import Store
from lossless.version import __version__

IMPORTED = "import:"
"""Cursors with this prefix name the source of an import; they are not exported."""

Write = Callable[[bytes], None]
Kind = Literal["message", "summary"]


def export(
    store: Store,
    files: Files,
    path: Path,
    *,
    replace: bool,
    now: datetime,
    ids: Sequence[int] | None = None,
) -> Exported:
    """Write all conversations of the owner, or those with the given ids, to one archive."""
    selected = sorted(row.id for row in store.conversations.of_owner()) if ids is None else sorted(ids)
    _refuse_to_replace(store, files, path, replace)
    with _beside(path) as draft:
        with ZipFile(draft, "w", ZIP_DEFLATED) as archive:
            done = _Packing(store, files, archive, {each: f"{at:06}" for at, each in enumerate(selected, 1)}).all(now)
        _refuse_to_replace(store, files, path, replace)
    return structs.replace(done, path=str(path), bytes=path.stat().st_size)


def _refuse_to_replace(store: Store, files: Files, path: Path, replace: bool) -> None:
    refuse_ours(path, database=store.location, files=files.root)
    if path.exists() and not (replace and path.is_file()):
        raise InvalidInput(
            f"{path} is there already.", hint="Choose another name, or say replace=True (lcm export --replace)."
        )


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Create a private file that replaces the path on success, and is removed otherwise."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield draft
        handle = os.open(draft, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(draft, path)
    except OSError as error:
        kind = StoreReadOnly if isinstance(error, PermissionError | FileNotFoundError) else StoreFull
        raise kind(
            f"{path} cannot be written: {error.strerror}.", hint="No partial file is left; try again."
        ) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


class _Packing:
    """An archive on its way."""

    def __init__(self, store: Store, files: Files, archive: ZipFile, refs: dict[int, str]) -> None:
        self._store, self._files, self._zip, self._refs = store, files, archive, refs
        self._members: dict[str, Member] = {}
        self._missing: list[str] = []
        self._public: dict[int, str] = {}

    def all(self, now: datetime) -> Exported:
        histories = [self._conversation(conversation_id, ref) for conversation_id, ref in self._refs.items()]
        counts = {
            "conversations": len(histories),
            "messages": sum(history.messages for history in histories),
            "summaries": sum(history.summaries for history in histories),
            "files": sum(name.startswith("files/") for name in self._members),
        }
        refs = tuple(self._refs.values())
        manifest = ArchiveManifest(
            format=FORMAT,
            version=VERSION,
            created_at=now,
            lossless=__version__,
            conversations=refs,
            counts=counts,
            members=self._members,
        )
        with self._member(MANIFEST) as write:
            write(encode_line(manifest))
        return Exported(path="", **counts, bytes=0, missing_files=tuple(self._missing))

    @contextmanager
    def _member(self, name: str) -> Iterator[Write]:
        info = ZipInfo(name)  # its time is always the same
        info.compress_type, info.external_attr, info.create_system = ZIP_DEFLATED, 0o600 << 16, 3
        seen, size = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=True) as stream:

            def write(data: bytes) -> None:
                nonlocal size
                stream.write(data)
                seen.update(data)
                size += len(data)

            yield write
        if name != MANIFEST:
            self._members[name] = Member(seen.hexdigest(), size)

    def _conversation(self, conversation_id: int, ref: str) -> History:
        with self._store.snapshot():
            row = self._store.conversations.get(conversation_id)
            if row is None:
                raise NotFound("conversation", conversation_id)
            self._lines(ref, "messages.jsonl", self._messages(row))
            summaries = self._lines(ref, "summaries.jsonl", self._summaries(row.id))
            self._lines(ref, "items.jsonl", self._items(row.id, "item"))
            self._lines(ref, "detached.jsonl", self._items(row.id, "detached"))
            files = self._store.files.of_conversation(row.id)
            self._lines(ref, "files.jsonl", (_file(file) for file in files))
            history = self._history(row, ref, summaries, len(files))
        with self._member(f"{conversation_dir(ref)}/conversation.json") as write:
            write(encode_line(history))
        for file in files:
            self._content(file.sha256)
        return history

    def _lines(self, ref: str, name: str, values: Iterator[Any]) -> int:
        count = 0
        with self._member(f"{conversation_dir(ref)}/{name}") as write:
            for value in values:
                write(encode_line(value) + b"\n")
                count += 1
        return count

    def _content(self, sha256: str) -> None:
        if f"files/{sha256}" in self._members or sha256 in self._missing:
            return
        try:
            data = self._files.read_all(sha256)
        except FileUnavailable:
            self._missing.append(sha256)
            return
        with self._member(f"files/{sha256}") as write:
            write(data)

    def _messages(self, row: ConversationRow) -> Iterator[PastMessage]:
        columns = ("id", "role", "text", "parts", "meta", "at", "event_id", "tokens", "digest", "created_at", "outside")
        copied = ("message_id", "digest", "text", "parts", "meta", "at", "created_at")
        part = self._store.tables.part
        with (
            closing(part("message", row.id, columns)) as messages,
            _Joined(part("copy", row.id, copied)) as copies,
            _Joined(part("alias", row.id, ("seq", "name"), ("seq", "name"))) as aliases,
        ):
            for id_, role, text, parts, meta, at, key, tokens, digest, created_at, outside in messages:
                message = codec.decode(role, text, parts, meta, at, key)
                yield PastMessage(
                    ref=str(id_ % SPAN),
                    message=message,
                    created_at=moment(created_at),
                    outside=outside,
                    aliases=tuple(name for _, name in aliases.of(id_ % SPAN)),
                    event_key=None if key == codec.event_key(message.event_id) else key,
                    tokens=tokens,
                    digest=bytes(digest),
                    copies=tuple(
                        PastCopy(codec.decode(role, words, pieces, more, when, key), bytes(witness), moment(made))
                        for _, witness, words, pieces, more, when, made in copies.of(id_)
                    ),
                )

    def _summaries(self, conversation_id: int) -> Iterator[PastSummary]:
        part = self._store.tables.part
        columns = ("id", *_SUMMARY)
        earlier_columns = ("summary_id", "revision", "text", "tokens", "model", "level", "created_at", "prompt_version")
        self._public = dict(part("summary", conversation_id, ("id", "public_id")))
        with (
            closing(part("summary", conversation_id, columns)) as summaries,
            _Joined(
                part("summary_message", conversation_id, ("summary_id", "message_id"), ("summary_id", "message_id"))
            ) as messages,
            _Joined(part("summary_source", conversation_id, ("summary_id", "source_id"))) as sources,
            _Joined(part("revision", conversation_id, (*earlier_columns, "faithful"))) as revisions,
        ):
            for id_, *row in summaries:
                values = dict(zip(_SUMMARY, row, strict=True))
                made_from = [str(message % SPAN) for _, message in messages.of(id_)]
                made_from += [self._public[source] for _, source in sources.of(id_)]
                yield _summary(values, tuple(made_from), revisions.of(id_))

    def _items(self, conversation_id: int, table: str) -> Iterator[PastItem]:
        columns = ("ordinal", "summary_id", "tokens", "depth")
        left = ("cause", "at") if table == "detached" else ()
        with closing(self._store.tables.part(table, conversation_id, (*columns, *left))) as found:
            for ordinal, summary, tokens, depth, *why in found:
                cause, at = why or (None, None)
                ref = str(ordinal) if summary is None else self._public[summary]
                kind: Kind = "message" if summary is None else "summary"
                yield PastItem(
                    kind=kind, ref=ref, cause=cause, left_at=_moment(at), ordinal=ordinal, tokens=tokens, depth=depth
                )

    def _history(self, row: ConversationRow, ref: str, summaries: int, files: int) -> History:
        return History(
            ref=ref,
            key=row.key,
            session=row.session,
            active=row.active,
            created_at=moment(row.created_at),
            updated_at=moment(row.updated_at),
            title=row.title,
            archived_at=_moment(row.archived_at),
            archive_cause=row.archive_cause,
            parent_ref=None if row.parent is None else self._refs.get(row.parent),
            continues_ref=None if row.continues is None else self._refs.get(row.continues),
            messages=row.messages,
            summaries=summaries,
            files=files,
            exact=True,
            renewed_at=_moment(row.renewed_at),
            transcribed=row.transcribed,
            sessions=self._sessions(row.id),
            cursors=self._cursors(row.id),
            pins=self._pins(row.id),
            transplants=self._transplants(row.id),
        )

    def _sessions(self, conversation_id: int) -> tuple[PastSession, ...]:
        found = self._store.tables.part(
            "session", conversation_id, ("session", "first_at", "last_at"), ("first_at", "session")
        )
        return tuple(PastSession(name, moment(first), moment(last)) for name, first, last in found)

    def _cursors(self, conversation_id: int) -> tuple[PastCursor, ...]:
        found = self._store.tables.part("cursor", conversation_id, ("source", "state", "updated_at"))
        return tuple(
            PastCursor(source, jsontext.loads(state), moment(at))
            for source, state, at in found
            if not source.startswith(IMPORTED)
        )

    def _pins(self, conversation_id: int) -> tuple[PastPin, ...]:
        return tuple(
            PastPin(
                id=pin.id,
                text=pin.text,
                tokens=pin.tokens,
                created_at=moment(pin.created_at),
                ref=None if pin.message_id is None else str(pin.message_id % SPAN),
            )
            for pin in self._store.manifests.pins(conversation_id)
        )

    def _transplants(self, conversation_id: int) -> tuple[PastTransplant, ...]:
        found = self._store.tables.part("transplant", conversation_id, ("first_seq", "last_seq", "place", "at"))
        return tuple(
            PastTransplant(first=first, last=last, place=place, at=moment(at)) for first, last, place, at in found
        )


_SUMMARY = (
    "public_id",
    "depth",
    "text",
    "tokens",
    "earliest_at",
    "latest_at",
    "descendants",
    "source_tokens",
    "file_ids",
    "model",
    "level",
    "prompt_version",
    "faithful",
    "revision",
    "stale",
    "tries",
    "created_at",
    "origin",
)


class _Joined:
    """Rows that belong to other rows by their first column, read side by side in the same order."""

    def __init__(self, found: Rows) -> None:
        self._rows = found
        self._next = next(found, None)

    def __enter__(self) -> _Joined:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def of(self, owner: int) -> list[tuple[Any, ...]]:
        taken = []
        while self._next is not None and self._next[0] <= owner:
            if self._next[0] == owner:
                taken.append(self._next)
            self._next = next(self._rows, None)
        return taken


def _summary(values: dict[str, Any], sources: tuple[str, ...], revisions: list[tuple[Any, ...]]) -> PastSummary:
    values["file_ids"] = tuple(jsontext.loads(values["file_ids"]))
    values["stale"] = bool(values["stale"])
    for name in ("earliest_at", "latest_at", "created_at"):
        values[name] = _moment(values[name])
    earlier = tuple(
        PastRevision(
            revision=number,
            text=text,
            tokens=tokens,
            model=model,
            level=level,
            created_at=moment(at),
            prompt_version=version,
            faithful=faithful,
        )
        for _, number, text, tokens, model, level, at, version, faithful in revisions
    )
    return PastSummary(ref=values.pop("public_id"), sources=sources, earlier=earlier, **values)


def _file(row: Any) -> PastFile:
    return PastFile(
        ref=row.id,
        name=row.name,
        mime=row.mime,
        data=None,
        summary=row.summary,
        created_at=moment(row.created_at),
        sha256=row.sha256,
        size=row.bytes,
        lines=row.lines,
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else moment(micros)
