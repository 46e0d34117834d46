"""Pure: what a model replied to a question, and how much of it stands up against what it was shown."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from lossless.errors import InvalidInput
from lossless.ids import parse
from lossless.model import Evidence, Excerpt

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(?P<json>.*?)\n?```", re.DOTALL | re.IGNORECASE)
_QUOTED = 240


class Quote(Struct, frozen=True):
    id: str
    quote: str


class Said(Struct, frozen=True, rename="camel"):
    """A model's reply. `more` are the ids it would like to read before it answers."""

    answer: str = ""
    cited_ids: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()
    more: tuple[str, ...] = ()
    truncated: bool = False


class Checked(Struct, frozen=True):
    """What is left of the citations, and what was dropped."""

    cited_ids: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    dropped: tuple[str, ...]


def parse_reply(text: str) -> Said:
    """The reply in a text: a fenced JSON block, or the whole text. Raises `ValueError` with the beginning of anything else."""
    fenced = _FENCED.search(text)
    for candidate in ([fenced["json"]] if fenced else []) + [text.strip()]:
        try:
            return msgspec.json.decode(candidate, type=Said)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    raise ValueError(f"The model's reply is not the JSON it was asked for: {' '.join(text.split())[:_QUOTED]!r}")


def check(said: Said, read: Sequence[Excerpt]) -> Checked:
    """Keep the ids that were read and the quotes that stand there."""
    texts = {excerpt.id: excerpt for excerpt in read}
    known = {*texts, *(excerpt.above for excerpt in read if excerpt.above)}
    evidence, dropped = [], []
    for quote in said.quotes:
        if found := _evidence(quote, texts):
            evidence.append(found)
        else:
            dropped.append(f"{quote.id}: {quote.quote[:80]}")
    cited = [_id(each) for each in said.cited_ids]
    dropped += [each for each in cited if each not in known]
    kept = [each for each in [*cited, *(each.id for each in evidence)] if each in known]
    return Checked(tuple(dict.fromkeys(kept)), tuple(evidence), tuple(dict.fromkeys(dropped)))


def _id(named: str) -> str:
    try:
        return parse(named).id
    except InvalidInput:
        return named[:80]


def _evidence(quote: Quote, texts: Mapping[str, Excerpt]) -> Evidence | None:
    """The quote as it stands in what was read, if it does. The model saw the text escaped, and may have kept that."""
    excerpt = texts.get(_id(quote.id))
    if excerpt is None or not quote.quote.strip():
        return None
    for said in (quote.quote, html.unescape(quote.quote)):
        words = r"\s+".join(map(re.escape, said.split()))
        if found := re.search(words, excerpt.text):
            return Evidence(excerpt.id, found[0], excerpt.at, excerpt.seq, excerpt.conversation)
    return None
