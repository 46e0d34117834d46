from __future__ import annotations

import gzip
import io
import json
import sqlite3
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lossless.engine.ingest.explore import Kind, describe_bytes, explore, extension, guess_kind
from lossless.tokens import estimate

CASES = Path(__file__).parents[2] / "cases" / "explore"
HARD_LIMIT = 300
MEGABYTES = 5_000_000

# Five times what it takes on a quiet machine: this catches quadratic work, not a busy neighbour.
GENEROUS_SECONDS = 0.75


def case(name: str) -> str:
    return (CASES / name).read_text(encoding="utf-8")


FACTS: dict[str, tuple[Kind, list[str]]] = {
    "orders.json": (
        "json",
        [
            "JSON object with 4 keys",
            "on 9 lines",
            "version (line 2): integer 3",
            "orders (line 3): array of 2 objects like {id, customer: {name, city}, lines: array of 1 object}",
            "totals (line 7): {count, amount}",
            "closed (line 8): boolean",
        ],
    ),
    "events.jsonl": (
        "jsonl",
        ["5 records", "Not JSON: 1 line, the first is line 4", "user (integer: 1)", "reason in 25%"],
    ),
    "people.csv": (
        "csv",
        [
            "4 rows after a header, 5 columns",
            "1 row not 5 cells wide, first at line 5",
            "id (integer: 1)",
            "name (text: Lovelace, Ada)",
            "joined (date: 2021-03-04)",
            "score (number: 9.5)",
            "active (boolean: true)",
            "First row: 1,Lovelace, Ada,2021-03-04,9.5,true",
        ],
    ),
    "semicolons.csv": ("csv", ["CSV with semicolons", "3 rows", "3 columns", "habitants (integer: 522250)"]),
    "genes.tsv": ("tsv", ["TSV", "3 rows after a header, 2 columns", "count (integer: 12)"]),
    "shop.sql": (
        "sql",
        [
            "8 statements",
            "INSERT 3, CREATE TABLE 2, CREATE INDEX 1, COPY 1, SELECT 1",
            "customers (line 2): id, name, email",
            "orders (line 8): id, customer_id, total",
            "public.visits 3, customers 2, orders 1",
        ],
    ),
    "library.xml": (
        "xml",
        [
            "8 elements. Root: library.",
            "city=Oslo, open=yes",
            "book 2 (first at line 4) @id @lang: title 2, author 1",
            "member 1 (first at line 6) @since",
            "note 1 (first at line 7)",
        ],
    ),
    "page.html": ("html", ["Title: Tide tables", "h1 line 5: Tides", "h2 line 7: Brest harbour", "td 1"]),
    "deploy.yaml": (
        "yaml",
        [
            "1 document",
            "name (line 2): harbour",
            "services (line 4): {web, worker}",
            "volumes (line 9): list of 2 items",
            "motd (line 12): text of 2 lines",
            '"quoted key" (line 15): yes',
        ],
    ),
    "tool.toml": (
        "toml",
        [
            "3 tables, 5 keys",
            'title = "harbour"',
            "[owner] (line 3): name, mail",
            "[[ship]] (2 times, first at line 7): name",
        ],
    ),
    "tides.py": (
        "code",
        [
            "Python",
            "on 14 lines, 3 definitions",
            "Imports: math, collections",
            "7: class Tide(Base)",
            "8: def height(self, hour: int) -> float",
            "12: async def fetch(port: str, *, days: int = 1) -> list[Tide]",
        ],
    ),
    "server.ts": (
        "code",
        [
            "TypeScript",
            "./tide",
            "node:fs",
            "6: export class Harbour",
            "10: export async function listen(port: number): Promise<void>",
            "13: export const close = async (why: string) =>",
        ],
    ),
    "main.go": (
        "code",
        ["Go,", "fmt, net/http", "8: type Port struct", "12: func (p *Port) Open() error", "16: func main()"],
    ),
    "guide.md": (
        "markdown",
        [
            "4 headings, 1 code block, 1 table, 2 links",
            "sh 1",
            "1: # Guide",
            "5: ## Install",
            "16: ## Use",
            "18: ### Daily",
        ],
    ),
    "app.log": (
        "log",
        [
            "from 2024-05-01 08:00:00,001 to 2024-05-01 09:30:00,000",
            "INFO 4, WARN 1, ERROR 1, CRITICAL 1",
            "line 5: ERROR request 19 failed",
            "line 9: CRITICAL disk full",
            "3 x INFO request # served in # ms",
        ],
    ),
    "change.diff": (
        "diff",
        ["2 files, 2 hunks, +3 -2 lines", "src/tide.py (line 1) +2 -1", "docs/new page.md (line 10) +1 -1"],
    ),
    "letter.txt": (
        "text",
        [
            "39 words, 5 paragraphs",
            "on 10 lines",
            "First line: A letter from the harbour",
            "line 5: The second week",
            "Last line: Yours, Ines",
        ],
    ),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_summary_states_the_structure_of_its_file(name: str) -> None:
    kind, facts = FACTS[name]
    assert guess_kind(case(name), name, None) == kind
    summary = explore(case(name), name=name)
    for fact in facts:
        assert fact in summary


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize(("wrong", "mime"), [(None, None), ("notes.txt", "text/plain"), ("blob.dat", None)])
def test_content_is_recognised_without_a_helpful_name(name: str, wrong: str | None, mime: str | None) -> None:
    assert guess_kind(case(name), wrong, mime) == FACTS[name][0]


@pytest.mark.parametrize("name", ["orders.json", "events.jsonl", "library.xml", "page.html", "change.diff"])
@pytest.mark.parametrize("wrong", ["data.csv", "main.py", "README.md", "out.log", "dump.sql"])
def test_an_unmistakable_content_overrules_a_wrong_name(name: str, wrong: str) -> None:
    assert guess_kind(case(name), wrong, None) == FACTS[name][0]


@pytest.mark.parametrize(
    ("name", "wrong"), [("app.log", "app.json"), ("shop.sql", "shop.csv"), ("tides.py", "a.jsonl")]
)
def test_a_claim_to_be_data_is_checked(name: str, wrong: str) -> None:
    assert guess_kind(case(name), wrong, None) == FACTS[name][0]


def test_a_media_type_decides_when_the_name_is_silent() -> None:
    assert guess_kind("plain words", "upload", "text/x-python; charset=utf-8") == "code"
    assert guess_kind("plain words", "upload", "text/markdown") == "markdown"


def test_a_sentence_with_a_comma_per_line_is_not_a_table() -> None:
    assert guess_kind("Hello, you.\nGoodbye, you.\n", None, None) == "text"


@pytest.mark.parametrize(
    ("name", "mime", "expected"),
    [
        ("a.tar.gz", None, "gz"),
        ("Report.PDF", "text/plain", "pdf"),
        ("dir.d/file", "application/json", "json"),
        ("C:\\temp\\x.csv", None, "csv"),
        ("../../etc/passwd", None, "txt"),
        ("evil.sh/../", None, "txt"),
        ("a.b;rm", "image/png", "png"),
        (".env", None, "txt"),
        ("x.averylongextension", "text/x-python", "py"),
        (None, "application/vnd.api+json; charset=utf-8", "json"),
        (None, "image/svg+xml", "xml"),
        (None, "nonsense", "txt"),
        ("naïve.é", None, "txt"),
        (None, None, "txt"),
    ],
)
def test_an_extension_is_safe_in_a_path(name: str | None, mime: str | None, expected: str) -> None:
    assert extension(name, mime) == expected


def test_cut_json_says_where_it_breaks_and_what_came_before() -> None:
    whole = json.dumps({"version": 1, "items": [{"id": n, "name": "x"} for n in range(500)]}, indent=1)
    summary = explore(whole[:6_000], name="cut.json")
    assert "not valid JSON" in summary
    assert f"at line {whole[:6_000].count(chr(10)) + 1}" in summary
    assert "version: integer" in summary
    assert "Elements of items that could be read" in summary
    assert "x {id, name}" in summary


def test_json_lists_the_values_of_a_field_that_has_few() -> None:
    summary = explore(json.dumps([{"id": n, "state": ("open", "held")[n % 2]} for n in range(40)]))
    assert "JSON array of 40 elements" in summary
    assert "state (open 20 | held 20)" in summary


def test_a_number_too_long_for_python_is_still_json() -> None:
    assert "JSON array of 2 elements" in explore("[" + "7" * 6_000 + ", 1]", name="big.json")


def test_several_yaml_documents_share_their_keys() -> None:
    summary = explore("---\nkind: Pod\nspec:\n  a: 1\n---\nkind: Job\nspec:\n  b: 1\n", name="k.yml")
    assert "2 documents" in summary
    assert "kind (2 times, first at line 2): Pod" in summary


def test_a_page_of_web_requests_is_counted_by_status() -> None:
    line = '10.0.0.{0} - - [10/Oct/2000:13:55:{0:02d} -0700] "GET /p/{0} HTTP/1.1" {1} 23\n'
    summary = explore("".join(line.format(n, 500 if n == 7 else 200) for n in range(50)))
    assert "HTTP 2XX 49, HTTP 5XX 1" in summary
    assert "- line 8:" in summary
    assert "10/Oct/2000:13:55:00 -0700 to 10/Oct/2000:13:55:49 -0700" in summary


def test_lower_case_levels_count_too() -> None:
    text = "".join(f"time=2024-01-01T00:00:{n:02d}Z level={'error' if n == 3 else 'info'} msg=x\n" for n in range(20))
    summary = explore(text)
    assert "INFO 19, ERROR 1" in summary
    assert "line 4:" in summary


def test_a_long_outline_is_thinned_over_the_whole_file() -> None:
    summary = explore("".join(f"def step_{n}():\n    pass\n\n" for n in range(1_000)), name="steps.py")
    assert "1: def step_0()" in summary
    assert "more between them" in summary
    shown_lines = [int(line.split(":")[0]) for line in summary.splitlines() if ": def step_" in line]
    assert max(shown_lines) > 2_500


def test_classes_come_before_their_methods_when_room_is_short() -> None:
    body = "".join(f"    def method_{n}(self): ...\n" for n in range(20))
    summary = explore("".join(f"class Part{n}:\n{body}\n" for n in range(14)), name="parts.py")
    assert "class Part13" in summary
    assert "method_" not in summary


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    text = case("people.csv")
    windows = "\ufeff" + text.replace("\n", "\r\n")
    assert "4 rows after a header, 5 columns" in explore(windows, name="people.csv")
    assert "id (integer: 1)" in explore(windows, name="people.csv")


def test_what_is_quoted_cannot_leave_its_line_or_hide() -> None:
    evil = "na\x1b[31mme\u202e\u2028\x85\x00x"
    text = json.dumps({evil: evil, "ok": 1}, ensure_ascii=False)
    summary = explore(text)
    assert not set(summary) & set("\x1b\u202e\u2028\x85\x00")
    assert "\\x1b[31m" in summary
    assert "\\u202e" in summary
    assert len(summary.splitlines()) == 4


BOMB = '<?xml version="1.0"?>\n<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">\n' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "&a;" * 10}">\n' for n in range(12)
)


