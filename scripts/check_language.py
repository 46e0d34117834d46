"""Refuse docstrings that begin as questions, and words that readers would not search for.

Usage: python scripts/check_language.py [PATH ...]   (default: src, docs and README.md)
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

QUESTION = re.compile(r"(What|Which|Whether|Where|Who|Whose|How|When|Why)\b")
WORDS = re.compile(
    r"\b(told|untold|anew|owed|owes|owing|whoever|whomever|somebody|whence|whither|wherein|whereof|thereof|therein|hitherto"
    r"|henceforth|lest|naught|nought|aught|unasked|forthwith|whilst|borne out|comes? into being|put(?:s|ting)? (?:it |them )?right"
    r"|complain(?:s|ed|t)? of)\b",
    re.IGNORECASE,
)
NAMES = {"told", "anew", "owe", "owed", "owing", "owes", "whoever", "door", "doors", "ward", "house", "room", "rooms"}
"""Parts of names that are metaphors or participles."""
_STORED = "# stored name"
"""Marks a line with a name that existing databases contain, and that therefore stays."""
_WORD_LIST = "# word list"
"""Marks a string of words that are data."""
_QUOTED = re.compile(r"`[^`]*`")


def main(arguments: list[str]) -> int:
    roots = [Path(each) for each in arguments] or [Path("src"), Path("docs"), Path("README.md")]
    problems = [problem for path in _files(roots) for problem in _problems(path)]
    print("\n".join(problems))
    print(f"{len(problems)} problems")
    return 1 if problems else 0


def _files(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        yield from [root] if root.is_file() else sorted([*root.rglob("*.py"), *root.rglob("*.md")])


def _problems(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        for number, line in enumerate(text.splitlines(), 1):
            yield from _words(path, number, _QUOTED.sub("", line))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if QUESTION.match(first):
                at = node.body[0].lineno
                yield f"{path}:{at}: docstring begins as a question: {first[:70]}"
    names: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if _STORED in token.line or _WORD_LIST in token.line:
            continue
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield from _words(path, number, line)
        elif token.type == tokenize.NAME and token.string not in names:
            names.add(token.string)
            if not NAMES.isdisjoint(_parts(token.string)):
                yield f"{path}:{token.start[0]}: name: {token.string}"


def _parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)}


def _words(path: Path, number: int, line: str) -> Iterator[str]:
    for found in WORDS.finditer(line):
        yield f"{path}:{number}: word: {found.group()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
