"""A backup as a file: a zip of the database, the payloads by their hashes, and a manifest that vouches for each.

Nothing is taken from one that has not been read from its first to its last byte. Members are never unpacked under names that the file gives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from lossless.engine.shared.drafts import hold_draft
from lossless.engine.shared.file_store import Files
from lossless.errors import (
    FileUnavailable,
    InvalidInput,
    LosslessError,
    NotFound,
    SchemaTooNew,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from lossless.imports.archive import Member
from lossless.model import Backup
from lossless.store.header import refuse_database

FORMAT, VERSION = "lossless-backup", 1
MANIFEST, DATABASE = "manifest.json", "database"
_PAYLOAD = re.compile(r"files/([0-9a-f]{64})")
_MOST_TOLD = 64 << 20
_CHUNK = 1 << 20
_QUICK = 1
"""The level of compression: the usual one takes four times as long, for a tenth less."""


class Manifest(Struct, frozen=True):
    """What a backup says of itself."""

    format: str
    version: int
    created_at: datetime
    lossless: str
    """The version that wrote it."""
    form: str
    """Of the database in it."""
    made_by: str
    schema: int
    counts: dict[str, int]
    """Rows of all owners, by table."""
    missing_files: tuple[str, ...] = ()
    members: dict[str, Member] = {}
    place: str = ""
    """Where the database is."""
    mark: str = ""
    """What tells it from others of its name, if it had such when it was copied."""


# writing


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """A directory beside a path, for the owner's eyes only; gone in the end, whatever happens. What the disk says becomes ours."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    with telling(path):
        draft.mkdir(mode=0o700)
        try:
            with hold_draft(draft):
                yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """What an operating system says about writing to a path, as one of our errors."""
    try:
        yield
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror or error}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreFull(reason, hint="Free some room, or name another place. Nothing is left of it.") from error
        kind = StoreReadOnly if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else StoreUnavailable
        raise kind(reason, hint="Name another place. Nothing is left of it.") from error


def refuse_if_full(path: Path, needed: int) -> None:
    """Say at once that there will not be room, where that is certain."""
    free = shutil.disk_usage(path).free
    if free < needed:
        raise StoreFull(
            f"{path.parent} has room for {free:,} bytes, and {needed:,} are needed.",
            hint="Free some room, or name another place. Nothing was written.",
        )


def pack(path: Path, manifest: Manifest, database: Path, names: Iterable[str], *places: Files) -> None:
    """Write a backup, with the payloads from the first place that has them whole; those that none has are listed in it."""
    members: dict[str, Member] = {}
    missing = []
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as stream:
        with ZipFile(stream, "w", ZIP_DEFLATED, compresslevel=_QUICK) as packed:
            with database.open("rb") as source:
                members[DATABASE] = _add(packed, DATABASE, iter(lambda: source.read(_CHUNK), b""))
            for name in names:
                data = _whole(name, places)
                if data is None:
                    missing.append(name)
                else:
                    members[f"files/{name}"] = _add(packed, f"files/{name}", [data])
            _add(packed, MANIFEST, [json.encode(replace(manifest, members=members, missing_files=tuple(missing)))])
        stream.flush()
        os.fsync(stream.fileno())


def _whole(name: str, places: Iterable[Files]) -> bytes | None:
    for files in places:
        with suppress(FileUnavailable):
            return files.read_all(name)
    return None


def _add(packed: ZipFile, name: str, chunks: Iterable[bytes]) -> Member:
    seen, size = hashlib.sha256(), 0
    with packed.open(name, "w", force_zip64=True) as stream:
        for chunk in chunks:
            stream.write(chunk)
            seen.update(chunk)
            size += len(chunk)
    return Member(seen.hexdigest(), size)


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    """A new file for the owner's eyes only, on the disk for certain."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())


def sync(path: Path) -> None:
    """A file or the entries of a directory, on the disk for certain."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle of a directory to sync, and needs none
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# reading


