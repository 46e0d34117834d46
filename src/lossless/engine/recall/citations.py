"""Pure: parse a model's reply to a question, and check its citations against the excerpts."""

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


class ModelReply(Struct, frozen=True, rename="camel"):
    """A model's reply. `more` lists the ids that it requests before it answers."""

    answer: str = ""
    cited_ids: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()
    more: tuple[str, ...] = ()
    truncated: bool = False


class CheckedCitations(Struct, frozen=True):
    """The citations that were confirmed, and those that were dropped."""

    cited_ids: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    dropped: tuple[str, ...]


def parse_reply(text: str) -> ModelReply:
    """Parse a reply: a fenced JSON block, or the whole text. Raise `ValueError` otherwise."""
    fenced = _FENCED.search(text)
    for candidate in ([fenced["json"]] if fenced else []) + [text.strip()]:
        try:
            return msgspec.json.decode(candidate, type=ModelReply)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    raise ValueError(f"The model's reply is not the JSON it was asked for: {' '.join(text.split())[:_QUOTED]!r}")


def check_citations(reply: ModelReply, read: Sequence[Excerpt]) -> CheckedCitations:
    """Keep the ids that were read and the quotes that their texts contain."""
    texts = {excerpt.id: excerpt for excerpt in read}
    known = {*texts, *(excerpt.above for excerpt in read if excerpt.above)}
    evidence, dropped = [], []
    for quote in reply.quotes:
        if found := _evidence(quote, texts):
            evidence.append(found)
        else:
            dropped.append(f"{quote.id}: {quote.quote[:80]}")
    cited = [_id(each) for each in reply.cited_ids]
    dropped += [each for each in cited if each not in known]
    kept = [each for each in [*cited, *(each.id for each in evidence)] if each in known]
    return CheckedCitations(tuple(dict.fromkeys(kept)), tuple(evidence), tuple(dict.fromkeys(dropped)))


def _id(named: str) -> str:
    try:
        return parse(named).id
    except InvalidInput:
        return named[:80]


def _evidence(quote: Quote, texts: Mapping[str, Excerpt]) -> Evidence | None:
    """Return the quote as the excerpt contains it, or None. The model may have quoted the escaped text."""
    excerpt = texts.get(_id(quote.id))
    if excerpt is None or not quote.quote.strip():
        return None
    for reply in (quote.quote, html.unescape(quote.quote)):
        words = r"\s+".join(map(re.escape, reply.split()))
        if found := re.search(words, excerpt.text):
            return Evidence(excerpt.id, found[0], excerpt.at, excerpt.seq, excerpt.conversation)
    return None
