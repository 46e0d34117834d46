"""`lcm history` and `lcm undo`: list operations on stored data, and revert one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lossless.cli.options import Command, conversation_option, limit_option, named_conversation, open_database
from lossless.cli.output import answer
from lossless.cli.tables import Line, format_minute, table, zone_heading
from lossless.cli.time_options import chosen_times, time_options

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model import Operation


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
    answer({"operations": operations}, _lines(operations, zone))


def _lines(operations: list[Operation], zone: tzinfo) -> Iterator[Line]:
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
