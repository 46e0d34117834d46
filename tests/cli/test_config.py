"""`lcm config`: which settings are in force and why, and a file that is changed without harm."""

from __future__ import annotations

import json
import os
import resource
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from lossless.cli import cli
from lossless.config import edit_file as settings_file
from lossless.errors import ConfigBackupFailed, ConfigWriteFailed


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in [name for name in os.environ if name.startswith("LCM_") and name != "LCM_OUTPUT"]:
        monkeypatch.delenv(variable)
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setenv("LCM_CONFIG", str(tmp_path / "lcm.toml"))
    return tmp_path / "lcm.toml"


def lcm(*words: str) -> Result:
    return CliRunner().invoke(cli, ["config", *words])


def data(*words: str) -> Any:
    return json.loads(lcm(*words, "--json").stdout)["data"]


def refusal(*words: str) -> tuple[int, str]:
    ended = lcm(*words, "--json")
    return ended.exit_code, json.loads(ended.stderr)["error"]["code"]


def everything(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_it_shows_what_somebody_set_and_where(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml.write_text('freshTailCount = 32\ndatabase_path = "postgresql://me:hush@host/db"\n')
    monkeypatch.setenv("LCM_CONTEXT_THRESHOLD", "0.6")
    assert [line.split() for line in lcm("show").stdout.splitlines()] == [
        [str(toml)],
        ["setting", "from", "value"],
        ["database_path", "lcm.toml", '"postgresql://me:***@host/db"'],
        ["context_threshold", "LCM_CONTEXT_THRESHOLD", "0.6"],
        ["fresh_tail_count", "lcm.toml", "32"],
    ]
    told = data("show")
    assert told["environment"] == ["LCM_CONTEXT_THRESHOLD"]
    assert told["settings"]["context_threshold"] == {
        "is_set": True,
        "raw": "0.6",
        "effective": 0.6,
        "source": "environment",
        "where": "LCM_CONTEXT_THRESHOLD",
    }
    assert "hush" not in json.dumps(told)


def test_it_shows_every_setting_on_request_and_the_database_that_the_line_names(toml: Path) -> None:
    toml.touch()
    assert lcm("show").stdout.splitlines()[1] == "All settings have their default value. --all lists them."
    ended = CliRunner().invoke(cli, ["--db", "other.db", "config", "show", "--all", "--json"])
    told = json.loads(ended.stdout)["data"]["settings"]
    assert told["fresh_tail_count"]["effective"] == 64
    assert (told["database_path"]["effective"], told["database_path"]["source"]) == ("other.db", "argument")


def test_what_is_wrong_with_a_configuration_is_shown_beside_what_is_right(toml: Path) -> None:
    toml.write_text("fresh_tial_count = 1\nleaf_min_fanout = 4\ncache_ttl_seconds = 5\n")
    ended = lcm("show", "--json")
    told = json.loads(ended.stdout)
    assert (ended.exit_code, told["ok"]) == (4, False)
    assert told["data"]["problems"] == [
        "lcm.toml: fresh_tial_count is not a setting. Did you mean fresh_tail_count?",
    ]
    assert told["data"]["warnings"] == [
        "lcm.toml: cache_ttl_seconds is known from other versions of LCM and has no effect here."
    ]
    assert told["data"]["settings"]["leaf_min_fanout"]["effective"] == 4


def test_a_value_is_told_as_written_and_as_it_counts(toml: Path) -> None:
    toml.write_text('prompt_dir = "prompts"\n')
    assert data("get", "prompt_dir") == {
        "name": "prompt_dir",
        "is_set": True,
        "raw": "prompts",
        "effective": str(toml.parent / "prompts"),
        "source": "file",
        "where": "lcm.toml",
    }
    assert data("get", "LCM_FRESH_TAIL_COUNT")["effective"] == data("get", "freshTailCount")["effective"] == 64
    assert lcm("get", "timezone").stdout == "not set\n"


@pytest.mark.parametrize("verb", [("get",), ("explain",), ("set", "--unset"), ("set", "7")])
def test_a_name_that_is_none_is_answered_with_the_nearest(toml: Path, verb: tuple[str, ...]) -> None:
    words = (verb[0], "fresh_tial_count", *verb[1:])
    assert refusal(*words) == (3, "CONFIG_KEY_NOT_FOUND")
    assert lcm(*words).stderr == "lcm: There is no setting fresh_tial_count. Did you mean fresh_tail_count?\n"


def test_a_setting_is_explained(toml: Path) -> None:
    toml.write_text("fresh_tail_count = 32\n")
    assert lcm("explain", "fresh_tail_count").stdout.splitlines() == [
        "fresh_tail_count: Number of newest messages that are not summarised, as long as they take at most half of the window.",
        "  now      32, from lcm.toml",
        "  default  64",
        "  values   whole number, at least 1",
        "  set it   fresh_tail_count = 32",
        f"           in {toml}, or `lcm config set fresh_tail_count VALUE`",
        "           LCM_FRESH_TAIL_COUNT overrides the file, an argument overrides both",
    ]
    assert data("explain", "compaction_trigger")["range"] == "both, leaf, threshold"


SECRETS = """\
redact = [
  "on",  # the usual
]  # and ours
"""
WISHES = """\
custom_instructions = '''
summary_model = "no setting # but words"
'''
"""
WRITTEN = f"""\
# Mine.
  freshTailCount  =  64   # long enough

{SECRETS}{WISHES}
# Nights.
[[context_threshold_overrides]]
session_pattern = "**:cron:**"
context_threshold = 0.5
"""


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        (["fresh_tail_count", "32"], "64   #", "32   #"),
        (["redact", "on, acme-[0-9]+"], SECRETS, 'redact = ["on", "acme-[0-9]+"]  # and ours\n'),
        (["custom_instructions", "Short."], WISHES, 'custom_instructions = "Short."\n'),
        (["incremental_max_depth", "-1"], "\n\n# Nights", "\nincremental_max_depth = -1\n\n# Nights"),
        (["summary_model", "openai/b"], "\n\n# Nights", '\nsummary_model = "openai/b"\n\n# Nights'),
        (["--unset", "fresh_tail_count"], "  freshTailCount  =  64   # long enough\n", ""),
        (["--unset", "redact"], SECRETS, ""),
    ],
)
def test_everything_but_the_value_stays_as_it_was_written(toml: Path, words: list[str], old: str, new: str) -> None:
    assert WRITTEN.count(old) == 1
    toml.write_text(WRITTEN)
    assert lcm("set", *words).exit_code == 0
    assert toml.read_text() == WRITTEN.replace(old, new)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b'timezone = "UTC"\n'),
        (b"enabled = true", b'enabled = true\ntimezone = "UTC"\n'),
        (b"enabled = true\r\n", b'enabled = true\r\ntimezone = "UTC"\r\n'),
        (b"\xef\xbb\xbftimezone = ''\n", b'\xef\xbb\xbftimezone = "UTC"\n'),
        (b"'timezone' = 'CET'", b"'timezone' = \"UTC\""),
        (
            b"[[context_threshold_overrides]]\nmodel = 'x'\ncontext_threshold = 1\n",
            b"timezone = \"UTC\"\n\n[[context_threshold_overrides]]\nmodel = 'x'\ncontext_threshold = 1\n",
        ),
    ],
)
def test_a_file_keeps_its_line_ends_its_mark_and_its_tables(toml: Path, before: bytes, after: bytes) -> None:
    toml.write_bytes(before)
    assert lcm("set", "timezone", "UTC").exit_code == 0
    assert toml.read_bytes() == after


