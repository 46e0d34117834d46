"""`lcm compact`: replace old messages with summaries now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click
import msgspec

from lossless import Compaction, Lossless
from lossless.cli.options import (
    Command,
    choose_conversation,
    conversation_option,
    model_option,
    named_conversation,
    open_database,
)
from lossless.cli.output import answer, print_progress
from lossless.cli.tables import escape_name, plural
from lossless.model import CompactionStop

WINDOW = 128_000
_REACHED: Final[tuple[CompactionStop, ...]] = (
    *("compacted", "below threshold", "nothing to compact"),
    *("disabled", "ignored session", "stateless session"),
)


@click.command(cls=Command)
@conversation_option()
@click.option("--all", "everywhere", is_flag=True, help="Compact every active conversation that is over its threshold.")
@click.option(
    "--window", type=click.IntRange(min=1), default=WINDOW, show_default=True, help="The model's window, in tokens."
)
@click.option("--target", type=click.IntRange(min=1), help="Compact until the context is below so many tokens.")
@click.option("--force", is_flag=True, help="Also below the threshold.")
@model_option
def compact(everywhere: bool, model: str | None, window: int, target: int | None, force: bool) -> None:
    """Summarise the old part of a conversation, or of all. Nothing is lost by it.

    Exits with 1 if it ended before its goal: nothing left to summarise, no model, a limit on calls or time.
    """
    if everywhere and named_conversation() is not None:
        raise click.UsageError("--all compacts every conversation: name one, or give --all.")
    with open_database(read_only=False, summarizer=model) as lcm:
        if everywhere:
            results = _compact_all(lcm, window, target, force)
            rows = [{"key": key, **msgspec.to_builtins(done)} for key, done in results.items()]
            answer({"conversations": rows}, _summary(results))
        else:
            done = choose_conversation(lcm, writes=True).compact(window, force=force, target=target, whole=True)
            results = {"": done}
            answer(done, _lines(done))
    sys.exit(0 if all(map(_is_reached, results.values())) else 1)


def _compact_all(lcm: Lossless, window: int, target: int | None, force: bool) -> dict[str, Compaction]:
    results = {}
    for each in lcm.conversations():
        if each.active:
            done = lcm.conversation(each.key).compact(window, force=force, target=target, whole=True)
            results[each.key] = done
            if done.summaries or not _is_reached(done):
                print_progress(f"{escape_name(each.key)}: {next(_lines(done))}")
    return results


def _is_reached(done: Compaction) -> bool:
    return done.stop in _REACHED and not done.without_model


def _lines(done: Compaction) -> Iterator[str]:
    made = plural(len(done.summaries), "summary", "summaries")
    yield f"{done.stop}: {done.tokens_before:,} -> {done.tokens_after:,} tokens, {made} made"
    if done.without_model and done.summaries:
        yield f"Without the model ({done.without_model}): they are re-made once it answers."


def _summary(results: dict[str, Compaction]) -> Iterator[str]:
    compacted = [done for done in results.values() if done.summaries]
    before, after = sum(done.tokens_before for done in compacted), sum(done.tokens_after for done in compacted)
    made = plural(sum(len(done.summaries) for done in compacted), "summary", "summaries")
    of_all = f"{len(compacted):,} of {plural(len(results), 'conversation')} compacted"
    yield f"{of_all}: {before:,} -> {after:,} tokens, {made} made" if compacted else f"{of_all}: none is too long"
    for reason in sorted({done.without_model for done in compacted} - {""}):
        yield f"Without the model ({reason}): they are re-made once it answers."
    unfinished = {key: done.stop for key, done in results.items() if done.stop not in _REACHED}
    yield from (f"{escape_name(key)}: stopped early ({stop})" for key, stop in unfinished.items())
