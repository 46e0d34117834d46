"""Names, identifiers, paths and addresses, and a check that a source contains them.

Whatever is written in several pieces (`src/a_b.py`, `checkout-api`, 10.0.0.1, `UploadQueue`) is compared piece
by piece: each piece must follow the one before it somewhere in the source.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from lossless.engine.compaction.faithful import dates
from lossless.engine.compaction.faithful.claim import Claim, Judged, Kind, words
from lossless.engine.compaction.faithful.ordinary import is_ordinary
from lossless.engine.compaction.faithful.wording import CJK, PIECE, Wording, lowered


def _paths(letter: str) -> re.Pattern[str]:
    """Return the pattern of paths and addresses whose letters are these."""
    part = rf"(?:{letter}|[.@+-])" if CJK in letter else r"[\w.@+-]"
    return re.compile(
        rf"(?i:https?)://[^\s<>()\[\]\"'`,;\uff00-\uff65{CJK}]++"
        rf"|(?<!{letter})(?<![.@+~\\/-])(?:[A-Za-z]:[\\/]|[~.]{{0,2}}[\\/])?{part}++(?:[\\/]{part}++)++"
        rf"|(?<!{letter})(?<![.@+~\\/<-])[~.]{{0,2}}/[A-Za-z_]{part}*+"
    )


_LETTER = rf"[^\W{CJK}]"
_PATH, _PATH_IN_CJK = _paths(r"\w"), _paths(_LETTER)
_DOTTED = re.compile(r"(?<![\w.-])[\w-]++(?:\.[\w-]++)++")
_DOTTED_IN_CJK = re.compile(rf"(?<!{_LETTER})(?<![.-])(?:{_LETTER}|-)++(?:\.(?:{_LETTER}|-)++)++")
_WIDE = re.compile(f"[{CJK}]")
_TOKEN = re.compile(rf"(?<!\d[.,])[^\W_{CJK}](?:[^\W{CJK}]|[-'’&](?=\w))*+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_HUMP = re.compile(r"(?<!\w)\w*?(?:[a-z][A-Z]|[A-Z]{2}[a-z])\w*")
_QUANTITY = re.compile(
    r"(?:v|r|p|q|s|rs|kr|chf|eur|usd|gbp|no)?\d+[a-zµ]{0,8}(?:\d\d[a-z])?(?:-[a-z]+)*|\d+(?:-\d+)+|\d+x\d+", re.I
)
_CASE = re.compile(r"(?:ами|ями|ого|ому|ой|ою|ей|ею|ом|ем|ым|им|ов|ев|ам|ах|а|я|у|ю|е|ы|и|о|ь|й)$")
_DEEP = 24
_NUMBERED = re.compile(r"\d[\s)]*$")
_HEX = re.compile(r"[0-9a-f]{6,}")
_OPENS = re.compile(r"(?:^|[\n.!?。:：;→|•*]|--?|[–—]|\d[.)])[\s\"'“”„«(`*_\[]*$")
_ODD = re.compile(r"\d|_|[a-z][A-Z]")
_GENITIVE = ("'s", "’s", "'S", "’S")
_DIGIT = re.compile(r"\d")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}$")
_NOT_LATIN = re.compile(r"[^\W\d_a-zA-Z\u00aa-\u024f]")

# Capitalised by habit or by grammar, and what everybody may say without a source.
_COMMON = words(
    """user users assistant agent agents tool tools system the a an and or of in on at to for with by from not no none yes
    i ok todo todos fixme note notes na n/a api apis cli ui ux ci cd db id ids url urls http https sql json yaml csv html css
    xml pdf pr prs qa os ip dns ssh tls ssl vpn cpu gpu ram ssd io ai ml llm sdk ide eta fyi asap faq poc mvp kpi vat usd eur
    gbp chf jpy am pm utc gmt english german french spanish italian chinese japanese russian internet web email wi-fi mr
    mrs ms dr prof st kb mb gb tb kib mib gib khz mhz ghz kwh mbps gbps sr jr eod tbd tba wip vs re cc bcc it they she he we you its their this that these those there if
    when while after before since because but so as is are was were be has have had will would should must may can do does
    expand files file next open done fix fixed cause root outcome decision decisions status deadline task goal result
    results issue plan update constraint complete completed pending ready active blocked unknown
    customer client company team landlord tenant supervisor today yesterday"""
)
_TITLES = words("mr mrs ms miss dr prof st herr herrn frau sir madam aunt uncle grandma grandpa")
_GERMAN = words("der die das und nicht ist mit für von den auf im ein eine wird werden wurde am bei zu dem")
_ENGLISH = words("the and of to is for with by from it at are be because")
_ROMANCE = words(
    "el la los las una que para con por del se les des une est pour dans avec sur pas il che di non per sono het een van niet voor uma "
    "não com os em"
)
_ALIASES = {
    "kubernetes": "k8s", "k8s": "kubernetes", "postgres": "postgresql", "postgresql": "postgres", "javascript": "js",
    "js": "javascript", "typescript": "ts", "ts": "typescript", "python": "py", "github": "gh", "prod": "production",
    "terraform": "tf", "golang": "go", "germany": "de", "euro": "eur", "usa": "us", "uk": "gb",
}  # fmt: skip


class Vocabulary(Wording):
    """The names in a source, in any form."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._people: dict[str, bool] = {}
        self._mixed: dict[tuple[str, str], bool] = {}

    def has_run(self, pieces: Sequence[str]) -> bool:
        """Return True if each of these words follows the one before it."""
        if len(pieces) == 1:
            return pieces[0] in self.words
        if not self.words.issuperset(pieces):
            return False
        return self.follows(*pieces) or all(self.follows(*pair) for pair in pairwise(pieces))

    def has_path(self, path: str) -> bool:
        """Return True if the source contains a path, or its folder and its name separately."""
        pieces = _pieces(path)
        if not pieces or self.has_run(pieces):
            return True
        parts = path.replace("\\", "/").split("/")[:_DEEP]
        seams = ((_pieces("/".join(parts[:at])), _pieces("/".join(parts[at:]))) for at in range(1, len(parts)))
        return any(len(outer) > 1 and inner and self.has_run(outer) and self.has_run(inner) for outer, inner in seams)

    def has_folder(self, name: str) -> bool:
        return name in self._folders

    def has_identifier(self, token: str) -> bool:
        pieces = _pieces(token)
        if self.has_run(pieces) or (len(pieces) > 1 and self.words.issuperset(pieces)):
            return True
        joined = "".join(pieces)
        if joined in self.words or self._is_joined(joined):
            return True
        if _HEX.fullmatch(joined) and self._begins(joined, _DEEP + 40):
            return True
        return token.isalpha() and self.has_run([part.lower() for part in _CAMEL.findall(token)] or pieces)

    def has_name(self, word: str, *, exactly: bool = False) -> bool:
        """Return True if the source contains a name, in this or another form of the word."""
        low = lowered(word)
        forms = (low, low + "s", low.removesuffix("s"), low.removesuffix("es"), _ALIASES.get(low, low))
        if any(form in self.words for form in forms):
            return True
        if _folded(low) in self._folded or self._is_joined(low):
            return True
        if _bare(low) in self._bare if exactly else self._has_form(low):
            return True
        return (word.isupper() and low.removesuffix("s") in self.initials) or low in self._humps

    def _has_form(self, low: str) -> bool:
        """Return True for another form of a name: Germany and German, Светлана and Светлане."""
        if not low.isascii() and _NOT_LATIN.search(low):
            return self._begins(low[: max(3, len(low) - 2)], 4)
        return (len(low) >= 4 and self._begins(low, 3)) or any(
            low[:-n] in self.words for n in (1, 2, 3) if len(low) - n >= 4
        )

    def is_person(self, word: str) -> bool:
        """Return True if the source contains a word, and never as an ordinary one in lower case."""
        if word not in self._people:
            low = lowered(word)
            known = low in self.words and low not in _COMMON
            self._people[word] = known and f" {low} " not in self.source
        return self._people[word]

    def is_mixed(self, first: str, family: str) -> bool:
        """Return True if the source has this first name and this family name, but each with another one."""
        if (first, family) not in self._mixed:
            self._mixed[first, family] = self._find_mixed(first, family)
        return self._mixed[first, family]

    def _find_mixed(self, first: str, family: str) -> bool:
        if self.follows(lowered(first), lowered(family)) or lowered(family) not in self.words:
            return False
        before = re.findall(rf"(\S{{1,40}})\s{re.escape(family)}(?!\w)", self.source)
        others = before and all(each[:1].isupper() and each != first for each in before)
        return bool(others) and re.search(rf"(?<!\w){re.escape(first)} [^\W\d_a-z]", self.source) is not None

    def _is_joined(self, text: str) -> bool:
        """Return True if two or three words in a row make up this one: `UploadQueue`, upload queue."""
        for cut in range(1, min(len(text), 40)):
            if (first := text[:cut]) in self.words:
                rest = text[cut:]
                if rest in self.words and self.follows(first, rest):
                    return True
                seconds = (rest[:n] for n in range(1, min(len(rest), 40)) if {rest[:n], rest[n:]} <= self.words)
                if any(self.follows(first, second) and self.follows(second, rest[len(second) :]) for second in seconds):
                    return True
        return False

    def _begins(self, start: str, more: int) -> bool:
        """Return True if a word of the source begins so, and is not much longer."""
        at = bisect_left(self._sorted, start)
        return (
            at < len(self._sorted) and self._sorted[at].startswith(start) and len(self._sorted[at]) <= len(start) + more
        )

    @cached_property
    def mostly_latin(self) -> bool:
        """Return True if names stay unchanged: other scripts are transliterated in an English summary."""
        return self.source.isascii() or 20 * len(_NOT_LATIN.findall(self.source)) < len(self.source)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.words)

    @cached_property
    def _folded(self) -> set[str]:
        return {word if word.isascii() else _folded(word) for word in self.words}

    @cached_property
    def _bare(self) -> set[str]:
        return {_bare(word) for word in self.words if not word.isascii()}

    @cached_property
    def _humps(self) -> set[str]:
        """Return the words of a camelCase name, and runs of them."""
        found: set[str] = set()
        written = [
            word for word in set(self.source.split()) if not (word.islower() or word.istitle() or word.isupper())
        ]
        for word in set(_HUMP.findall(" ".join(written))):
            humps = [hump.lower() for hump in _CAMEL.findall(word[:80])]
            found.update(
                "".join(humps[start:end]) for start in range(len(humps)) for end in range(start + 1, len(humps) + 1)
            )
        return found

    @cached_property
    def _folders(self) -> set[str]:
        ends = (piece[-80:].split()[-1:] for piece in self.source.replace("\\", "/").split("/"))
        return {end[0].lstrip("([{<`'\"") for end in ends if end}


