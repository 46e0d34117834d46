"""Choose the models that write summaries and answer questions, and report those that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from lossless.errors import InvalidInput, LosslessError
from lossless.events import Event

if TYPE_CHECKING:
    from lossless.client.lossless import Lossless
    from lossless.engine.compaction.prompts import Templates
    from lossless.model import (
        Compaction,
    )
    from lossless.summarizers import Function, Summarizer


class Models:
    """The models of an open database, each resolved when it is first needed."""

    def __init__(self, lcm: Lossless, named: str | Function | Summarizer | None) -> None:
        self._lcm = lcm
        self._named = named
        self._asked: Summarizer | None = None
        self._prompts: Templates | None = None
        self._answering: Summarizer | None = None
        self._without_model = ""

    @property
    def name(self) -> str | None:
        """The name of the summarizer that the caller gave, if it is a name."""
        return self._named if isinstance(self._named, str) else None

    def report_keys(self) -> None:
        """Report the models that cannot be asked as things are: no key, no address, no package."""
        from lossless import summarizers
        from lossless.engine.shared.call_limits import Guards

        try:
            summarizer = self.summarizer()
        except InvalidInput as error:
            report = f"{error} Summaries are written without a model until then."
            self._lcm._on_event(Event("summarizer.unusable", report, "warning"))
            return
        found = summarizers.accesses(summarizer)
        missing = [(name, access) for name, access in found if access.missing]
        rest = "It is passed over" if len(missing) < len(found) else "Summaries are written without a model"
        for name, access in missing:
            report = f"{name}: {access.missing} {access.hint} {rest} until then."
            self._lcm._on_event(Event("summarizer.no_key", report, "warning", {"model": name}))
        if found and not missing:
            Guards(self._lcm._store, self._lcm.settings, "", summarizer.name, self._lcm._clock).found_key()

    def missing_keys(self) -> tuple[str, ...]:
        """Return the keys of models that are missing, if this database is written to."""
        from lossless import summarizers

        if self._lcm._store.read_only:  # a reader need not have the keys of writers
            return ()
        try:
            found = summarizers.accesses(self.summarizer())
        except InvalidInput as error:
            return (str(error),)
        return tuple(access.missing for _, access in found if access.missing)

    def note_writer(self, key: str, done: Compaction) -> None:
        """Report that summaries are written without the model, and that it is back: once each."""
        if not done.summaries or done.without_model == self._without_model:
            return
        self._without_model, facts = done.without_model, {"conversation": key, "reason": done.without_model}
        model = "The model" if self._asked is None else self._asked.name
        if done.without_model:
            report = f"{key}: {model} did not write the summaries ({done.without_model}); the embedded summariser did. "
            report += "They are re-made once the model answers."
            self._lcm._on_event(Event("summarizer.replaced", report, "warning", facts))
        else:
            self._lcm._on_event(Event("summarizer.back", f"{model} writes summaries again.", "info", facts))

    def tries(self) -> int:
        """Return how often a provisional summary is tried again: never without a model."""
        from lossless.engine.compaction.resummarize import MOST_TRIES

        try:
            return 0 if self.summarizer().name == "extractive" else MOST_TRIES
        except InvalidInput:  # reported when the database was opened
            return 0

    def has_model(self) -> bool:
        """Return whether a model is configured, as far as the settings can be read."""
        try:
            return self.summarizer().name != "extractive"
        except LosslessError:
            return True

    def summarizer(self) -> Summarizer:
        """Return the model that writes summaries."""
        from lossless import summarizers
        from lossless.summarizers import AsyncSummarizer, Chain

        if self._asked is None:
            if self._named is None:
                self._asked = summarizers.build_chain(
                    self._lcm.settings, on_event=self._lcm._on_event, clock=self._lcm._clock
                )
            else:
                named = summarizers.resolve(self._named, self._lcm.settings, on_event=self._lcm._on_event)
                # A chain of one lets a provider rest that asked for it.
                self._asked = named if isinstance(named, AsyncSummarizer) else Chain([named], clock=self._lcm._clock)
        return self._asked

    def expander(self) -> Summarizer:
        """Return the model that answers questions: the expansion model, with the summary model as its fallback."""
        from lossless import summarizers
        from lossless.client.file_describer import full_name, reach
        from lossless.summarizers import Chain

        if self._answering is None:
            own, settings = self.summarizer(), self._lcm.settings
            if not settings.expansion_model:
                return own
            patience = min(settings.summary_timeout_ms, settings.delegation_timeout_ms)
            within = structs.replace(reach(self._lcm), summary_timeout_ms=patience)
            named = summarizers.resolve(full_name(settings), within, on_event=self._lcm._on_event)
            self._answering = Chain([named] if own.name == "extractive" else [named, own], clock=self._lcm._clock)
        return self._answering

    def templates(self) -> Templates:
        """Return the prompts, and report those that cannot be used."""
        from lossless.engine.compaction.prompts import Templates

        if self._prompts is None:
            self._prompts = Templates.load(self._lcm.settings.prompt_dir)
            for problem in self._prompts.problems:
                self._lcm._on_event(Event("prompts.refused", problem, "warning"))
        return self._prompts