class Bundle:
    """A backup, checked from its first to its last byte when it is opened; unless `whole`, only what it says of itself."""

    def __init__(self, path: Path, *, whole: bool = True) -> None:
        self.path = path
        if not path.exists():
            raise NotFound("backup at", path, hint="`lcm backup` makes one.")
        refuse_database(path)
        with self._telling():
            self._zip = ZipFile(path)
        try:
            with self._telling():
                self._check_members()
                self.manifest = self._manifest()
                self._check_names()
            for name in self.manifest.members if whole else ():
                for _ in self._read(name):
                    pass
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def payloads(self) -> list[str]:
        return [name[6:] for name in self.manifest.members if name != DATABASE]

    @property
    def unpacked(self) -> int:
        """How many bytes it takes, unpacked."""
        return sum(member.bytes for member in self.manifest.members.values())

    def told(self) -> Backup:
        """What is in it."""
        manifest = self.manifest
        return Backup(
            path=str(self.path),
            bytes=self.path.stat().st_size,
            created_at=manifest.created_at,
            form=manifest.form,
            made_by=manifest.made_by,
            schema=manifest.schema,
            conversations=manifest.counts.get("conversation", 0),
            messages=manifest.counts.get("message", 0),
            summaries=manifest.counts.get("summary", 0),
            files=len(self.payloads),
            missing_files=manifest.missing_files,
        )

    def unpack_database(self, path: Path) -> None:
        """The database as a new file; hashed once more on its way, since the backup may have been changed meanwhile."""
        _write(path, self._read(DATABASE))

    def unpack_payloads(self, files: Files) -> list[str]:
        """Put the payloads where they are missing or damaged; which were."""
        put: list[str] = []
        try:
            for name in self.payloads:
                if not files.is_intact(name):
                    files.write(name, self._read(f"files/{name}"))
                    put.append(name)
        except BaseException:
            for name in put:
                files.remove(name)
            raise
        return put

    # checking

    def _check_members(self) -> None:
        for info in self._zip.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind and not stat.S_ISREG(kind):
                raise self._wrong(f"{info.filename} is no plain file")
            if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise self._wrong(f"{info.filename} is packed in a way that none of ours is")

    def _manifest(self) -> Manifest:
        if self._zip.getinfo(MANIFEST).file_size > _MOST_TOLD:
            raise self._wrong("its manifest is too large")
        told = self._zip.read(MANIFEST)
        head = json.decode(told, type=_Head)
        if head.format != FORMAT:
            raise self._wrong(f"its manifest does not say {FORMAT}")
        if head.version > VERSION:
            raise SchemaTooNew(
                f"{self.path} is a backup of version {head.version}; this lossless knows versions up to {VERSION}.",
                hint="Install the newer lossless that wrote it (nothing was changed).",
            )
        return json.decode(told, type=Manifest)

    def _check_names(self) -> None:
        infos = self._zip.infolist()
        for info in infos:
            if info.filename not in (MANIFEST, DATABASE) and not _PAYLOAD.fullmatch(info.filename):
                raise self._wrong(f"{info.filename!r} is no name of a member")
        there, vouched = sorted(info.filename for info in infos), sorted((MANIFEST, *self.manifest.members))
        if there != vouched or DATABASE not in self.manifest.members:
            raise self._wrong("a member is missing, there twice, or not in the manifest")

    def _read(self, name: str) -> Iterator[bytes]:
        """The bytes of a member; at their end it is certain that they are what the manifest says."""
        member, payload, seen = self.manifest.members[name], _PAYLOAD.fullmatch(name), hashlib.sha256()
        with self._telling():
            info = self._zip.getinfo(name)
            if info.file_size != member.bytes:
                raise self._wrong(f"{name} is {info.file_size:,} bytes, and not what the manifest says")
            with self._zip.open(info) as stream:
                while chunk := stream.read(_CHUNK):
                    seen.update(chunk)
                    yield chunk
            if seen.hexdigest() != member.sha256 or (payload and payload[1] != member.sha256):
                raise self._wrong(f"{name} is not what its hash says")

    def _wrong(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self.path} is not a whole backup of lossless: {why}.", hint="Nothing was taken from it.")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except LosslessError:
            raise
        except (IsADirectoryError, PermissionError) as error:
            raise InvalidInput(f"{self.path} cannot be read: {error.strerror}.", hint="Name a backup.") from error
        except _BROKEN as error:
            raise self._wrong(str(error) or type(error).__name__) from error


_BROKEN = (
    *(BadZipFile, zlib.error, EOFError, LookupError, ValueError, OSError, NotImplementedError, RuntimeError),
    MsgspecError,
)
"""What comes of reading a zip that is damaged or forged."""


class _Head(Struct):
    format: str = ""
    version: int = 0
