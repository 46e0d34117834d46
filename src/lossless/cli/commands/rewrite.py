"""`lcm rewrite` and `lcm repair`: write summaries again with the current prompts and model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import click

from lossless.cli.options import Command, choose_conversation, conversation_option, named_conversation, open_database
from lossless.cli.output import DRY_RUN, Stopped, answer, is_json, print_line, print_note
from lossless.cli.tables import Line, Styled, diff_lines, escape_name, plural
from lossless.engine.shared.defaults import FLAW_KINDS
from lossless.model import Outcome, Plan, Step
from lossless.times import time_range

_LINES = 12
_WIDTH = 200
_WAYS = "--summary ID, --depth N, --subtree ID or --all"
_NO_MODEL = "extractive"
_MISSING_MODEL = "No model is configured: give --model NAME, or `lcm config set summary_model NAME`."


def rewrite_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that write summaries again."""
    model = '"provider/model" or "command:..." (default: `summary_model`).'
    for option in reversed(
        (
            click.option("--plan", "plan_only", is_flag=True, help="Print the plan and its cost; ask no model."),
            click.option("--dry-run", is_flag=True, help="Ask the model and write nothing (default)."),
            click.option("--apply", is_flag=True, help="Write each new text as it arrives; old texts are kept."),
            click.option("--diff", is_flag=True, help="Print a unified diff of the old and the new text."),
            click.option("--model", metavar="NAME", help=model),
            click.option("--prompt-dir", metavar="DIR", help="Directory of prompts (default: `prompt_dir`)."),
            click.option("--timestamps/--no-timestamps", default=True, help="Include the times of messages."),
            click.option("--tz", metavar="ZONE", help="Zone of these times (default: `timezone`)."),
            click.option("--resume", metavar="OP", help="Continue an operation that ended early."),
        )
    ):
        command = option(command)
    return command


@click.command(cls=Command, examples=("lcm rewrite demo --depth 0 --plan", "lcm rewrite demo --all --apply --diff"))
@conversation_option()
@click.option("--summary", metavar="ID", help="One summary.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="All summaries of a depth; leaves have 0.")
@click.option("--all", "everything", is_flag=True, help="All summaries, leaves first.")
@click.option("--subtree", metavar="ID", help="One summary and all its sources.")
@click.option("--bottom-up", is_flag=True, expose_value=False, help="Leaves first (always so).")
@rewrite_options
def rewrite(
    summary: str | None,
    depth: int | None,
    everything: bool,
    subtree: str | None,
    resume: str | None,
    **given: Any,
) -> None:
    """Write summaries again with the current prompts and model, and compare old and new.

    Nothing is written without --apply. Old texts are kept, and `lcm undo` restores them. Exits with 1 if it ended
    early, with 130 if it was interrupted; what was written stays, and --resume continues.
    """
    ways = (summary is not None, depth is not None, everything, subtree is not None)
    if resume is None and sum(ways) != 1:
        raise click.UsageError(f"Choose summaries by {'one of ' if any(ways) else ''}{_WAYS}.")
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
    """The printed report of a rewrite: the plan, each step as it ends, and the totals."""

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
            raise Stopped(self._how_to_continue(self._operation)) from None

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
        lines = (line for each in done for line in self._totals(each)) if done else ("Nothing to do.",)
        answer({"conversations": done} if all else done[0], lines, ok=not problem)
        if problem:
            sys.exit(1)

    def _totals(self, done: Outcome) -> Iterator[Line]:
        if done.status == "planned":
            if done.plan.steps and done.plan.model == _NO_MODEL:
                yield Styled(_MISSING_MODEL, "yellow")
            yield plan_line(done.plan) if done.plan.steps else "Nothing to do."
            yield from (f"  {_title(step)}: {step.reason}" for step in done.plan.steps)
            return
        if not done.steps:
            yield "Nothing to do."
            return
        made = [step for step in done.steps if step.state in ("drafted", "written")]
        old, new = sum(step.tokens for step in made), sum(step.new_tokens for step in made)
        yield ""
        yield f"{len(made):,} of {plural(len(done.steps), 'summary', 'summaries')}: {_change(old, new)}"
        if done.problem:
            yield Styled(f"Ended early: {done.problem} {self._how_to_continue(done.operation)}", "yellow")
        elif done.operation:
            yield f"Written as {done.operation}; `lcm undo {done.operation}` reverts it."
        else:
            yield DRY_RUN if made else "Nothing to do."

    def _how_to_continue(self, operation: str | None) -> str:
        if operation is None:
            return "Nothing was written."
        resume, undo = f"`lcm {self._command} --resume {operation}` continues", f"`lcm undo {operation}` reverts it"
        return f"What was written stays: {resume}, {undo}."


def plan_line(plan: Plan) -> str:
    """Return the plan and its cost on one line."""
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
    """Yield the old and the new text of a step, and the change in tokens."""
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


@click.command(cls=Command, examples=("lcm repair demo --plan", "lcm repair --all --kind provisional --apply"))
@conversation_option()
@click.option("--all", "everything", is_flag=True, help="All conversations, archived ones included.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(FLAW_KINDS), help="Only this problem (repeatable).")
@rewrite_options
def repair(everything: bool, kinds: tuple[str, ...], resume: str | None, **given: Any) -> None:
    """Rewrite summaries that no model wrote, that were cut, or that contain claims not found in their sources.

    Summaries that were made from them follow. Nothing is written without --apply. Exits with 1 if it ended early, with
    130 if it was interrupted; what was written stays.
    """
    with open_database(read_only=given["plan_only"]) as lcm, Reporter("repair", given) as how:
        if resume is not None:
            how.finish(lcm.resume(resume, **how.resuming))
        elif everything:
            how.finish(*lcm.repair(kinds or FLAW_KINDS, **how.options), all=True)
        else:
            how.finish(choose_conversation(lcm, writes=True).repair(kinds or FLAW_KINDS, **how.options))
