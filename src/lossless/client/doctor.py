"""Check the database, prove that nothing is lost, and fix what is derived."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.client.arguments import checks_arguments
from lossless.model import Cleaning, Fix, Health, Proof
from lossless.store.rows.codec import moment

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless
    from lossless.engine.doctor.examination import Examination


@checks_arguments
class Doctor:
    """The checks of a database: called, it runs them."""

    def __init__(self, lcm: Lossless) -> None:
        self._lcm = lcm

    def __call__(self, conversation: str | int | None = None, checks: Sequence[str] | None = None) -> Health:
        """Check one conversation, or all of them and the database itself. Reads only.

        A check that is named by its id is thorough: `F01` reads every file, `X01` every word.

        >>> lcm.doctor("agent:main:main").at_least("error")
        ()
        """
        from lossless.engine.doctor.checks import select_checks
        from lossless.engine.doctor.run_checks import examine

        selected = select_checks(checks)
        thorough = frozenset(selected if checks else ())
        # Comparing every word builds a temporary index, which a read-only snapshot does not allow.
        snapshot = nullcontext if "X01" in thorough else self._lcm._store.snapshot
        return examine(lambda: self._examination(conversation, thorough), selected, snapshot)

    def prove(self, conversation: str | int | None = None) -> tuple[Proof, ...]:
        """Account for every message of a conversation, or of all, and prove that summarised text is unchanged. Reads only.

        >>> all(proof.holds for proof in lcm.doctor.prove())
        True
        """
        from lossless.engine.doctor.prove import prove

        with self._lcm._store.snapshot():
            return prove(self._examination(conversation))

    def fix(self, checks: Sequence[str], conversation: str | int | None = None, *, apply: bool = False) -> Fix:
        """Fix what these checks find: derived data only, never a message.

        Without `apply` it returns the plan. A copy is kept first, and if a check finds more afterwards than before, everything is
        reverted.

        >>> lcm.doctor.fix(["X01"]).applied
        False
        """
        from lossless.engine.doctor import fix
        from lossless.engine.doctor.checks import select_checks

        selected = select_checks(checks)
        if apply:
            name = f"before-fix-{moment(int(self._lcm._clock() * 1_000_000)):%Y%m%d-%H%M%S-%f}"
            return fix.apply(lambda: self._examination(conversation), selected, name)
        with self._lcm._store.snapshot():
            return fix.plan(lambda: self._examination(conversation), selected)

    def clean(
        self,
        rule: str | None = None,
        *,
        apply: bool = False,
        archive: str | Path | None = None,
        without_files: bool = False,
    ) -> Cleaning:
        """Remove unused conversations, left over from sub-agents and scheduled jobs: by one rule, or by all.

        Without `apply` it returns the plan. They are exported first, into `archive` or a file beside the database; if one of their
        files cannot be read none is removed, unless `without_files`.

        >>> lcm.doctor.clean().conversations
        0
        """
        from lossless.engine.doctor import clean_conversations

        if not apply:
            return clean_conversations.plan(self._lcm._store, rule)
        target = self._lcm._archive(archive, "cleaned")
        return clean_conversations.apply(self._lcm._runtime, rule, target, without_files=without_files)

    def _examination(self, conversation: str | int | None, thorough: frozenset[str] = frozenset()) -> Examination:
        from lossless.engine.doctor.examination import Examination

        rows = (
            self._lcm._store.conversations.of_owner()
            if conversation is None
            else self._lcm._resolved(conversation).rows(self._lcm._store)
        )
        return Examination(
            self._lcm._store,
            self._lcm._files,
            self._lcm.settings,
            rows,
            now=int(self._lcm._clock() * 1_000_000),
            whole_database=conversation is None,
            thorough=thorough,
            loaded=self._lcm._loaded,
            has_model=self._lcm._models.has_model(),
        )
