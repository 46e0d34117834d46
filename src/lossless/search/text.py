"""Words for a full-text index, and the words of a question.

Chinese, Japanese and Korean are written without spaces, so each of their characters becomes a word of
its own, in the index and in the question alike: a term of one or two characters is then found, and a
longer one is a phrase. A name in camelCase is followed by its parts, so that it is found by them too, and a word that
JSON wrote with escapes, as in the arguments of a call, by the word itself.
An emoji, which tokenizers drop, becomes a word with its code in it.
Everything else is left to the database's own tokenizer.
"""

from __future__ import annotations

import re

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff"
_CJK += "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_CJK}])")
# Digits in circles among them are words already. Of a flag two letters are one emoji; tones of skin are none.
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
"""What is longer is no name but data; its parts would only swell the index."""
_KINDS = bytes(97 if 97 <= byte <= 122 else 65 if 65 <= byte <= 90 else 32 for byte in range(256))
"""Each byte as `a`, `A` or a space: whether a text has any camelCase is then found in half a microsecond."""
_KINDS_HUMP = re.compile(rb"A(?:(?<=aA)|(?<=AA)aa)")
_ASCII = bytes(range(128))


def segment(text: str) -> str:
    """The text with its CJK characters set apart and its camelCase names followed by their parts, ready for an index."""
    if "\\" in text:
        text = _with_unescaped(text)
    if has_camel(text):
        text = _with_parts(text)
    return text if text.isascii() else cjk_apart(emoji_words(text))


def emoji_words(text: str) -> str:
    """The text with a word in the place of each emoji."""
    return _EMOJI.sub(_emoji_word, text) if _EMOJI.search(_beyond_ascii(text)) else text


def _emoji_word(emoji: re.Match[str]) -> str:
    return f" emoji{''.join(f'x{ord(sign):x}' for sign in emoji[0])}x "


def emoji_of(word: str) -> str | None:
    """The emoji that a word of the index stands for, if it is one."""
    found = _EMOJI_WORD.fullmatch(word)
    return "".join(chr(int(code, 16)) for code in found[1].split("x")[1:]) if found else None


def _with_unescaped(text: str) -> str:
    """Return the text with each word that holds escapes of JSON followed by the words they stand for."""
    pieces: list[str] = []
    done = 0
    for escaped in _ESCAPED.finditer(text):
        start, end = escaped.span()
        while start > done and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        pieces += (text[done:end], " ", _unescaped(text[start:end]))
        done = end
    return "".join([*pieces, text[done:]])


def _unescaped(word: str) -> str:
    plain = _SIGN.sub(lambda sign: chr(int(sign[1], 16)), _PAIR.sub(_joined, _SPACE.sub(" ", word)))
    return plain.encode("utf-8", "ignore").decode()


def _joined(pair: re.Match[str]) -> str:
    """The character that two escaped halves make."""
    return chr(0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00)


def has_camel(text: str) -> bool:
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


def cjk_apart(text: str) -> str:
    """The text with its CJK characters set apart."""
    return _CHARACTER.sub(r" \1 ", text) if has_cjk(text) else text


def has_cjk(text: str) -> bool:
    return _CHARACTER.search(_beyond_ascii(text)) is not None


def _beyond_ascii(text: str) -> str:
    """Return the characters beyond ASCII: mostly few, and a class of characters is slow to look for."""
    return "" if text.isascii() else text.encode("utf-8", "ignore").translate(None, _ASCII).decode()


def camel_parts(word: str) -> list[str]:
    """The parts of a name in camelCase; none if it is not one."""
    return _PART.findall(word) if len(word) <= _LONGEST_NAME and _HUMP.search(word) else []
