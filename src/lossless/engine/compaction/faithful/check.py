"""Check without a model that a summary claims only what its sources say.

A summary goes back into an agent's context as memory, so one wrong number in it is worse than a missing one.
Every number, name, path, date and "not" of the summary is looked for in what the summariser was given. What is
found is not thereby true of the same thing: two right names in each other's place pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from lossless.engine.compaction.faithful import dates, names, numbers, polarity
from lossless.engine.compaction.faithful.claim import Claim, Judged
from lossless.engine.compaction.faithful.wording import PIECE, lowered

_FEW = 8
_LABEL = re.compile(r"^(?:expand for details about|files):", re.I | re.M)
_FRAME = re.compile(r"^(?:expand for details about|files):.*", re.I | re.M)
_BULLET = re.compile(r"^[ \t]*(?:[-*•–—+>#]+|\(?\d{1,3}[.)])[ \t]+", re.M)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_LISTED = re.compile(r"^((?:expand for details about|files):)(.*)$", re.I)
_WORDS = re.compile(r"[\w']+")
_OWN_NOTE = re.compile(r"^\[(?:Truncated from|Capped|LCM fallback)[^\]\n]*\]$", re.M)


class Faithfulness(Struct, frozen=True):
    """The result of checking the claims of a summary."""

    score: float
    """The share of supported claims; 1.0 if there was nothing to check."""
    unsupported: tuple[Claim, ...]
    checked: int

    @property
    def passed(self) -> bool:
        return not self.unsupported


def own_words(summary: str, source: str) -> str:
    """Return the lines of a summary that its source does not contain verbatim."""
    lines = iter(summary.split("\n"))
    own = list(islice(_not_in(source, lines), _FEW))
    # For many lines it is faster to split the source.
    quoted = set(source.split("\n")) if len(own) == _FEW else ()
    return "\n".join([*own, *(line for line in lines if line not in quoted)])


def _not_in(source: str, lines: Iterator[str]) -> Iterator[str]:
    text, at = f"\n{source}\n", 1
    for line in lines:
        if text.startswith(f"{line}\n", at):  # a quotation continues
            at += len(line) + 1
        elif (found := text.find(f"\n{line}\n")) >= 0:
            at = found + len(line) + 2
        else:
            yield line


def check_own(own: str, source: str, *, context: str = "") -> Faithfulness:
    """Look up every claim in the `own_words` of a summary in its source and in whatever else the summariser was shown.

    A number, name, path or date must occur, in any notation. A "not" is compared where a statement of the source is
    plainly about the same thing, so a freely worded contradiction passes. Only the parts of the source that the summary
    mentions are read. Linear in both texts: for a source of 20,000 tokens 0.1 ms when the summary quotes whole lines,
    4 ms when it is short and plain, 10 to 30 ms with dates, figures and names.
    """
    known = f"{source}\n\n{context}" if context else source
    text = _bare(own_words(own, context) if context else own)
    if not text.strip():
        return Faithfulness(1.0, (), 0)
    vocabulary = names.Vocabulary(known)
    judged = list(_facts(_LABEL.sub("", text), vocabulary))
    denials, wrong = polarity.contradictions(lowered(_FRAME.sub("", text)), vocabulary)
    unsupported = dict.fromkeys(claim for claim, supported in judged if not supported)
    unsupported |= dict.fromkeys(Claim("negation", sentence) for sentence in wrong)
    checked = len(judged) + max(denials, len(wrong))
    return Faithfulness(1 - len(unsupported) / checked if checked else 1.0, tuple(unsupported), checked)


def _bare(text: str) -> str:
    """Return the text without bullets and our own notes."""
    return _BULLET.sub("", _OWN_NOTE.sub("", text))


def _facts(text: str, vocabulary: names.Vocabulary) -> Iterator[Judged]:
    # Each reader removes its matches, so that the next one finds no numbers in a path or date.
    paths, text = names.take_paths(text, vocabulary)
    times, text = _take_moments(text)
    dotted, text = names.take_dotted(text, vocabulary)
    named, text = names.take_names(text, vocabulary)
    low = lowered(text)
    times += dates.named_alone(low)
    figures = list(numbers.read(low))
    yield from (*paths, *dotted, *named)
    if times or figures:
        calendar = dates.Calendar(vocabulary)
        amounts = numbers.Amounts(vocabulary.words, calendar)
        yield from ((Claim("date", mention.text), calendar.knows(mention)) for mention in times)
        yield from ((Claim("number", figure.text), amounts.know(figure)) for figure in figures)


def _take_moments(text: str) -> tuple[list[dates.Mention], str]:
    low = lowered(text)
    times, rest = dates.read(low, set(PIECE.findall(low)))
    kept = (" " if now == " " else then for then, now in zip(text, rest, strict=True))
    return times, "".join(kept) if times else text


def without(summary: str, claims: Iterable[Claim]) -> str:
    """Return the summary without the sentences, and entries of its last lines, that make these claims."""
    wrong = [_plain(claim.text) for claim in claims]
    lines = (_kept_of(line, wrong) for line in summary.split("\n"))
    return "\n".join(line for line in lines if line is not None).strip()


def _kept_of(line: str, wrong: list[str]) -> str | None:
    """Return the rest of a line; None if nothing is left."""
    if listed := _LISTED.match(line):
        entries = listed[2].split(",")
        kept = [entry.strip() for entry in entries if not _claims(entry, wrong)]
        return line if len(kept) == len(entries) else f"{listed[1]} {', '.join(kept) or 'none'}"
    bullet = _BULLET.match(line)
    head, text = (line[: bullet.end()], line[bullet.end() :]) if bullet else ("", line)
    sentences = _SENTENCE.split(text)
    rest = [sentence for sentence in sentences if not _claims(sentence, wrong)]
    if len(rest) == len(sentences):
        return line
    return f"{head}{' '.join(rest)}" if rest else None


def _claims(sentence: str, wrong: list[str]) -> bool:
    text = _plain(sentence)
    return any(claim in text for claim in wrong)


def _plain(text: str) -> str:
    return f" {' '.join(_WORDS.findall(lowered(text).replace('’', chr(39))))} "