def test_entities_are_never_expanded() -> None:
    summary = explore(BOMB + "]>\n<b>&a11;</b>", name="bomb.xml")
    assert "never expanded" in summary
    assert "aaaaaaaaaa" * 2 not in summary


def repeated(unit: str) -> str:
    return (unit * (MEGABYTES // len(unit) + 1))[:MEGABYTES]


EVIL = {
    "open brackets": lambda: "[" * 100_000,
    "megabytes of brackets": lambda: repeated("["),
    "nested objects": lambda: repeated('{"a":'),
    "empty arrays": lambda: "[" + repeated("[],"),
    "one long line": lambda: repeated("word "),
    "parentheses": lambda: repeated("("),
    "newlines": lambda: "x" + repeated("\n"),
    "nothing but spaces": lambda: repeated(" "),
    "nul": lambda: repeated("\0"),
    "surrogates": lambda: repeated("\ud800\udfff"),
    "bidi": lambda: repeated("\u202e"),
    "quotes": lambda: repeated('"'),
    "a million columns": lambda: "a," * 1_000_000 + "\n1,2\n",
    "tiny rows": lambda: repeated("a,b\n"),
    "tiny tags": lambda: repeated("<a/>"),
    "open tags": lambda: repeated("<a>"),
    "open comments": lambda: repeated("<!--"),
    "headings": lambda: repeated("<h1>"),
    "entities": lambda: repeated('<!ENTITY a "&b;">'),
    "fences": lambda: repeated("```\n"),
    "copies": lambda: repeated("COPY a FROM stdin;\n"),
    "deep indent": lambda: repeated(" " * 30 + "x\n"),
    "carriage returns": lambda: repeated("\r"),
}
NAMES = (
    None,
    "a.json",
    "a.csv",
    "a.sql",
    "a.xml",
    "a.html",
    "a.yaml",
    "a.toml",
    "a.c",
    "a.ts",
    "a.md",
    "a.log",
    "a.diff",
)


def within_bounds(summary: str) -> bool:
    return estimate(summary) <= HARD_LIMIT and "\0" not in summary and bool(summary.encode("utf-8"))


@pytest.mark.parametrize("name", EVIL)
def test_hostile_content_costs_no_more_than_any_other(name: str) -> None:
    text = EVIL[name]()
    for claim in NAMES:
        start = time.process_time()
        summary = explore(text, name=claim)
        spent = time.process_time() - start
        assert within_bounds(summary), claim
        assert spent < GENEROUS_SECONDS, (claim, spent)


def some_json() -> str:
    item = {"name": "harbour", "tags": ["a", "b"], "place": {"city": "Porto", "zip": "4000"}}
    return json.dumps([{"id": n, "score": n / 7, **item} for n in range(43_000)])[:MEGABYTES]


BULK: dict[str, Callable[[], str]] = {
    "json": some_json,
    "jsonl": lambda: "".join(json.dumps({"id": n, "kind": "visit"}) + "\n" for n in range(160_000))[:MEGABYTES],
    "log": lambda: repeated("2024-01-01 10:00:00,123 INFO worker 12 handled request 991 in 30 ms\n"),
    "csv": lambda: "id,name,price\n" + repeated('17,"Ada, L",9.50\n'),
    "text": lambda: repeated("It rained for three days, and nobody went out.\n\n"),
    "code": lambda: repeated("def measure(hour, port=None):\n    return hour * 2\n\n"),
    "sql": lambda: repeated("INSERT INTO visits VALUES (1, 'Ines', '2024-01-01');\n"),
    "xml": lambda: "<all>" + repeated('<ship id="1"><name>Gull</name></ship>\n'),
    "markdown": lambda: repeated("## Part\n\nSome words, a [link](x).\n\n"),
    "yaml": lambda: "services:\n" + repeated("  web:\n    image: x\n    ports: [80]\n"),
}


@pytest.mark.parametrize("kind", BULK)
def test_five_megabytes_take_a_moment(kind: str) -> None:
    text = BULK[kind]()
    start = time.process_time()
    summary = explore(text)
    assert time.process_time() - start < GENEROUS_SECONDS
    assert guess_kind(text, None, None) == kind
    assert within_bounds(summary)


names = st.none() | st.text(max_size=20) | st.sampled_from([name for name in NAMES if name])
mimes = st.none() | st.text(max_size=20) | st.sampled_from(["text/csv", "application/json", "text/html", "text/x-c"])
anything = st.text(alphabet=st.characters(), max_size=400)
FRAGMENTS = """<a> </a> <h1> <!ENTITY CREATE TABLE COPY stdin; INSERT INTO SELECT def class ``` # ## ERROR 2024-01-01
00:00:00 diff --git a/x b/x @@ -1 +1 @@ +++ --- - key: [t] = null 1 \\. |---| HTTP/1.1" 500 #!/bin/sh import"""
fragments = st.sampled_from([*FRAGMENTS.split(), *"{}[]()\"':,;|\n\n\n\t  \0\x1b\u202e\u2028é\ud800"])
hostile = st.lists(fragments, max_size=60).map("".join)


@given(text=anything | hostile, name=names, mime=mimes)
@example(text="", name=None, mime=None)
@example(text="\n", name="a.csv", mime=None)
@example(text="\ud800", name="\udfff.\ud800", mime="\ud800/x")
@example(text="`" * 10, name="a.md", mime=None)
def test_any_text_gets_a_short_clean_summary(text: str, name: str | None, mime: str | None) -> None:
    summary = explore(text, name=name, mime=mime)
    assert within_bounds(summary)
    assert all(line.isprintable() for line in summary.split("\n"))
    assert summary == explore(text, name=name, mime=mime)


@given(name=names, mime=mimes)
def test_any_name_gives_a_plain_extension(name: str | None, mime: str | None) -> None:
    found = extension(name, mime)
    assert 1 <= len(found) <= 10
    assert found.isascii()
    assert found.isalnum()


def archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("word/document.xml", "x" * 100)
        packed.writestr("evil\x1b.txt", "y")
    return target.getvalue()


def database() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE ships (name)")
        return connection.serialize()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + b"\x08\2\0\0\0"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + (90).to_bytes(2, "big") + (160).to_bytes(2, "big") + bytes(12)
WEBP_LOSSY = (
    b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + (300).to_bytes(2, "little") + (200).to_bytes(2, "little")
)
WEBP_LARGE = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (299).to_bytes(3, "little") + (199).to_bytes(3, "little")

BINARIES: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "png": (lambda: PNG, ["PNG image", "640 x 480 pixels"]),
    "gif": (lambda: b"GIF89a\x0a\0\x14\0\xff\xff\0", ["GIF image", "10 x 20 pixels"]),
    "jpeg": (lambda: JPEG, ["JPEG image", "160 x 90 pixels"]),
    "webp": (lambda: WEBP_LOSSY, ["WebP image", "300 x 200 pixels"]),
    "large webp": (lambda: WEBP_LARGE, ["WebP image", "300 x 200 pixels"]),
    "pdf": (
        lambda: b"%PDF-1.7\n/Type /Pages\n/Type /Page\n/Type/Page\n",
        ["PDF document", "Version 1.7", "At least 2 pages"],
    ),
    "zip": (archive, ["ZIP archive", "2 members", "word/document.xml (100)", "evil\\x1b.txt (1)", "Word document"]),
    "gzip": (lambda: gzip.compress(b"hello\n" * 100), ["gzip data", "600 bytes", "Inside: hello"]),
    "sqlite": (database, ["SQLite database", "Tables seen: ships"]),
    "unknown": (lambda: bytes(range(256)), ["Binary data, 256 bytes", "Starts with 00 01 02"]),
    "text": (lambda: b'{"a": 1}', ["JSON object with 1 key"]),
    "utf-16": (lambda: "id,a\n1,2\n3,4\n".encode("utf-16"), ["CSV", "2 columns"]),
}


@pytest.mark.parametrize("name", BINARIES)
def test_bytes_are_told_by_their_header(name: str) -> None:
    make, facts = BINARIES[name]
    summary = describe_bytes(make())
    for fact in facts:
        assert fact in summary


@given(
    magic=st.sampled_from([make()[:40] for make, _ in BINARIES.values()] + [b"", b"MZ", b"RIFF", b"PK\5\6"]),
    rest=st.binary(max_size=200),
    name=names,
)
def test_any_bytes_get_a_short_clean_summary(magic: bytes, rest: bytes, name: str | None) -> None:
    summary = describe_bytes(magic + rest, name=name)
    assert within_bounds(summary)
    assert all(line.isprintable() for line in summary.split("\n"))
