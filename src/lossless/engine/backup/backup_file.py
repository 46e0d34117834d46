"""Read and write a backup file: a zip of the database, the payloads by hash, and a manifest with their hashes.

Nothing is restored from a file that was not read completely. Members are never unpacked under names from the file.
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

from lossless.engine.shared.abandoned_drafts import hold_draft
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
_MOST_MANIFEST_BYTES = 64 << 20
_CHUNK = 1 << 20
_COMPRESSION = 1
"""The compression level: the default takes four times as long, for 10 % less."""


class BackupManifest(Struct, frozen=True):
    """The description of a backup, stored in it."""

    format: str
    version: int
    created_at: datetime
    lossless: str
    """The version that wrote it."""
    form: str
    """The form of the database in it."""
    made_by: str
    schema: int
    counts: dict[str, int]
    """Rows of all owners, by table."""
    missing_files: tuple[str, ...] = ()
    members: dict[str, Member] = {}
    place: str = ""
    """The location of the database."""
    mark: str = ""
    """The stored mark that identifies the database, if it had one."""


# writing


@contextmanager
def drafting(path: Path) -> Iterator[Path]:
    """Create a private directory beside a path for the block, then remove it; translate errors of the disk."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    with translated_errors(path):
        draft.mkdir(mode=0o700)
        try:
            with hold_draft(draft):
                yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Translate errors of the operating system about a path to ours."""
    try:
        yield
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror or error}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreFull(
                reason, hint="Free some disk space, or name another place. No partial file is left."
            ) from error
        kind = StoreReadOnly if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else StoreUnavailable
        raise kind(reason, hint="Name another place. No partial file is left.") from error


def refuse_if_full(path: Path, needed: int) -> None:
    """Raise `StoreFull` at once if the disk has too little free space."""
    free = shutil.disk_usage(path).free
    if free < needed:
        raise StoreFull(
            f"{path.parent} has {free:,} bytes free, and {needed:,} are needed.",
            hint="Free some disk space, or name another place. Nothing was written.",
        )


def pack(path: Path, manifest: BackupManifest, database: Path, names: Iterable[str], *places: Files) -> None:
    """Write a backup with each payload from the first place that has it intact; list the missing ones in it."""
    members: dict[str, Member] = {}
    missing = []
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as stream:
        with ZipFile(stream, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION) as packed:
            with database.open("rb") as source:
                members[DATABASE] = _add(packed, DATABASE, iter(lambda: source.read(_CHUNK), b""))
            for name in names:
                data = _read_payload(name, places)
                if data is None:
                    missing.append(name)
                else:
                    members[f"files/{name}"] = _add(packed, f"files/{name}", [data])
            _add(packed, MANIFEST, [json.encode(replace(manifest, members=members, missing_files=tuple(missing)))])
        stream.flush()
        os.fsync(stream.fileno())


def _read_payload(name: str, places: Iterable[Files]) -> bytes | None:
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
    """Write a new private file and sync it to the disk."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())


def sync(path: Path) -> None:
    """Sync a file or the entries of a directory to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle of a directory to sync, and needs none
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# reading


class Bundle:
    """An open backup, read and checked completely; with `whole=False`, only its manifest."""

    def __init__(self, path: Path, *, whole: bool = True) -> None:
        self.path = path
        if not path.exists():
            raise NotFound("backup at", path, hint="`lcm backup` makes one.")
        refuse_database(path)
        with self._translated_errors():
            self._zip = ZipFile(path)
        try:
            with self._translated_errors():
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
        """The hashes of the payloads in it."""
        return [name[6:] for name in self.manifest.members if name != DATABASE]

    @property
    def unpacked(self) -> int:
        """The total bytes of its members, unpacked."""
        return sum(member.bytes for member in self.manifest.members.values())

    def describe(self) -> Backup:
        """Return a description of its content."""
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
        """Write the database to a new file, and check its hash again."""
        _write(path, self._read(DATABASE))

    def unpack_payloads(self, files: Files) -> list[str]:
        """Write the payloads that are missing or damaged; return their hashes."""
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

    def _manifest(self) -> BackupManifest:
        if self._zip.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES:
            raise self._wrong("its manifest is too large")
        data = self._zip.read(MANIFEST)
        head = json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise self._wrong(f"its manifest does not say {FORMAT}")
        if head.version > VERSION:
            raise SchemaTooNew(
                f"{self.path} is a backup of version {head.version}; this lossless knows versions up to {VERSION}.",
                hint="Install the newer lossless that wrote it (nothing was changed).",
            )
        return json.decode(data, type=BackupManifest)

    def _check_names(self) -> None:
        infos = self._zip.infolist()
        for info in infos:
            if info.filename not in (MANIFEST, DATABASE) and not _PAYLOAD.fullmatch(info.filename):
                raise self._wrong(f"{info.filename!r} is no name of a member")
        found, listed = sorted(info.filename for info in infos), sorted((MANIFEST, *self.manifest.members))
        if found != listed or DATABASE not in self.manifest.members:
            raise self._wrong("a member is missing, there twice, or not in the manifest")

    def _read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member; raise at the end unless they match the manifest."""
        member, payload, seen = self.manifest.members[name], _PAYLOAD.fullmatch(name), hashlib.sha256()
        with self._translated_errors():
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
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except LosslessError:
            raise
        except (IsADirectoryError, PermissionError) as error:
            raise InvalidInput(f"{self.path} cannot be read: {error.strerror}.", hint="Name a backup.") from error
        except _DAMAGE_ERRORS as error:
            raise self._wrong(str(error) or type(error).__name__) from error


_DAMAGE_ERRORS = (
    *(BadZipFile, zlib.error, EOFError, LookupError, ValueError, OSError, NotImplementedError, RuntimeError),
    MsgspecError,
)
"""Errors from reading a damaged or forged zip."""


class _Head(Struct):
    format: str = ""
    version: int = 0
