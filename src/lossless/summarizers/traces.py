"""What a conversation did besides talking: the files it touched, the tools it used, the topics it was about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lossless.summarizers.cues import BY_WORD, COMMON
from lossless.summarizers.directives import orders
from lossless.summarizers.passages import Reading
from lossless.summarizers.telling import Told

_PATH = re.compile(
    r'"(?:[a-z]{0,12}_)?(?:path|file|filename|filepath|notebook)"\s{0,4}:\s{0,4}"((?:[^"\\\n]|\\.){1,300})"', re.I
)
_PATCH = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\\\n\"*]{1,300})")
_SHELL = re.compile(
    r"(?:^|[;&|\"]\s{0,4})(?:git )?(rm|mv|touch)\s+(?:-\S+\s+){0,4}([^\s;&|\"'\\]{1,200})(?:\s+([^\s;&|\"'\\]{1,200}))?"
)
_NAMED = re.compile(
    r"(?<![\w/@:.-])(?:~?/|\.{1,2}/)?[\w.-]{1,60}(?:/[\w.-]{1,60}){0,12}\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w/@])"
)
_ATTACHED = re.compile(r"\[media attachment: ([^\n\],]{1,200})")
_STORED = re.compile(r"(?<![A-Za-z0-9_])file_[0-9a-f]{16,64}(?![A-Za-z0-9_])")
_LISTED = re.compile(r"(.+) \(([a-z+]+)\)")
_COUNTED = re.compile(r"(.+?) x(\d{1,6})")
_SUFFIXES = """c cc cfg cpp css csv db doc docx env go gz h html ini ipynb java jpg js json jsonl jsx kt lock log md mjs odt pdf
    php png py pyi rb rs rst scss sh sql svg swift tex toml ts tsx tsv txt xls xlsx xml yaml yml zip"""
_KNOWN = frozenset(_SUFFIXES.split())
_VERBS = {
    "deleted": {"delete", "remove", "unlink", "rm"},
    "moved": {"move", "rename", "mv"},
    "written": {"write", "create", "save", "touch", "add", "upload"},
    "edited": {"edit", "replace", "patch", "update", "insert", "append", "modify", "apply"},
    "attached": set(),
    "stored": set(),
    "read": {"read", "view", "open", "cat", "get", "show", "load", "fetch", "download"},
    "named": set(),
}
_MOST_TOOLS = 5
_RANK = {done: nth for nth, done in enumerate(_VERBS)}


def files(reading: Reading, source: str) -> list[str]:
    """The files of a source with what was done to each, those that were changed first."""
    done: dict[str, set[str]] = {}
    for path, what in (*_listed(reading.files), *_called(reading.calls), *_mentioned(reading, source)):
        if path and not orders(path):
            done.setdefault(path, set()).add(what)
    tails = {path.rpartition("/")[2] for path in done if "/" in path}
    # A bare name in a sentence is most often the file whose whole path stands elsewhere.
    told = {path: _told(what) for path, what in done.items() if what != {"named"} or path not in tails}
    return [f"{path} ({'+'.join(what)})" for path, what in sorted(told.items(), key=lambda item: _RANK[item[1][0]])]


def _told(what: set[str]) -> list[str]:
    """Having been read or named says nothing more once a file was changed."""
    ranked = sorted(what, key=lambda each: _RANK[each])
    return [each for each in ranked if _RANK[each] < _RANK["read"]] or ranked[:1]


def _listed(items: Iterable[str]) -> Iterator[tuple[str, str]]:
    for item in items:
        listed = _LISTED.fullmatch(item)
        known = [what for what in listed[2].split("+") if what in _RANK] if listed else []
        yield from ((listed[1], what) for what in known) if listed and known else [(item, "named")]


def _called(calls: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, arguments in calls:
        what = _operation(name)
        yield from ((_clean(path), what) for path in _PATH.findall(arguments))
        yield from ((_clean(path), _operation(verb)) for verb, path in _PATCH.findall(arguments))
        for verb, *paths in _SHELL.findall(arguments):
            yield from ((_clean(path), _operation(verb)) for path in paths if "." in path or "/" in path)


def _mentioned(reading: Reading, source: str) -> Iterator[tuple[str, str]]:
    yield from ((_clean(name), "attached") for name in _ATTACHED.findall(source))
    yield from ((name, "stored") for name in dict.fromkeys(_STORED.findall(source)))
    said = "\n".join(each.text for each in reading.passages if each.kind == "said")
    for path in dict.fromkeys(_NAMED.findall(said)):
        if path.rpartition(".")[2].lower() in _KNOWN:
            yield path, "named"


def _operation(tool: str) -> str:
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool).lower()))
    return next((done for done, verbs in _VERBS.items() if words & verbs), "named")


def _clean(path: str) -> str:
    return " ".join(path.replace("\\/", "/").replace(",", " ").split())


def tools(reading: Reading) -> list[str]:
    """The tools that were called and how often, the busiest first."""
    counted = Counter(name.replace(",", " ") for name, _ in reading.calls)
    for topic in reading.topics:
        if found := _COUNTED.fullmatch(topic):
            counted[found[1]] += int(found[2])
    return [f"{name} x{count}" for name, count in counted.most_common(_MOST_TOOLS) if not orders(name)]


def topics(reading: Reading, told: Sequence[Told]) -> list[str]:
    """What a source speaks of: the topics that older summaries left out, then the words most used, speech before output."""
    older = [topic for topic in reading.topics if not _COUNTED.fullmatch(topic) and not orders(topic)]
    spoken = _common(each for each in told if each.passage.kind == "said")
    shown = _common(each for each in told if each.passage.kind in ("output", "alarm"))
    return list(dict.fromkeys([*older, *spoken, *shown]))


def _common(told: Iterable[Told]) -> list[str]:
    counted = Counter(word for each in told for word in set(each.spoken))
    # Sets have no order of their own: without the word itself two runs could differ.
    return sorted(filter(_is_topic, counted), key=lambda word: (-counted[word], word))


def _is_topic(word: str) -> bool:
    low = word.lower()
    return word.isalpha() and (len(word) > 4 or not word.isascii()) and low not in COMMON and low not in BY_WORD
