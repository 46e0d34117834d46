"""`lcm rewrite`: make summaries anew, with today's prompts and model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import click

from lossless.cli.options import Command, choose_conversation, conversation_option, named_conversation, open_database
from lossless.cli.output import Stopped, answer, is_json, print_line, print_note
from lossless.cli.tables import Line, Styled, diff_lines, escape_name, plural
from lossless.model import Outcome, Plan, Step
from lossless.times import time_range

_LINES = 12
_WIDTH = 200
_WAYS = "--summary ID, --depth N, --subtree ID or --all"
_NO_MODEL = "extractive"
_NOBODY = "There is no model to write them yet: name one with --model, or `lcm config set summary_model NAME`."


def rewrite_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that makes summaries anew."""
    for option in reversed(
        (
            click.option("--plan", "plan_only", is_flag=True, help="Only tell what would be done, and what it costs."),
            click.option("--dry-run", is_flag=True, help="Ask the model, write nothing; the default."),
            click.option("--apply", is_flag=True, help="Write each new text as it comes; the old one is kept."),
            click.option("--diff", is_flag=True, help="Show a unified diff of the old text and the new one."),
            click.option(
                "--model", metavar="NAME", help='"provider/model" or "command:..."; otherwise what the settings say.'
            ),
            click.option("--prompt-dir", metavar="DIR", help="Prompts of your own; otherwise what the settings say."),
            click.option("--timestamps/--no-timestamps", default=True, help="Tell the model when things were said."),
            click.option("--tz", metavar="ZONE", help="The zone of these times; otherwise what the settings say."),
            click.option("--resume", metavar="OP", help="Go on with an operation that ended early."),
        )
    ):
        command = option(command)
    return command


@click.command(cls=Command)
@conversation_option()
@click.option("--summary", metavar="ID", help="One summary.")
@click.option("--depth", type=click.IntRange(min=0), help="All of a depth; leaves have 0.")
@click.option("--all", "everything", is_flag=True, help="All, the leaves first.")
@click.option("--subtree", metavar="ID", help="One summary and everything it was made from.")
@click.option(
    "--bottom-up",
    is_flag=True,
    expose_value=False,
    help="The leaves first, then what is made from them: it is always so.",
)
@rewrite_options
def rewrite(
    summary: str | None,
    depth: int | None,
    everything: bool,
    subtree: str | None,
    resume: str | None,
    **given: Any,
) -> None:
    """Make summaries anew, with today's prompts and model, and show them beside the old ones.

    Nothing is written without --apply; the old texts are kept, and `lcm undo` brings them back. Exits with 1 if it ended
    early, with 130 if it was interrupted; what was written by then stays, and --resume goes on.
    """
    ways = (summary is not None, depth is not None, everything, subtree is not None)
    if resume is None and sum(ways) != 1:
        raise click.UsageError(f"{'Say which' if not any(ways) else 'Say in one way which'} summaries: {_WAYS}.")
    with open_database(read_only=given["plan_only"]) as lcm:
        named = summary or subtree
        with Reporter("rewrite", given) as how:
            if resume is not None:
                how.finish(lcm.resume(resume, **how.resuming))
                return
            chat = lcm.find(named) if named and named_conversation() is None else choose_conversation(lcm, writes=True)
            done = chat.rewrite(summary, depth=depth, all=everything, subtree=subtree, **how.options)
            how.finish(done)


