"""Threshold rules, as they are written in each place, and what is said of those that are none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.config import Settings, ThresholdRule, load, resolve, rules
from lossless.errors import ConfigError

VARIABLE = "LCM_CONTEXT_THRESHOLD_OVERRIDES"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"

FLAT = """
[[context_threshold_overrides]]
model = "anthropic/*"
window_min = 500000
window_max = 1000000
session_pattern = "agent:**"
context_threshold = 0.4
fresh_tail_count = 32
leaf_chunk_tokens = 40000

[[context_threshold_overrides]]
model = "gpt-5"
context_threshold = 1
"""
NESTED = """
[[contextThresholdOverrides]]
contextThreshold = 0.4
freshTailCount = 32
leafChunkTokens = 40000
[contextThresholdOverrides.match]
model = "anthropic/*"
modelContextWindowMin = 500000
modelContextWindowMax = 1000000
sessionPattern = "agent:**"

[[contextThresholdOverrides]]
match = { model = "gpt-5" }
contextThreshold = 1.0
"""
READ = (
    ThresholdRule(
        model="anthropic/*",
        window_min=500_000,
        window_max=1_000_000,
        session_pattern="agent:**",
        context_threshold=0.4,
        fresh_tail_count=32,
        leaf_chunk_tokens=40_000,
    ),
    ThresholdRule(model="gpt-5", context_threshold=1.0),
)


def complaint(said: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(environment={VARIABLE: said})
    return [line.removeprefix(VARIABLE) for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("text", [FLAT, NESTED])
def test_rules_are_read_flat_or_as_other_tools_write_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "lcm.toml").write_text(text)
    loaded = resolve(environment={}, file=tmp_path / "lcm.toml")
    assert loaded.settings.context_threshold_overrides == READ
    assert loaded.warnings == ()
    assert isinstance(loaded.settings.context_threshold_overrides[1].context_threshold, float)


def test_the_rules_on_the_page_are_read_as_they_stand_there(tmp_path: Path) -> None:
    tables = re.findall(r"```toml\n(\[\[.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    said = re.findall(rf"export {VARIABLE}='(.*)'", PAGE.read_text("utf-8"))
    (tmp_path / "lcm.toml").write_text("".join(tables))
    large = ThresholdRule(model="gemini-*", window_min=500_000, context_threshold=0.4)
    nightly = ThresholdRule(
        session_pattern="agent:*:cron:**", context_threshold=0.5, fresh_tail_count=16, leaf_chunk_tokens=10_000
    )
    assert load(environment={}, file=tmp_path / "lcm.toml").context_threshold_overrides == (large, nightly)
    assert load(environment={VARIABLE: said[0]}).context_threshold_overrides == (large,)


def test_a_variable_holds_rules_as_json_and_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "lcm.toml").write_text(FLAT)
    nested = {"match": {"model": "m", "sessionPattern": None}, "contextThreshold": 0.5, "freshTailCount": None}
    for said, rules_read in (
        (json.dumps([nested]), (ThresholdRule(model="m", context_threshold=0.5),)),
        (msgspec.json.encode(READ).decode(), READ),
        ("[]", ()),
        (" ", ()),
    ):
        settings = load(environment={VARIABLE: said}, file=tmp_path / "lcm.toml")
        assert settings.context_threshold_overrides == rules_read


def test_a_mistake_in_a_rule_of_the_file_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "lcm.toml").write_text(FLAT.replace("threshold = 1\n", "threshold = 1.5\n"))
    with pytest.raises(ConfigError) as caught:
        load(environment={}, file=tmp_path / "lcm.toml")
    told = "lcm.toml: context_threshold_overrides[1].context_threshold: 1.5 is out of range (more than 0, at most 1)."
    assert str(caught.value) == told
    assert f"```\n{told}\n```" in PAGE.read_text("utf-8")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ('{"model": "m", "context_threshold": 0}', ".context_threshold: 0 is out of range (more than 0, at most 1)."),
        ('{"model": "m", "contextThreshold": 1.1}', ".contextThreshold: 1.1 is out of range (more than 0, at most 1)."),
        ('{"model": "m", "context_threshold": "0.5"}', '.context_threshold: "0.5" is not a number.'),
        ('{"model": "m", "context_threshold": true}', ".context_threshold: true is not a number."),
        ('{"model": "m"}', ".context_threshold is missing."),
        ('{"model": "m", "fresh_tail_count": 5}', ".context_threshold is missing."),
        ('{"model": 5, "context_threshold": 1}', ".model: 5 is not a pattern."),
        (
            '{"match": {"modelContextWindowMin": 0}, "contextThreshold": 1}',
            ".match.modelContextWindowMin: 0 is out of range (at least 1).",
        ),
        ('{"match": "gpt-5", "contextThreshold": 1}', ".match is not a table."),
        (
            '{"model": "m", "context_threshold": 1, "leaf_chunk_tokens": 0}',
            ".leaf_chunk_tokens: 0 is out of range (at least 1).",
        ),
        (
            '{"model": "m", "context_threshold": 1, "fresh_tail_count": 1.5}',
            ".fresh_tail_count: 1.5 is not a whole number.",
        ),
        (
            '{"window_min": 9, "window_max": 8, "context_threshold": 1}',
            ".window_max: 8 is less than window_min (9).",
        ),
        (
            '{"context_threshold": 1}',
            " has nothing to match. Give it one of model, window_min, window_max, session_pattern.",
        ),
        (
            '{"match": {}, "model": "", "contextThreshold": 1}',
            " has nothing to match. Give it one of model, window_min, window_max, session_pattern.",
        ),
        ('{"modle": "m", "context_threshold": 1}', ".modle is not part of a rule. Did you mean model?"),
        (
            '{"model": "m", "contextTreshold": 1}',
            ".contextTreshold is not part of a rule. Did you mean context_threshold?",
        ),
        (
            '{"match": {"sessionPatern": "m"}, "contextThreshold": 1}',
            ".match.sessionPatern is not part of a rule. Did you mean session_pattern?",
        ),
        ('{"model": "m", "context_threshold": 1, "a\\u001b": 1}', ".a\\x1b is not part of a rule."),
        (
            '{"model": "m", "match": {"model": "n"}, "context_threshold": 1}',
            ".match.model: model is given twice. Keep one of them.",
        ),
        ("5", " is not a table."),
    ],
)
def test_a_rule_that_is_none_is_named(rule: str, told: str) -> None:
    assert complaint(f"[{rule}]") == [f"[0]{told}"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("gpt-5", '"gpt-5"'),
        ('[{"model"', '"[{"model""'),
        ("{}", "a table"),
        ("5", "5"),
        ("[" * 2000, f'"{"[" * 200}..."'),
    ],
)
def test_a_variable_that_holds_no_list_is_named(said: str, shown: str) -> None:
    assert complaint(said) == [f": {shown} is not a list of rules (in a variable, a JSON array)."]


def test_all_mistakes_of_all_rules_are_told_at_once() -> None:
    right = {"model": "m", "context_threshold": 1}
    said = [{"modle": "m", "context_threshold": 2}, right, {"window_max": 5}]
    assert complaint(json.dumps(said)) == [
        "[0].modle is not part of a rule. Did you mean model?",
        "[0].context_threshold: 2 is out of range (more than 0, at most 1).",
        "[2].context_threshold is missing.",
    ]


def test_rules_made_by_hand_are_held_to_the_same() -> None:
    assert Settings(context_threshold_overrides=READ).context_threshold_overrides == READ
    assert hash(Settings(context_threshold_overrides=READ))
    with pytest.raises(ConfigError) as caught:
        Settings(context_threshold_overrides=(*READ, ThresholdRule(model="m", context_threshold=0)))
    told = "context_threshold_overrides[2].context_threshold: 0 is out of range (more than 0, at most 1)."
    assert str(caught.value) == told


keys = st.sampled_from(sorted(rules._SPELLINGS)) | st.text(st.characters(exclude_categories=[]), max_size=9)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-1, 5), st.floats(), st.sampled_from(["", "a", "\0\ud800"]))
tables = st.dictionaries(keys | st.just("match"), scalars | st.dictionaries(keys, scalars, max_size=3), max_size=5)


@given(st.lists(tables | scalars, max_size=3))
def test_any_rules_give_settings_or_a_config_error(said: list[object]) -> None:
    try:
        settings = load({"context_threshold_overrides": said}, environment={})
    except ConfigError as error:
        str(error).encode()
    else:
        assert all(0 < rule.context_threshold <= 1 for rule in settings.context_threshold_overrides)
