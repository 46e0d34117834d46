"""The portable archive of lossless: how its members are written, and the archive as a source.

A zip file: `manifest.json` names every other member with its size and SHA-256; each conversation is a directory of JSON
lines, which are the values of `lossless.imports.base`; each large content is one file under its hash. Whoever opens an
archive has checked all of it: nothing is taken from one that is not whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from lossless.errors import InvalidInput, SchemaTooNew
from lossless.imports.base import History, PastFile, PastItem, PastMessage, PastSummary
from lossless.store import jsontext

FORMAT, VERSION = "lossless-archive", 1
MANIFEST = "manifest.json"
MEMBERS = ("messages.jsonl", "summaries.jsonl", "items.jsonl", "detached.jsonl", "files.jsonl", "conversation.json")
"""What is in the directory of a conversation."""
MOST_LINE = 256 << 20
MOST_FILE = 1 << 30
MOST_KEY = 1000
_CHUNK = 1 << 20
_NAME = re.compile(r"conversations/[0-9]{6,9}/[a-z]+\.jsonl?|files/[0-9a-f]{64}")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

T = TypeVar("T")


class Member(Struct, frozen=True):
    """A member as the manifest vouches for it."""

    sha256: str
    bytes: int


class Manifest(Struct, frozen=True):
    """What an archive says of itself."""

    format: str
    version: int
    created_at: datetime
    lossless: str
    """The version that wrote it."""
    conversations: tuple[str, ...]
    """Their directories, oldest first."""
    counts: dict[str, int]
    members: dict[str, Member]


def written(value: Struct) -> bytes:
    """A value as one line of JSON from which `read` makes an equal one, lone surrogates and all."""
    plain = to_builtins(value)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if jsontext.is_clean(text):
        return text.encode()
    if _PAIR.search(text):
        # Escaped, the two halves of a character that this text holds apart would be joined.
        plain = {"wtf8": text.encode("utf-8", "surrogatepass").hex()}
    return json.dumps(plain, separators=(",", ":")).encode()


def read(line: bytes, kind: type[T]) -> T:
    """The value of a line, checked to be one."""
    plain = jsontext.loads(line.decode())
    if isinstance(plain, dict) and plain.keys() == {"wtf8"}:
        plain = json.loads(bytes.fromhex(plain["wtf8"]).decode("utf-8", "surrogatepass"))
    return convert(plain, type=kind)


def directory(ref: str) -> str:
    return f"conversations/{ref}"


class Archive:
    """An archive, checked from its first to its last byte when it is opened. See `lossless.imports.base.Source`."""

    system = "lossless"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.unmapped: list[str] = []
        with self._told():
            self._zip = ZipFile(self.path)
        try:
            with self._told():
                self.manifest = self._manifest()
                self._check_members()
                self._histories = [self._history(ref) for ref in self.manifest.conversations]
                self._check_relations()
                for history in self._histories:
                    self._check(history)
        except BaseException:
            self._zip.close()
            raise
        self.version = self.manifest.lossless
        told = json.dumps({name: member.sha256 for name, member in sorted(self.manifest.members.items())})
        self.identity = hashlib.sha256(told.encode()).hexdigest()

    # the source

    def histories(self) -> list[History]:
        return list(self._histories)

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        for message in self._lines(history, "messages.jsonl", PastMessage):
            if after is None or int(message.ref) > int(after):
                yield message

    def summaries(self, history: History) -> Iterator[PastSummary]:
        """In the order they were made."""
        return self._lines(history, "summaries.jsonl", PastSummary)

    def items(self, history: History) -> Iterator[PastItem]:
        """What the model was shown, in order; then what left the context, with the cause."""
        yield from self._lines(history, "items.jsonl", PastItem)
        yield from self._lines(history, "detached.jsonl", PastItem)

    def files(self, history: History) -> Iterator[PastFile]:
        for file in self._lines(history, "files.jsonl", PastFile):
            name = f"files/{file.sha256}"
            yield structs.replace(file, data=self._zip.read(name)) if name in self.manifest.members else file

    def close(self) -> None:
        self._zip.close()

    # reading

    def _lines(self, history: History, name: str, kind: type[T]) -> Iterator[T]:
        with io.BufferedReader(self._zip.open(f"{directory(history.ref)}/{name}")) as lines:  # type: ignore[type-var]  # a zip's members are readable
            for number in range(1, 1 << 62):
                line = lines.readline(MOST_LINE)
                if not line:
                    return
                if not line.endswith(b"\n"):
                    raise self._wrong(f"line {number} of {name} of {history.key!r} has no end")
                try:
                    yield read(line, kind)
                except (ValidationError, ValueError, TypeError, RecursionError) as error:
                    raise self._wrong(f"line {number} of {name} of {history.key!r}: {error}") from error

    def _history(self, ref: str) -> History:
        history = read(self._zip.read(f"{directory(ref)}/conversation.json"), History)
        if history.ref != ref or not history.exact:
            raise self._wrong(f"{directory(ref)} holds the conversation {history.ref!r}")
        return history

    # checking

    def _manifest(self) -> Manifest:
        found = {info.filename: info for info in self._zip.infolist()}
        if len(found) < len(self._zip.infolist()) or MANIFEST not in found:
            raise self._wrong("it has no manifest, or a member twice")
        if found[MANIFEST].file_size > MOST_LINE:
            raise self._wrong("its manifest is too large")
        plain = jsontext.loads(self._zip.read(MANIFEST).decode())
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise self._wrong(f"its manifest does not say {FORMAT}")
        version = plain.get("version")
        if isinstance(version, int) and version > VERSION:
            raise SchemaTooNew(
                f"{self.path} is an archive of version {version}; this lossless knows versions up to {VERSION}.",
                hint="Install the newer lossless that wrote it (nothing was changed).",
            )
        return convert(plain, type=Manifest)

    def _check_members(self) -> None:
        """Every member is named, no other is there, and each is what the manifest says."""
        infos = {info.filename: info for info in self._zip.infolist() if info.filename != MANIFEST}
        wanted = {f"{directory(ref)}/{name}" for ref in self.manifest.conversations for name in MEMBERS}
        told = self.manifest.members.keys()
        if odd := [name for name in infos if not _NAME.fullmatch(name) or not (name in wanted or name[:6] == "files/")]:
            raise self._wrong(f"{odd[0]!r} is no name of a member")
        if odd := sorted((infos.keys() ^ told) | (wanted - told)):
            raise self._wrong(f"{odd[0]!r} is missing, or not in the manifest")
        for name, info in infos.items():
            self._check_member(info, self.manifest.members[name])

    def _check_member(self, info: ZipInfo, member: Member) -> None:
        name = info.filename
        most = MOST_FILE if name.startswith("files/") else MOST_LINE if name.endswith(".json") else 1 << 62
        if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise self._wrong(f"{name} is encrypted, or compressed in a way of its own")
        if info.file_size != member.bytes or member.bytes > most:
            raise self._wrong(f"{name} is {info.file_size:,} bytes, where {min(member.bytes, most):,} may be")
        seen = hashlib.sha256()
        with self._zip.open(info) as stream:
            while chunk := stream.read(_CHUNK):
                seen.update(chunk)
        if seen.hexdigest() != member.sha256 or (name.startswith("files/") and name[6:] != member.sha256):
            raise self._wrong(f"{name} is not what its hash says")

    def _check_relations(self) -> None:
        refs = {history.ref for history in self._histories}
        active = [history.key for history in self._histories if history.active]
        if len(refs) < len(self._histories) or len(set(active)) < len(active):
            raise self._wrong("it has a conversation twice")
        for history in self._histories:
            for ref in (history.parent_ref, history.continues_ref):
                if ref is not None and ref not in refs:
                    raise self._wrong(f"{history.key!r} belongs to a conversation that is not there")

    def _check(self, history: History) -> None:
        """That the values of a conversation fit together."""
        seqs = _Numbers(history.messages)
        self._check_messages(history)
        summaries = self._check_summaries(history, seqs)
        for item in self.items(history):
            known = item.ref in (seqs if item.kind == "message" else summaries)
            self._refuse_unless(
                known and _is_whole(item) and _is_clean(to_builtins(item)), history, f"item {item.ref!r}"
            )
        for file in self._lines(history, "files.jsonl", PastFile):
            self._refuse_unless(_is_whole(file) and _is_clean(to_builtins(file)), history, f"file {file.ref!r}")
        for each in history.transplants:
            self._refuse_unless(0 < each.first <= each.last <= history.messages, history, "a transplant")
        for pin in history.pins:
            self._refuse_unless(pin.ref is None or pin.ref in seqs, history, f"pin {pin.id!r}")
        told = to_builtins(structs.replace(history, cursors=()))
        self._refuse_unless(_is_clean(told) and 0 < len(history.key.encode()) <= MOST_KEY, history, "the key or a text")

    def _check_messages(self, history: History) -> None:
        count = 0
        for count, message in enumerate(self.messages(history), 1):
            clean = _is_clean([message.tokens, message.outside, message.event_key, *message.aliases])
            fits = message.ref == str(count) and _is_whole(message) and clean
            self._refuse_unless(fits, history, f"message {message.ref!r}")
        self._refuse_unless(count == history.messages, history, f"{count:,} of {history.messages:,} messages")

    def _check_summaries(self, history: History, seqs: Container[str]) -> Container[str]:
        depths: dict[str, int] = {}
        for summary in self.summaries(history):
            fits = summary.ref not in depths and _is_whole(summary) and _is_clean(to_builtins(summary))
            self._refuse_unless(fits, history, f"summary {summary.ref!r}")
            depths[summary.ref] = summary.depth
        for summary in self.summaries(history):
            below = seqs if summary.depth == 0 else {ref for ref in summary.sources if ref in depths}
            fits = all(ref in below and depths.get(ref, -1) < summary.depth for ref in summary.sources)
            self._refuse_unless(fits, history, f"a source of summary {summary.ref!r}")
        return depths

    def _refuse_unless(self, fits: bool, history: History, what: str) -> None:
        if not fits:
            raise self._wrong(f"{what} of {history.key!r} does not fit the rest")

    def _wrong(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"{self.path} is not a whole archive of lossless: {why}.", hint="Nothing was taken from it."
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InvalidInput(f"There is no archive at {self.path}.") from error
        except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise self._wrong(str(error) or type(error).__name__) from error
        except (ValidationError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise self._wrong(str(error)) from error


class _Numbers(Container[str]):
    """The numbers from 1 to a last one, as texts."""

    def __init__(self, last: int) -> None:
        self._last = last

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, str) and ref.isascii() and ref.isdigit() and ref[0] != "0" and int(ref) <= self._last


_NEEDED = {
    PastMessage: ("tokens", "digest"),
    PastSummary: ("tokens", "source_tokens", "descendants"),
    PastItem: ("ordinal", "tokens", "depth"),
    PastFile: ("sha256", "size"),
}


def _is_whole(value: Struct) -> bool:
    """Whether a value has the columns that only a conversation of ours has."""
    return all(getattr(value, name) is not None for name in _NEEDED[type(value)])


def _is_clean(value: Any) -> bool:
    """Whether the columns of a database take every text and number in a value."""
    if isinstance(value, str):
        return jsontext.is_clean(value)
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, dict):
        return all(_is_clean(each) for each in value.values())
    return not isinstance(value, list | tuple) or all(_is_clean(each) for each in value)
