"""`lcm dissolve`, `merge`, `transplant`, `history` and `undo`: change the order of stored history, and revert it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from lossless.cli.options import (
    Command,
    apply_option,
    complete_keys,
    conversation_option,
    limit_option,
    named_conversation,
    open_database,
)
from lossless.cli.output import DRY_RUN, answer
from lossless.cli.since_until import chosen_times, time_options
from lossless.cli.tables import Line, escape_name, format_minute, plural, shorten, table, terminal_width, zone_heading

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model import Operation, Outcome, Transplant

_NAMED = 5


@click.command(cls=Command, examples=("lcm dissolve sum_0123456789abcdef", "lcm dissolve sum_0123456789abcdef --apply"))
@click.argument("summary", metavar="ID")
@apply_option()
@click.option("--purge", is_flag=True, help="Also remove the summary, if nothing was made from it.")
def dissolve(summary: str, apply: bool, purge: bool) -> None:
    """Replace the condensed summary ID with its sources in the context.

    `lcm undo` reverts it, also with --purge.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.find(summary).dissolve(summary, apply=apply, purge=purge)
    answer(done, _dissolve_lines(summary, done))


def _dissolve_lines(summary: str, done: Outcome) -> Iterator[str]:
    plan = done.plan
    change = plan.tokens_after - plan.tokens_before
    verb = "replaced" if done.operation else "would be replaced"
    yield f"{summary} {verb} with {plural(len(plan.steps), 'source')}:"
    for step in plan.steps:
        head = f"  {step.id} d{step.depth} {step.tokens:>7,}  "
        yield f"{head}{shorten(step.old, max(20, min(terminal_width(), 100) - len(head)))}"
    yield f"context: {change:+,} tokens ({plan.tokens_before:,} → {plan.tokens_after:,})"
    yield from (f"cannot be purged: {each}" for each in plan.review)
    yield _done(done.operation)


def _done(operation: str | None) -> str:
    return f"Applied as {operation}; `lcm undo {operation}` reverts it." if operation else DRY_RUN


@click.command(cls=Command, examples=("lcm merge agent:main", "lcm merge agent:main --apply"))
@click.argument("key", shell_complete=complete_keys)
@apply_option()
def merge(key: str, apply: bool) -> None:
    """Put earlier conversations under KEY before the active one, if a session rollover split them.

    Conversations that `/reset` archived stay as they are. Exits with 1 if the case needs a review.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.merge(key, apply=apply)
    answer(done, _merge_lines(key, done), ok=not done.plan.review)
    if done.plan.review:
        sys.exit(1)


def _merge_lines(key: str, done: Outcome) -> Iterator[str]:
    plan, name = done.plan, escape_name(key)
    if plan.review:
        yield f"{name} needs a review:"
        yield from (f"  {each}" for each in plan.review)
        yield "Nothing was changed."
        return
    change = plan.tokens_after - plan.tokens_before
    if not change:
        yield f"{name}: nothing to merge."
        return
    yield f"{name}: {change:+,} tokens in the context ({plan.tokens_before:,} → {plan.tokens_after:,})"
    yield _done(done.operation)


@click.command(cls=Command, examples=("lcm transplant '#3' agent:main", "lcm transplant '#3' agent:main --apply"))
@click.argument("source", metavar="SOURCE", shell_complete=complete_keys)
@click.argument("target", metavar="TARGET", shell_complete=complete_keys)
@apply_option()
@click.option("--dedupe", is_flag=True, help="Skip summaries that TARGET already has (default: refuse).")
def transplant(source: str, target: str, apply: bool, dedupe: bool) -> None:
    """Copy the summaries of SOURCE, with all that is below them, to the beginning of TARGET.

    SOURCE does not change.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.transplant(source, target, apply=apply, dedupe=dedupe)
    answer({**msgspec.to_builtins(done, str_keys=True), "summaries": done.summaries}, transplant_lines(done))


def transplant_lines(done: Transplant) -> Iterator[str]:
    """Yield the report of a transplant."""
    depths = ", ".join(f"{count:,} of depth {depth}" for depth, count in done.depths.items())
    source, target = escape_name(str(done.source)), escape_name(str(done.target))
    yield f"from {source} ({done.source_tokens:,} tokens) before {target} ({done.target_tokens:,} tokens)"
    yield f"{done.summaries:,} summaries{f' ({depths})' if depths else ''}, {done.messages:,} messages below them"
    yield f"{done.tokens:,} more tokens in the context of {target}"
    if done.uncovered:
        yield f"not copied: {plural(done.uncovered, 'message')} that no summary covers"
    if done.duplicates:
        more = len(done.duplicates) - _NAMED
        named = ", ".join(done.duplicates[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        result = f"{done.skipped:,} skipped" if done.skipped else "--dedupe skips them"
        yield f"already in {target}: {named}; {result}"
    yield "Applied." if done.applied else DRY_RUN


@click.command(cls=Command, examples=("lcm history demo", "lcm history --since 7d -L 10"))
@conversation_option(otherwise="all of them")
@time_options
@limit_option(10_000)
def history(limit: int) -> None:
    """List operations on contexts and summaries, the newest first.

    Operations are compactions, /new, /reset, rewrites, repairs and other changes. `lcm undo OP` reverts one.
    """
    times = chosen_times()
    with open_database() as lcm:
        operations = lcm.history(named_conversation(), limit, since=times.since, until=times.until)
        zone = lcm.settings.zone
    answer({"operations": operations}, _operation_lines(operations, zone))


def _operation_lines(operations: list[Operation], zone: tzinfo) -> Iterator[Line]:
    if not operations:
        yield "No operations."
        return
    heads = ("operation", zone_heading("at", zone), "status", "conversation", "change")
    rows = [
        (each.id, format_minute(each.at, zone), each.status, str(each.conversation), each.summary)
        for each in operations
    ]
    yield from table(heads, rows, least=("conversation", "at"), wrap=True)


@click.command(cls=Command, examples=("lcm undo op_0123456789ab", "lcm undo op_0123456789ab --json"))
@click.argument("operation", metavar="OP")
def undo(operation: str) -> None:
    """Revert the operation OP.

    Later changes stay. If one of them builds on the operation, nothing is changed, and the operation to revert first
    is named.
    """
    with open_database(read_only=False) as lcm:
        done = lcm.undo(operation)
    answer(done, [f"{done.id} undone: {done.summary}"])
