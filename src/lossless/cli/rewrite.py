"""`lcm rewrite`: make summaries anew, with today's prompts and model."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import choose, safe
from lossless.engine.source import time_range
from lossless.model import Applied, Plan, Step

_LINES = 12
_WIDTH = 200


def remaking_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that makes summaries anew."""
    for option in reversed(
        (
            click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say."),
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
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("conversation", required=False, metavar="[CONVERSATION]")
@click.option("--summary", metavar="ID", help="One summary.")
@click.option("--depth", type=click.IntRange(min=0), help="All of a depth; leaves have 0.")
@click.option("--all", "everything", is_flag=True, help="All, the leaves first.")
@click.option("--subtree", metavar="ID", help="One summary and everything it was made from.")
@remaking_options
def rewrite(
    conversation: str | None,
    summary: str | None,
    depth: int | None,
    everything: bool,
    subtree: str | None,
    db: str | None,
    resume: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make summaries of CONVERSATION anew and show them beside the old ones. Nothing is written without --apply."""
    with Lossless.open(db) as lcm:
        named = summary or subtree
        with Telling("rewrite", as_json, given) as how:
            if resume is not None:
                how.told(lcm.resume(resume, **how.resuming))
                return
            chat = lcm.holding(named) if named and conversation is None else choose(lcm, conversation)
            done = chat.rewrite(summary, depth=depth, all=everything, subtree=subtree, **how.options)
            how.told(done)


class Telling:
    """What a command that makes summaries anew says: the plan first, each step as it ends, the totals last."""

    def __init__(self, command: str, as_json: bool, given: dict[str, Any]) -> None:
        self._command, self._as_json, self._diff = command, as_json, given["diff"]
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

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            click.echo(f"\nInterrupted. {self._how_to_go_on(self._operation)}", err=True)
            sys.exit(130)

    def started(self, begun: Applied) -> None:
        self._operation = begun.operation
        click.echo(headline(begun.plan), err=self._as_json)

    def step(self, step: Step) -> None:
        if self._as_json or step.state == "planned":
            return
        click.echo("\n" + "\n".join(shown(step, diff=self._diff)))

    def told(self, *done: Applied) -> None:
        """The end of it: exits with 1 if it ended early."""
        problem = next((each.problem for each in done if each.problem), "")
        if self._as_json:
            data = msgspec.to_builtins(done[0] if len(done) == 1 else done)
            click.echo(json.dumps({"ok": not problem, "command": self._command, "data": data}))
        else:
            for each in done:
                click.echo(("" if each.status == "planned" else "\n") + "\n".join(self._totals(each)))
        if problem:
            sys.exit(1)

    def _totals(self, done: Applied) -> list[str]:
        if done.status == "planned":
            return [headline(done.plan), *(safe(f"  {_title(step)}: {step.reason}") for step in done.plan.steps)]
        made = [step for step in done.steps if step.state in ("drafted", "written")]
        old, new = sum(step.tokens for step in made), sum(step.new_tokens for step in made)
        lines = [f"{len(made):,} of {len(done.steps):,} summaries: {_change(old, new)}"]
        if done.problem:
            lines.append(f"It ended early: {safe(done.problem)} {self._how_to_go_on(done.operation)}")
        elif done.operation:
            lines.append(f"Written as {done.operation}; `lcm undo {done.operation}` takes it back.")
        else:
            lines.append("Nothing was written; --apply writes." if made else "There was nothing to do.")
        return lines

    def _how_to_go_on(self, operation: str | None) -> str:
        if operation is None:
            return "Nothing was written."
        go_on, back = f"`lcm {self._command} --resume {operation}` goes on", f"`lcm undo {operation}` takes it back"
        return f"What was written stays: {go_on}, {back}."


def headline(plan: Plan) -> str:
    """What is to be done, and what it costs."""
    depths = sorted(Counter(step.depth for step in plan.steps).items())
    kinds = ", ".join(
        _many(count, f"d{depth}" if depth else "leaf", f"d{depth}" if depth else "leaves") for depth, count in depths
    )
    price = "" if plan.cost is None else f", about ${plan.cost:,.2f}"
    tokens = f"about {plan.input_tokens:,} tokens read and {plan.output_tokens:,} written{price}"
    summaries = _many(len(plan.steps), "summary", "summaries")
    return safe(f"{plan.conversation}: {summaries} ({kinds or 'none'}); {tokens}, by {plan.model}")


def shown(step: Step, *, diff: bool) -> list[str]:
    """A step: what the summary said, what it says now, and how many tokens that is."""
    lines = [safe(f"━━━ {_title(step)} ━━━"), ""]
    if step.state in ("kept", "failed"):
        return [*lines, safe(f"  {step.state}: {step.note}")]
    if diff:
        lines += safe(step.diff).splitlines()
    else:
        lines += [f"OLD ({step.tokens:,} tokens):", *_excerpt(step.old), ""]
        lines += [f"NEW ({step.new_tokens:,} tokens):", *_excerpt(step.new)]
    return [*lines, "", f"  Δ {_change(step.tokens, step.new_tokens)}"]


def _title(step: Step) -> str:
    from datetime import UTC

    span = time_range(step.earliest_at, step.latest_at, UTC)
    sources = _many(step.sources, *(("source", "sources") if step.depth else ("message", "messages")))
    return f"{step.id} ({', '.join(filter(None, (f'd{step.depth}', sources, span)))})"


def _excerpt(text: str) -> list[str]:
    lines = safe(text).splitlines()
    more = [f"  ... {len(lines) - _LINES:,} more lines"] if len(lines) > _LINES else []
    return [f"  {line[:_WIDTH]}" for line in lines[:_LINES]] + more


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _change(old: int, new: int) -> str:
    return f"tokens: {new - old:+,} ({old:,} → {new:,})"
