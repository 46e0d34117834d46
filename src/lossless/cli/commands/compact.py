"""`lcm compact` and `lcm worker`: replace old messages with summaries, now or in the background."""

from __future__ import annotations

import json
import sys
import threading
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
from lossless.cli.output import answer, is_json, print_progress, until_stopped
from lossless.cli.tables import escape, escape_name, plural
from lossless.events import Event, log
from lossless.model import CompactionStop

WINDOW = 128_000
_REACHED: Final[tuple[CompactionStop, ...]] = (
    *("compacted", "below threshold", "nothing to compact", "too small"),
    *("disabled", "ignored session", "stateless session"),
)


@click.command(cls=Command, examples=("lcm compact demo", "lcm compact --all --window 200000"))
@conversation_option()
@click.option("--all", "everywhere", is_flag=True, help="All active conversations over the threshold.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=WINDOW,
    show_default=True,
    metavar="N",
    help="Window of the model, in tokens.",
)
@click.option("--target", type=click.IntRange(min=1), metavar="N", help="Compact until the context has N tokens.")
@click.option("--force", is_flag=True, help="Compact below the threshold, too.")
@model_option
def compact(everywhere: bool, model: str | None, window: int, target: int | None, force: bool) -> None:
    """Replace the old part of a conversation, or of all, with summaries. Nothing is lost.

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
        yield f"Without the model ({done.without_model}): they are rewritten when it answers."


def _summary(results: dict[str, Compaction]) -> Iterator[str]:
    compacted = [done for done in results.values() if done.summaries]
    before, after = sum(done.tokens_before for done in compacted), sum(done.tokens_after for done in compacted)
    made = plural(sum(len(done.summaries) for done in compacted), "summary", "summaries")
    of_all = f"{len(compacted):,} of {plural(len(results), 'conversation')} compacted"
    yield f"{of_all}: {before:,} -> {after:,} tokens, {made} made" if compacted else f"{of_all}: none is too long"
    for reason in sorted({done.without_model for done in compacted} - {""}):
        yield f"Without the model ({reason}): they are rewritten when it answers."
    unfinished = {key: done.stop for key, done in results.items() if done.stop not in _REACHED}
    yield from (f"{escape_name(key)}: stopped early ({stop})" for key, stop in unfinished.items())


@click.command(cls=Command, examples=("lcm worker", "lcm worker --once --model extractive"))
@click.option("--owner", metavar="NAME", help="Owner of the conversations (default: `default`).")
@model_option
@click.option("--once", is_flag=True, help="Do the pending work now, and exit.")
def worker(owner: str | None, model: str | None, once: bool) -> None:
    """Compact conversations in the background, and rewrite summaries that no model wrote.

    A conversation is compacted after two idle seconds. Several workers may share a database: each job is done by one of
    them, and the job of a killed worker is taken over after a minute. Ctrl-C or SIGTERM ends it after the current
    summary.
    """
    stop, as_json = threading.Event(), is_json()

    def print_event(event: Event) -> None:
        log(event)
        if event.name == "worker.paid" and not stop.is_set():
            click.echo(json.dumps(event.facts) if as_json else escape(event.message))

    with open_database(read_only=False, owner=owner, summarizer=model, on_event=print_event) as lcm:
        if once:
            worked = lcm.drain()
            answer({"conversations": worked}, [f"{plural(worked, 'conversation')} had pending work"])
            return
        with until_stopped() as stop:
            print_progress("Waiting for work; Ctrl-C ends.")
            lcm.worker().run(stop)
