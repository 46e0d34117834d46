"""How the weights of `lossless.tokens` were obtained.

    python bench/fit_tokens.py english=DIR english=FILE code=DIR json=DIR chinese=DIR ...

Each argument is one source of one class: a directory or a file of this machine (documentation packages of
a distribution, standard libraries, manual pages, packages of a registry). Emoji, base64, hex, logs, tables
of numbers and replies of APIs are generated. Pieces of 60 to 6,000 bytes are cut out of them, every source
of a class weighing as much as the others, and the weights minimise the median error relative to what o200k
counts. It prints the weights in thousandths of a token, then the error per class on files it did not fit on.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
import random
import re
import sys
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from bpe_openai import get_encoding  # type: ignore[import-untyped]  # ships no types

from lossless.tokens import estimate

PIECES_PER_SOURCE = 120
IMPORTANCE = {"english": 2.0, "code": 2.0, "json": 2.0, "chinese": 1.0, "japanese": 1.0, "russian": 1.0}
IMPORTANCE |= {"emoji": 1.0, "base64": 1.0}
MINOR = 0.3


class Piece(NamedTuple):
    kind: str
    source: str
    file: str
    text: str

    @property
    def held_out(self) -> bool:
        """By file: two pieces of one file never stand on both sides."""
        return zlib.crc32(self.file.encode()) % 10 < 3


# Reading ------------------------------------------------------------------------------------------

CODE = {".py", ".ts", ".tsx", ".js", ".mjs", ".c", ".h", ".hpp", ".cpp", ".go", ".rs", ".sh", ".sql", ".txt"}
BINARY = {".png", ".jpg", ".gif", ".svg", ".pdf", ".dat", ".u8", ".css", ".js", ".map", ".inv", ".zip"}
SCRIPTS = {
    "chinese": re.compile(r"[\u4e00-\u9fff]"),
    "japanese": re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"),
    "russian": re.compile(r"[\u0400-\u04ff]"),
    "korean": re.compile(r"[\uac00-\ud7af]"),
}
MARKUP = re.compile(r"<(script|style|head)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.S | re.I)
BLANK_LINES = re.compile(r"[ \t]*\n\s*\n\s*")
ROFF_ESCAPE = re.compile(r"\\f(?:\[\w*\]|\(?\w)|\\[&|^%]|\\s[-+]?\d")


def readable(path: Path) -> str:
    """A file as a person reads it, without markup and troff requests; "" if it is not text."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
        path = path.with_suffix("")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    if "\0" in text:
        return ""
    if path.suffix in {".html", ".htm"}:
        return BLANK_LINES.sub("\n\n", html.unescape(MARKUP.sub("", text))).strip()
    if re.fullmatch(r"\.\d\w*", path.suffix):
        lines = (re.sub(r"^\.[BI] ", "", line) for line in text.splitlines())
        text = "\n".join(line for line in lines if not line.startswith((".", "'")))
        return ROFF_ESCAPE.sub("", text).replace("\\-", "-").replace("\\e", "\\").strip()
    return text


def files(kind: str, source: Path) -> list[Path]:
    if source.is_file():
        return [source]

    def wanted(path: Path) -> bool:
        if kind == "code":
            return path.suffix in CODE
        if kind == "json":
            return path.suffix == ".json"
        return path.suffix not in BINARY

    paths = (path for path in source.rglob("*") if wanted(path) and path.is_file() and not path.is_symlink())
    return sorted(path for path in paths if 200 < path.stat().st_size < 3_000_000)


def size(rng: random.Random) -> int:
    return int(math.exp(rng.uniform(math.log(60), math.log(6_000))))


def cut(text: str, length: int) -> str:
    return text[:length].encode()[:length].decode(errors="ignore")


