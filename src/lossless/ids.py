"""Parse and print the ids of messages (`msg#...`), summaries (`sum_...`), files (`file_...`) and briefs (`brief_...`)."""

from __future__ import annotations

import re
from hashlib import sha256

from msgspec import Struct

from lossless.errors import InvalidInput

_SHOWN = 80
_MOST_DIGITS = 18
_ID = re.compile(r"(?<![A-Za-z0-9_])(?:sum|file)_[a-z0-9_-]*", re.ASCII)
_ANY_CASE = re.compile(r"(?<![A-Za-z0-9_])(?:sum|file)_", re.ASCII | re.IGNORECASE)
_BARE = re.compile(r"(?P<kind>sum|file)_(?P<suffix>[a-z0-9_-]+)", re.ASCII)
_MESSAGE = re.compile(r"(?:msg#)?(?P<id>[0-9]+)", re.ASCII)
# The start of a reference to large content in a message: its own id, and details that may contain other ids.
_COPIED = re.compile(
    r"\[LCM (?:Tool Output|File|Raw Payload): (?P<id>(?:sum|file)_[a-z0-9_-]+) ?[|\]]"
    r"|\[[^\[\]|\n]{0,300}\| LCM file: (?P<image>file_[a-z0-9_-]+)\]",
    re.ASCII,
)
_FORMS = 'Give one id as it was printed: "sum_...", "file_..." or "msg#...".'


class Reference(Struct, frozen=True):
    """A parsed id: `id` as it is shown, `number` for a message."""

    kind: str
    id: str
    number: int = 0


def parse(named: object) -> Reference:
    """Parse an id or a reference copied from a message; raise `InvalidInput` with a hint for anything else."""
    text = str(named).strip() if isinstance(named, str | int) and not isinstance(named, bool) else ""
    if copied := _COPIED.match(text):
        text = copied["id"] or copied["image"]
    if message := _MESSAGE.fullmatch(text):
        return _message(message["id"])
    if bare := _BARE.fullmatch(text):
        return _bare(bare)
    raise _refused(text)


def message_id(number: int) -> str:
    """Return the id of a message as it is shown."""
    return f"msg#{number}"


def brief_id(key: str, name: str) -> str:
    """Return the id of the brief with a name in the conversations of a key; it stays the same when the brief is rewritten."""
    return f"{_brief_prefix(key)}{sha256(name.encode()).hexdigest()[:8]}"


def is_brief_of(key: str, named: str) -> bool:
    """Return True for the id of any brief of a key, stored or not."""
    return named.startswith(_brief_prefix(key))


def _brief_prefix(key: str) -> str:
    return f"brief_{sha256(key.encode()).hexdigest()[:8]}"


def _message(digits: str) -> Reference:
    number = int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS
    if not number:
        raise InvalidInput("A message has no id 0.", hint=_FORMS)
    name = message_id(number) if len(digits) <= _MOST_DIGITS else f"msg#{digits[:_SHOWN]}"
    return Reference("message", name, number)


def _bare(bare: re.Match[str]) -> Reference:
    if not bare["suffix"].strip("0"):
        raise InvalidInput(f"{bare[0][:_SHOWN]} is a zero id, which does not exist.", hint=_FORMS)
    return Reference({"sum": "summary", "file": "file"}[bare["kind"]], bare[0])


def _refused(text: str) -> InvalidInput:
    found = dict.fromkeys(_ID.findall(text))
    shown = repr(text[:_SHOWN])
    if len(found) > 1:
        return InvalidInput(f"{shown} names multiple ids.", hint="Ask for one at a time.")
    if text in ("sum_", "file_", "msg#", ""):
        return InvalidInput(f"{shown} is an empty id.", hint=_FORMS)
    if _ANY_CASE.match(text) and not _BARE.match(text.split()[0]):
        return InvalidInput(f"{shown} is a malformed id.", hint="Ids are in lower case only.")
    if _ANY_CASE.match(text) and " " not in text:
        return InvalidInput(f"{shown} is a malformed id.", hint=f"Ids are in lower case only. {_FORMS}")
    if found:
        return InvalidInput(f"{shown} is not a recognised format.", hint=f"Give the id alone: {next(iter(found))}")
    return InvalidInput(f"{shown} is not recognised as an id.", hint=_FORMS)