def test_the_first_setting_makes_the_file_for_its_owner_alone(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_CONFIG", str(toml.parent / "new" / "lcm.toml"))
    told = data("set", "fresh_tail_count", "32")
    made = Path(told["path"])
    assert (told["old"], told["new"], told["backup"], told["problems"]) == (None, 32, None, [])
    assert made.read_text() == "fresh_tail_count = 32\n"
    assert made.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in made.parent.iterdir()] == ["lcm.toml"]


def test_the_file_as_it_was_is_kept_beside_it_and_both_keep_the_mode(toml: Path) -> None:
    toml.write_text("fresh_tail_count = 64\n")
    toml.chmod(0o640)
    told = data("set", "fresh_tail_count", "32")
    backup = Path(told["backup"])
    assert backup.name.startswith("lcm.toml.backup-")
    assert backup.read_text() == "fresh_tail_count = 64\n"
    assert toml.stat().st_mode & 0o777 == backup.stat().st_mode & 0o777 == 0o640
    assert data("set", "fresh_tail_count", "32")["backup"] is None
    assert len(everything(toml.parent)) == 2


def test_a_variable_that_goes_before_the_file_is_told(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "16")
    assert lcm("set", "fresh_tail_count", "32").stderr == "LCM_FRESH_TAIL_COUNT is set and overrides lcm.toml.\n"
    assert data("get", "fresh_tail_count")["effective"] == 16


