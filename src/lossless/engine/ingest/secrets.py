"""Find secrets in messages, and replace them with placeholders before anything is stored. Pure functions.

A placeholder is `[REDACTED:<kind>:<8 hex>]`. Its digits are a keyed hash of the secret: the same secret has the same
placeholder everywhere under one key, and without the key candidates cannot be tried against it. Redacting twice changes
nothing, so that a message which is sent twice is the same message twice. Secrets are also found behind JSON escapes and in
base64 of text. An id that contains a secret becomes another id that is as unique.

Everything takes time linear in the text (RE2, or one pass by hand).
"""

from __future__ import annotations

import base64
import hmac
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from msgspec import structs

from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.search import regex
from lossless.store import jsontext

if TYPE_CHECKING:
    import re2

ON = "on"
"""The pattern that stands for the built-in kinds only."""
OWN = "custom"
"""The kind of a match of the user's own pattern."""
_DIGITS = 8
_ROLES = frozenset({"user", "assistant", "system", "tool"})
_PLACEHOLDER = "[REDACTED:"
_REDACTED = re.compile(r"\[REDACTED:[a-z-]+:[0-9a-f]{8}\]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEPTH = 64
"""Deeper values are searched as JSON text: no wire format nests so deep."""

P = TypeVar("P", bound=Part)
Accept: TypeAlias = Callable[[str], bool]


class Span(NamedTuple):
    """The start and end of a secret in a text, and its kind."""

    start: int
    end: int
    kind: str
    quote: str = ""
    """The quote to put around a placeholder, so that JSON stays valid."""
    text: str = ""
    """The replacement, if not a placeholder: base64 of a text without its secrets."""


# Every secret contains one of these: most texts contain none, and are searched once.
_SIGNS = (
    r"sk-|gh[opusr]_|github_pat_|A[KS]IA[A-Z0-9]|xox[a-z]-|AIza|PRIVATE KEY|eyJ[\w-]{8}|hooks\.slack\.com/"
    r"|(?i:bearer\s|authorization|secret_?(?:access_?)?key|passw|passphrase|pwd)"
)
_KEY_NAME = r"(?:[\w.-]*?(?:password|passwd|passphrase|pwd))"
_QUOTE = r"""(?:\\*["'])"""


def _is_random(value: str) -> bool:
    """Return whether a value contains a run of mixed letters and digits, as no human-made name does."""
    return any(len(run) >= 16 and _is_mixed(run) for run in re.split(r"[_-]", value))


def _is_mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _always(_: str) -> bool:
    return True


_KINDS: tuple[tuple[str, str, Accept], ...] = (
    ("anthropic-key", r"\bsk-ant-[\w-]{20,}", _is_random),
    ("api-key", r"\bsk-[\w-]{20,}", _is_random),
    ("github-token", r"\b(?:gh[opusr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})", _is_mixed),
    ("aws-id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", _always),
    ("aws-secret", rf"(?i:secret_?(?:access_?)?key){_QUOTE}?\s*[:=]\s*{_QUOTE}?([A-Za-z0-9/+]{{40}})\b", _is_mixed),
    ("slack-token", r"\bxox[a-z]-[A-Za-z0-9-]{10,}", _is_mixed),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{20,}", _always),
    ("google-key", r"\bAIza[\w-]{35}", _is_mixed),
    ("jwt", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", _always),
    (
        "authorization",
        rf"(?i:authorization){_QUOTE}?\s*[:=]\s*{_QUOTE}?(?i:bearer|basic|token)\s+([\w.~+/=-]{{8,}})",
        _always,
    ),
    ("authorization", r"(?i:\bbearer)\s+([\w.~+/-]{20,}=*)", _is_mixed),
)
_PASSWORD = (
    rf"((?i:{_QUOTE}?{_KEY_NAME}({_QUOTE})?))\s*([:=])\s*"
    # Inside escaped quotes any quote ends the value; inside plain quotes an escaped one belongs to it.
    r"""(?:\\+["']((?:[^"'\\\n]|\\[^"'\\])+)|"((?:[^"\\\n]|\\.)+)|'((?:[^'\\\n]|\\.)+)|([^\s"'<>,;&|)}\]\\]+))"""
)
_SECRET_NAME = re.compile(_KEY_NAME, re.IGNORECASE)
_NO_SECRET = re.compile(
    r"(?i:required|optional|none|null|nil|undefined|true|false|yes|no|string|str|text|int|changed|reset|expired|incorrect"
    r"|invalid|wrong|missing|empty|unset|unknown|hidden|must|is|was|has|should|the|your|my|our|a|an|to|for|and|or|not|it|min"
    r"|max|prompt|password|passwd|pwd|passphrase)[.:!?]*\Z"
    r"|[*x•.]+\Z|\[REDACTED:|\$[{(]|\$(?:[A-Z0-9_]+|[a-z_]+)\Z|<[^>]*>?\Z|\{[{%]?[\w. ]*[%}]*\Z|%\("
)
"""Words about a password, masks, and variables of templates and shells."""
_CODE = re.compile(r"=|[A-Za-z_][\w.]*[(\[]|(?:os|process|env|config|settings|self|args|opts|secrets|request|user)\.")
_PATH = re.compile(r"[/~.]|[A-Za-z]:[\\/]")
_PRIVATE = "PRIVATE KEY"
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = re.compile(r"(?:[A-Za-z0-9+/=\s:,.-]|\\[nr])*")
"""The lines of a key whose end was cut off."""
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{32}")
_BESIDE = 300
"""Maximum distance between an AWS id and its secret."""
_RUN = re.compile(r"[A-Za-z0-9/+]+")
_ESCAPE = re.compile(r"""\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])""")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIDING = r"\\(?:u00[2-7]|/)"
"""Escapes of characters that a secret may contain."""
_SPACES = re.compile(r"\\[bfnrt]")
_MOST_ESCAPES = 3
"""Number of levels of JSON inside JSON."""
_LONG = r"[\w+/-]{24}"
_BASE64 = re.compile(r"[\w+/-]{24,}(?:\r?\n[\w+/-]+)*={0,2}", re.ASCII)
_BINARY_SIGN = 8_192
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@cache
def _compiled(pattern: str) -> re2.Pattern:
    import re2

    return re2.compile(pattern)


class Redactor:
    """Finds the built-in kinds of secrets, and the matches of the user's own patterns.

    A pattern that cannot be compiled raises `InvalidInput`. `key` is called once, for the first secret.
    """

    def __init__(self, patterns: Iterable[str], key: Callable[[], bytes]) -> None:
        self._own = [regex.compile(each) for each in patterns if each != ON]
        self._ask = key

    @cached_property
    def _key(self) -> bytes:
        return self._ask()

    def __call__(self, message: Message) -> tuple[Message, int]:
        """Return the message without its secrets, and their number; the same object if there are none."""
        walk = _Walk(self)
        return walk.message(message), walk.count

    def text(self, text: str) -> str:
        """Return the text without its secrets."""
        return _Walk(self).text(text)

    def identifier(self, name: str) -> str:
        """Return a key, a session or an event id without its secrets, as unique as it was."""
        redacted = self.text(name)
        return name if redacted == name else f"{redacted}~{self._digest(name)[:16]}"

    def call_id(self, call_id: str) -> str:
        """Return the id of a tool call without its secrets, the same for call and result, valid for every provider."""
        return f"redacted-{self._digest(call_id)[:24]}" if self.spans(call_id) else call_id

    def data(self, data: bytes) -> bytes:
        """Return the bytes without their secrets, if they are text."""
        return _Walk(self).data(data)

    def placeholder(self, secret: str, span: Span) -> str:
        """Return the placeholder of a secret."""
        for _ in range(_MOST_ESCAPES):
            secret = _ESCAPE.sub(_resolved, secret)
        return f"{span.quote}{_PLACEHOLDER}{span.kind}:{self._digest(secret)[:_DIGITS]}]{span.quote}"

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def spans(self, text: str) -> list[Span]:
        """Return the secrets in a text, in order and without overlaps."""
        text = _SURROGATE.sub("\ufffd", text) if not text.isascii() else text  # RE2 cannot read half a character
        found = self._plain(text)
        if "\\" in text:
            if self._own or _compiled(_HIDING).search(text):
                found += self._behind_escapes(text, _MOST_ESCAPES)
            elif _compiled(_SIGNS).search(text):
                # Escaped white space only: replacing it by as many spaces keeps all positions.
                found += _built_in(_SPACES.sub("  ", text))
        return _apart(_beyond_placeholders(text, found)) if found else []

    def _plain(self, text: str) -> list[Span]:
        found = list(_built_in(text)) if _compiled(_SIGNS).search(text) else []
        found += [Span(start, end, OWN) for pattern in self._own for start, end in pattern.spans(text) if end > start]
        return [*found, *self._in_base64(text)] if _compiled(_LONG).search(text) else found

    def _behind_escapes(self, text: str, levels: int) -> list[Span]:
        """Return the secrets that appear once JSON escapes are resolved."""
        if not levels:
            return []
        plain = _SURROGATE.sub("\ufffd", _ESCAPE.sub(_resolved, text))
        if plain == text:
            return []
        found = [*self._plain(plain), *self._behind_escapes(plain, levels - 1)]
        place = _places(text) if found else int
        return [span._replace(start=place(span.start), end=place(span.end), quote="") for span in found]

    def _in_base64(self, text: str) -> Iterator[Span]:
        """Yield base64 of texts that contain secrets."""
        for run in _BASE64.finditer(text):
            whole = self._recoded(run[0])
            if whole is not None:
                yield Span(*run.span(), "base64", text=whole)
            elif "\n" in run[0]:
                for line in re.finditer(r"[^\r\n]{24,}", run[0]):
                    if (recoded := self._recoded(line[0])) is not None:
                        yield Span(run.start() + line.start(), run.start() + line.end(), "base64", text=recoded)

    def _recoded(self, encoded: str) -> str | None:
        """Return base64 of a text without its secrets; None if it is not text, or has none."""
        held = _decoded(encoded)
        kept = held if held is None else self.data(held)
        if held is None or kept is None or kept == held:
            return None
        is_safe = "-" in encoded or "_" in encoded
        return (base64.urlsafe_b64encode(kept) if is_safe else base64.b64encode(kept)).decode()


def _resolved(escape: re.Match[str]) -> str:
    """Return the character of a JSON escape."""
    sign = escape[0][1:]
    return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPED.get(sign, sign)


def _places(text: str) -> Callable[[int], int]:
    """Return a function from positions in the unescaped text to positions in the original text."""
    resolved, written = [0], [0]
    for escape in _ESCAPE.finditer(text):
        at = resolved[-1] + escape.start() - written[-1]
        resolved += (at, at + 1)
        written += escape.span()

    def place(at: int) -> int:
        nth = bisect_right(resolved, at) - 1
        return written[nth] + at - resolved[nth]

    return place


def _decoded(encoded: str) -> bytes | None:
    """Return the bytes of base64 in either alphabet, over lines or not, with or without padding."""
    joined = "".join(encoded.split()).rstrip("=")
    try:
        standard = joined.encode("ascii").translate(_STANDARD)
        return base64.b64decode(standard + b"=" * (-len(standard) % 4), validate=True)
    except ValueError:  # binascii.Error is one
        return None


_STANDARD = bytes.maketrans(b"-_", b"+/")


def _built_in(text: str) -> Iterator[Span]:
    for kind, pattern, is_one in _KINDS:
        for match in _compiled(pattern).finditer(text):
            group = 1 if match.lastindex else 0
            if is_one(match.group(group)):
                yield Span(*match.span(group), kind)
    yield from _passwords(text)
    if _PRIVATE in text:
        yield from _private_keys(text)
    yield from _beside_ids(text)


def _passwords(text: str) -> Iterator[Span]:
    for match in _compiled(_PASSWORD).finditer(text):
        name, quote, sign = match.group(1), match.group(2) or "", match.group(3)
        group = next(each for each in (4, 5, 6, 7) if match.group(each) is not None)
        is_bare = group == 7
        value = match.group(group).rstrip(".:") if is_bare else match.group(group)
        if _is_password(name, value) and not (is_bare and _is_words(value, sign, quote)):
            start = match.span(group)[0]
            yield Span(start, start + len(value), "password", quote if is_bare else "")


def _is_password(name: str, value: str) -> bool:
    """Return whether the value under the name of a password is one."""
    if not value or _NO_SECRET.match(value):
        return False
    # In a shell, PWD is the working directory.
    return not (re.match(r"""[\\"']*(?:old)?pwd\b""", name, re.IGNORECASE) and _PATH.match(value))


def _is_words(value: str, sign: str, quote: str) -> bool:
    """Return whether a value without quotes is code, or prose after a colon."""
    return _CODE.match(value) is not None or (sign == ":" and not quote and value.isalpha())


def _private_keys(text: str) -> Iterator[Span]:
    at, has_end = 0, True
    while begin := _BEGIN.search(text, at):
        # Without an END line for one there is none for the rest: searching again would take quadratic time.
        end = _END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        lines = end or _KEY_LINES.match(text, begin.end())
        at = lines.end() if lines else begin.end()
        if end or _KEY_LINE.search(text, begin.end(), at):
            yield Span(begin.start(), at, "private-key")


def _beside_ids(text: str) -> Iterator[Span]:
    """Yield runs of forty characters near the id of an AWS key that are not a hash."""
    ids = [match.span() for match in _compiled(_KINDS[3][1]).finditer(text)]
    at = 0
    for start, end in ids:
        at = max(at, start - _BESIDE)
        for run in _RUN.finditer(text, at, min(len(text), end + _BESIDE)):
            word = run[0]
            if len(word) == 40 and _is_mixed(word) and not (word.islower() or word.isupper()):
                yield Span(*run.span(), "aws-secret")
            at = run.end()


def _beyond_placeholders(text: str, found: list[Span]) -> list[Span]:
    """Return the spans outside existing placeholders, so that redacting twice changes nothing."""
    if _PLACEHOLDER not in text:
        return found
    there = [match.span() for match in _REDACTED.finditer(text)]
    ends = [end for _, end in there]

    def is_new(span: Span) -> bool:
        at = bisect_right(ends, span.start)
        return at == len(there) or there[at][0] >= span.end

    return [span for span in found if is_new(span)]


def _apart(found: list[Span]) -> list[Span]:
    """Return the spans in order; overlapping ones become one of the first one's kind."""
    kept: list[Span] = []
    for span in sorted(found, key=lambda each: (each.start, -each.end)):
        if kept and span.start < kept[-1].end:
            last = kept[-1]
            is_longer = span.end > last.end
            kept[-1] = last._replace(
                end=max(last.end, span.end), quote=last.quote or span.quote, text="" if is_longer else last.text
            )
        else:
            kept.append(span)
    return kept


class _Walk:
    """One pass through all texts of a message, with the number of secrets found."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.count = 0

    def message(self, message: Message) -> Message:
        changes: dict[str, Any] = {
            "role": message.role if message.role in _ROLES else self.text(message.role),
            "parts": self._parts(message.parts),
            "name": self._maybe(message.name),
            "event_id": self._id(message.event_id, self._redactor.identifier),
            "stop": self._maybe(message.stop),
            "extra": self._value(message.extra) if message.extra else message.extra,
        }
        return structs.replace(message, **changes) if self.count else message

    def _id(self, name: str | None, redacted: Callable[[str], str]) -> str | None:
        if not name:
            return name
        other = redacted(name)
        self.count += other != name
        return other

    def text(self, text: str) -> str:
        return self._texts([text])[0] if text else text

    def data(self, data: bytes) -> bytes:
        if data.startswith(_UTF_16):
            encoding, errors = "utf-16", "surrogatepass"
        elif b"\0" in data[:_BINARY_SIGN]:
            return data
        else:
            encoding, errors = "utf-8", "surrogateescape"  # text in another encoding is searched all the same
        try:
            words = data.decode(encoding, errors)
        except UnicodeDecodeError:
            return data
        kept = self.text(words)
        return data if kept == words else kept.encode(encoding, errors)

    def _maybe(self, text: str | None) -> str | None:
        return self.text(text) if text else text

    def _texts(self, texts: Sequence[str]) -> list[str]:
        """Redact consecutive texts: a secret that spans several of them is removed from each."""
        spans, at = [], 0
        for text in texts:
            spans += [span._replace(start=at + span.start, end=at + span.end) for span in self._redactor.spans(text)]
            at += len(text)
        whole = "".join(texts) if len(texts) > 1 else texts[0]
        if len(texts) > 1:
            spans = _apart([*spans, *self._redactor.spans(whole)])
        self.count += len(spans)
        return list(self._replaced(texts, whole, spans)) if spans else list(texts)

    def _replaced(self, texts: Sequence[str], whole: str, spans: Sequence[Span]) -> Iterator[str]:
        start = 0
        for text in texts:
            end, at, pieces = start + len(text), start, list[str]()
            for span in spans:
                if span.start < end and span.end > start:
                    pieces.append(whole[at : max(at, span.start)])
                    secret = whole[span.start : span.end]
                    pieces.append(span.text or self._redactor.placeholder(secret, span))
                    at = min(span.end, end)
            yield "".join([*pieces, whole[at:end]])
            start = end

    def _parts(self, parts: tuple[P, ...]) -> tuple[P, ...]:
        done: list[P] = []
        for kind, run in groupby(parts, type):
            each = list(run)
            done += self._run(each) if kind is Text else [self._part(part) for part in each]
        return tuple(done)

    def _run(self, parts: list[Any]) -> list[Any]:
        """Redact consecutive text parts."""
        texts = self._texts([part.text for part in parts])
        return [
            structs.replace(part, text=text, extra=self._extra(part)) if text != part.text or part.extra else part
            for part, text in zip(parts, texts, strict=True)
        ]

    def _part(self, part: P) -> P:
        changes: dict[str, Any] = {}
        match part:
            case Reasoning(text, signature):
                redacted = self.text(text)
                # A signature covers the exact text; a provider refuses it for another one.
                changes = {"text": redacted, "signature": signature if redacted == text else None}
            case ToolCall(call_id, name, arguments):
                changes = {
                    "call_id": self._id(call_id, self._redactor.call_id),
                    "name": self.text(name),
                    "arguments": self.text(arguments),
                }
            case ToolResult(call_id, inner, name):
                changes = {
                    "call_id": self._id(call_id, self._redactor.call_id),
                    "parts": self._parts(inner),
                    "name": self._maybe(name),
                }
            case File(mime, name, data, url):
                changes = {
                    "mime": self._maybe(mime),
                    "name": self._maybe(name),
                    "data": self._encoded(data),
                    "url": self._url(url),
                }
            case Opaque(kind, data):
                changes = {"kind": self.text(kind), "data": self._value(data)}
        return structs.replace(part, **changes, extra=self._extra(part))

    def _extra(self, part: Part) -> dict[str, Any]:
        extra: dict[str, Any] = self._value(part.extra) if part.extra else part.extra
        return extra

    def _encoded(self, data: str | None) -> str | None:
        """Redact base64 of a text."""
        held = _decoded(data) if data else None
        if held is None:
            return self._maybe(data)
        kept = self.data(held)
        return data if kept == held else base64.b64encode(kept).decode()

    def _url(self, url: str | None) -> str | None:
        """Redact an address; the text in a `data:` address may be percent-encoded."""
        head, comma, held = (url or "").partition(",")
        if not comma or not head.lower().startswith("data:") or head.lower().endswith(";base64"):
            return self._maybe(url)
        words = unquote(held, errors="surrogateescape")
        kept = self.text(words)
        return url if kept == words else f"{head},{quote(kept, errors='surrogateescape')}"

    def _value(self, value: Any, depth: int = _DEPTH) -> Any:
        """Redact a JSON value; a value under the name of a secret is one, whatever it looks like."""
        match value:
            case str():
                return self.text(value)
            case dict() if depth:
                return {self._key(key): self._entry(key, each, depth - 1) for key, each in value.items()}
            case list() if depth:
                return [self._value(each, depth - 1) for each in value]
            case dict() | list():
                return jsontext.loads(self.text(jsontext.dumps(value)))
            case _:
                return value

    def _key(self, key: Any) -> Any:
        return self.text(key) if isinstance(key, str) else key

    def _entry(self, key: Any, value: Any, depth: int) -> Any:
        redacted = self._value(value, depth)
        is_named = isinstance(key, str) and _SECRET_NAME.fullmatch(key) is not None
        is_one = isinstance(value, str | int | float) and not isinstance(value, bool)
        if is_named and is_one and redacted == value and _is_password(key, str(value)):
            self.count += 1
            return self._redactor.placeholder(str(value), Span(0, 0, "password"))
        return redacted
