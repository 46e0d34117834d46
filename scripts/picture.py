"""Draw the picture of the idea that the README shows: `make shots`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TARGET: Final = Path(__file__).parents[1] / "docs" / "shots" / "idea.svg"
WIDTH, HEIGHT, LEFT = 880, 430, 40
SIZE, STEP = 12, 17
MESSAGES, TAIL, RUN = 47, 11, 6
ROWS: Final = {"context": 62, "condensed": 160, "leaf": 228, "message": 306}
COLOURS: Final = {
    "old": "#94a3b8",
    "new": "#2563eb",
    "leaf": "#f59e0b",
    "condensed": "#c2410c",
    "line": "#cbd5e1",
    "text": "#0f172a",
}


def picture() -> str:
    """Return the whole picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui, sans-serif">',
            "<title>Every message is stored; old ones are covered by summaries; the model is sent what fits</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>',
            *_lines(),
            *_context(),
            *_summaries(),
            *_messages(),
            *_way_back(),
            "</svg>\n",
        ]
    )


def _at(message: float) -> float:
    """Return the horizontal place of a message."""
    return LEFT + message * STEP


def _middle(first: int, last: int) -> float:
    return (_at(first) + _at(last) + SIZE) / 2


LEAVES: Final = [(first, first + RUN - 1) for first in range(0, MESSAGES - TAIL, RUN)]
CONDENSED: Final = (0, 4 * RUN - 1)


def _box(x: float, y: float, width: float, height: float, colour: str, label: str = "") -> list[str]:
    drawn = [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{colour}"/>']
    if label:
        drawn.append(_text(x + width / 2, y + height / 2 + 4, label, "#ffffff", 12, "middle"))
    return drawn


def _text(x: float, y: float, words: str, colour: str = COLOURS["text"], size: int = 14, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{words}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{COLOURS["line"]}" stroke-width="1.5"{dash}/>'
    )


def _lines() -> list[str]:
    """Draw what covers what, and what of it is sent."""
    leaves = [_middle(*leaf) for leaf in LEAVES]
    drawn = [
        _line(middle, ROWS["leaf"] + 26, _at(message) + SIZE / 2, ROWS["message"])
        for middle, (first, last) in zip(leaves, LEAVES, strict=True)
        for message in range(first, last + 1)
    ]
    top = _middle(*CONDENSED)
    drawn += [_line(top, ROWS["condensed"] + 26, middle, ROWS["leaf"]) for middle in leaves[:4]]
    drawn += [_line(top, ROWS["context"] + 30, top, ROWS["condensed"], dashed=True)]
    drawn += [_line(middle, ROWS["context"] + 30, middle, ROWS["leaf"], dashed=True) for middle in leaves[4:]]
    newest = _middle(MESSAGES - TAIL, MESSAGES - 1)
    return [*drawn, _line(newest, ROWS["context"] + 30, newest, ROWS["message"] - 8, dashed=True)]


def _context() -> list[str]:
    y = ROWS["context"]
    right = _at(MESSAGES - 1) + SIZE
    drawn = [_text(LEFT, 34, "What the model is sent: within its window", size=16)]
    drawn.append(
        f'<rect x="{LEFT - 8}" y="{y - 8}" width="{right - LEFT + 16:g}" height="46" rx="8" fill="none" stroke="{COLOURS["text"]}" stroke-width="1.5"/>'
    )
    drawn += _box(_middle(*CONDENSED) - 75, y, 150, 30, COLOURS["condensed"], "summary of summaries")
    for leaf in LEAVES[4:]:
        drawn += _box(_middle(*leaf) - 38, y, 76, 30, COLOURS["leaf"], "summary")
    for message in range(MESSAGES - TAIL, MESSAGES):
        drawn += _box(_at(message), y, SIZE, 30, COLOURS["new"])
    return drawn


def _summaries() -> list[str]:
    drawn = _box(_middle(*CONDENSED) - 75, ROWS["condensed"], 150, 26, COLOURS["condensed"], "depth 1")
    for leaf in LEAVES:
        drawn += _box(_middle(*leaf) - 38, ROWS["leaf"], 76, 26, COLOURS["leaf"], "leaf")
    return drawn


def _messages() -> list[str]:
    drawn: list[str] = []
    for message in range(MESSAGES):
        drawn += _box(_at(message), ROWS["message"], SIZE, 24, COLOURS["old" if message < MESSAGES - TAIL else "new"])
    drawn.append(_text(LEFT, 414, "What is stored: every message, once, in order, byte for byte", size=16))
    return [*drawn, _text(_at(MESSAGES - 1) + SIZE, 350, "newest messages", COLOURS["new"], 13, "end")]


def _way_back() -> list[str]:
    """Draw how an exact word is found again."""
    x, y = _at(3) + SIZE / 2, ROWS["message"] + 24
    path = f"M {_at(MESSAGES - TAIL - 1):g} {y + 2} C {_at(MESSAGES - TAIL - 6):g} {y + 62}, {x + 90:g} {y + 62}, {x:g} {y + 6}"
    return [
        f'<path d="{path}" fill="none" stroke="{COLOURS["new"]}" stroke-width="1.5"/>',
        f'<path d="M {x - 5:g} {y + 13} L {x:g} {y + 4} L {x + 7:g} {y + 10}" fill="none" stroke="{COLOURS["new"]}" stroke-width="1.5"/>',
        _text(
            WIDTH / 2,
            390,
            "search and expand: the exact words again",
            COLOURS["new"],
            13,
            "middle",
        ),
    ]


if __name__ == "__main__":
    TARGET.write_text(picture(), "utf-8")
