"""`lcm doctor`: check the database, prove that nothing is lost, fix derived data, remove leftovers."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from lossless.cli.options import Group, complete_keys, conversation_option, named_conversation, open_database
from lossless.cli.output import answer
from lossless.cli.tables import Line, Styled, plural, terminal_width
from lossless.model import Cleaning, Finding, Fix, Health, Proof, Severity

if TYPE_CHECKING:
    from lossless.engine.doctor.registry import Check

_UNWELL = 6
_SHOWN = 5
_INDENT = 14
_MOST_STEPS = 100
_COLOURS = {"critical": "red", "error": "red", "warn": "yellow", "info": "cyan"}


@click.group(cls=Group, default="check", examples=("lcm doctor", "lcm doctor --prove"))
def doctor() -> None:
    """Check the database and fix problems. `lcm doctor [CONVERSATION]` is `lcm doctor check`."""


@doctor.command(examples=("lcm doctor check demo", "lcm doctor check --check C02 --fail-on warn"))
@conversation_option()
@click.option("--check", "checks", metavar="ID", multiple=True, help="Run only this check, thoroughly (repeatable).")
@click.option("--prove", is_flag=True, help="Prove that nothing is lost: locate every message.")
@click.option("--list", "list_checks", is_flag=True, help="List the checks and their fixes; examine nothing.")
@click.option(
    "--fail-on",
    type=click.Choice(get_args(Severity)),
    default="error",
    show_default=True,
    help=f"Exit with {_UNWELL} if a finding is at least this severe.",
)
def check(checks: tuple[str, ...], prove: bool, list_checks: bool, fail_on: Severity) -> None:
    """Examine the database, or the conversation of that key or id. Reads only."""
    if list_checks:
        from lossless.engine.doctor.checks import CHECKS

        return answer(
            {"checks": [_described(each) for each in CHECKS.values()]}, _listed(CHECKS.values()), command="doctor"
        )
    with open_database() as lcm:
        named = named_conversation()
        found: Health | tuple[Proof, ...]
        if prove:
            found = lcm.doctor.prove(named)
            unwell = not all(each.holds for each in found)
        else:
            found = lcm.doctor(named, list(checks) or None)
            unwell = bool(found.at_least(fail_on))
    if isinstance(found, tuple):
        answer({"proofs": _proofs(found)}, map(_flat, _proven(found)), ok=not unwell, command="doctor")
    else:
        answer(found, map(_flat, _examined(found)), ok=not unwell, command="doctor")
    sys.exit(_UNWELL if unwell else 0)


def _flat(line: Line) -> Line:
    """A key or an id may hold a line of its own."""
    if isinstance(line, str):
        return re.sub(r"\s*[\r\n]\s*", " ", line)
    if isinstance(line, Styled):
        return line._replace(text=str(_flat(line.text)))
    return tuple(
        piece._replace(text=str(_flat(piece.text))) if isinstance(piece, Styled) else str(_flat(piece))
        for piece in line
    )


def _proofs(found: tuple[Proof, ...]) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(each), "accounted": each.accounted, "holds": each.holds} for each in found]


def _described(check: Check) -> dict[str, str]:
    return {
        "id": check.id,
        "family": check.family,
        "severity": check.severity,
        "title": check.title,
        "fix": check.fix,
    }


def _listed(checks: Iterable[Check]) -> Iterator[Line]:
    for check in checks:
        yield f"{check.id}  ", Styled(f"{check.severity:<8}", _COLOURS[check.severity]), f"  {check.title}"
        if check.fix:
            yield f"               fix: {check.fix}"


def _examined(found: Health) -> Iterator[Line]:
    levels = get_args(Severity)
    for each in sorted(found.findings, key=lambda finding: -levels.index(finding.severity)):
        yield from _finding(each)
    checks, seconds = plural(len(found.checked), "check"), f"({found.seconds:.1f} s)"
    if found.findings:
        yield f"{checks}, {plural(len(found.findings), 'finding')} {seconds}"
    else:
        yield Styled(f"{checks} passed {seconds}", "green")


def _finding(each: Finding) -> Iterator[Line]:
    where = "" if each.conversation is None else f" (conversation {each.conversation})"
    first, *rest = _wrap(f"{each.text}{where}")
    yield Styled(f"{each.severity:<8}", _COLOURS[each.severity], bold=True), f" {each.check}  {first}"
    samples = ", ".join(each.samples[:_SHOWN])
    more = f", and {each.count - _SHOWN:,} more" if each.count > _SHOWN < len(each.samples) else ""
    for line in (*rest, *_wrap(f"{samples}{more}"), *_wrap(each.fix)):
        if line:
            yield f"{'':<{_INDENT}}{line}"


def _wrap(text: str) -> list[str]:
    """Return a text in lines that fit below a finding; long ids stay whole."""
    space = max(30, terminal_width() - _INDENT)
    return textwrap.wrap(text, space, break_on_hyphens=False, break_long_words=False) or [""]


def _proven(found: tuple[Proof, ...]) -> Iterator[Line]:
    for each in found:
        holds = Styled("nothing is lost", "green") if each.holds else Styled("NOT PROVEN", "red", bold=True)
        yield f"{each.key} (conversation {each.conversation}): ", holds
        yield f"  {each.messages:>11,}  messages"
        yield f"  {each.context:>11,}  in the context"
        yield f"  {each.below:>11,}  below its summaries ({plural(each.items, 'context item')})"
        for name, counts in (("detached", each.detached), ("kept out", each.outside), ("tombstones", each.tombstones)):
            yield from (f"  {count:>11,}  {name}: {why}" for why, count in counts.items())
        if each.missing or each.repeated:
            yield f"  {each.missing:>11,}  missing; {each.repeated:,} reachable twice"
        yield f"  {each.witnessed:>11,}  of {plural(each.summaries, 'summary', 'summaries')} with unchanged sources"
        if each.changed:
            yield f"  {len(each.changed):>11,}  with changed sources ({', '.join(each.changed[:_SHOWN])})"
        if each.broken:
            yield f"               violated: {', '.join(each.broken)}"
    yield f"{sum(each.messages for each in found):,} messages, {sum(each.accounted for each in found):,} accounted for"


@doctor.command(examples=("lcm doctor fix C08", "lcm doctor fix C08 --apply"))
@click.argument("checks", metavar="ID...", nargs=-1, required=True)
@click.option(
    "-c", "--conversation", "named", metavar="KEY", shell_complete=complete_keys, help="Only in this conversation."
)
@click.option("--apply", is_flag=True, help="Apply the fix (default: dry run).")
def fix(checks: tuple[str, ...], named: str | None, apply: bool) -> None:
    """Fix what these checks find. Messages never change, and a copy is kept first."""
    with open_database(read_only=not apply) as lcm:
        done = lcm.doctor.fix(list(checks), named, apply=apply)
    answer(done, map(_flat, _fixed(done)), ok=not done.refused)
    sys.exit(_UNWELL if done.refused else 0)


def _fixed(done: Fix) -> Iterator[str]:
    for step in done.steps[:_MOST_STEPS]:
        yield f"{step.check}  {step.action:<8} {step.table} {step.key}{': ' if step.values else ''}{step.values}"
    if len(done.steps) > _MOST_STEPS:
        yield f"     and {len(done.steps) - _MOST_STEPS:,} more (--json lists all)"
    if done.refused:
        yield f"Reverted: {done.refused}"
    elif done.applied:
        left = sum(done.after.get(check, 0) for check in done.checks)
        yield f"{plural(len(done.steps), 'change')} made, {plural(left, 'fault')} left"
        if done.snapshot:
            yield f"Copy of the state before: {done.snapshot}"
    else:
        them = "it" if len(done.steps) == 1 else "them"
        changes = f"{plural(len(done.steps), 'change')} (dry run; --apply makes {them})"
        yield changes if done.steps else "Nothing to fix."


@doctor.command(examples=("lcm doctor clean", "lcm doctor clean cron_sessions --apply"))
@click.argument("rule", required=False)
@click.option("--apply", is_flag=True, help="Export them and remove them; otherwise they are only listed.")
@click.option("--archive", metavar="PATH", help="Where they are exported to; otherwise beside the database.")
@click.option(
    "--without-files", is_flag=True, help="Also if payloads of theirs cannot be read and so are not exported."
)
def clean(rule: str | None, apply: bool, archive: str | None, without_files: bool) -> None:
    """Remove conversations that nobody needs, by one RULE or by all."""
    with open_database(read_only=not apply) as lcm:
        done = lcm.doctor.clean(rule, apply=apply, archive=archive, without_files=without_files)
    answer(done, map(_flat, _cleaned(done)))


def _cleaned(done: Cleaning) -> Iterator[str]:
    for each in done.junk:
        yield f"{each.rule:<22} {plural(each.conversations, 'conversation')}, {plural(each.messages, 'message')}"
        yield from (f"    {example}" for example in each.examples)
    total = f"{plural(done.conversations, 'conversation')} with {plural(done.messages, 'message')}"
    if done.applied:
        yield f"Removed {total} and {plural(done.files, 'file')}; they are in {done.archive}"
        if done.changed:
            yield f"{plural(done.changed, 'conversation')} changed meanwhile and stayed."
        if done.doubtful:
            yield f"{plural(done.doubtful, 'payload')} may be another database's; `lcm gc --unshared --apply` removes them."
    else:
        yield f"{total} in all; --apply removes them" if done.conversations else "Nothing to clean."
