"""List the files, tools and topics of a source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from lossless.summarizers.extractive.passages import ParsedSource
from lossless.summarizers.injections import find_injections

_KEY = r"(?:[a-z]{0,12}_)?(?:path|file|filename|filepath|notebook)"
_PATH = re.compile(
    rf'"{_KEY}"\s{{0,4}}:\s{{0,4}}"((?:[^"\\\n]|\\.){{1,300}})"|(?:^|; ){_KEY}: (.{{1,300}}?)(?=; [\w.-]{{1,60}}: |$)',
    re.I,
)
"""A path in JSON, and in arguments that are written as text."""
_PATCH = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\\\n\"*⏎]{1,300})")
_SHELL = re.compile(
    r"(?:^|[;&|\"⏎]\s{0,4}|(?:^|; )[\w.-]{1,60}: )(?:git )?(rm|mv|touch)\s+(?:-\S+\s+){0,4}"
    r"([^\s;&|\"'\\]{1,200})(?:\s+([^\s;&|\"'\\⏎]{1,200}))?"
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


def list_files(parsed: ParsedSource, source: str) -> list[str]:
    """Return the files of a source with the operations on each, changed ones first."""
    done: dict[str, set[str]] = {}
    for path, what in (*_listed(parsed.files), *_called(parsed.calls), *_mentioned(parsed, source)):
        if path and not find_injections(path):
            done.setdefault(path, set()).add(what)
    tails = {path.rpartition("/")[2] for path in done if "/" in path}
    # A bare name in a sentence is usually the file whose full path occurs elsewhere.
    shown = {path: _main_operations(what) for path, what in done.items() if what != {"named"} or path not in tails}
    return [f"{path} ({'+'.join(what)})" for path, what in sorted(shown.items(), key=lambda item: _RANK[item[1][0]])]


def _main_operations(what: set[str]) -> list[str]:
    """Return the operations in order, without reading and naming if the file was changed."""
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
        yield from ((_clean(quoted or plain), what) for quoted, plain in _PATH.findall(arguments))
        yield from ((_clean(path), _operation(verb)) for verb, path in _PATCH.findall(arguments))
        for verb, *paths in _SHELL.findall(arguments):
            yield from ((_clean(path), _operation(verb)) for path in paths if "." in path or "/" in path)


def _mentioned(parsed: ParsedSource, source: str) -> Iterator[tuple[str, str]]:
    yield from ((_clean(name), "attached") for name in _ATTACHED.findall(source))
    yield from ((name, "stored") for name in dict.fromkeys(_STORED.findall(source)))
    speech = "\n".join(each.text for each in parsed.passages if each.kind == "said")
    for path in dict.fromkeys(_NAMED.findall(speech)):
        if path.rpartition(".")[2].lower() in _KNOWN:
            yield path, "named"


def _operation(tool: str) -> str:
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool).lower()))
    return next((done for done, verbs in _VERBS.items() if words & verbs), "named")


def _clean(path: str) -> str:
    return " ".join(path.replace("\\/", "/").replace(",", " ").split())


def list_tools(parsed: ParsedSource) -> list[str]:
    """Return the tools that were called with their counts, the most used first."""
    counted = Counter(name.replace(",", " ") for name, _ in parsed.calls)
    for topic in parsed.topics:
        if found := _COUNTED.fullmatch(topic):
            counted[found[1]] += int(found[2])
    return [f"{name} x{count}" for name, count in counted.most_common(_MOST_TOOLS) if not find_injections(name)]


def list_topics(parsed: ParsedSource) -> list[str]:
    """Return the topics that older summaries left out."""
    return [topic for topic in parsed.topics if not _COUNTED.fullmatch(topic) and not find_injections(topic)]
