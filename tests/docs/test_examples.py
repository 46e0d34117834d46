"""The examples run as they stand, against a provider that refuses what the real ones refuse; the pages show them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lossless import Lossless
from tests.conftest import KEY
from tests.hosts.frameworks import needs
from tests.provider import Play, Provider, Use

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHOWN = re.compile(r"<!-- examples/(\w+)\.py -->\n```python\n(.*?)```\n", re.S)
FRAMEWORKS = {
    "langchain_agent": ("langchain", "langchain_openai"),
    "openai_agents_agent": ("openai_agents", "agents"),
    "pydantic_ai_agent": ("pydantic_ai", "pydantic_ai"),
}
"""Examples of frameworks: the framework, and the module they need."""
QUESTION = "What did we decide about the deploy key?"


def run(example: Path, folder: Path, provider: Provider) -> str:
    """Run an example as a person would, with the stand-in where its SDK looks for the provider."""
    addresses = {"ANTHROPIC_BASE_URL": provider.url, "OPENAI_BASE_URL": f"{provider.url}/v1"}
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    environment = {**os.environ, **addresses, **keys}
    command = [sys.executable, "-W", "error", str(example), QUESTION]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_looks_into_its_memory_and_answers(example: Path, tmp_path: Path) -> None:
    key = "agent:main:main"
    if example.stem in FRAMEWORKS:
        host, module = FRAMEWORKS[example.stem]
        needs(host, module)
        key = f"{host.replace('_', '-')}:main"
    lookup = Use("call_1", "lcm_grep", {"pattern": "deploy key", "mode": "full_text"})
    with Provider() as provider:
        provider.script(Play(text="Let me look.", uses=(lookup,)), Play(text="It is in the vault."))
        printed = run(example, tmp_path, provider)
        again = run(example, tmp_path, provider)
    assert printed == "Let me look.\nIt is in the vault.\n"
    assert again == "It is in the vault.\n"

    first, second, third = (call.body for call in provider.requests)
    assert all(body["stream"] is True for body in (first, second, third))
    names = {tool.get("name") or tool["function"]["name"] for tool in first["tools"]}
    assert names == {"lcm_grep", "lcm_describe", "lcm_expand_query"}
    assert "engineer on call" in str(first)
    assert "lcm_expand_query what needs several texts" in str(first)
    assert "Let me look." in str(second)
    assert "It is in the vault." in str(third)

    with Lossless.open(tmp_path / "agent.db") as lcm:
        stored = lcm.conversation(key).messages()
        assert [each.role for each in stored] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        assert stored[0].text == stored[4].text == QUESTION
        assert "deploy key" in stored[2].text
        assert lcm.doctor().findings == ()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_shows_each_example_as_it_is(example: Path) -> None:
    shown = [found for page in ROOT.glob("docs/**/*.md") for found in SHOWN.findall(page.read_text())]
    assert [code for name, code in shown if name == example.stem] == [example.read_text()], "run `make reference`"