class Reporter:
    """What a command that makes summaries anew says: the plan first, each step as it ends, the totals last."""

    def __init__(self, command: str, given: dict[str, Any]) -> None:
        self._command, self._diff = command, given["diff"]
        self._operation: str | None = None
        asks = {"model": given["model"], "started": self.started, "progress": self.step}
        self.resuming: dict[str, Any] = asks
        self.options: dict[str, Any] = asks | {
            "apply": given["apply"] and not given["plan_only"],
            "dry_run": not (given["apply"] or given["plan_only"]),
            "prompt_dir": given["prompt_dir"],
            "timestamps": given["timestamps"],
            "timezone": given["tz"],
        }

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Stopped(self._how_to_go_on(self._operation)) from None

    def started(self, begun: Outcome) -> None:
        self._operation = begun.operation
        (print_note if is_json() else print_line)(plan_line(begun.plan))

    def step(self, step: Step) -> None:
        if is_json() or step.state == "planned":
            return
        for line in ("", *step_lines(step, diff=self._diff)):
            print_line(line)

    def finish(self, *done: Outcome, all: bool = False) -> None:
        """Print the totals, of `all` conversations or of one; exit with 1 if it ended early."""
        problem = next((each.problem for each in done if each.problem), "")
        lines = (line for each in done for line in self._totals(each)) if done else ("There is nothing to do.",)
        answer({"conversations": done} if all else done[0], lines, ok=not problem)
        if problem:
            sys.exit(1)

    def _totals(self, done: Outcome) -> Iterator[Line]:
        if done.status == "planned":
            if done.plan.steps and done.plan.model == _NO_MODEL:
                yield Styled(_NOBODY, "yellow")
            yield plan_line(done.plan) if done.plan.steps else "There is nothing to do."
            yield from (f"  {_title(step)}: {step.reason}" for step in done.plan.steps)
            return
        if not done.steps:
            yield "There was nothing to do."
            return
        made = [step for step in done.steps if step.state in ("drafted", "written")]
        old, new = sum(step.tokens for step in made), sum(step.new_tokens for step in made)
        yield ""
        yield f"{len(made):,} of {plural(len(done.steps), 'summary', 'summaries')}: {_change(old, new)}"
        if done.problem:
            yield Styled(f"It ended early: {done.problem} {self._how_to_go_on(done.operation)}", "yellow")
        elif done.operation:
            yield f"Written as {done.operation}; `lcm undo {done.operation}` takes it back."
        else:
            yield "Nothing was written; --apply writes." if made else "There was nothing to do."

    def _how_to_go_on(self, operation: str | None) -> str:
        if operation is None:
            return "Nothing was written."
        go_on, back = f"`lcm {self._command} --resume {operation}` goes on", f"`lcm undo {operation}` takes it back"
        return f"What was written stays: {go_on}, {back}."


def plan_line(plan: Plan) -> str:
    """What is to be done, and what it costs."""
    depths = sorted(Counter(step.depth for step in plan.steps).items())
    kinds = ", ".join(
        plural(count, f"d{depth}" if depth else "leaf", f"d{depth}" if depth else "leaves") for depth, count in depths
    )
    price = "" if plan.cost is None else f", about ${plan.cost:,.2f}"
    tokens = f"about {plan.input_tokens:,} tokens read and {plan.output_tokens:,} written{price}"
    summaries = plural(len(plan.steps), "summary", "summaries")
    by = "" if plan.model == _NO_MODEL else f", by {plan.model}"
    return f"{escape_name(plan.conversation)}: {summaries} ({kinds or 'none'}); {tokens}{by}"


def step_lines(step: Step, *, diff: bool) -> Iterator[Line]:
    """A step: what the summary said, what it says now, and how many tokens that is."""
    yield Styled(f"━━━ {_title(step)} ━━━", bold=True)
    yield ""
    if step.state in ("kept", "failed"):
        yield f"  {step.state}: {step.note}"
        return
    if diff:
        yield from diff_lines(step.diff)
    else:
        yield f"OLD ({step.tokens:,} tokens):"
        yield from _excerpt(step.old)
        yield ""
        yield f"NEW ({step.new_tokens:,} tokens):"
        yield from _excerpt(step.new)
    yield ""
    yield f"  Δ {_change(step.tokens, step.new_tokens)}"


def _title(step: Step) -> str:
    from datetime import UTC

    span = time_range(step.earliest_at, step.latest_at, UTC)
    sources = plural(step.sources, *(("source", "sources") if step.depth else ("message", "messages")))
    return f"{step.id} ({', '.join(filter(None, (f'd{step.depth}', sources, span)))})"


def _excerpt(text: str) -> list[str]:
    lines = text.splitlines()
    more = [f"  ... {plural(len(lines) - _LINES, 'more line')}"] if len(lines) > _LINES else []
    return [f"  {line[:_WIDTH]}" for line in lines[:_LINES]] + more


def _change(old: int, new: int) -> str:
    return f"tokens: {new - old:+,} ({old:,} → {new:,})"
