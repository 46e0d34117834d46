"""Find encoded bytes in a text, such as data URLs and base64, and replace them with a note."""

from __future__ import annotations

import re

ENCODED = "[encoded data omitted]"
_MIME = r"[\w.+-]{1,80}/[\w.+-]{1,80}"
_PARAMETERS = r"(?:;[\w.+=-]{1,80}){0,8}"
_DATA_URL = re.compile(rf"data:(?:{_MIME}{_PARAMETERS}|{_PARAMETERS};base64),[^\s\"'<>()\[\]\\]*", re.I)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{256,}={0,2}")
_RUN = 128
_ENCODED_RUN = re.compile(rf"[A-Za-z0-9+/]{{{_RUN}}}")


def may_be_encoded(text: str) -> bool:
    """Return True if the text has a data URL or a word as long as encoded bytes: a fast check, because most have none."""
    return _holds_data(text) or _has_long_word(text)


def without_encoded(text: str) -> str:
    """Return the text with a note in place of encoded bytes."""
    if _holds_data(text):
        text = _DATA_URL.sub(ENCODED, text)
    return _BASE64.sub(ENCODED, text) if _has_long_word(text) else text


def _holds_data(text: str) -> bool:
    """Return True if the text contains a data URL, in any case."""
    if b"data:" not in text.encode("utf-8", "surrogatepass").lower():
        return False
    for end in ("a:", "A:"):
        at = text.find(end, 3)
        while at >= 0:
            if _DATA_URL.match(text, at - 3):
                return True
            at = text.find(end, at + 2)
    return False


def _has_long_word(text: str) -> bool:
    at, last, rfind = 0, len(text) - 2 * _RUN, text.rfind
    while at <= last:
        space = rfind(" ", at, at + 2 * _RUN)
        if space < 0 and _ENCODED_RUN.match(text, at + _RUN):
            return True
        at = space + 1 or at + _RUN + 1
    return False