def test_no_password_is_told_when_an_address_is_set(toml: Path) -> None:
    address = "postgresql://me:hush@host/db"
    for _ in range(2):
        ended = lcm("set", "database_path", address, "--json")
        assert "hush" not in ended.output
    assert tomllib.loads(toml.read_text()) == {"database_path": address}


@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        ("fresh_tail_count = 6O  # mine\nenabled = true\n", ["fresh_tail_count", "60"], "fresh_tail_count = 60  # mine\nenabled = true\n"),
        ("fresh_tial_count = 1\n", ["--unset", "fresh_tial_count"], ""),
        ("fresh_tail_count = 1\nfreshTailCount = 2\n", ["--unset", "freshTailCount"], "fresh_tail_count = 1\n"),
        ("fresh_tail_count = 0\nleaf_min_fanout = 0\n", ["leaf_min_fanout", "8"], "fresh_tail_count = 0\nleaf_min_fanout = 8\n"),
    ],
)  # fmt: skip
def test_a_broken_configuration_is_mended_a_mistake_at_a_time(
    toml: Path, before: str, words: list[str], after: str
) -> None:
    toml.write_text(before)
    assert lcm("set", *words).exit_code == 0
    assert toml.read_text() == after


REFUSED = {
    "an unknown name": ("", ["fresh_tial_count", "1"], 3, "CONFIG_KEY_NOT_FOUND"),
    "a value of another kind": ("", ["fresh_tail_count", "many"], 4, "CONFIG_VALIDATION_FAILED"),
    "a value out of range": ("fresh_tail_count = 3\n", ["fresh_tail_count", "0"], 4, "CONFIG_VALIDATION_FAILED"),
    "a rule that is none": ("", ["context_threshold_overrides", '[{"model": "x"}]'], 4, "CONFIG_VALIDATION_FAILED"),
    "two names of one setting": ("dbPath = 'a'\ndatabase_path = 'b'\n", ["database_path", "c"], 4, "CONFIG_VALIDATION_FAILED"),
    "rules in tables of their own": (WRITTEN, ["--unset", "context_threshold_overrides"], 4, "CONFIG_VALIDATION_FAILED"),
    "a file that stays broken": ("enabled = yes\n", ["fresh_tail_count", "3"], 4, "CONFIG_PARSE_FAILED"),
    "a file broken elsewhere": ("enabled = yes\nfresh_tail_count = 1\n", ["fresh_tail_count", "3"], 4, "CONFIG_PARSE_FAILED"),
    "a file that is no text": ("enabled = true # \udcff\n", ["enabled", "false"], 4, "CONFIG_PARSE_FAILED"),
    "null": ("fresh_tail_count = 1\n", ["fresh_tail_count", "null"], 2, "INVALID_INPUT"),
    "a value and --unset": ("fresh_tail_count = 1\n", ["fresh_tail_count", "3", "--unset"], 2, "INVALID_ARGUMENT"),
    "neither": ("fresh_tail_count = 1\n", ["fresh_tail_count"], 2, "INVALID_ARGUMENT"),
    "an option that is none": ("fresh_tail_count = 1\n", ["fresh_tail_count", "-x"], 2, "INVALID_ARGUMENT"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "words", "exits", "code"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_leaves_every_byte(toml: Path, before: str, words: list[str], exits: int, code: str) -> None:
    toml.write_bytes(before.encode(errors="surrogateescape"))
    files = everything(toml.parent)
    assert refusal("set", *words) == (exits, code)
    assert everything(toml.parent) == files


def test_a_link_is_refused_and_so_is_what_is_no_file(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toml.parent / "real.toml").write_text("enabled = true\n")
    toml.symlink_to("real.toml")
    files = everything(toml.parent)
    assert refusal("set", "enabled", "false") == (4, "CONFIG_SYMLINK_UNSUPPORTED")
    monkeypatch.setenv("LCM_CONFIG", str(toml.parent))
    assert refusal("set", "enabled", "false") == (4, "CONFIG_SYMLINK_UNSUPPORTED")
    assert everything(toml.parent) == files
    assert toml.is_symlink()


def test_a_place_that_cannot_be_written_is_refused(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml.write_text("enabled = true\n")
    monkeypatch.setenv("LCM_CONFIG", str(toml / "lcm.toml"))
    assert refusal("set", "enabled", "false") == (4, "CONFIG_WRITE_FAILED")
    assert everything(toml.parent) == {"lcm.toml": b"enabled = true\n"}


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_changes_nothing(toml: Path) -> None:
    toml.write_text("enabled = true\n")
    with full_disk(), pytest.raises(ConfigWriteFailed, match=r"lcm\.toml cannot be written: File too large"):
        settings_file.put("enabled", "false")
    assert everything(toml.parent) == {"lcm.toml": b"enabled = true\n"}


def test_without_a_backup_nothing_is_changed(toml: Path) -> None:
    toml.write_text("enabled = true\n")
    (toml.parent / "lcm.toml.backup-19700101-000000-000000").touch()
    files = everything(toml.parent)
    with pytest.raises(ConfigBackupFailed):
        settings_file.put("enabled", "false", clock=lambda: 0)
    assert everything(toml.parent) == files


def test_what_somebody_else_writes_meanwhile_is_not_lost(toml: Path) -> None:
    toml.write_text("enabled = true\n")

    def an_editor_saves() -> float:
        toml.write_text("enabled = true\nfresh_tail_count = 3\n")
        return 0

    with pytest.raises(ConfigWriteFailed, match="another program"):
        settings_file.put("enabled", "false", clock=an_editor_saves)
    assert everything(toml.parent) == {"lcm.toml": b"enabled = true\nfresh_tail_count = 3\n"}


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip)


@given(
    TEXT,
    TEXT,
    st.sampled_from(["", "# end", "\n[[context_threshold_overrides]]\nmodel = 'x'\ncontext_threshold = 1\n"]),
)
def test_any_words_come_back_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, first: str, second: str, end: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "lcm.toml"
    path.write_text(
        f"summary_provider = 'p' # c\ncustom_instructions = {settings_file.toml(first)}\n{end}", "utf-8", newline=""
    )
    settings_file.put("custom_instructions", settings_file.toml(second), path=path)
    settings_file.put("summary_model", settings_file.toml(first + "!"), path=path)
    table = tomllib.loads(path.read_bytes().decode())
    assert (table["custom_instructions"], table["summary_model"], table["summary_provider"]) == (
        second,
        first + "!",
        "p",
    )
    assert ("context_threshold_overrides" in table) == end.startswith("\n")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("redact", "(", "'(' is not a pattern"),
        ("summary_model", "nobody", '"nobody" is not a summarizer.'),
        ("summary_model", "nobody/model", "nobody/model has no address. Set summary_base_url"),
        ("fallback_providers", "nobody/model", "nobody/model has no address."),
        ("expansion_model", "nobody", '"nobody" is not a summarizer.'),
        ("prompt_dir", "/nowhere", "/nowhere is not a directory."),
    ],
)
def test_what_would_only_fail_later_is_refused_and_shown(
    toml: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    assert refusal("set", name, value) == (4, "CONFIG_VALIDATION_FAILED")
    assert not toml.exists()
    monkeypatch.setenv(f"LCM_{name.upper()}", value)
    shown = lcm("show")
    assert shown.exit_code == 4
    assert f"LCM_{name.upper()}: {why}" in shown.stdout


def test_a_model_of_ones_own_server_is_taken_once_its_address_is_known(toml: Path) -> None:
    assert lcm("set", "summary_model", "ollama/qwen3:8b").exit_code == 4
    assert lcm("set", "summary_base_url", "http://localhost:11434/v1").exit_code == 0
    assert lcm("set", "summary_model", "ollama/qwen3:8b").exit_code == 0
    assert lcm("show").exit_code == 0


def test_a_file_that_is_no_toml_is_told_before_a_name_that_is_none(toml: Path) -> None:
    toml.write_text("fresh_tail_count = = 1\n")
    assert refusal("set", "--unset", "nope") == (4, "CONFIG_PARSE_FAILED")
