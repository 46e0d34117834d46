"""`lcm doctor`, as a person runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lossless import Lossless, Message
from lossless.engine.doctor.checks import CHECKS
from tests.command import lcm
from tests.engine.doctor.damage import KEY, live, plant
from tests.histories import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with opened(tmp_path / "lcm.db", tmp_path / "lcm-files") as lcm:
        live(lcm)
    return tmp_path / "lcm.db"


def doctor(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return lcm("doctor", *arguments, "--db", path)


def harm(path: Path, statement: str) -> None:
    with Lossless.open(path) as lcm:
        plant(lcm, statement)


def test_a_healthy_database_is_told_so(path: Path) -> None:
    ran = doctor(path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "47 checks, 1 finding (" in ran.stdout
    ran = doctor(path, KEY, "--fail-on", "info", "--check", "S14", "--check", "C08")
    assert ran.returncode == 0
    assert ran.stdout.startswith("2 checks passed (")
    assert ran.stdout.endswith(" s)\n")


def test_it_exits_with_six_at_the_level_that_was_asked_for(path: Path) -> None:
    harm(path, "UPDATE conversation SET context_tokens = 17")
    assert doctor(path).returncode == 0
    ran = doctor(path, "--fail-on", "warn")
    assert ran.returncode == 6
    assert "warn     C08  1 stored token count is wrong. (conversation 1)" in ran.stdout
    assert "lcm doctor fix C08" in ran.stdout
    assert doctor(path, "--fail-on", "warn", "--check", "S14").returncode == 0


def test_every_check_is_listed(path: Path) -> None:
    ran = doctor(path, "--list")
    assert ran.returncode == 0
    for check in CHECKS.values():
        assert f"{check.id}  {check.severity:<8}" in ran.stdout
        assert check.title in ran.stdout
    listed = json.loads(doctor(path, "--list", "--json").stdout)["data"]["checks"]
    assert [each["id"] for each in listed] == list(CHECKS)
    assert listed[0] == {
        "id": "D01",
        "family": "database",
        "severity": "critical",
        "title": CHECKS["D01"].title,
        "fix": "",
    }


def test_findings_are_told_as_json(path: Path) -> None:
    harm(path, "DELETE FROM item")
    told = json.loads(doctor(path, "--json").stdout)
    assert (told["ok"], told["command"]) == (False, "doctor")
    (lost,) = [each for each in told["data"]["findings"] if each["check"] == "S14"]
    assert lost["severity"] == "critical"
    assert len(lost["samples"]) == 20
    assert lost["fix"] == "lcm doctor fix S14"


def test_the_proof_is_printed_and_adds_up(path: Path) -> None:
    ran = doctor(path, "--prove")
    assert ran.returncode == 0
    assert f"{KEY} (conversation 1): nothing is lost" in ran.stdout
    assert ran.stdout.endswith("29 messages, 29 accounted for\n")
    harm(path, "UPDATE message SET text = 'x' WHERE id = 1000000003")
    ran = doctor(path, "1", "--prove")
    assert ran.returncode == 6
    assert "NOT PROVEN" in ran.stdout
    (proof,) = json.loads(doctor(path, "--prove", "--json").stdout)["data"]["proofs"]
    assert (proof["holds"], proof["accounted"]) == (False, 29)


def test_a_fix_is_shown_and_then_made(path: Path) -> None:
    harm(path, "UPDATE conversation SET context_tokens = 17")
    ran = doctor(path, "fix", "C08")
    assert "C08  recount  conversation id 1" in ran.stdout
    assert "1 change (dry run; --apply makes it)" in ran.stdout
    assert doctor(path, "--fail-on", "warn").returncode == 6
    ran = doctor(path, "fix", "C08", "--apply")
    assert "1 change made, 0 faults left" in ran.stdout
    assert f"Copy of the state before: {path}.before-fix-" in ran.stdout
    assert doctor(path, "--fail-on", "warn").returncode == 0
    ran = doctor(path, "fix", "M05")
    assert ran.returncode == 2
    assert "M05 cannot be fixed" in ran.stderr


def test_junk_is_listed_and_then_removed_and_its_words_do_no_harm(path: Path) -> None:
    with Lossless.open(path) as lcm:
        lcm.conversation("agent:main:cron:\x1b[2J\nfake line").ingest([Message.user("\x1b]0;owned\x07 run\r\nthis")])
    ran = doctor(path, "clean")
    assert ran.returncode == 0
    assert "1 conversation with 1 message in all; --apply removes them" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "\\x1b[2J fake line" in ran.stdout
    ran = doctor(path, "clean", "cron_sessions", "--apply")
    assert "Removed 1 conversation with 1 message and 0 files; they are in" in ran.stdout
    assert len(list(path.parent.glob("lcm.db.cleaned-*.zip"))) == 1
    assert "Nothing to clean." in doctor(path, "clean").stdout
    assert doctor(path, "--fail-on", "warn").returncode == 0


def test_hostile_names_are_escaped_in_findings(path: Path) -> None:
    harm(path, "UPDATE message SET event_id = 'a' || char(27) || '[2J' || char(10) || 'b' WHERE seq IN (1, 2)")
    ran = doctor(path, "--check", "M05")
    assert "\x1b" not in ran.stdout
    assert "a\\x1b[2J b" in ran.stdout
