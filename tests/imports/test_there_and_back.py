"""What came from another system moves between databases and stays what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossless import Lossless, Settings
from lossless.engine.shared.promise import promise_violations
from tests.imports.databases import CLAW, HERMES, move_in


@pytest.mark.parametrize("source", [CLAW, HERMES], ids=["lossless-claw", "hermes-lcm"])
def test_to_postgresql_and_back_it_is_the_same(source: Path, tmp_path: Path, postgres_url: str) -> None:
    settings = Settings(large_files_dir=str(tmp_path / "files"))
    digests = []
    with Lossless.open(tmp_path / "lcm.db", settings=settings) as lcm:
        assert move_in(lcm, source).verified
        digests.append(lcm.migrate(postgres_url).digest)
    with Lossless.open(postgres_url, settings=settings) as lcm:
        digests.append(lcm.migrate(str(tmp_path / "back.db")).digest)
    assert len(set(digests)) == 1
    with Lossless.open(tmp_path / "back.db", settings=settings) as lcm:
        assert [promise_violations(lcm._store, each.id) for each in lcm.conversations()] == [[]] * len(
            lcm.conversations()
        )
        assert sum(each.messages for each in lcm.conversations()) in (600, 601)
        assert lcm._store.check_search() == []
