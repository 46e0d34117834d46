"""The pages say what the program does."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from lossless import errors
from lossless.engine.context.guidance import guidance

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


def test_the_fifteen_lines_of_the_readme_run(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(code.strip().splitlines()) <= 17
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    found = ran.stdout.splitlines()
    assert found[:2] == [
        "msg#1000000001 Where did we put the deploy key?",
        "msg#1000000002 In the vault, under ops/deploy.",
    ]
    assert found[2].startswith("[msg#1000000002 | assistant | ")
    assert found[3] == "In the vault, under ops/deploy."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_error_is_on_its_page() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.LosslessError) and kind is not errors.LosslessError:
            assert f"| `{name}` | `{kind.code}` |" in page
            assert name in (errors.__doc__ or "")


def test_every_event_is_on_its_page() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r'Event\(\s*"([a-z._]+)"', source))
    assert names
    assert names == set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, re.M))


def test_the_picture_of_the_house_is_the_house() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    drawn = set(re.findall(r"^\s+(\w+\.py|\w+/)\s", page, re.M))
    package = ROOT / "src/lossless"
    built = {path.name for path in package.glob("*.py")} | {
        f"{path.name}/" for path in package.iterdir() if path.is_dir()
    }
    for inner in ("store", "engine"):
        built |= {path.name for path in (package / inner).glob("*.py")}
        built |= {f"{path.name}/" for path in (package / inner).iterdir() if path.is_dir()}
    assert built - drawn == {"__pycache__/", "__main__.py", "version.py"} & built
    assert drawn <= built


def test_views_on_the_schema_page_have_the_columns_they_have(tmp_path: Path) -> None:
    from lossless.store.sqlite.store import SQLiteStore

    store = SQLiteStore(tmp_path / "lcm.db")
    page = (ROOT / "docs/reference/schema.md").read_text()
    for view, columns in re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.M):
        told = {re.sub(r" \(.*", "", column) for column in columns.split(", ")}
        assert {row[1] for row in store.all(f"PRAGMA table_info({view})")} == told
    store.close()


def test_the_sample_prompts_hold_what_a_model_is_told_about_its_memory() -> None:
    page = (ROOT / "docs" / "how-to" / "system-prompt.md").read_text()
    assert page.count(guidance("short")) == 2


def test_the_picture_of_the_idea_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "picture.py"))
    assert script["TARGET"].read_text("utf-8") == script["picture"](), "run `make shots`"


def test_the_table_of_the_readme_is_what_the_benchmark_measures() -> None:
    bench = runpy.run_path(str(ROOT / "bench" / "memory.py"))
    page = (ROOT / "README.md").read_text("utf-8")
    (row,) = re.findall(r"^\| 8,000 tokens \| (.*) \|$", page, re.M)
    asked = bench["questions"]()
    answered = [len(asked) - len(each.missed) for each in bench["measure"](bench["conversation"](), asked, 8_000)]
    assert [int(number) for number in re.findall(r"(\d+) \(", row)] == answered[:4]
