"""The editors of configuration files change what they are asked to, whatever the layout of the rest."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lossless.hosts.install import json_text, toml_text, yaml_text
from lossless.hosts.install.entries import Append, Entry, Hook, Put, add, is_ours, missing, take_out
from lossless.hosts.install.json_tree import JsonSyntaxError, parse

yaml: Any = import_module("yaml")

KEYS = st.sampled_from(["a", "b", "plugins", "hooks", "Stop", "slots", "naïve key", 'quo"te', "mcpServers", "x/y"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 99), st.text(max_size=6), st.sampled_from(["// no", "/* no */", "{", ","])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\t", "  // note\n", "/* a, b */", "\n\n/* } */\n  "])


@st.composite
def documents(draw: st.DrawFn, members: st.SearchStrategy[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """A JSON text with comments and trailing commas in any layout, and its value."""
    value = draw(members)

    def gap() -> str:
        return draw(SPACES)

    def write(part: Any) -> str:
        if isinstance(part, dict | list):
            opening, closing = "{}" if isinstance(part, dict) else "[]"
            items = (
                [f"{json.dumps(key)}{gap()}:{gap()}{write(each)}" for key, each in part.items()]
                if isinstance(part, dict)
                else [write(each) for each in part]
            )
            comma = draw(st.sampled_from(["", ","])) if items else ""
            return opening + gap() + f"{gap()},{gap()}".join(items) + gap() + comma + gap() + closing
        return json.dumps(part, ensure_ascii=draw(st.booleans()))

    newline = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return mark + (gap() + write(value) + gap()).replace("\n", newline), value


def comments(text: str) -> list[str]:
    """The comments of a text, outside of its strings."""
    found = re.findall(r'"(?:\\.|[^"\\])*"|(//[^\r\n]*|/\*.*?\*/)', text, re.S)
    return [each for each in found if each]


@given(documents(st.dictionaries(KEYS, VALUES, max_size=4)))
def test_a_text_in_any_layout_is_read_as_its_value(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    root = parse(text)
    assert root is not None
    assert root.plain() == value


@given(documents(st.dictionaries(KEYS, VALUES, max_size=4)), st.lists(KEYS, min_size=1, max_size=3), VALUES)
def test_a_value_is_put_where_it_belongs_and_nothing_else_changes(
    document: tuple[str, dict[str, Any]], path: list[str], new: Any
) -> None:
    text, value = document
    wanted = merged(value, path, new)
    if wanted is None:
        with pytest.raises(ValueError, match="is not"):
            json_text.put(text, path, new)
        return
    changed = json_text.put(text, path, new)
    root = parse(changed)
    assert root is not None
    assert json.dumps(root.plain()) == json.dumps(wanted)
    assert json_text.put(changed, path, new) == changed
    if not replaces(value, path):
        assert comments(changed) == comments(text)


def merged(value: Any, path: list[str], new: Any) -> Any:
    """The value with another at a path; None if a value on the path is neither an object nor null."""
    if not path:
        if isinstance(new, dict) and isinstance(value, dict):
            for key, each in new.items():
                value = {**value, key: merged(value[key], [], each) if key in value else each}
            return value
        return new
    if value is None:
        value = {}
    if not isinstance(value, dict):
        return None
    inner = merged(value.get(path[0]), path[1:], new)
    if inner is None and not (new is None and can_reach(value.get(path[0]), path[1:])):
        return None
    return {**value, path[0]: inner}


def can_reach(value: Any, path: list[str]) -> bool:
    return not path or value is None or (isinstance(value, dict) and can_reach(value.get(path[0]), path[1:]))


def replaces(value: Any, path: list[str]) -> bool:
    """Whether there is a value at a path already: comments inside of it go with it."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


OURS: list[Entry] = [
    Append(("plugins", "load", "paths"), "/opt/lossless"),
    Put(("plugins", "slots", "contextEngine"), "lossless"),
    Put(("mcpServers", "lcm"), {"command": "python", "args": ["-m", "lossless"]}, named=True),
    Hook("Stop", "python -m lossless hook codex", "codex", 20),
    Hook("SessionStart", "python -m lossless hook codex", "codex", 20, ""),
]
TAKEN = ("plugins", "hooks", "mcpServers")


