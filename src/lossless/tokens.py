"""How many tokens a text costs, without a tokenizer.

Every byte has a price, and the prices are summed at the speed of C. The sum is then corrected by a second
one, the tilt: indented text is cheaper than its spaces, base64 dearer than its letters. Both tables come
from `bench/fit_tokens.py`, which fits them to OpenAI's o200k over documentation in 15 languages, source code,
JSON, logs and invented texts. Most current models have no public tokenizer; what their provider reports
corrects the rest, see `Calibration`.
@@TABLE@@
"""

from __future__ import annotations

import json
from zlib import adler32

from msgspec import Struct

from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MESSAGE_TOKENS = 4
"""What the role and the borders of a message cost."""
PART_TOKENS = 3
"""What the frame of a part costs."""
IMAGE_TOKENS = 1_600
"""What a file costs whose data the model sees: about a large image. Its base64 is never read as text."""

# Printed by bench/fit_tokens.py: one value for each byte, in 1/32 of a token; a tilt of 16 is none. No value
# is above 63, so that a block of 1,024 sums up below 65,521, where adler32 begins to wrap.
_PRICES = bytes.fromhex("""
    161616161616161616181e161604161616161616161616161616161616161616
    0d180d0d193f201718090a151412150d151515151515151515151b011608191d
    1206060606060606060606060606060606060606060606060606061c1e0a2c14
    18040c010a02080006010a0b03030506060f070404040b0b11051f1319000716
    0101000001000f000401020300030a001202040800050d0b000a0b0500020703
    0400030104050904000300060000010002000a08040302000006020005010000
    1b1b1b1b1c1c0808080808080808090906030c0c0c0c0c0c0606060606060606
    020217120f140f1013140c0c0c0c141437373737373737373737373737373737
""")
_TILTS = bytes.fromhex("""
    1313131313131313130d0f13131c131313131313131313131313131313131313
    1d09101808190d07190f1a080c0d1d1c0b0b0b0b0b0b0b0b0b0b0d111c1b1616
    1909090909090909090909090909090909090909090909090909090d0e0e0019
    110c0d0d0d140b06030d000807090b0f0700100a100e06030605060a0f0b0e13
    0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f
    0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f
    0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d
    0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d
""")
_BLOCK = 1_024
_SAMPLE = 256


def estimate(text: str) -> int:
    """About how many tokens a text costs; 0 only for the empty text."""
    return estimate_bytes(text.encode("utf-8", "surrogatepass"))


def estimate_bytes(data: bytes) -> int:
    """`estimate` for a caller who already holds the UTF-8 bytes."""
    # The low half of adler32 is 1 + the sum of the bytes. Unlike bytes.count and translate with deletion it
    # does not branch on the data, so it costs the same for a text the processor has never seen.
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
    return (price + 31) // 32 if price > 1 else min(1, size)


def _sums(data: bytes) -> tuple[int, int]:
    """Price and tilt of a long text, the tilt from a quarter of it: enough to tell code from base64."""
    price = tilt = sampled = 0
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        price += (adler32(block.translate(_PRICES)) & 0xFFFF) - 1
        sample = block[:_SAMPLE]
        tilt += (adler32(sample.translate(_TILTS)) & 0xFFFF) - 1
        sampled += len(sample)
    return price, (tilt - 16 * sampled) * len(data) // sampled


def truncate(text: str, max_tokens: int) -> str:
    """The longest beginning of a text that bisection finds to cost at most `max_tokens`."""
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
    """What a model's own counts say about our estimates.

    The ratio is the median slope between the latest observations whose estimates differ, and the overhead
    (a system prompt, tool schemas) the median of what the ratio leaves unexplained, so a few wild counts
    change neither. Until estimates differ, a count up to half above or below the estimate is put down to
    the ratio, and a larger one to the overhead.
    """

    ratio: float = 1.0
    overhead: float = 0.0
    samples: int = 0
    observed: tuple[tuple[int, int], ...] = ()
    """The latest (estimated, reported) pairs."""

    def observe(self, estimated: int, reported: int) -> Calibration:
        """The calibration after one more turn: what we estimated for the prompt, what the provider counted."""
        if estimated <= 0 or reported <= 0:
            return self
        observed = (*self.observed, (estimated, reported))[-_LATEST:]
        slopes = [
            (reported - before) / (estimated - smaller)
            for at, (estimated, reported) in enumerate(observed)
            for smaller, before in observed[:at]
            if abs(estimated - smaller) > _DIFFERENT * max(estimated, smaller)
        ]
        through_zero = _median([reported / estimated for estimated, reported in observed])
        if slopes:
            ratio = min(max(_median(slopes), _LEAST), _MOST)
        else:
            ratio = max(through_zero, _LEAST) if through_zero <= 2 - _LEAST else 1.0
        overhead = _median([reported - ratio * estimated for estimated, reported in observed])
        if overhead < 0:  # nothing is sent on top: the whole difference is the ratio's
            ratio, overhead = min(max(through_zero, _LEAST), _MOST), 0.0
        return Calibration(ratio, overhead, self.samples + 1, observed)

    def apply(self, estimated: int) -> int:
        """What the provider would count for a prompt of that estimate."""
        return max(0, round(self.ratio * estimated + self.overhead))


_LATEST = 12
_DIFFERENT = 0.1  # of the larger one: closer estimates say more about noise than about the slope
_LEAST, _MOST = 0.5, 2.5  # no tokenizer in use is farther from o200k


def _median(values: list[float]) -> float:
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def message_tokens(message: Message) -> int:
    """What a message costs as the model sees it: its words, thinking, tool calls and results, and its files."""
    name = estimate(message.name) if message.name else 0
    return MESSAGE_TOKENS + name + sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case Text(text) | Reasoning(text):
            tokens = estimate(text)
        case ToolCall(_, name, arguments):
            tokens = estimate(name) + estimate(arguments)
        case ToolResult(_, parts):
            tokens = sum(map(_part_tokens, parts))
        case File(_, name, data, url):
            seen = data is not None or (url or "").startswith("data:")
            tokens = IMAGE_TOKENS if seen else estimate(name or "") + estimate(url or "")
        case Opaque(_, data):
            tokens = estimate(json.dumps(data, ensure_ascii=False, default=str))
    return PART_TOKENS + tokens
