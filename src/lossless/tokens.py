"""Estimate the tokens of a text without a tokenizer.

Every byte has a price, and the prices are summed at the speed of C. The sum is then corrected by a second
one, the tilt: indented text costs less than its spaces, base64 more than its letters. Both tables come
from `bench/fit_tokens.py`, which fits them to OpenAI's o200k over documentation in 15 languages, source code,
JSON, logs and generated texts. Most current models have no public tokenizer; the usage that their provider
reports corrects the estimate, see `Calibration`.

Error against o200k, median / 90th percentile in percent, on pieces of 60 to 6,000 bytes: of files held out of
the fit, and of the texts of `tests/cases/tokens`, which guided the choice of sources but were not fitted to.

              held out    tests                   held out    tests                   held out
    English   6.6 / 19    2.2 / 8     Japanese    4.2 / 15    6.3 / 17    German      7.2 / 17
    code      7.7 / 20    4.3 / 14    Russian     6.7 / 18    6.2 / 21    Korean      3.7 / 16
    JSON      4.9 / 13    4.9 / 12    emoji       5.0 / 12    3.8 / 11    logs        4.1 / 11
    Chinese   5.9 / 14    8.5 / 18    base64      2.4 / 7     3.5 / 8     hex         8.0 / 43

Weak: bare tables of numbers (20 / 38), single words (a token or two too many), and the styles of Chinese and
Russian, whose everyday prose comes out up to 15 % too low and documentation up to 15 % too high.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from zlib import adler32

from msgspec import Struct

from lossless import request_strings
from lossless.model import Extra, File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MESSAGE_TOKENS = 4
"""The tokens of the role and the delimiters of a message."""
PART_TOKENS = 3
"""The tokens of the delimiters of a part."""
IMAGE_TOKENS = 1_600
"""The tokens of a file whose data the model sees: about a large image. Its base64 is not counted as text."""

# Printed by bench/fit_tokens.py: one value for each byte, in 1/32 of a token; a tilt of 16 is none. No value
# is above 63, so that a block of 1,024 sums up below 65,521, where adler32 wraps.
_PRICES = bytes.fromhex("""
    171717171717171717181e171703171717171717171717171717171717171717
    0d180d0c193f211618090a141312160e151515151515151515151c0116081a1e
    1205050505050505050505050505050505050505050505050505051c1e0a2e15
    18040b000a0207000701080a03030506060c070404040b0a11051f1219000617
    01010000010010000400020300040a001302030800050f0b000a0c0500020703
    0400030104050a04000300070000000002000a08040302000006020004010000
    1b1b1b1b1c1c0606060606060606090906030d0d0d0d0d0d0606060606060606
    010217120e140f1013140c0c0c0c131337373737373737373737373737373737
""")
_TILTS = bytes.fromhex("""
    1313131313131313130d0f13131c131313131313131313131313131313131313
    1d091018071a0d06190f1a080c0c1d1d0b0b0b0b0b0b0b0b0b0b0d111c1b1617
    1909090909090909090909090909090909090909090909090909090d0e0f0019
    110c0d0d0d140b06030c0008070a0b0f0700100a100e06030605060a0e0b0e13
    0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f
    0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f
    0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d
    0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d