@given(documents(st.dictionaries(KEYS.filter(lambda key: key not in TAKEN), VALUES, min_size=1, max_size=4)))
@example(('{"a":1}', {"a": 1}))
@example(("{\r\n\t'a': 1, // x\r\n}", {"a": 1}))
def test_entries_that_are_added_and_taken_out_leave_the_same_bytes(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    changed = add("json", text, OURS)
    assert missing("json", changed, OURS) == []
    assert add("json", changed, OURS) == changed
    assert comments(changed) == comments(text)
    left = take_out("json", changed, OURS, text)
    assert comments(left) == comments(text)
    root = parse(left)
    assert root is not None
    assert root.plain() == value
    if re.fullmatch(r"\ufeff?\s*\{(\s|//[^\n]*\n|/\*.*?\*/)*\S.*\S\s*\}\s*", text, re.S) and "//" not in text:
        assert "".join(left.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text", ["{", "{'a'}", '{"a": 01}', "{a b: 1}", '{"a": "x}', "[1 2]", '{"a": 1} x', "nope", '"\\u12"', "[" * 500]
)
def test_what_is_not_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(JsonSyntaxError, match=r"line 1: "):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: .5, $b: +1, c: 0xFF, d: -Infinity,}", {"a": 0.5, "$b": 1, "c": 255, "d": float("-inf")}),
        ("{'it\\'s': 'a\\\nb', x: '\\x41\\u00e9'}", {"it's": "ab", "x": "Aé"}),
        ('{"smile": "\\ud83d\\ude42"}', {"smile": "🙂"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("\ufeff // nothing\n", None),
    ],
)
def test_the_additions_of_json5_are_read(text: str, value: object) -> None:
    root = parse(text)
    assert (None if root is None else root.plain()) == value


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("lcm hook codex", True),
        ("/usr/bin/lcm hook codex", True),
        ("'/my venv/bin/python' -P -m lossless hook codex", True),
        ('"C:\\venv\\lcm.exe" hook codex', True),
        ("lcm hook claude-code", False),
        ("other hook codex", False),
        ("mylcm hook codex", False),
        ("lcm hook codex2", False),
        ("echo lossless", False),
    ],
)
def test_only_our_own_hook_is_recognised(command: str, expected: bool) -> None:
    assert is_ours(command, "codex") is expected


TABLE = {"command": 'C:\\py"thon', "args": ["-m", "lossless", "mcp"], "startup": 20}
TOML_PARTS = st.lists(
    st.sampled_from(
        [
            "# a comment",
            "",
            "key = 1 # one",
            'text = """\n[mcp_servers.lcm]\nno = 1\n"""',
            "[table]\nx = [\n  1, # one\n  2,\n]",
            "[[list]]\na = 1",
            "[[list]]\na = 2\n\n# the end of the list",
            '[mcp_servers.other]\ncommand = "x"',
            '[mcp_servers."lcm two"]\ncommand = "y"',
            "[ mcp_servers . third ]\ncommand = 'z'",
        ]
    ),
    unique=True,
    max_size=6,
)


@given(TOML_PARTS, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from(["", "\ufeff"]))
def test_a_table_is_added_to_toml_and_removed_without_a_trace(
    parts: list[str], newline: str, ends: bool, mark: str
) -> None:
    parts = sorted(parts, key=lambda part: part.startswith("["))  # keys belong to the table above them
    parts.sort(key=lambda part: "[[list]]" in part)
    text = mark + ("\n".join(parts) + ("\n" if ends else "")).replace("\n", newline)
    try:
        before = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        return
    changed = toml_text.put(text, ("mcp_servers", "lcm"), TABLE)
    after = toml_text.parse(changed)
    assert after["mcp_servers"].pop("lcm") == TABLE
    assert (after if "mcp_servers" in before else {k: v for k, v in after.items() if k != "mcp_servers"}) == before
    assert toml_text.put(changed, ("mcp_servers", "lcm"), TABLE) == changed
    left = toml_text.remove(changed, ("mcp_servers", "lcm"), text)
    assert left.rstrip("\r\n") == text.rstrip("\r\n")


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.lcm]\ncommand = "lcm" # mine\nargs = [\n  "mcp", # the server\n]\nenabled = false\n\n[other]\na = 1\n',
        '[mcp_servers]\nlcm = { command = "lcm", args = ["mcp"] } # inline\nother = { command = "x" }\n',
        'mcp_servers.lcm = { command = "lcm" }\nmcp_servers.other.command = "x"\n[a]\nb = 1\n',
        '["mcp_servers".\'lcm\']\ncommand = "lcm"\n[mcp_servers.lcm.env]\nA = "1"\n# end\n',
        "[a]\nb = 1\n[mcp_servers.lcm]",
    ],
)
def test_a_table_that_exists_is_updated_and_comes_back(text: str) -> None:
    path = ("mcp_servers", "lcm")
    changed = toml_text.put(text, path, TABLE)
    assert toml_text.get(changed, path) == {**toml_text.get(text, path), **TABLE}
    assert toml_text.put(changed, path, TABLE) == changed
    left = toml_text.remove(changed, path, text)
    assert toml_text.parse(left) == toml_text.parse(text)
    gone = toml_text.remove(changed, path)
    assert toml_text.get(gone, path) is None
    assert comments_of_toml(text) >= comments_of_toml(gone)


