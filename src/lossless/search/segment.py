"""Prepare text for a full-text index, and the words of a question in the same way.

Chinese, Japanese and Korean are written without spaces, so each of their characters becomes a word of
its own, in the index and in the question alike: a term of one or two characters is then found, and a
longer one is a phrase. A name in camelCase is followed by its parts, so that it is found by them too, and a word that
JSON wrote with escapes, as in the arguments of a call, by the unescaped word.
An emoji, which tokenizers drop, becomes a word that contains its code.
Everything else is left to the database's own tokenizer.
"""

from __future__ import annotations

import re

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff"
_CJK += "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_CJK}])")
# Circled digits in these ranges are words already. Two letters of a flag are one emoji; skin tones are none.
_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u25aa-\u2775\u2794-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_EMOJI_WORD = re.compile(r"emoji((?:x[0-9a-f]{4,5})+)x")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])[a-z][a-z])")
_REST = re.compile(r"[A-Za-z0-9]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ESCAPE = r"\\(?:[nrtbf]|u[0-9a-fA-F]{4})\w*"
_ESCAPED = re.compile(rf"{_ESCAPE}(?:{_ESCAPE})*")
_SPACE = re.compile(r"\\[nrtbf]")
_SIGN = re.compile(r"\\u([0-9a-fA-F]{4})")
_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_LONGEST_NAME = 40
"""Longer words are data rather than names; their parts would only enlarge the index."""
_KINDS = bytes(97 if 97 <= byte <= 122 else 65 if 65 <= byte <= 90 else 32 for byte in range(256))
"""Maps each byte to `a`, `A` or a space, so that camelCase is detected in half a microsecond."""
_KINDS_HUMP = re.compile(rb"A(?:(?<=aA)|(?<=AA)aa)")
_ASCII = bytes(range(128))


def segment(text: str) -> str:
    """Return the text for an index: CJK characters separated, camelCase names followed by their parts."""
    if "\\" in text:
        text = _add_unescaped(text)
    if has_camel(text):
        text = _with_parts(text)
    return text if text.isascii() else separate_cjk(replace_emoji(text))


def replace_emoji(text: str) -> str:
    """Replace each emoji by a word."""
    return _EMOJI.sub(_emoji_word, text) if _EMOJI.search(_beyond_ascii(text)) else text


def _emoji_word(emoji: re.Match[str]) -> str:
    return f" emoji{''.join(f'x{ord(sign):x}' for sign in emoji[0])}x "


def find_emoji(word: str) -> str | None:
    """Return the emoji that a word of the index stands for, if any."""
    found = _EMOJI_WORD.fullmatch(word)
    return "".join(chr(int(code, 16)) for code in found[1].split("x")[1:]) if found else None


def _add_unescaped(text: str) -> str:
    """Return the text with each word that contains JSON escapes followed by the unescaped words."""
    pieces: list[str] = []
    done = 0
    for escaped in _ESCAPED.finditer(text):
        start, end = escaped.span()
        while start > done and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        pieces += (text[done:end], " ", _unescape(text[start:end]))
        done = end
    return "".join([*pieces, text[done:]])


def _unescape(word: str) -> str:
    plain = _SIGN.sub(lambda sign: chr(int(sign[1], 16)), _PAIR.sub(_join_pair, _SPACE.sub(" ", word)))
    return plain.encode("utf-8", "ignore").decode()


def _join_pair(pair: re.Match[str]) -> str:
    """Return the character of an escaped surrogate pair."""
    return chr(0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00)


def has_camel(text: str) -> bool:
    """Return whether a text contains a camelCase name."""
    return text.lower() != text and _KINDS_HUMP.search(text.encode("utf-8", "replace").translate(_KINDS)) is not None


def _with_parts(text: str) -> str:
    pieces: list[str] = []
    done = 0
    for hump in _HUMP.finditer(text):
        start = hump.start()
        if start < done:
            continue
        while start > done and text[start - 1].isascii() and text[start - 1].isalnum():
            start -= 1
        end = _REST.match(text, start).end()  # type: ignore[union-attr]  # it matches anywhere
        pieces += (text[done:end], *camel_parts(text[start:end]), "")
        done = end
    return " ".join(pieces) + text[done:]


def separate_cjk(text: str) -> str:
    """Put spaces around the CJK characters of a text."""
    return _CHARACTER.sub(r" \1 ", text) if has_cjk(text) else text


def has_cjk(text: str) -> bool:
    """Return whether a text contains a CJK character."""
    return _CHARACTER.search(_beyond_ascii(text)) is not None


def _beyond_ascii(text: str) -> str:
    """Return the characters beyond ASCII: usually few, and searching them for a character class is fast."""
    return "" if text.isascii() else text.encode("utf-8", "ignore").translate(None, _ASCII).decode()


def camel_parts(word: str) -> list[str]:
    """Return the parts of a camelCase name; empty if it is not one."""
    return _PART.findall(word) if len(word) <= _LONGEST_NAME and _HUMP.search(word) else []