""")
_BLOCK = 1_024
_SAMPLE = 256
_LONGEST = 128


def estimate(text: str) -> int:
    """Estimate the tokens of a text; 0 only for the empty text."""
    return estimate_bytes(text.encode("utf-8", "surrogatepass"))


def estimate_bytes(data: bytes) -> int:
    """Estimate the tokens of UTF-8 bytes."""
    # The low half of adler32 is 1 + the sum of the bytes. Unlike bytes.count and translate with deletion it
    # does not branch on the data, so its speed does not depend on the text.
    size = len(data)
    if size <= _BLOCK:
        price = adler32(data.translate(_PRICES)) & 0xFFFF
        tilt = (adler32(data.translate(_TILTS)) & 0xFFFF) - 16 * size
    else:
        price, tilt = _sums(data)
    if tilt > 0:
        price -= tilt
    elif tilt < -3 * size:
        price -= 4 * (tilt + 3 * size)
    # No tokenizer has a token for more than this many spaces or dashes.
    return max((price + 32) // 32 if price > 1 else min(1, size), size // _LONGEST)


def _sums(data: bytes) -> tuple[int, int]:
    """Return price and tilt of a long text, the tilt from a quarter of it, enough to distinguish code from base64."""
    price = tilt = sampled = 0
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        price += (adler32(block.translate(_PRICES)) & 0xFFFF) - 1
        sample = block[:_SAMPLE]
        tilt += (adler32(sample.translate(_TILTS)) & 0xFFFF) - 1
        sampled += len(sample)
    return price, (tilt - 16 * sampled) * len(data) // sampled


def truncate(text: str, max_tokens: int) -> str:
    """Cut a text to at most `max_tokens`, by bisection."""
    if max_tokens <= 0:
        return ""
    if estimate(text) <= max_tokens:
        return text
    fits, exceeds = 0, len(text)
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if estimate(text[:middle]) <= max_tokens:
            fits = middle
        else:
            exceeds = middle
    return text[:fits]


class Calibration(Struct, frozen=True):
    """The relation between a model's own token counts and our estimates.

    The ratio is the median slope between the latest observations whose estimates differ, and the overhead
    (a system prompt, tool schemas) is the median of the remaining difference, so that a few outliers
    change neither. If all estimates are similar, the two cannot be separated: a count up to 50 % above the
    estimate is then attributed to the ratio, a higher one to the overhead.
    """

    ratio: float = 1.0
    overhead: float = 0.0
    samples: int = 0
    observed: tuple[tuple[int, int], ...] = ()
    """The latest pairs of estimated and reported tokens."""

    def observe(self, estimated: int, reported: int) -> Calibration:
        """Return the calibration after one more turn; an implausible count changes nothing."""
        if estimated <= 0 or reported <= 0:
            return self
        observed = (*self.observed, (estimated, reported))[-_LATEST:]
        slopes = [
            (count - other_count) / (guess - other_guess)
            for at, (guess, count) in enumerate(observed)
            for other_guess, other_count in observed[:at]
            if abs(guess - other_guess) > _ALIKE * max(guess, other_guess)
        ]
        average = _plausible(_median([count / guess for guess, count in observed]))
        ratio = average if average <= _RATIO_ALONE else 1.0
        if slopes:
            ratio = _plausible(_median(slopes))
        overhead = _median([count - ratio * guess for guess, count in observed])
        if overhead < 0:  # there is no overhead, so the ratio explains the difference
            ratio, overhead = average, 0.0
        return Calibration(ratio=ratio, overhead=overhead, samples=self.samples + 1, observed=observed)

    def apply(self, estimated: int) -> int:
        """Return the count that the provider would report for an estimate."""
        return max(0, round(self.ratio * estimated + self.overhead))

    def factor(self, applied: float = 1.0) -> float:
        """Return the divisor of budgets: the ratio in steps of 5 %, at least 0.5 and at most 2.

        It stays as `applied` before until the ratio is more than two steps away, so that the context does not change
        with every turn; and while all prompts have nearly the same length, which says little about the ratio.
        """
        slopes = [
            (count - other_count) / (guess - other_guess)
            for guess, count in self.observed
            for other_guess, other_count in self.observed
            if guess >= _APART * other_guess
        ]
        if len(slopes) < _ENOUGH or abs((ratio := _median(slopes)) - applied) <= _BAND:
            return applied
        return round(min(max(round(ratio / _STEP) * _STEP, _LEAST), _MOST), 2)


def reported(usage: object) -> int:
    """Return the prompt tokens in the `usage` of an Anthropic, OpenAI or pi reply, as dict or object.

    Tokens read from a cache or written to it count. 0 if it has none of the known fields.
    """

    def value(name: str) -> int | None:
        found = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    if (prompt := value("prompt_tokens")) is not None:
        return prompt
    for name, *cached in _COUNTED:
        if (fresh := value(name)) is not None:
            return fresh + sum(value(each) or 0 for each in cached)
    return 0


_COUNTED = (
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    ("input", "cacheRead", "cacheWrite"),
)
_ENOUGH, _APART = 6, 1.5
"""The pairs of prompts needed for a ratio, one prompt at least so many times as long as the other."""
_STEP, _BAND, _LEAST, _MOST = 0.05, 0.1001, 0.5, 2.0


_LATEST = 12
_ALIKE = 0.1  # of the larger: closer estimates say more about noise than about the slope
_RATIO_ALONE = 1.5


def _plausible(ratio: float) -> float:
    """Limit a ratio: every tokenizer counts between a quarter and four times as many tokens as o200k."""
    return min(max(ratio, 0.25), 4.0)


def _median(values: list[float]) -> float:
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def message_tokens(message: Message) -> int:
    """Estimate the tokens of a message as sent: text, reasoning, calls, results, files and extra fields."""
    name = estimate(message.name) if message.name else 0
    beside = _noted_tokens(message.extra) if message.extra else 0
    return MESSAGE_TOKENS + name + beside + sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case Text(text):
            tokens = estimate(text)
        case Reasoning(text, signature):
            # Each contains the same reasoning: as text, encrypted, and as its format writes it.
            tokens = max(estimate(text), _sealed_tokens(signature or ""), _noted_tokens(part.extra))
            return PART_TOKENS + tokens
        case ToolCall(_, name, arguments):
            tokens = estimate(name) + estimate(arguments)
        case ToolResult(_, parts):
            tokens = sum(map(_part_tokens, parts))
        case File():
            tokens = _file_tokens(part)
        case Opaque(_, data):
            tokens = _value_tokens(data)
    return PART_TOKENS + tokens + (_noted_tokens(part.extra) if part.extra else 0)


def _file_tokens(file: File) -> int:
    url = file.url or ""
    inline = file.data or (url.partition(",")[2] if url.startswith("data:") else "")
    if inline:
        text = request_strings.attached_text(file)
        return IMAGE_TOKENS if text is None else estimate(file.name or "") + estimate(text)
    return estimate(file.name or "") + (0 if url.startswith("data:") else estimate(url))


def _noted_tokens(extra: Extra) -> int:
    return sum(_value_tokens(note.value, note.key) for note in request_strings.notes(extra))


def _value_tokens(value: object, key: str = "") -> int:
    """Estimate the tokens of a JSON value; encrypted values and pictures do not count by their characters."""
    tokens, hidden = 0, dict[request_strings.Path, str]()
    for found in request_strings.strings(value, key=key):
        if found.kind in ("sealed", "media") and len(found.path) <= _DEEPEST:
            hidden[found.path] = ""
            tokens += _sealed_tokens(found.text) if found.kind == "sealed" else IMAGE_TOKENS
    shown = request_strings.replace_at(value, hidden) if hidden else value
    return tokens + estimate(key) + estimate(json.dumps(shown, ensure_ascii=False, default=str))


def _sealed_tokens(text: str) -> int:
    """Estimate the tokens of the plain text behind an encrypted one."""
    return max(0, len(text) - _SEAL) * 3 // 16


_SEAL = 640
_DEEPEST = 64
