"""How many tokens a text costs, without a tokenizer. (First version; the weights are being refitted.)"""

from __future__ import annotations

import json

from msgspec import Struct

from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4
PART_TOKENS = 2

_LOWER = bytes(range(ord("a"), ord("z") + 1)) + bytes(range(0x80, 0xC0))


def _table() -> bytes:
    table = bytearray(b"o" * 256)
    for low, high, mark in (
        (0x30, 0x39, "d"),
        (0x41, 0x5A, "u"),
        (0xC0, 0xCF, "2"),
        (0xD0, 0xD3, "y"),
        (0xD4, 0xE1, "x"),
        (0xE2, 0xE2, "s"),
        (0xE3, 0xE3, "k"),
        (0xE4, 0xED, "h"),
        (0xEE, 0xEF, "p"),
        (0xF0, 0xFF, "e"),
    ):
        table[low : high + 1] = mark.encode() * (high - low + 1)
    table[0x20] = ord(" ")
    table[0x09] = table[0x0A] = ord("n")
    return bytes(table)


_TABLE = _table()


def estimate(text: str) -> int:
    """The tokens of a text, near what a current tokenizer would count."""
    return estimate_bytes(text.encode("utf-8", "surrogatepass"))


def estimate_bytes(data: bytes) -> int:
    """`estimate` for a caller who already holds the UTF-8 bytes."""
    if not data:
        return 0
    rest = data.translate(_TABLE, _LOWER)
    count = rest.count
    upper, digit, space, line, other = count(b"u"), count(b"d"), count(b" "), count(b"n"), count(b"o")
    ascii_rest = upper + digit + space + line + other
    wide = len(rest) - ascii_rest
    lower = len(data) - len(rest)
    total = 0.5
    if wide:
        lower -= len(data) - len(data.decode("utf-8", "replace")) if wide else 0
        total += (
            1.152 * count(b"2")
            + 0.269 * count(b"y")
            + 0.7 * count(b"x")
            + 1.184 * count(b"s")
            + 0.72 * (count(b"k") + count(b"h"))
            + 0.958 * count(b"p")
            + 1.932 * count(b"e")
        )
        lower = max(lower, 0)
    if (upper + digit) > 0.3 * (lower + len(rest)):
        total += 0.717 * lower + 0.756 * upper + 0.49 * digit
    else:
        total += 0.223 * lower + 0.387 * upper + 0.924 * digit + 0.113 * space + 0.296 * line + 0.52 * other
    return int(total) or 1


def truncate(text: str, max_tokens: int) -> str:
    """The longest beginning of a text that costs at most `max_tokens`."""
    if max_tokens <= 0:
        return ""
    if estimate(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        if estimate(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle
    return text[:low]


class Calibration(Struct, frozen=True):
    """What a model's own counts say about our estimates."""

    ratio: float = 1.0
    overhead: float = 0.0
    samples: int = 0

    def observe(self, estimated: int, reported: int) -> Calibration:
        if estimated <= 0 or reported <= 0:
            return self
        ratio = self.ratio + (reported / estimated - self.ratio) / (self.samples + 1)
        return Calibration(ratio, self.overhead, min(self.samples + 1, 8))

    def apply(self, estimated: int) -> int:
        return max(0, round(self.ratio * estimated + self.overhead))


def message_tokens(message: Message) -> int:
    """What a message costs as the model sees it: texts, thinking, tool calls and results, files."""
    return MESSAGE_TOKENS + sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case Text(text) | Reasoning(text):
            return PART_TOKENS + estimate(text)
        case ToolCall(_, name, arguments):
            return PART_TOKENS + estimate(name) + estimate(arguments)
        case ToolResult(_, parts):
            return PART_TOKENS + sum(map(_part_tokens, parts))
        case File(data=data, name=name, url=url):
            return PART_TOKENS + (IMAGE_TOKENS if data is not None else estimate(name or "") + estimate(url or ""))
        case Opaque(_, data):
            return PART_TOKENS + estimate(json.dumps(data, ensure_ascii=False))