def pieces(kind: str, source: Path) -> Iterator[Piece]:
    """Pieces of a source, beginning where a line does, from as many of its files as there are."""
    rng = random.Random(7)
    script = SCRIPTS.get(kind)

    def foreign(text: str) -> bool:
        """An untranslated page?"""
        return script is not None and len(script.findall(text)) < 0.3 * len(text.replace(" ", ""))

    paths = files(kind, source)
    rng.shuffle(paths)
    per_file = max(2, PIECES_PER_SOURCE // max(1, len(paths)) + 1)
    found = 0
    for path in paths:
        text = readable(path)
        if len(text) < 100 or foreign(text):
            continue
        for _ in range(per_file):
            start = text.rfind("\n", 0, rng.randrange(len(text) - 60)) + 1
            piece = cut(text[start:], size(rng))
            if len(piece.encode()) < 60 or foreign(piece):
                continue
            yield Piece(kind, str(source), str(path), piece)
            found += 1
            if found == PIECES_PER_SOURCE:
                return


# Inventing ----------------------------------------------------------------------------------------

POPULAR = "😂 ❤️ 😍 🤣 😊 🙏 💕 😭 😘 👍 😅 👏 😁 🔥 🥰 💔 😢 🤔 🙄 💪 😉 ☺️ 👌 🤗 💜 😎 🎉 ✨ 🤷 😱 🙌 💯 🚀 ✅ ❌ ⚠️ 🐛 📦 💡".split()
COMPOSED = "👨‍👩‍👧‍👦 👩‍💻 🧑‍🚀 👍🏽 🙏🏿 🇩🇪 🇯🇵 🏳️‍🌈 👩🏾‍🔬 🤷‍♀️ 1️⃣".split()
BLOCKS = ((0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF))
ANY_EMOJI = [chr(point) for low, high in BLOCKS for point in range(low, high)]
KEYS = """id name type status created_at updatedAt user_id count total items data page limit url path message
error code level timestamp value description title tags enabled version price email role content tool arguments
result duration_ms host port method size score lat lon config options parent settings default""".split()


class Inventor:
    """Texts no source has enough of. The words are those of the English sources."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.rng = random.Random(5)

    def sentence(self, longest: int = 24) -> str:
        length = self.rng.randrange(1, longest)
        start = self.rng.randrange(len(self.words) - length)
        return " ".join(self.words[start : start + length])

    def emoji(self) -> str:
        return self.rng.choice(self.rng.choices((POPULAR, ANY_EMOJI, COMPOSED), (60, 30, 10))[0])

    def emoji_only(self) -> str:
        among = self.rng.choice((POPULAR, ANY_EMOJI, None))
        gap = self.rng.choice(("", "", " "))
        return gap.join(self.rng.choice(among) if among else self.emoji() for _ in range(1_500))

    def emoji_chat(self) -> str:
        lines = (f"{self.sentence(9)} {self.emoji() * self.rng.choice((1, 1, 2, 3))}" for _ in range(300))
        return self.rng.choice((" ", "\n")).join(lines)

    def base64(self) -> str:
        raw = base64.b64encode(self.rng.randbytes(4_600)).decode()
        lines = "\n".join(raw[at : at + 76] for at in range(0, len(raw), 76))
        return self.rng.choice((raw, raw, lines, raw.replace("+", "-").replace("/", "_")))

    def hex(self) -> str:
        raw = self.rng.randbytes(3_000)
        return self.rng.choice((raw.hex(), raw.hex(), raw.hex("\n", 20), raw.hex(" ")))

    def numbers(self) -> str:
        gap, digits = self.rng.choice((" ", ",", "\t", ", ")), self.rng.randrange(5)
        rows = ([round(self.rng.gauss(0, 10**digits), digits) for _ in range(5)] for _ in range(300))
        return "\n".join(gap.join(map(str, row)) for row in rows)

    def moment(self) -> str:
        of = self.rng.randrange
        return f"20{of(19, 27)}-{of(1, 13):02}-{of(1, 29):02}T{of(24):02}:{of(60):02}:{of(60):02}.{of(1000):03}Z"

    def log(self) -> str:
        of, choice = self.rng.randrange, self.rng.choice
        forms: list[Callable[[], str]] = [
            lambda: f"{self.moment()} {choice(('INFO', 'WARN', 'ERROR'))} [{self.key()}] {self.sentence()}",
            lambda: f'10.{of(256)}.{of(256)}.{of(256)} - - "GET /{self.key()}/{of(99999)} HTTP/1.1" 200 {of(99999)}',
            lambda: f"-rw-r--r-- 1 root root {of(10**6):>8} Nov {of(1, 29):>2} {of(24):02}:{of(60):02} {self.key()}.py",
        ]
        line = choice(forms)
        return "\n".join(line() for _ in range(150))

    def key(self) -> str:
        one, two = self.rng.choices(KEYS, k=2)
        return self.rng.choice((one, one, f"{one}_{two}", one + two.title()))

    def value(self, depth: int) -> object:
        of, choice = self.rng.randrange, self.rng.choice
        if depth and self.rng.random() < 0.25:
            return choice((self.record(depth - 1), [self.value(0) for _ in range(of(6))]))
        forms: list[Callable[[], object]] = [
            lambda: of(10 ** of(1, 10)),
            lambda: round(self.rng.uniform(-180, 180), of(1, 7)),
            lambda: choice((True, False, None)),
            lambda: str(uuid.UUID(int=self.rng.getrandbits(128))),
            self.moment,
            lambda: self.rng.randbytes(choice((4, 8, 20))).hex(),
            lambda: f"https://example.com/{self.key()}/{of(99999)}",
            lambda: "/".join(self.key() for _ in range(of(2, 6))) + choice(("", ".py", ".ts")),
            lambda: self.sentence(4),
            lambda: self.sentence(4),
            self.sentence,
            self.sentence,
        ]
        return choice(forms)()

    def record(self, depth: int) -> dict[str, object]:
        return {self.key(): self.value(depth) for _ in range(self.rng.randrange(1, 9))}

    def json(self) -> str:
        records = [self.record(2) for _ in range(60)]
        style = self.rng.randrange(4)
        if style == 3:
            return "\n".join(json.dumps(record, ensure_ascii=False) for record in records)
        return json.dumps(records, ensure_ascii=False, indent=(None, 2, 4)[style], separators=((",", ":"), None, None)[style])

    def pieces(self) -> Iterator[Piece]:
        kinds = {"emoji_only": "emoji", "emoji_chat": "emoji"}
        for name in ("emoji_only", "emoji_chat", "base64", "hex", "numbers", "log", "json"):
            for number in range(250):
                text = cut(getattr(self, name)(), size(self.rng))
                yield Piece(kinds.get(name, name), name, f"{name} {number}", text)


# Fitting ------------------------------------------------------------------------------------------

LETTERS = b"abcdefghijklmnopqrstuvwxyz)]};"
WIDE = {"accents": (0xC2, 0xCD), "alphabets": (0xCE, 0xDF), "abugidas": (0xE0, 0xE1), "symbols": (0xE2, 0xE2)}
WIDE |= {"cjk": (0xE3, 0xED), "forms": (0xEE, 0xEF), "emoji": (0xF0, 0xF4)}
NAMES = ("letters", "upper", "digits", "spaces", "other", *WIDE, "gaps", "runs", "long", "text")


def features(text: str) -> tuple[bool, list[float]]:
    """Is it dense, and what `estimate` counts in it: the slow and plain version."""
    data = text.encode()
    wide = [sum(low <= byte <= high for byte in data) for low, high in WIDE.values()]
    letters = sum(byte in LETTERS for byte in data)
    upper = sum(65 <= byte <= 90 for byte in data)
    digits = sum(48 <= byte <= 57 for byte in data)
    spaces = data.count(b" ")
    other = sum(byte < 0x80 for byte in data) - letters - upper - digits - spaces
    words = letters + upper + sum(wide)
    gaps = max(0.0, spaces - words / 4)
    runs = data.count(b"    ") if gaps else 0
    long = max(0.0, digits - words / 10)
    characters = words + digits + spaces + other
    dense = 10 * (upper + digits) > 3 * characters and 20 * spaces < characters + 20 * digits
    return dense, [letters, upper, digits, spaces, other, *wide, gaps, runs, long, 1.0]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss, with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(len(rows)):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [row[-1] / row[at] for at, row in enumerate(rows)]


def least_absolute(rows: list[list[float]], weights: list[float], rounds: int = 20) -> list[float]:
    """The coefficients that bring every row near 1, by the sum of absolute errors (least squares, reweighted)."""
    width = len(rows[0])
    now = list(weights)
    found = [0.0] * width
    for _ in range(rounds):
        matrix = [[0.0] * width for _ in range(width)]
        right = [0.0] * width
        for row, weight in zip(rows, now, strict=True):
            for i, value in enumerate(row):
                if value:
                    right[i] += weight * value
                    line = matrix[i]
                    for j, other in enumerate(row):
                        line[j] += weight * value * other
        for i in range(width):
            matrix[i][i] += 1e-6  # a class nobody used stays at 0
        found = solve(matrix, right)
        errors = (abs(sum(map(float.__mul__, found, row)) - 1) for row in rows)
        now = [weight / max(error, 0.03) for weight, error in zip(weights, errors, strict=True)]
    return found


def main(arguments: list[str]) -> None:
    encode = get_encoding("o200k_base").encode_ordinary
    found = [piece for kind, _, path in (a.partition("=") for a in arguments) for piece in pieces(kind, Path(path))]
    words = [word for piece in found if piece.kind == "english" for word in piece.text.split()]
    found += Inventor(words).pieces()

    sources: dict[str, set[str]] = defaultdict(set)
    share: dict[tuple[str, str], int] = defaultdict(int)
    for piece in found:
        sources[piece.kind].add(piece.source)
        share[piece.kind, piece.source] += 1

    sparse: tuple[list[list[float]], list[float]] = ([], [])
    dense: tuple[list[list[float]], list[float]] = ([], [])
    errors: dict[str, list[float]] = defaultdict(list)
    for piece in found:
        tokens = len(encode(piece.text))
        if piece.held_out:
            errors[piece.kind].append(estimate(piece.text) / tokens - 1)
            continue
        is_dense, counts = features(piece.text)
        rows, weights = dense if is_dense else sparse
        rows.append([count / tokens for count in (counts[:5] if is_dense else counts)])
        weight = IMPORTANCE.get(piece.kind, MINOR) / len(sources[piece.kind]) / share[piece.kind, piece.source]
        weights.append(1_000 * weight)

    for title, (rows, weights) in (("sparse", sparse), ("dense", dense)):
        fitted = least_absolute(rows, weights)
        print(title, {name: round(1_000 * value) for name, value in zip(NAMES, fitted, strict=False)})
    print("\nclass        pieces  median    p90    bias   (of lossless.tokens as it is, on files not fitted on)")
    for kind, relative in sorted(errors.items()):
        absolute = [abs(error) for error in relative]
        worst = quantiles(absolute, n=10)[-1]
        print(f"{kind:12} {len(relative):6} {median(absolute):7.1%} {worst:6.1%} {median(relative):+7.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
