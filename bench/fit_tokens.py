"""How the tables of `lossless.tokens` were obtained.

    python bench/fit_tokens.py english=DIR english=FILE code=DIR json=DIR chinese=DIR ...

Each argument is one source of one class: a directory or a file of this machine (documentation packages of
a distribution, standard libraries, manual pages, packages of a registry, collections of quotations). Emoji,
typography, base64, hex, logs, tables of numbers and replies of APIs are invented. Pieces of 60 to 6,000 bytes
are cut out of them, every source of a class weighing as much as the others, and the tables minimise the error
relative to what o200k counts. It prints them, then the error per class on the files it did not fit on.
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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from bpe_openai import get_encoding  # type: ignore[import-untyped]  # ships no types

from lossless.tokens import estimate

PIECES_PER_SOURCE = 120
IMPORTANCE = {"english": 2.0, "code": 2.0, "json": 2.0, "chinese": 1.0, "japanese": 1.0, "russian": 1.0}
IMPORTANCE |= {"emoji": 1.0, "base64": 1.0, "typography": 1.0, "numbers": 0.6, "log": 0.6}
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


POPULAR = [
    *"😂😍🤣😊🙏💕😭😘👍😅👏😁🔥🥰💔😢🤔🙄💪😉👌🤗💜😎🎉✨🤷😱🙌💯🚀✅❌🐛📦💡",
    "❤️",
    "☺️",
    "⚠️",
    "✌️",
    "☀️",
    "➡️",
]
BLOCKS = ((0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF))
ANY_EMOJI = [chr(point) for low, high in BLOCKS for point in range(low, high)]
SKINS = ["", *(chr(point) for point in range(0x1F3FB, 0x1F400))]
WORK = [*"💻🔬🚀🎨🍳🏫🚒🔧🎓🎤", "⚕️", "✈️", "⚖️"]
FLAGS = ("DE", "FR", "JP", "US", "GB", "BR", "IN", "CN", "IT", "ES", "UA", "PL", "SE", "NO", "KR", "CA")
KEYS = re.findall(
    r"\w+",
    """
    id name type status created_at updatedAt user_id count total items data page limit url path message error
    code level timestamp value description title tags enabled version price email role content tool arguments result
    duration_ms host port method size score lat lon config options parent settings default
    """,
)


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
        pick = self.rng.choice
        forms: tuple[Callable[[], str], ...] = (
            lambda: pick(POPULAR),
            lambda: pick(ANY_EMOJI),
            lambda: pick("👍🙏👏💪👋✊🤝") + pick(SKINS),
            lambda: pick("👩👨🧑") + pick(SKINS[:2]) + "\u200d" + pick(WORK),
            lambda: "".join(chr(0x1F1E6 - 65 + ord(letter)) for letter in pick(FLAGS)),
        )
        return self.rng.choices(forms, (60, 25, 5, 5, 5))[0]()

    def emoji_only(self) -> str:
        among = self.rng.choice((POPULAR, ANY_EMOJI, None))
        gap = self.rng.choice(("", "", " "))
        return gap.join(self.rng.choice(among) if among else self.emoji() for _ in range(1_500))

    def emoji_chat(self) -> str:
        lines = (f"{self.sentence(9)} {self.emoji() * self.rng.choice((1, 1, 2, 3))}" for _ in range(300))
        return self.rng.choice((" ", "\n")).join(lines)

    def typography(self) -> str:
        """Lists, quotes and dashes as assistants write them: documentation has few."""
        forms = ("✓ {}", "• {}", "→ {}", "“{}”", "{} — {}", "{}…", "✅ {}", "{} ≤ {}", "├── {}", "it’s {}", "{}")
        lines = (self.rng.choice(forms).format(self.sentence(12), self.sentence(6)) for _ in range(300))
        return self.rng.choice(("\n", " ")).join(lines)

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
        return json.dumps(
            records, ensure_ascii=False, indent=(None, 2, 4)[style], separators=((",", ":"), None, None)[style]
        )

    def pieces(self) -> Iterator[Piece]:
        kinds = {"emoji_only": "emoji", "emoji_chat": "emoji"}
        for name in ("emoji_only", "emoji_chat", "typography", "base64", "hex", "numbers", "log", "json"):
            for number in range(250):
                text = cut(getattr(self, name)(), size(self.rng))
                yield Piece(kinds.get(name, name), name, f"{name} {number}", text)


FIRST_BYTES = (0xC4, 0xC6, 0xCE, 0xD0, 0xD1, 0xD2, 0xD8, 0xE0, 0xE1, 0xE2, 0xE3, *range(0xE4, 0xEB), 0xEE, 0xF0)
"""Where a group of first bytes of UTF-8 begins; C2 and C3 are one as well."""
UNIT, DEAREST, LEVEL = 32, 63, 16
"""Units to a token, the highest price, and the tilt that means none: so a kilobyte sums up below 2**16."""
STEEP, SLACK = 4, 3 / UNIT
EPOCHS = 40
TILT_EPOCHS = 25


def group_of(byte: int) -> int:
    """Bytes with one price: capitals, digits, controls, the first bytes of a script."""
    if byte >= 0xC0:
        return max((first for first in FIRST_BYTES if first <= byte), default=0xC2)
    character = chr(byte)
    if byte >= 0x80:
        return byte
    if character.isupper():
        return ord("A")
    if character.isdigit():
        return ord("0")
    return byte if character.isprintable() or character in "\t\n\r" else 0


GROUPS = [group_of(byte) for byte in range(256)]


class Model:
    """tokens = base + price - max(0, tilt) + STEEP * max(0, -tilt - SLACK * bytes)

    `price` and `tilt` are sums over the bytes. A text tilts up when it has more spaces than words need
    (indentation is cheap), and far down when it has letters and digits without any (base64 is dear).
    """

    def __init__(self) -> None:
        self.base = 0.4
        self.price = [0.6] * 256
        self.tilt = [0.1] * 256
        for group in set(GROUPS):
            character = chr(group)
            if character == " ":
                self.price[group], self.tilt[group] = 0.45, 0.45
            elif group < 0x80 and (character.islower() or character in ")]};"):
                self.price[group], self.tilt[group] = 0.14, -0.1
            elif character == "A":
                self.price[group], self.tilt[group] = 0.3, -0.15
            elif 0x80 <= group < 0xC0:
                self.price[group], self.tilt[group] = 0.1, -1 / UNIT
            elif group >= 0xC0:
                self.price[group] = 1.8 if group >= 0xF0 else 0.2 if 0xCE <= group < 0xE2 else 0.6
                self.tilt[group] = -3 / UNIT

    def value(self, counts: dict[int, int]) -> tuple[float, float, float]:
        tilt = sum(self.tilt[group] * count for group, count in counts.items())
        price = self.base + sum(self.price[group] * count for group, count in counts.items())
        below = -tilt - SLACK * sum(counts.values())
        return price - max(0.0, tilt) + STEEP * max(0.0, below), tilt, below

    def fit(self, rows: list[tuple[dict[int, int], int, float]]) -> None:
        """Subgradient descent on the absolute relative error, the steps scaled per weight (Adagrad)."""
        rng = random.Random(1)
        seen: dict[str, list[float]] = {"price": [1e-8] * 256, "tilt": [1e-8] * 256}
        mean = sum(weight for _, _, weight in rows) / len(rows)
        for epoch in range(EPOCHS):
            rate = 0.03 * (1 - epoch / EPOCHS)
            if epoch == TILT_EPOCHS:  # rounded while the prices can still make up for it
                self.tilt = [round(UNIT * tilt) / UNIT for tilt in self.tilt]
            rng.shuffle(rows)
            for counts, tokens, weight in rows:
                value, tilt, below = self.value(counts)
                error = (value / tokens - 1) / 0.03
                push = weight / mean * max(-1.0, min(1.0, error)) / tokens
                pull = push * ((-1 if tilt > 0 else 0) - (STEEP if below > 0 else 0))
                for group, count in counts.items():
                    step = push * count
                    seen["price"][group] += step * step
                    self.price[group] -= rate * step / math.sqrt(seen["price"][group])
                    self.price[group] = min(max(self.price[group], 0.0), DEAREST / UNIT)
                    # Other scripts have too little code and base64 to learn a tilt from.
                    if pull and group < 0x80 and epoch < TILT_EPOCHS:
                        step = pull * count
                        seen["tilt"][group] += step * step
                        self.tilt[group] -= rate * step / math.sqrt(seen["tilt"][group])
                        self.tilt[group] = min(max(self.tilt[group], -LEVEL / UNIT), (DEAREST - LEVEL) / UNIT)
                self.base -= 0.1 * rate * push

    def tables(self) -> Iterator[tuple[str, str]]:
        """Prices and tilts as `lossless.tokens` writes them: one byte for each byte, 32 to a line."""
        for title, level, weights in (("prices", 0, self.price), ("tilts", LEVEL, self.tilt)):
            table = bytes(level + round(UNIT * weights[group]) for group in GROUPS)
            yield title, "\n".join(table[at : at + 32].hex() for at in range(0, 256, 32))


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

    model = Model()
    rows, held_out = [], []
    for piece in found:
        counts: dict[int, int] = Counter(GROUPS[byte] for byte in piece.text.encode())
        row = counts, len(encode(piece.text))
        if piece.held_out:
            held_out.append((piece, *row))
        else:
            weight = IMPORTANCE.get(piece.kind, MINOR) / len(sources[piece.kind]) / share[piece.kind, piece.source]
            rows.append((*row, weight))
    model.fit(rows)

    print("base", round(UNIT * model.base))
    for title, table in model.tables():
        print(f"{title}\n{table}")
    print("\nclass        pieces    median / 90 %, median     the same of lossless.tokens as it is")
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for piece, counts, tokens in held_out:
        errors[piece.kind].append((model.value(counts)[0] / tokens - 1, estimate(piece.text) / tokens - 1))
    for kind, both in sorted(errors.items()):
        columns = ""
        for relative in zip(*both, strict=True):
            absolute = [abs(error) for error in relative]
            columns += f"{median(absolute):11.1%} {quantiles(absolute, n=10)[-1]:6.1%} {median(relative):+7.1%}"
        print(f"{kind:12} {len(both):6} {columns}")


if __name__ == "__main__":
    main(sys.argv[1:])
