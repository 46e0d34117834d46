"""Recognize the kind of a text: by its name and media type, unless the content contradicts them."""

from __future__ import annotations

import csv
import json
import re
from typing import Literal, TypeAlias

from lossless.engine.ingest.explore.languages import EXTENSIONS as LANGUAGES
from lossless.engine.ingest.explore.languages import recognise

Kind: TypeAlias = Literal[
    "json", "jsonl", "csv", "tsv", "sql", "xml", "html", "yaml", "toml", "code", "markdown", "log", "diff", "text"
]

HEAD = 16_384

_BY_EXTENSION: dict[str, Kind] = {
    **dict.fromkeys(("json", "geojson", "ipynb", "har", "webmanifest"), "json"),
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
    "csv": "csv",
    **dict.fromkeys(("tsv", "tab"), "tsv"),
    **dict.fromkeys(("sql", "ddl"), "sql"),
    **dict.fromkeys(("xml", "svg", "rss", "atom", "xsd", "xsl", "plist", "kml", "gpx"), "xml"),
    **dict.fromkeys(("html", "htm", "xhtml", "vue", "svelte"), "html"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("toml", "ini", "cfg"), "toml"),
    **dict.fromkeys(("md", "markdown", "mdx", "mkd"), "markdown"),
    "log": "log",
    **dict.fromkeys(("diff", "patch"), "diff"),
    **dict.fromkeys(LANGUAGES, "code"),
}

_EXTENSION_BY_MIME = {
    "application/gzip": "gz",
    "application/javascript": "js",
    "application/json": "json",
    "application/jsonl": "jsonl",
    "application/octet-stream": "bin",
    "application/pdf": "pdf",
    "application/sql": "sql",
    "application/toml": "toml",
    "application/typescript": "ts",
    "application/x-ndjson": "jsonl",
    "application/x-sh": "sh",
    "application/xml": "xml",
    "application/yaml": "yaml",
    "application/zip": "zip",
    "audio/mpeg": "mp3",
    "image/jpeg": "jpg",
    "text/javascript": "js",
    "text/markdown": "md",
    "text/plain": "txt",
    "text/tab-separated-values": "tsv",
    "text/x-c": "c",
    "text/x-diff": "diff",
    "text/x-golang": "go",
    "text/x-java-source": "java",
    "text/x-python": "py",
    "text/x-ruby": "rb",
    "text/x-rustsrc": "rs",
    "text/x-shellscript": "sh",
    "video/quicktime": "mov",
}

_EXTENSION = re.compile(r"[^/\\]\.([A-Za-z0-9]{1,10})\s*\Z")
_SUBTYPE = re.compile(r"[a-z]+/(?:x-)?(?:[a-z0-9.-]{1,80}\+)?([a-z0-9]{1,10})")

_JSON = re.compile(r'\{\s*(?:"[^"\n]{0,500}"?\s*:|\})|\[\s*(?:[\[\]{"]|(?:-?\d[\d.eE+-]{0,40}|true|false|null)\s*,)')
_DIFF = re.compile(r"diff --(?:git|cc) |--- [^\n]{1,500}\n\+\+\+ |Index: [^\n]{1,500}\n=====|commit [0-9a-f]{40}\b")
_HUNK = re.compile(r"\n@@ -\d{1,9}(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@")
_DOCTYPE_HTML = re.compile(r"(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S)
_TAG = re.compile(r"<(?:!--|!DOCTYPE\s|([A-Za-z_][\w:.-]{0,80})[\s/>])")
_CLOSING = re.compile(r"</[A-Za-z_][\w:.-]{0,80}>|/>")
_HTML_TAGS = frozenset(
    ("html", "head", "body", "div", "p", "table", "ul", "ol", "span", "section", "main", "form", "h1")
)

_TIMESTAMP = (
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d)?"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|\d\d:\d\d:\d\d[.,]\d"
)
_STAMPED = re.compile(rf"\n[^\n]{{0,60}}?(?:{_TIMESTAMP})")
_LEVELLED = re.compile(r"\n[^\n]{0,40}?\b(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL|NOTICE)\b")
_SQL = re.compile(
    r"\n[ \t]{0,20}(?:CREATE (?:TABLE|INDEX|VIEW|UNIQUE|OR)|INSERT INTO|DROP TABLE|ALTER TABLE|SELECT [^\n]{0,200}\bFROM\b"
    r"|UPDATE [^\n]{1,100} SET\b|DELETE FROM|BEGIN;|COMMIT;|PRAGMA )",
    re.I,
)
_YAML = re.compile(r"\n(?:[ \t]*(?:- )?[\w\"'./-]{1,80}:(?=[ \n])|[ \t]*- |[ \t]*#|---|[ \t]+\S)")
_YAML_NESTED = re.compile(r"\n[ \t]{1,20}+(?:- )?[\w\"'./-]{1,80}:(?=[ \n])")
_YAML_KEY = re.compile(r"\n[\w\"'./-]{1,80}:(?=[ \n])")
_TOML_TABLE = re.compile(r"\n\[{1,2}[\w.\"' :/-]{1,100}\]{1,2}[ \t]*(?=\n|#)")
_TOML_KEY = re.compile(r"\n[\w.\"-]{1,80}[ \t]*=[ \t]*\S")
_HEADING = re.compile(r"\n#{1,6} \S")
_MARKED = re.compile(r"\n```|\n[-*] |\]\(|\n\|[^\n]*\|[ \t]*(?=\n)|\*\*\w")


