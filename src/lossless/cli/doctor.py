"""`lcm doctor`: whether everything agrees, the proof that nothing is lost, and how to put right what is derived."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, get_args

import click
import msgspec

from lossless import Lossless
from lossless.cli.choose import safe
from lossless.model import Cleaning, Finding, Fix, Health, Proof, Severity

_UNWELL = 6
_SHOWN = 5
_MOST_STEPS = 100
_db = click.option("--db", metavar="PATH_OR_URL", help="The database; otherwise what the settings say.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class _Doctor(click.Group):
    """A group whose command `check` need not be named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and args[0] in (*self.commands, "-h", "--help")
        return super().parse_args(ctx, args if named else ["check", *args])


@click.group(cls=_Doctor)
def doctor() -> None:
    """Look whether everything agrees. `lcm doctor [CONVERSATION]` is `lcm doctor check`."""


@doctor.command()
@click.argument("conversation", required=False)
@click.option(
    "--check", "checks", metavar="ID", multiple=True, help="Only this check, and closely; as often as you like."
)
@click.option("--prove", is_flag=True, help="Tell where every message is, conversation by conversation.")
@click.option(
    "--fail-on",
    type=click.Choice(get_args(Severity)),
    default="error",
    show_default=True,
    help=f"Exit with {_UNWELL} if anything is as bad as that, or worse.",
)
@_db
@_json
def check(
    conversation: str | None, checks: tuple[str, ...], prove: bool, fail_on: Severity, db: str | None, as_json: bool
) -> None:
    """Examine the database, or the conversation of that key or id. Only reads."""
    with Lossless.open(db, read_only=True) as lcm:
        found: Health | tuple[Proof, ...]
        if prove:
            found = lcm.prove(conversation)
            unwell = not all(each.holds for each in found)
        else:
            found = lcm.doctor(conversation, list(checks) or None)
            unwell = bool(found.at_least(fail_on))
    if as_json:
        _print_json("doctor", _proofs(found) if isinstance(found, tuple) else found, ok=not unwell)
    else:
        _print_lines(_proven(found) if isinstance(found, tuple) else _examined(found))
    sys.exit(_UNWELL if unwell else 0)


def _print_json(command: str, data: Any, *, ok: bool = True) -> None:
    click.echo(json.dumps({"ok": ok, "command": command, "data": msgspec.to_builtins(data)}))


def _print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(safe(re.sub(r"\s*[\r\n]\s*", " ", line)))  # a key or an id may hold a line of its own


def _proofs(found: tuple[Proof, ...]) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(each), "accounted": each.accounted, "holds": each.holds} for each in found]


def _examined(found: Health) -> Iterator[str]:
    levels = get_args(Severity)
    for each in sorted(found.findings, key=lambda finding: -levels.index(finding.severity)):
        yield from _finding(each)
    worst = f"{len(found.findings):,} findings" if found.findings else "nothing to complain of"
    yield f"{len(found.checked)} checks in {found.seconds:.1f} s: {worst}"


def _finding(each: Finding) -> Iterator[str]:
    where = "" if each.conversation is None else f" (conversation {each.conversation})"
    yield f"{each.severity:<8} {each.check}  {each.text}{where}"
    if each.samples:
        more = f", and {each.count - _SHOWN:,} more" if each.count > _SHOWN < len(each.samples) else ""
        yield f"              {', '.join(each.samples[:_SHOWN])}{more}"
    if each.fix:
        yield f"              {each.fix}"


def _proven(found: tuple[Proof, ...]) -> Iterator[str]:
    for each in found:
        yield f"{each.key} (conversation {each.conversation}): {'nothing is lost' if each.holds else 'NOT PROVEN'}"
        yield f"  {each.messages:>11,}  messages"
        yield f"  {each.context:>11,}  in the context"
        yield f"  {each.below:>11,}  below it: {each.items:,} items in all"
        for name, counts in (("taken out", each.detached), ("kept out", each.outside), ("tombstones", each.tombstones)):
            yield from (f"  {count:>11,}  {name}: {why}" for why, count in counts.items())
        if each.missing or each.repeated:
            yield f"  {each.missing:>11,}  nowhere; {each.repeated:,} reached again"
        yield f"  {each.witnessed:>11,}  of {each.summaries:,} summaries: what they were made from is unchanged"
        if each.changed:
            yield f"  {len(each.changed):>11,}  of them: it is not ({', '.join(each.changed[:_SHOWN])})"
        if each.broken:
            yield f"               broken: {', '.join(each.broken)}"
    yield f"{sum(each.messages for each in found):,} messages, {sum(each.accounted for each in found):,} accounted for"


@doctor.command()
@click.argument("checks", metavar="ID...", nargs=-1, required=True)
@click.option("-c", "--conversation", metavar="KEY", help="Only in this conversation.")
@click.option("--apply", is_flag=True, help="Do it; otherwise it is only told what would be done.")
@_db
@_json
def fix(checks: tuple[str, ...], conversation: str | None, apply: bool, db: str | None, as_json: bool) -> None:
    """Put right what these checks find. Messages are never changed, and a copy is kept first."""
    with Lossless.open(db, read_only=not apply) as lcm:
        done = lcm.fix(list(checks), conversation, apply=apply)
    if as_json:
        _print_json("doctor fix", done, ok=not done.refused)
    else:
        _print_lines(_fixed(done))
    sys.exit(_UNWELL if done.refused else 0)


def _fixed(done: Fix) -> Iterator[str]:
    for step in done.steps[:_MOST_STEPS]:
        yield f"{step.check}  {step.action:<8} {step.table} {step.key}{': ' if step.values else ''}{step.values}"
    if len(done.steps) > _MOST_STEPS:
        yield f"     and {len(done.steps) - _MOST_STEPS:,} more (--json tells all)"
    if done.refused:
        yield f"Taken back: {done.refused}"
    elif done.applied:
        left = sum(done.after.get(check, 0) for check in done.checks)
        yield f"{len(done.steps):,} changes made, {left:,} faults left"
        if done.snapshot:
            yield f"What was there before: {done.snapshot}"
    else:
        yield f"{len(done.steps):,} changes; --apply makes them" if done.steps else "Nothing can be put right."


@doctor.command()
@click.argument("rule", required=False)
@click.option("--apply", is_flag=True, help="Export them and remove them; otherwise they are only listed.")
@click.option("--archive", metavar="PATH", help="Where they are exported to; otherwise beside the database.")
@_db
@_json
def clean(rule: str | None, apply: bool, archive: str | None, db: str | None, as_json: bool) -> None:
    """Remove conversations that nobody needs, by one RULE or by all."""
    with Lossless.open(db, read_only=not apply) as lcm:
        done = lcm.clean(rule, apply=apply, archive=archive)
    if as_json:
        _print_json("doctor clean", done)
    else:
        _print_lines(_cleaned(done))


def _cleaned(done: Cleaning) -> Iterator[str]:
    for each in done.junk:
        yield f"{each.rule:<22} {each.conversations:,} conversations, {each.messages:,} messages"
        yield from (f"    {example}" for example in each.examples)
    total = f"{done.conversations:,} conversations with {done.messages:,} messages"
    if done.applied:
        yield f"Removed {total} and {done.files:,} files; they are in {done.archive}"
    else:
        yield f"{total} in all; --apply removes them" if done.conversations else "Nothing to clean."