def comments_of_toml(text: str) -> set[str]:
    return set(re.findall(r"#.*", text))


YAML_PARTS = st.lists(
    st.sampled_from(
        [
            "# a comment",
            "",
            "model:\n  default: x # one",
            "text: |\n  plugins:\n    enabled:\n      - lossless",
            "list:\n- a\n- b",
            "quoted: 'plugins: {}'",
            "plugins2:\n  enabled: [a]",
            "flow: {a: [1, 2], b: c}",
        ]
    ),
    unique=True,
    max_size=5,
)
PLUGINS = st.sampled_from(
    [
        "",
        "plugins:",
        "plugins: # none",
        "plugins: null",
        "plugins: {}",
        "plugins: {enabled: [a, 'b'], disabled: []}",
        "plugins: {}  # none",
        "plugins:\n  enabled: []",
        "plugins:\n  enabled: [a, b] # two",
        "plugins:\n  enabled: [ 'a' , ]",
        "plugins:\n  enabled:",
        'plugins:\n  enabled:\n    - a # one\n    # two\n    - "b"\n  disabled:\n    - c',
        "plugins:\n  enabled:\n  - a\n  - b\n  other: 1",
        "plugins:\n    # deep\n    disabled: [x]",
        "'plugins':\n  \"enabled\": [a]",
    ]
)
CONTEXT = st.sampled_from(
    [
        "",
        "context:",
        "context:\n  engine: compressor # built in",
        "context:\n  engine: 'com # pressor'   # x",
        "context:\n  engine:\n  threshold: 1",
        "context: {engine: old}",
        "context:\n   threshold: 0.5\n\n   # the end",
    ]
)
ENTRIES: list[Entry] = [Append(("plugins", "enabled"), "lossless"), Put(("context", "engine"), "lossless")]


@given(YAML_PARTS, PLUGINS, CONTEXT, YAML_PARTS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_settings_are_added_to_yaml_and_removed(
    first: list[str], plugins: str, context: str, last: list[str], newline: str, ends: bool
) -> None:
    parts = [*first, plugins, *(part for part in last if part not in first), context]
    text = ("\n".join(parts) + ("\n" if ends else "")).replace("\n", newline)
    before = yaml.safe_load(text) or {}
    changed = add("yaml", text, ENTRIES)
    after = yaml.safe_load(changed)
    assert after["plugins"]["enabled"] == [*((before.get("plugins") or {}).get("enabled") or []), "lossless"]
    assert after["context"] == {**(before.get("context") or {}), "engine": "lossless"}
    rest = ("plugins", "context")
    assert {k: v for k, v in after.items() if k not in rest} == {k: v for k, v in before.items() if k not in rest}
    assert re.findall(r"#.*", changed) == re.findall(r"#.*", text) or "#" in context
    assert add("yaml", changed, ENTRIES) == changed
    left = yaml.safe_load(take_out("yaml", changed, ENTRIES, text)) or {}
    assert without_nothing(left) == without_nothing(before)


def without_nothing(value: Any) -> Any:
    """Leave out empty values: after a change by the user, `a: []` and `a:` may have become the other."""
    if isinstance(value, dict):
        inner = {key: without_nothing(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each not in (None, [], {})}
    return value


def test_a_list_that_excludes_others_is_only_extended() -> None:
    entry = Append(("plugins", "allow"), "lossless", only_if_used=True)
    assert add("json", '{"plugins": {"allow": []}}', [entry]) == '{"plugins": {"allow": []}}'
    assert add("json", "{}", [entry]) == "{}"
    assert add("json", '{"plugins": {"allow": ["a"]}}', [entry]) == '{"plugins": {"allow": ["a", "lossless"]}}'


@pytest.mark.parametrize(("grammar", "text"), [("json", "\ufeff"), ("toml", "\ufeff"), ("yaml", "\ufeff")])
def test_a_file_with_only_a_mark_keeps_it(grammar: str, text: str) -> None:
    server = Put(("mcp_servers", "lcm"), TABLE, named=True)
    changed = {
        "json": lambda: add("json", text, OURS),
        "toml": lambda: add("toml", text, [server]),
        "yaml": lambda: add("yaml", text, ENTRIES),
    }[grammar]()
    assert changed.startswith("\ufeff")
    assert yaml_text.get(changed, ("context", "engine")) == "lossless" if grammar == "yaml" else True
