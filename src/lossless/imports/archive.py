"""Define the portable archive of lossless: its members, and the archive as a source.

A zip file: `manifest.json` names every other member with its size and SHA-256; each conversation is a directory of JSON lines,
the values of `lossless.imports.base`; each large content is one file under its hash. Opening an archive checks all of it,
values and the promise included: nothing is imported from an incomplete one. It may come from anyone. Implausible token counts
are counted again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from array import array
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from lossless.errors import InvalidInput, SchemaTooNew
from lossless.imports.base import History, PastFile, PastItem, PastMessage, PastSummary
from lossless.store import jsontext
from lossless.store.rows import codec
from lossless.store.rows.types import SPAN
from lossless.tokens import estimate, message_tokens

FORMAT, VERSION = "lossless-archive", 1
MANIFEST = "manifest.json"
MEMBERS = ("messages.jsonl", "summaries.jsonl", "items.jsonl", "detached.jsonl", "files.jsonl", "conversation.json")
"""The members in the directory of a conversation."""
MOST_LINE = 256 << 20
MOST_FILE = 1 << 30
MOST_KEY = 1000
_CHUNK = 1 << 20
_REF = re.compile(r"[0-9]{6,9}", re.ASCII)
_NAME = re.compile(r"conversations/[0-9]{6,9}/[a-z]+\.jsonl?|files/[0-9a-f]{64}")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SUMMARY_ID = re.compile(r"sum_[a-z0-9_-]{1,60}", re.ASCII)
_FILE_ID = re.compile(r"file_[a-z0-9_-]{1,60}", re.ASCII)
_PIN_ID = re.compile(r"pin_[0-9a-f]{8}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9 _-]{0,39}", re.ASCII)
"""A cause, a reason or a level."""
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_DEPTH, _MOST_NUMBER, _MOST_NAME = 1_000, 1 << 53, 10_000
_DIGEST = 16

T = TypeVar("T")


class Member(Struct, frozen=True):
    """The size and hash of a member."""

    sha256: str
    bytes: int


class ArchiveManifest(Struct, frozen=True):
    """The manifest of an archive."""

    format: str
    version: int
    created_at: datetime
    lossless: str
    """The version of lossless that wrote it."""
    conversations: tuple[str, ...]
    """Their directories, oldest first."""
    counts: dict[str, int]
    members: dict[str, Member]


def encode_line(value: Struct) -> bytes:
    """Return a value as one line of JSON that `decode_line` reads back, lone surrogates included."""
    plain = to_builtins(value)
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if jsontext.is_clean(text):
        return text.encode()
    if _PAIR.search(text):
        # As escapes, two surrogates that are separate in this text would be joined.
        plain = {"wtf8": text.encode("utf-8", "surrogatepass").hex()}
    return json.dumps(plain, separators=(",", ":")).encode()


def decode_line(line: bytes, kind: type[T]) -> T:
    """Return the value of a line, validated."""
    plain = jsontext.loads(line.decode())
    if isinstance(plain, dict) and plain.keys() == {"wtf8"}:
        plain = json.loads(bytes.fromhex(plain["wtf8"]).decode("utf-8", "surrogatepass"))
    return convert(plain, type=kind)


def conversation_dir(ref: str) -> str:
    """Return the directory of a conversation in the archive."""
    return f"conversations/{ref}"


class Archive:
    """An archive, checked from its first to its last byte when opened. See `lossless.imports.base.Source`."""

    system = "lossless"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.unmapped: list[str] = []
        self._costs: dict[str, _Costs] = {}
        with self._translate_errors():
            self._zip = ZipFile(self.path)
        try:
            with self._translate_errors():
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
        hashes = json.dumps({name: member.sha256 for name, member in sorted(self.manifest.members.items())})
        self.identity = hashlib.sha256(hashes.encode()).hexdigest()

    def histories(self) -> list[History]:
        return list(self._histories)

    def messages(self, history: History, *, after: str | None = None) -> Iterator[PastMessage]:
        for message in self._lines(history, "messages.jsonl", PastMessage):
            if after is None or int(message.ref) > int(after):
                yield structs.replace(message, tokens=_tokens(message.tokens, message_tokens(message.message)))

    def summaries(self, history: History) -> Iterator[PastSummary]:
        """Yield the summaries in the order they were made."""
        for summary in self._lines(history, "summaries.jsonl", PastSummary):
            yield structs.replace(summary, tokens=_tokens(summary.tokens, estimate(summary.text)))

    def items(self, history: History) -> Iterator[PastItem]:
        """Yield the items of the context in order, then those that left it, with the cause."""
        costs = self._costs[history.ref]
        for name in ("items.jsonl", "detached.jsonl"):
            for item in self._lines(history, name, PastItem):
                yield structs.replace(item, tokens=costs.of(item))

    def files(self, history: History) -> Iterator[PastFile]:
        for file in self._lines(history, "files.jsonl", PastFile):
            name = f"files/{file.sha256}"
            yield structs.replace(file, data=self._zip.read(name)) if name in self.manifest.members else file

    def close(self) -> None:
        self._zip.close()

    def _lines(self, history: History, name: str, kind: type[T]) -> Iterator[T]:
        with io.BufferedReader(self._zip.open(f"{conversation_dir(history.ref)}/{name}")) as lines:  # type: ignore[type-var]  # a zip's members are readable
            for number in range(1, 1 << 62):
                line = lines.readline(MOST_LINE)
                if not line:
                    return
                if not line.endswith(b"\n"):
                    raise self._invalid(f"line {number} of {name} of {history.key!r} has no end")
                try:
                    yield decode_line(line, kind)
                except (ValidationError, ValueError, TypeError, RecursionError) as error:
                    raise self._invalid(f"line {number} of {name} of {history.key!r}: {error}") from error

    def _history(self, ref: str) -> History:
        history = decode_line(self._zip.read(f"{conversation_dir(ref)}/conversation.json"), History)
        if history.ref != ref or not history.exact:
            raise self._invalid(f"{conversation_dir(ref)} holds the conversation {history.ref!r}")
        return history

    def _manifest(self) -> ArchiveManifest:
        found = {info.filename: info for info in self._zip.infolist()}
        if len(found) < len(self._zip.infolist()) or MANIFEST not in found:
            raise self._invalid("it has no manifest, or a member twice")
        if found[MANIFEST].file_size > MOST_LINE:
            raise self._invalid("its manifest is too large")
        plain = jsontext.loads(self._zip.read(MANIFEST).decode())
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise self._invalid(f"its manifest does not say {FORMAT}")
        version = plain.get("version")
        if isinstance(version, int) and version > VERSION:
            raise SchemaTooNew(
                f"{self.path} is an archive of version {version}; this lossless knows versions up to {VERSION}.",
                hint="Install the newer lossless that wrote it (nothing was changed).",
            )
        return convert(plain, type=ArchiveManifest)

    def _check_members(self) -> None:
        """Check that the manifest names every member, no other one exists, and each matches its entry."""
        infos = {info.filename: info for info in self._zip.infolist() if info.filename != MANIFEST}
        for ref in self.manifest.conversations:
            if not _REF.fullmatch(ref):
                raise self._invalid(f"{ref!r} is not the name of a conversation's directory")
        wanted = {f"{conversation_dir(ref)}/{name}" for ref in self.manifest.conversations for name in MEMBERS}
        listed = self.manifest.members.keys()
        if odd := [name for name in infos if not _NAME.fullmatch(name) or not (name in wanted or name[:6] == "files/")]:
            raise self._invalid(f"{odd[0]!r} is not the name of a member")
        if odd := sorted((infos.keys() ^ listed) | (wanted - listed)):
            raise self._invalid(f"{odd[0]!r} is missing, or not in the manifest")
        for name, info in infos.items():
            self._check_member(info, self.manifest.members[name])

    def _check_member(self, info: ZipInfo, member: Member) -> None:
        name = info.filename
        most = MOST_FILE if name.startswith("files/") else MOST_LINE if name.endswith(".json") else 1 << 62
        if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise self._invalid(f"{name} is encrypted, or compressed in an unknown way")
        if info.file_size != member.bytes or member.bytes > most:
            raise self._invalid(f"{name} is {info.file_size:,} bytes, but {min(member.bytes, most):,} are allowed")
        seen = hashlib.sha256()
        with self._zip.open(info) as stream:
            while chunk := stream.read(_CHUNK):
                seen.update(chunk)
        if seen.hexdigest() != member.sha256 or (name.startswith("files/") and name[6:] != member.sha256):
            raise self._invalid(f"{name} does not match its hash")

    def _check_relations(self) -> None:
        refs = {history.ref for history in self._histories}
        active = [history.key for history in self._histories if history.active]
        if len(refs) < len(self._histories) or len(set(active)) < len(active):
            raise self._invalid("it contains a conversation twice")
        related = {history.ref: history for history in self._histories}
        for history in self._histories:
            for name in ("parent_ref", "continues_ref"):
                self._check_relation(history, name, related)

    def _check_relation(self, history: History, name: str, related: dict[str, History]) -> None:
        """Check that a related conversation exists, and does not lead back to this one."""
        ref, seen = getattr(history, name), {history.ref}
        while ref is not None:
            if ref not in related or ref in seen:
                raise self._invalid(f"{history.key!r} belongs to a missing conversation, or to itself")
            seen.add(ref)
            ref = getattr(related[ref], name)

    def _check(self, history: History) -> None:
        """Check that the values of a conversation are valid and consistent."""
        self._check_history(history)
        messages = self._check_messages(history)
        summaries = self._check_summaries(history, messages)
        self._costs[history.ref] = _Costs(messages.tokens, {ref: each.tokens for ref, each in summaries.items()})
        self._check_items(history, messages, summaries)
        self._check_files(history)

    def _check_history(self, history: History) -> None:
        fields = to_builtins(structs.replace(history, cursors=()))
        names = (history.session, history.title, *(each.id for each in history.sessions))
        fits = _is_clean(fields) and all(len(name) <= _MOST_NAME for name in names if name)
        self._refuse_unless(fits and 0 < len(history.key.encode()) <= MOST_KEY, history, "the key or a text")
        self._refuse_unless(0 <= history.messages < SPAN, history, "the number of messages")
        self._refuse_unless(_is_word(history.archive_cause), history, "the cause of its archive")
        self._refuse_unless(_is_unique(each.id for each in history.sessions), history, "a session")
        self._refuse_unless(_is_unique(each.source for each in history.cursors), history, "a cursor")
        last = 0
        for each in sorted(history.transplants, key=lambda each: each.first):
            fits = last < each.first <= each.last <= history.messages and -SPAN < each.place <= each.first - each.last
            self._refuse_unless(fits, history, "a transplant")
            last = each.last
        for pin in history.pins:
            fits = bool(_PIN_ID.fullmatch(pin.id)) and (pin.ref is None or pin.ref in _Numbers(history.messages))
            self._refuse_unless(fits, history, f"pin {pin.id!r}")
        self._refuse_unless(_is_unique(pin.id for pin in history.pins), history, "a pin")

    def _check_messages(self, history: History) -> _Messages:
        found, names = _Messages(), set[bytes]()
        for count, message in enumerate(self.messages(history), 1):
            what = f"message {message.ref!r}"
            clean = _is_clean([message.tokens, message.outside, message.event_key, *message.aliases])
            whole = message.ref == str(count) and count <= history.messages and _is_whole(message)
            self._refuse_unless(whole and clean and _is_word(message.outside), history, what)
            self._refuse_unless(len(message.digest or b"") == _DIGEST, history, f"the digest of {what}")
            digests = [copy.digest for copy in message.copies]
            fits = _is_unique(digests) and all(len(digest) == _DIGEST for digest in digests)
            self._refuse_unless(fits, history, f"another text of {what}")
            # Event ids as hashes: a long history has many.
            key = message.event_key or codec.event_key(message.message.event_id)
            known = [*([b"\0" + key.encode()] if key else []), *(b"\1" + name.encode() for name in message.aliases)]
            hashes = {hashlib.sha256(name).digest()[:12] for name in known}
            fits = len(hashes) == len(known) and names.isdisjoint(hashes)
            fits = fits and all(1 < len(name) <= MOST_KEY for name in known)
            self._refuse_unless(fits, history, f"an event id of {what}")
            names |= hashes
            found.add(message)
        count = len(found.tokens)
        self._refuse_unless(count == history.messages, history, f"{count:,} of {history.messages:,} messages")
        return found

    def _check_summaries(self, history: History, messages: _Messages) -> dict[str, _Summary]:
        found: dict[str, _Summary] = {}
        depths = {summary.ref: summary.depth for summary in self.summaries(history)}
        for summary in self.summaries(history):
            what = f"summary {summary.ref!r}"
            fits = summary.ref not in found and _is_whole(summary) and _is_clean(to_builtins(summary))
            self._refuse_unless(fits and bool(_SUMMARY_ID.fullmatch(summary.ref)), history, what)
            self._refuse_unless(_is_possible(summary), history, f"a value of {what}")
            fits = bool(summary.sources) and 0 <= summary.depth <= _MOST_DEPTH
            if summary.depth == 0:
                below = [int(ref) if ref in _Numbers(len(messages.tokens)) else 0 for ref in summary.sources]
                fits = fits and below[:1] != [0] and all(one < other for one, other in pairwise(below))
                found[summary.ref] = _Summary(depth=0, tokens=summary.tokens or 0, seqs=array("q", below), sources=())
            else:
                fits = fits and _is_unique(summary.sources)
                fits = fits and all(depths.get(ref, _MOST_DEPTH) < summary.depth for ref in summary.sources)
                found[summary.ref] = _Summary(
                    depth=summary.depth, tokens=summary.tokens or 0, seqs=array("q"), sources=summary.sources
                )
            self._refuse_unless(fits, history, f"a source of {what}")
        fits = len(found) == history.summaries
        self._refuse_unless(fits, history, f"{len(found):,} of {history.summaries:,} summaries")
        return found

    def _check_items(self, history: History, messages: _Messages, summaries: dict[str, _Summary]) -> None:
        """Check the promise: the items, expanded to leaves, are every message exactly once, in order."""
        reached, placed = bytearray(len(messages.tokens) + 1), set[tuple[object, ...]]()
        ordinal, last = -SPAN - 1, -SPAN - 1
        copied = [(each.first, each.last, each.place - each.first) for each in history.transplants]
        for item in self.items(history):
            what = f"item {item.ref!r}"
            shown = item.cause is None
            known = item.ref in (_Numbers(len(messages.tokens)) if item.kind == "message" else summaries)
            clean = _is_whole(item) and _is_clean(to_builtins(item)) and (item.left_at is None) == shown
            self._refuse_unless(known and clean and _is_word(item.cause), history, what)
            at = item.ordinal or 0
            if item.kind == "message":
                seqs: Iterable[int] = [int(item.ref)]
                fits = item.ref == str(at) and (item.depth or 0) < 0
                fits = fits and not (shown and messages.outside[at - 1])
            else:
                below = _leaves(item.ref, summaries)
                seqs = () if below is None else below
                fits = below is not None and item.depth == summaries[item.ref].depth
            # A position, and a summary, may occur once in the context and once outside it.
            keys: list[tuple[object, ...]] = (
                [(shown, at)] if shown else [(shown, at, item.ref if item.kind == "summary" else None)]
            )
            keys += [(shown, item.ref)] if item.kind == "summary" else []
            self._refuse_unless(fits and placed.isdisjoint(keys), history, what)
            placed.update(keys)
            if item.cause == "dissolved":
                continue  # its sources are in its place
            first, end = SPAN, -SPAN
            for seq in seqs:
                self._refuse_unless(not reached[seq], history, f"message {seq}, which is reached twice,")
                reached[seq] = 1
                place = seq + next((back for one, other, back in copied if one <= seq <= other), 0)
                first, end = min(first, place), max(end, place)
            if shown:
                self._refuse_unless(ordinal < at and last < at <= first <= end, history, f"the place of {what}")
                ordinal, last = at, max(last, end)
        for seq, outside in enumerate(messages.outside, 1):
            self._refuse_unless(bool(outside or reached[seq]), history, f"message {seq}, which no item reaches,")

    def _check_files(self, history: History) -> None:
        refs = set[str]()
        for file in self._lines(history, "files.jsonl", PastFile):
            fits = _is_whole(file) and _is_clean(to_builtins(file)) and file.ref not in refs
            fits = fits and bool(_FILE_ID.fullmatch(file.ref)) and bool(_SHA256.fullmatch(file.sha256 or ""))
            fits = fits and 0 <= (file.size or 0) < _MOST_NUMBER and 0 <= (file.lines or 0) < _MOST_NUMBER
            member = self.manifest.members.get(f"files/{file.sha256}")
            fits = fits and file.data is None and (member is None or member.bytes == file.size)
            self._refuse_unless(fits, history, f"file {file.ref!r}")
            refs.add(file.ref)
        self._refuse_unless(len(refs) == history.files, history, f"{len(refs):,} of {history.files:,} files")

    def _refuse_unless(self, fits: bool, history: History, what: str) -> None:
        if not fits:
            raise self._invalid(f"{what} of {history.key!r} is invalid")

    def _invalid(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self.path} is not a complete archive of lossless: {why}.", hint="Nothing was imported.")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of the file as `InvalidInput`."""
        try:
            yield
        except FileNotFoundError as error:
            raise InvalidInput(f"There is no archive at {self.path}.") from error
        except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise self._invalid(str(error) or type(error).__name__) from error
        except (ValidationError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise self._invalid(str(error)) from error


class _Messages:
    """The tokens and visibility of all messages of a conversation, in a few bytes each."""

    def __init__(self) -> None:
        self.tokens = array("q")
        self.outside = bytearray()

    def add(self, message: PastMessage) -> None:
        self.tokens.append(message.tokens or 0)
        self.outside.append(message.outside is not None)


class _Summary(Struct, frozen=True):
    """A summary without its text: the seqs below a leaf, or its sources."""

    depth: int
    tokens: int
    seqs: array[int]
    sources: tuple[str, ...]


class _Costs(Struct, frozen=True):
    """The tokens of the items of a context."""

    messages: array[int]
    summaries: dict[str, int]

    def of(self, item: PastItem) -> int | None:
        if item.tokens is None:
            return None
        if item.kind == "summary":
            return self.summaries.get(item.ref, 0)
        return self.messages[int(item.ref) - 1] if item.ref in _Numbers(len(self.messages)) else 0


def _leaves(ref: str, summaries: dict[str, _Summary]) -> Iterable[int] | None:
    """Return the seqs below a summary; None if a summary is reached twice, or no message."""
    found, seen, waiting = array("q"), {ref}, [ref]
    while waiting:
        summary = summaries[waiting.pop()]
        found.extend(summary.seqs)
        if not seen.isdisjoint(summary.sources):
            return None
        seen.update(summary.sources)
        waiting += summary.sources
    return found or None


def _tokens(stated: int | None, counted: int) -> int | None:
    """Return the stated tokens of a text if they are plausible, else our own count."""
    if stated is None or not 0 <= stated < _MOST_NUMBER:
        return stated if stated is None else counted
    return stated if counted // 4 - 64 <= stated <= 4 * counted + 4_096 else counted


def _is_possible(summary: PastSummary) -> bool:
    """Return whether the figures and names of a summary are plausible."""
    numbers = [summary.source_tokens or 0, summary.descendants or 0, summary.tries, summary.revision]
    numbers += [each.tokens for each in summary.earlier]
    scores = [summary.faithful, *(each.faithful for each in summary.earlier)]
    names = [summary.model, summary.prompt_version, summary.origin, *(each.model for each in summary.earlier)]
    revisions = [each.revision for each in summary.earlier]
    return (
        all(0 <= number < _MOST_NUMBER for number in numbers)
        and all(score is None or 0 <= score <= 1 for score in scores)
        and all(name is None or len(name) <= _MOST_NAME for name in names)
        and _is_unique(revisions)
        and all(0 < each < summary.revision for each in revisions)
        and all(_WORD.fullmatch(each) for each in (summary.level, *(each.level for each in summary.earlier)))
        and all(_FILE_ID.fullmatch(each) for each in summary.file_ids)
        and (summary.origin is None or bool(_SUMMARY_ID.fullmatch(summary.origin)))
    )


def _is_word(text: str | None) -> bool:
    return text is None or bool(_WORD.fullmatch(text))


def _is_unique(values: Iterable[object]) -> bool:
    found = list(values)
    return len(set(found)) == len(found)


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
    """Return whether a value has the fields that only a conversation of ours has."""
    return all(getattr(value, name) is not None for name in _NEEDED[type(value)])


def _is_clean(value: Any) -> bool:
    """Return whether the database can store every text and number in a value."""
    if isinstance(value, str):
        return jsontext.is_clean(value)
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, dict):
        return all(_is_clean(each) for each in value.values())
    return not isinstance(value, list | tuple) or all(_is_clean(each) for each in value)
