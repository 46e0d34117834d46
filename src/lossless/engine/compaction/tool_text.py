"""Write the arguments and the output of tools briefly, for a summariser.

Pure. Most of a long session is tool traffic, and little of it matters later. Arguments become readable text on one line. Of
a long output the beginning and the end are kept, errors, lines about the newest question of the user, and lines unlike the
others; notes give the number of lines left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

from lossless.engine.compaction.encoded_data import without_encoded
from lossless.store import jsontext
from lossless.tokens import estimate

CALL_TOKENS = 200
"""The tokens of the arguments of one call."""
OUTPUT_TOKENS = 400
"""The tokens of one output."""
GROWTH = 3
"""The factor of the limit for an output that its turn is about."""

_SLACK = 1.25
"""The factor up to which a text is left as it is: little would be gained."""
_NEWLINE = " ⏎ "
"""The sign for the end of a line in arguments."""
_INSIDE = "\x1f"
"""The sign for the end of a line within a record, while lines are chosen."""
_HEAD, _TAIL, _ALARMED, _RARE, _ASKED = 0.25, 0.2, 0.2, 0.2, 0.6
"""The shares of the limit for each kind of line."""
_PIECE = 60
"""The tokens of a piece of a long line."""
_NOTE = 9
"""The tokens of a note."""
_MOST_ARGUMENTS = 24
_MOST_OF_KEY = 60
_MOST_FILES = 20
_MOST_OF_STRING = 160
_MOST_OF_QUESTION = 600
_MOST_WORDS = 5
"""The words of a question that are looked up in one output."""
_MOST_ALARMS = 8
"""The lines of one alarm that are considered."""
_JSON_DEPTH = 6
_SAMPLE = 500
"""The characters at each end of a text from which its tokens are estimated."""

_SPACED = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))
"""A table that leaves nothing but words."""
_ALARMS = frozenset(
    b"""error errors fail failed failure failures fails exception traceback fatal panic panicked denied refused rejected
    invalid warning conflict cannot abort aborted timeout unavailable""".split()
    + [word.encode() for word in ("échec", "falló", "falha", "ошибка", "сбой", "fehler", "fehlgeschlagen", "erreur")]
)
_UNSPACED_ALARMS = ("错误", "失败", "エラー", "失敗")
_EXIT = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? [1-9]")
_CHANGES = ("+", "-", "@@ ", "diff --git ", "*** ")
_CHANGED_FILES = re.compile(
    r"\*\*\* (?:Add|Update|Delete) File: [^\n]{1,300}|(?:^|[;&|] ?)(?:git )?(?:rm|mv|touch) [^\n;&|]{1,200}", re.M
)
_LABEL = re.compile(r"\s*[\"']?[^\W\d_][^:=]{0,60}[\"']?\s?[:=]\s?\S")
_RECORD = re.compile(r"\{[^{}\n]{0,80}\n[^{}]{1,400}\}")
_BREAKS = ("},", "\\n", ". ", "。", "? ", "; ", ", ", "，", " ")
_ARGUMENT = re.compile(r"; (?=[\w.-]{1,60}: )")
_SHAPELESS = bytes(byte for byte in range(256) if byte != 10 and chr(byte) not in ":=|()[]{}<>#*+@;!?%$")
"""The bytes that do not count for the shape of a line."""
_DIGIT = re.compile(r"\d")
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
"""Scripts that put no spaces between words."""


def call_text(arguments: str) -> str:
    """Return the arguments of a call as readable text on one line."""
    try:
        value = jsontext.loads(arguments) if arguments else None
    except (ValueError, RecursionError):
        value = arguments
    chars = _chars(arguments, CALL_TOKENS)
    if not isinstance(value, dict):
        text = _argument(value) if value else ""
        return _one_line(_cut(text, int(CALL_TOKENS * chars)) if chars else text) or "no arguments"
    if chars:
        return _long_call(value, chars)
    texts = [each if isinstance(each, str) else _argument(each) for each in value.values()]
    if "; " in arguments:
        texts = [_ARGUMENT.sub(";", text) for text in texts]
    return _one_line("; ".join(map(": ".join, zip(value, texts, strict=True)))) or "no arguments"


def _long_call(arguments: dict[str, Any], chars: float) -> str:
    names = list(arguments)[:_MOST_ARGUMENTS]
    texts = [_argument(arguments[name]) for name in names]
    limits = _shares([len(text) for text in texts], int(CALL_TOKENS * chars))
    shown = [
        f"{name[:_MOST_OF_KEY]}: {_ARGUMENT.sub(';', _cut(text, limit))}"
        for name, text, limit in zip(names, texts, limits, strict=True)
    ]
    more = len(arguments) - len(names)
    return _one_line("; ".join([*shown, f"[... {more:,} arguments left out ...]"] if more else shown))


def _chars(text: str, limit: int) -> float:
    """Return the characters of a token if a text is longer than the limit, else 0; estimated from both ends."""
    size = len(text)
    if size <= limit or (size <= 2 * limit and text.isascii()):
        return 0.0
    sample = text if size <= 2 * _SAMPLE else text[:_SAMPLE] + text[-_SAMPLE:]
    chars = len(sample) / estimate(sample)
    return chars if size > _SLACK * limit * chars else 0.0


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return jsontext.dumps(_trimmed(value, _JSON_DEPTH) if isinstance(value, list | dict) else value)


def _trimmed(value: Any, depth: int) -> Any:
    """Return a JSON value with its long strings cut."""
    match value:
        case str() if len(value) > _MOST_OF_STRING:
            text = without_encoded(value)
            left = len(text) - _MOST_OF_STRING
            return f"{text[:_MOST_OF_STRING]} [... {left:,} characters left out ...]" if left > 0 else text
        case list() | dict() if not depth:
            return "..."
        case list():
            return [_trimmed(each, depth - 1) for each in value]
        case dict():
            return {key: _trimmed(each, depth - 1) for key, each in value.items()}
        case _:
            return value


def _one_line(text: str) -> str:
    return text if text.isprintable() else _NEWLINE.join(filter(None, map(str.strip, text.splitlines())))


def _shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Return a limit for each size, so that the small ones stay whole and the large ones share the rest."""
    limits = list(sizes)
    left, waiting = limit, len(sizes)
    for nth in sorted(range(len(sizes)), key=lambda nth: sizes[nth]):
        limits[nth] = min(sizes[nth], max(1, left // waiting))
        left, waiting = left - limits[nth], waiting - 1
    return limits


def _cut(text: str, limit: int) -> str:
    """Return the beginning and the end of an argument, and the lines between them that name a file they change."""
    if len(text) <= limit:
        return text
    text = without_encoded(text)
    space = max(24, limit - 24)
    first, last = 2 * space // 3, max(2 * space // 3, len(text) - space // 3)
    # Whole lines, if some of them fit.
    first = text.rfind("\n", first // 2, first) + 1 or first
    last = text.find("\n", last, (last + len(text)) // 2) + 1 or last
    gap = text[first:last]
    if len(gap) < 24:
        return text
    lines = gap.count("\n")
    left_out = f"[... {lines:,} lines left out ...]" if lines > 1 else f"[... {len(gap):,} characters left out ...]"
    files = dict.fromkeys(found.strip(" ;&|") for found in _CHANGED_FILES.findall(gap))
    named = "".join([f"{file}\n" for file in islice(files, _MOST_FILES)])
    return f"{text[:first]}\n{left_out}\n{named}{text[last:]}"


def output_text(text: str, question: Callable[[], str], *, failed: bool = False) -> str:
    """Return the output of a tool, shortened if it is long.

    It may be three times as long if it failed, contains an error or a diff, or is a table about the question.
    """
    chars = _chars(text, OUTPUT_TOKENS)
    return _Output(text, chars).shortened(failed, question()) if chars else text


class _Output:
    """A long output by its lines. A small record of JSON is one line, and a long line several."""

    def __init__(self, text: str, chars: float) -> None:
        if text[0] in "{[":
            text = _RECORD.sub(lambda found: found[0].replace("\n", _INSIDE), text)
        lines = text.split("\n")
        sizes = [len(line) + 1 for line in lines]
        width = int(_PIECE * chars)
        self.is_wrapped = max(sizes) > 2 * width
        if self.is_wrapped:
            # First without bytes in base64: their pieces would not look like it.
            whole = without_encoded(text).split("\n")
            lines = [part for line in whole for part in (_wrap(line, width) if len(line) > width else (line,))]
            text, sizes = "\n".join(lines), [len(line) + 1 for line in lines]
        self.chars = chars
        """The characters of a token."""
        self.lines, self.sizes = lines, sizes
        self.ends = list(accumulate(sizes))
        self.low = text.lower()
        data = self.low.encode("utf-8", "surrogatepass")
        self.words = data.translate(_SPACED).split()
        self.shapes = data.translate(None, _SHAPELESS).split(b"\n")
        """The marks of punctuation in each line."""
        self.counted = Counter(self.shapes)

    def shortened(self, failed: bool, question: str) -> str:
        """Return the lines to keep, with notes in place of the others."""
        wanted, pairs = _words_of(question[:_MOST_OF_QUESTION])
        found = wanted.intersection(self.words)
        alarms = found & _ALARMS
        asked = self.about([word.decode() for word in found - _ALARMS if len(word) > 2], pairs)
        is_diff = "\n@@ -" in self.low
        is_central = failed or is_diff or self.is_error(alarms) or (asked and self.is_table())
        limit = OUTPUT_TOKENS * self.chars * (GROWTH if is_central else 1)
        ends, last = self.ends, len(self.lines)
        middle = range(bisect_right(ends, limit * _HEAD), bisect_left(ends, ends[-1] - limit * _TAIL))
        kept, left = set[int](), limit * (1 - _HEAD - _TAIL)
        if asked:
            self.take(kept, middle, asked, GROWTH * OUTPUT_TOKENS * self.chars * _ASKED)
        if is_diff:
            left -= self.take(kept, middle, [nth for nth in middle if self.lines[nth].startswith(_CHANGES)], left)
        if alarms or pairs:
            left -= self.take(kept, middle, self.about_alarms(alarms), min(left, limit * _ALARMED))
        left -= self.take(kept, middle, self.rare(), min(left, limit * _RARE))
        left -= self.take(kept, middle, [each for nth in asked for each in (nth - 1, nth + 1)], left / 2)
        start = ends[middle.start - 1] if middle.start else 0
        first = min(bisect_right(ends, start + left), max(middle.start, middle.stop))
        return self.joined([(0, first), *((nth, nth + 1) for nth in sorted(kept) if nth >= first), (middle.stop, last)])

    def take(self, kept: set[int], middle: range, chosen: Iterable[int], most: float) -> float:
        """Keep chosen lines that fit into `most` characters; return the number used."""
        used, note, sizes = 0.0, _NOTE * self.chars, self.sizes
        for nth in chosen:
            if nth in middle and nth not in kept:
                cost = sizes[nth] if nth - 1 in kept or nth + 1 in kept else sizes[nth] + note
                if used + cost <= most:
                    kept.add(nth)
                    used += cost
        return used

    def joined(self, ranges: Iterable[tuple[int, int]]) -> str:
        """Return ranges of lines with notes between them."""
        shown, at, lines = list[str](), 0, self.lines
        for start, end in ranges:
            if at < start:
                gap = "\n".join(lines[at:start])
                shown.append(gap if len(gap) <= _NOTE * self.chars else _note(gap, self.is_wrapped))
            shown += lines[max(at, start) : end]
            at = max(at, end)
        text = "\n".join(shown)
        return text.replace(_INSIDE, "\n") if _INSIDE in text else text

    def about(self, words: list[str], pairs: Iterable[str]) -> list[int]:
        """Return the lines with distinctive words of a question, the best first."""
        low = self.low
        words.sort(key=len, reverse=True)
        if pairs:
            words += [pair for pair in pairs if pair in low]
        scores, most = dict[int, float](), max(3, len(self.lines) // 6)
        for word in words[:_MOST_WORDS]:
            lines = self.containing(word, most + 1)
            if len(lines) <= most:
                for nth in lines:
                    scores[nth] = scores.get(nth, 0.0) + len(lines) ** -0.5
        best = max(scores.values(), default=0.0)
        return sorted((nth for nth in scores if 2 * scores[nth] >= best), key=lambda nth: (-scores[nth], nth))

    def about_alarms(self, alarms: Iterable[bytes]) -> list[int]:
        """Return the lines about errors, those first that are the first of their shape."""
        signs = [word.decode() for word in alarms]
        if not self.low.isascii():
            signs += _UNSPACED_ALARMS
        found = sorted({nth for sign in signs for nth in self.containing(sign, _MOST_ALARMS)})
        order, seen = list[tuple[int, int]](), Counter[bytes]()
        for nth in found:
            order.append((seen[self.shapes[nth]], nth))
            seen[self.shapes[nth]] += 1
        return [nth for _, nth in sorted(order)]

    def containing(self, word: str, most: int) -> list[int]:
        """Return the first lines that contain a word."""
        low, at, nth, lines = self.low, 0, 0, list[int]()
        while len(lines) < most and (found := low.find(word, at)) >= 0:
            nth += low.count("\n", at, found)
            lines.append(nth)
            at = low.find("\n", found)
            if at < 0:
                break
        return lines

    def rare(self) -> list[int]:
        """Return the lines unlike the others, labelled values first."""
        few = max(1, len(self.lines) // 25)
        rare = {shape for shape, count in self.counted.items() if count <= few}
        chosen = [nth for nth, shape in enumerate(self.shapes) if shape in rare]
        labelled = [nth for nth in chosen if _LABEL.match(self.lines[nth])]
        if 3 * len(chosen) > len(self.lines):  # most lines are unlike the others, as in prose
            return labelled if 5 * len(labelled) <= len(self.lines) else []
        return [*labelled, *chosen]

    def is_error(self, alarms: Set[bytes]) -> bool:
        """Return True if the output is a stack trace, or ends with the exit code of a failure."""
        low = self.low
        end = low[-100:]
        if "error: " in low or ("exit" in end and _EXIT.search(end)):
            return True
        return bool(alarms) and ("traceback (most" in low or "exception: " in low or "panicked at" in low)

    def is_table(self) -> bool:
        """Return True if most lines have the same shape, with figures or columns."""
        shape, count = self.counted.most_common(1)[0]
        sample = self.lines[len(self.lines) // 2]
        return 2 * count >= len(self.lines) and (b"|" in shape or _DIGIT.search(sample) is not None)


def _note(gap: str, is_wrapped: bool) -> str:
    """Return the note for lines that are left out."""
    count = gap.count("\n") + gap.count(_INSIDE) + 1
    return (
        f"[... {len(gap):,} characters left out ...]"
        if is_wrapped or count == 1
        else f"[... {count:,} lines left out ...]"
    )


def _wrap(line: str, width: int) -> Iterator[str]:
    """Yield the pieces of a long line, split after a record, a sentence, a comma or at a space."""
    start = 0
    while len(line) - start > width:
        end = start + width
        cuts = (line.rfind(sign, start + width // 2, end) + len(sign) for sign in _BREAKS)
        cut = next((cut for cut in cuts if cut > start + width // 2), end)
        yield line[start:cut]
        start = cut
    yield line[start:]


@lru_cache(maxsize=16)
def _words_of(question: str) -> tuple[frozenset[bytes], tuple[str, ...]]:
    """Return the words of a question and of alarms; and pairs of signs, for scripts without spaces."""
    low = question.lower()
    words = _ALARMS.union(low.encode("utf-8", "surrogatepass").translate(_SPACED).split())
    if low.isascii():
        return words, ()
    signs = _UNSPACED.findall(low)
    return words, tuple(dict.fromkeys(sign[at : at + 2] for sign in signs for at in range(len(sign) - 1)))
