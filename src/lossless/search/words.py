"""Words for a full-text index, and the terms of a question.

Chinese, Japanese and Korean are written without spaces, so each of their characters becomes a word of
its own, in the index and in the question alike: a term of one or two characters is then found, and a
longer one is a phrase. Everything else is left to the database's own tokenizer.
"""

from __future__ import annotations

import re
from itertools import islice

from msgspec import Struct

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff"
_CJK += "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_CJK}])")
MOST_TERMS = 64
"""More than any question has; a pasted page is searched by its beginning."""
_TERM = re.compile(r'"([^"]*)"|(\S+)')
_WORD = re.compile(r"\w")


class Term(Struct, frozen=True):
    """What a question asks for: words that must stand side by side (one, mostly)."""

    words: str


def segment(text: str) -> str:
    """The text with its CJK characters set apart, ready for an index."""
    if text.isascii() or not _CHARACTER.search(text):
        return text
    return _CHARACTER.sub(r" \1 ", text)


def terms(question: str) -> tuple[Term, ...]:
    """The terms of a question as it was typed: phrases in quotes, and words.

    Operators and punctuation mean nothing here: `sub-agent`, `NOT`, `agent:foo`, `*` are words or
    nothing, and an unclosed quote is a character like any other.
    """
    if question.count('"') % 2:
        question = question[::-1].replace('"', " ", 1)[::-1]
    found: dict[str, None] = {}
    for match in _TERM.finditer(question.replace("\0", " ")):
        words = segment(match[1] if match[1] is not None else match[2]).replace('"', " ").strip()
        if _WORD.search(words):
            found[words.encode("utf-8", "replace").decode()] = None
    return tuple(Term(words) for words in islice(found, MOST_TERMS))