def extension(name: str | None, mime: str | None) -> str:
    """Return a file extension that is safe in a path: from the name, else the media type, else `txt`."""
    if found := _EXTENSION.search((name or "")[-300:]):
        return found[1].lower()
    plain = (mime or "")[:200].partition(";")[0].strip().lower()
    if plain in _EXTENSION_BY_MIME:
        return _EXTENSION_BY_MIME[plain]
    subtype = _SUBTYPE.fullmatch(plain)
    return subtype[1] if subtype else "txt"


def guess_kind(text: str, name: str | None = None, mime: str | None = None) -> Kind:
    """Return the kind of a text. Unmistakable content overrules its name and media type."""
    head = text[:HEAD].lstrip()
    claimed = _BY_EXTENSION.get(extension(name, None)) or _BY_EXTENSION.get(extension(None, mime))
    certain = _unmistakable(head, text)
    if certain and not (certain == "xml" and claimed == "html"):
        return certain
    if claimed in (None, "json", "jsonl", "csv", "tsv"):
        return _sniffed(head, text, claimed)
    return claimed


def delimiter(head: str, least: int = 2) -> str | None:
    """Return the character that splits the text into at least `least` rows of equal width."""
    agreed = {mark: _agreement(head, mark, least) for mark in "\t,;|"}
    best = max(agreed, key=lambda mark: agreed[mark])
    return best if agreed[best] >= 0.8 else None


def _agreement(head: str, mark: str, least: int) -> float:
    try:
        rows = list(filter(None, csv.reader(head.replace("\0", "").splitlines(keepends=True), delimiter=mark)))
    except csv.Error:
        return 0
    rows = rows[:-1] if len(head) >= HEAD - 1 else rows
    if len(rows) < least or len(rows[0]) < 2 or not any(row[-1] for row in rows):
        return 0
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _unmistakable(head: str, text: str) -> Kind | None:
    if _JSON.match(head):
        return "jsonl" if _is_json_lines(head, text) else "json"
    if head.startswith("<?xml"):
        return "html" if "<html" in head[:1000] else "xml"
    if _DOCTYPE_HTML.match(head):
        return "html"
    if _DIFF.match(head) and (_HUNK.search(head) or head.startswith("diff --git ")):
        return "diff"
    return None


def _is_json_lines(head: str, text: str) -> bool:
    lines = [line for line in text[: 4 * HEAD].lstrip().split("\n", 3)[:3] if line.strip()]
    if len(lines) < 2:
        return _long_records(text)
    return all(_is_json(line) for line in lines[:2])


def _long_records(text: str) -> bool:
    # Records longer than the head: judge by how the first line ends and the second begins.
    end = text.find("\n", HEAD)
    around = text[max(0, end - 1) : end + 2]
    return end > 0 and around in ("}\n{", "]\n[")


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _sniffed(head: str, text: str, claimed: Kind | None) -> Kind:
    found = _by_content("\n" + head, text)
    if found in ("text", "yaml") and claimed:
        return claimed
    if found in ("csv", "tsv") and claimed in ("csv", "tsv"):
        return claimed
    return found


def _by_content(head: str, text: str) -> Kind:
    lines = max(1, head.count("\n"))
    cells = None if _is_prose(head) else delimiter(head.lstrip(), least=3)
    if head.startswith(("\n#!", "\n<?php")):
        return "code"
    if _is_log(head, lines, cells):
        return "log"
    if len(_SQL.findall(head)) >= 2 and ";" in head:
        return "sql"
    if cells in ("\t", ","):
        return "tsv" if cells == "\t" else "csv"
    if recognise(head):
        return "code"
    return _by_layout(head, lines, cells, text)


def _by_layout(head: str, lines: int, cells: str | None, text: str) -> Kind:
    written = max(1, lines - head.count("\n\n"))
    if _TOML_TABLE.search(head) and len(_TOML_KEY.findall(head)) >= 0.4 * written:
        return "toml"
    if _is_yaml(head, written):
        return "yaml"
    headings = len(_HEADING.findall(head))
    if headings >= 2 or (headings and _MARKED.search(head)):
        return "markdown"
    if (tag := _TAG.match(head, 1)) and (text[-200:].rstrip().endswith(">") or len(_CLOSING.findall(head)) >= 3):
        return "html" if (tag[1] or "").lower() in _HTML_TAGS else "xml"
    if _HUNK.search(head) and "\n+++ " in head:
        return "diff"
    return "csv" if cells else "text"


def _is_prose(head: str) -> bool:
    lines = [line for line in head.split("\n") if line.strip()]
    sentences = sum(line.rstrip().endswith((".", "!", "?", ":")) for line in lines)
    return head.strip().count("\n\n") > 0.1 * len(lines) or sentences > 0.4 * len(lines)


def _is_yaml(head: str, written: int) -> bool:
    keys, nested = len(_YAML_KEY.findall(head)), len(_YAML_NESTED.findall(head))
    return (keys >= 2 or (keys == 1 and nested >= 3)) and len(_YAML.findall(head)) >= 0.8 * written


def _is_log(head: str, lines: int, cells: str | None) -> bool:
    stamped, levelled = len(_STAMPED.findall(head)), len(_LEVELLED.findall(head))
    if max(stamped, levelled) < 3 or max(stamped, levelled) < 0.3 * lines:
        return False
    header = head.find("\n", 1)
    table = cells is not None and not _STAMPED.match(head[:header]) and not _LEVELLED.match(head[:header])
    return not table