def _pieces(text: str) -> list[str]:
    return PIECE.findall(lowered(text))


def _bare(word: str) -> str:
    """Return a Cyrillic name without the ending of its case."""
    return _CASE.sub("", word) if len(word) > 4 else word


def _folded(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def take_paths(text: str, vocabulary: Vocabulary) -> tuple[list[Judged], str]:
    """Return the paths and addresses of a summary, and the text with blanks in their place."""
    found: list[Judged] = []
    base = 0

    def take(match: re.Match[str]) -> str:
        path = match[0].rstrip(".,:-")
        if not _is_path(path, vocabulary):
            return match[0]
        found.append((Claim("path", path), vocabulary.has_path(path), base + match.start()))
        return " " * len(path) + match[0][len(path) :]

    pattern = _PATH_IN_CJK if _WIDE.search(text) else _PATH
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append(pattern.sub(take, line) if "/" in line or "\\" in line else line)
        base += len(line) + 1
    return found, "\n".join(lines)


def take_dotted(text: str, vocabulary: Vocabulary) -> tuple[list[Judged], str]:
    """Return file names, hosts and versions, and the text with blanks in their place."""
    found: list[Judged] = []

    def take(match: re.Match[str]) -> str:
        kind = _dotted_kind(match[0])
        if not kind:
            return match[0]
        bare = match[0].lower().removeprefix("v")
        known = any(vocabulary.has_run(_pieces(form)) for form in (match[0], bare, f"v{bare}"))
        found.append((Claim(kind, match[0]), known, match.start()))
        return " " * len(match[0])

    return found, (_DOTTED_IN_CJK if _WIDE.search(text) else _DOTTED).sub(take, text)


def _is_path(text: str, vocabulary: Vocabulary) -> bool:
    parts = [part for part in re.split(r"[\\/]", text) if part]
    if text[:1] in "/~\\." or "://" in text or text[1:2] == ":":
        return True
    if all(part[0].isdigit() for part in parts):
        return False
    if _EXTENSION.search(text) or len(parts) > 2 or text[:1] == "@":
        return True
    return "_" in text or vocabulary.has_folder(parts[0])


def _dotted_kind(text: str) -> Kind | None:
    parts = text.split(".")
    if all(part.isdigit() for part in parts):
        grouped = all(len(part) == 3 for part in parts[1:])
        return "number" if len(parts) > 2 and not grouped else None
    if len(parts[0]) == 1 and not parts[0].isdigit() and len(parts) == 2:
        return None
    if len(parts) == 2 and re.fullmatch(r"[A-Za-z]{0,3}\d+", parts[0]) and parts[1][0].isdigit():
        return None  # 2.4GHz, R1.64M
    if re.fullmatch(r"[vV]?\d+(\.\d+)+[\w-]*", text):
        return "number" if len(parts) > 2 else None
    return "path" if _EXTENSION.search(text) and len(parts) == 2 else "name"


def take_names(text: str, vocabulary: Vocabulary) -> tuple[list[Judged], str]:
    """Return the names and identifiers of a summary, and the text with blanks for identifiers."""
    found: list[Judged] = []
    said = set(_pieces(text))
    german, foreign = len(_GERMAN & said) >= 4, len(_ROMANCE & said) >= max(3, len(_ENGLISH & said))
    kept, at, before, opens, end = [], 0, "", -1, -1
    for match in _TOKEN.finditer(text):
        token = match[0][:-2] if match[0].endswith(_GENITIVE) else match[0]
        if _is_identifier(token):
            found.append((Claim("name", token), vocabulary.has_identifier(token), match.start()))
            kept += [text[at : match.start()], " " * len(match[0])]
            at = match.end()
        elif _may_be_name(token):
            # A heading in capitals opens its line with each of its words.
            opening = _is_opening(text, match.start()) or text[opens : match.start()].isspace()
            opens = match.end() if opening else -1
            titled = before.lower() in _TITLES
            labels = opening and text[match.end() : match.end() + 1] in (":", "：")
            # The name after a first name, which no other name with the same beginning can stand for.
            follows = (
                text[end : match.start()] == " " and _may_be_name(before) and not _is_counted(text, end - len(before))
            )
            family = follows and not is_ordinary(token.lower()) and vocabulary.is_person(before)
            grammar = german or labels or (foreign and opening)  # another reason for its capital
            if titled or family or token.isupper() or not grammar:
                judged = _names(token, opening and not titled and not family, vocabulary, family=family)
                found += ((*each, match.start()) for each in judged)
            if family and vocabulary.is_mixed(before, token):
                found.append((Claim("name", f"{before} {token}"), False, match.start()))
        before, end = token, match.end()
    return found, "".join(kept) + text[at:]


def _may_be_name(token: str) -> bool:
    # Two capitals (EN, UK, QA) are written for so many things that they say nothing.
    short = len(token) == 1 or (len(token) == 2 and token.isupper())
    return token[0].isupper() and not short and not dates.is_named(token.lower()) and not _DIGIT.search(token)


def _is_identifier(token: str) -> bool:
    if not _ODD.search(token):
        return False
    return not _QUANTITY.fullmatch(token) and not token.replace("-", "").isdigit()


def _is_opening(text: str, at: int) -> bool:
    return bool(_OPENS.search(text, max(0, at - 12), at))


def _is_counted(text: str, at: int) -> bool:
    """Return True if a number stands before a word: "4 Liter Milch" are no names."""
    return bool(_NUMBERED.search(text, max(0, at - 4), at))


def _names(token: str, opening: bool, vocabulary: Vocabulary, *, family: bool) -> Iterator[tuple[Claim, bool]]:
    if not vocabulary.mostly_latin and not _NOT_LATIN.search(token) and not token.isupper():
        return
    for part in re.split(r"[-'’&]", token):
        if not part[:1].isupper() or len(part) < 2 or part.lower() in _COMMON:
            continue
        known = part.lower() in vocabulary.words
        if not known and opening and not part.isupper() and _is_opening_word(part):
            continue
        yield Claim("name", token), known or vocabulary.has_name(part, exactly=family)


def _is_opening_word(word: str) -> bool:
    """Return True if a capital only marks the start of a sentence."""
    low = word.lower()
    return is_ordinary(low) or bool(_NOT_LATIN.search(low))
