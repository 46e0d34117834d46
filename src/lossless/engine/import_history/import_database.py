"""Import a database of another system, or an archive of ours, as one source."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, structs

from lossless.engine.import_history import foreign_history
from lossless.engine.import_history.discovery import CandidateFile
from lossless.engine.import_history.import_context import ImportContext
from lossless.engine.sync.store_entries import Progressed
from lossless.imports.base import History, Source
from lossless.model import ImportedSource


def database(
    context: ImportContext, source: Source, found: CandidateFile, apply: bool, progressed: Progressed
) -> ImportedSource:
    """Import the conversations of a database or archive that are not here yet, or report them."""
    open_ = _OpenSource(source, context.refusal)
    plan = foreign_history.plan(context.runtime.store, open_)
    due = [each for each in plan.histories if each.state != "here"]
    refs = {each.ref for each in due}
    new = [each for each in open_.histories() if each.ref in refs and each.messages]
    report = ImportedSource(
        path=str(found.path),
        status="would-import" if due else "up-to-date" if plan.histories else "skipped",
        kind=source.system,
        key=plan.histories[0].key if len(plan.histories) == 1 else "",
        messages=sum(each.messages for each in due),
        known=sum(each.messages for each in plan.histories if each.state == "here"),
        conversations=len(due),
        summaries=sum(each.summaries for each in due),
        reason="" if plan.histories else "It contains no conversation that may be imported.",
        notes=(*open_.closed, *_pins(open_, context.trust_pins), *plan.unmapped),
        histories=plan.histories,
        first_at=min((each.created_at for each in new), default=None),
        last_at=max((each.updated_at for each in new), default=None),
    )
    if not apply or not (due or (context.trust_pins and any(each.pins for each in open_.histories()))):
        return report
    steps = _ProgressSteps(found.stat.st_size, report.messages, progressed)
    done = foreign_history.apply(
        context.runtime.store,
        context.runtime.files,
        context.intake,
        open_,
        plan,
        steps.report,
        trust_pins=context.trust_pins,
    )
    problems = [problem for each in done.histories for problem in each.problems]
    return structs.replace(
        report,
        status="imported" if done.verified else "error",
        messages=sum(each.messages for each in done.histories),
        summaries=sum(each.summaries for each in done.histories),
        reason=" ".join(problems),
        notes=(
            *open_.closed,
            *_pins(open_, context.trust_pins),
            *done.unmapped,
            *(change for each in done.histories for change in each.changed),
        ),
        histories=done.histories,
    )


def _pins(source: _OpenSource, trusted: bool) -> tuple[str, ...]:
    """Return a note on skipped pins, if there are any."""
    count = sum(len(history.pins) for history in source.histories())
    if trusted or not count:
        return ()
    return (f"{count:,} pins were skipped, since a pin has the operator's authority: --trust-pins imports them.",)


class _ProgressSteps(Struct):
    """The progress within one file, as if each message had the same size."""

    size: int
    messages: int
    progressed: Progressed
    before: int = 0
    last: int = 0
    key: str = ""

    def report(self, key: str, done: int, messages: int) -> None:
        """Report the messages imported so far as bytes of the file."""
        if key != self.key or done < self.last:
            self.before, self.key = self.before + self.last, key
        self.last = done
        self.progressed(self.size * (self.before + done) // max(1, self.messages), self.size)


class _OpenSource:
    """A source without the conversations whose keys are closed."""

    def __init__(self, source: Source, closed: Callable[[str], str]) -> None:
        self._source = source
        self.system, self.version, self.identity = source.system, source.version, source.identity
        self.unmapped = source.unmapped
        why = {each.ref: closed(foreign_history.key_of(each)) for each in source.histories()}
        self._histories = [each for each in source.histories() if not why[each.ref]]
        self.closed = tuple(f"{reason}: not imported." for reason in sorted({*why.values()} - {""}))
        self.messages, self.summaries, self.items = source.messages, source.summaries, source.items
        self.files, self.close = source.files, source.close

    def histories(self) -> list[History]:
        return list(self._histories)
