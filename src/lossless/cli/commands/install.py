"""`lcm install` and `lcm hosts`: connect agent programs, and see which are connected."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from lossless.cli.options import Plain, apply_option
from lossless.cli.output import DRY_RUN, answer
from lossless.cli.session_directories import short_path
from lossless.cli.tables import Line, Styled, diff_lines, format_minute, format_size, plural, table, wrap_prose

if TYPE_CHECKING:
    from lossless.engine.shared.host_activity import HostActivity
    from lossless.hosts.install import HostState, Place, Preparation
    from lossless.hosts.install.files import FileChange

_COLORS = {"by hand": "green", "broken": "red", "connected": "green", "in code": "green", "outdated": "yellow"}


@click.command(cls=Plain, examples=("lcm install claude-code", "lcm install codex --apply"))
@click.argument("host", metavar="HOST", required=False)
@click.option("--remove", is_flag=True, help="Disconnect the host: restore its files as they were.")
@click.option(
    "--scope",
    type=click.Choice(("user", "project")),
    default="user",
    show_default=True,
    help="Connect it for all projects, or for the one in the working directory.",
)
@apply_option()
def install(host: str | None, remove: bool, scope: str, apply: bool) -> None:
    """Connect an agent program: openclaw, hermes, claude-code, codex, pi, opencode.

    Shows every change of a file first. With --apply the files are changed, and kept as they were for --remove. Comments,
    order and layout of the files stay. `lcm hosts` shows what is connected.
    """
    from lossless.hosts.install import carry_out, host_named, prepare, prepare_removal, this_place
    from lossless.hosts.install.records import exclusive

    place = this_place("project" if scope == "project" else "user")
    if host is None:
        raise _no_host(place)
    chosen = host_named(host)
    with exclusive() if apply else nullcontext():
        prepared = prepare_removal(chosen, place) if remove else prepare(chosen, place)
        if apply:
            carry_out(prepared)
    answer(_data(prepared, apply), _lines(prepared, chosen.title, apply))


def _no_host(place: Place) -> click.UsageError:
    from lossless.hosts.install import overview

    states = [state for state in overview(place) if state.connection != "in code"]
    here = [state.name for state in states if state.found]
    found = f"On this machine: {', '.join(here)}." if here else "None was found on this machine."
    every = ", ".join(state.name for state in states)
    return click.UsageError(f"Name a host: {every}.\n{found} Try `lcm install {(here or ['claude-code'])[0]}`.")


def _data(prepared: Preparation, applied: bool) -> dict[str, object]:
    from lossless.hosts.install.diffs import unified, verb

    changed = [change for change in prepared.changes if change.is_change]
    return {
        "host": prepared.host,
        "removes": prepared.removes,
        "applied": applied and not prepared.is_empty,
        "files": [{"path": str(each.path), "change": verb(each), "diff": unified(each)} for each in changed],
        "programs": [list(each) for each in prepared.programs],
        "permissions": list(prepared.permissions),
        "notes": list(prepared.notes),
        "warnings": list(prepared.warnings),
    }


def _lines(prepared: Preparation, title: str, applied: bool) -> Iterator[Line]:
    changed = [change for change in prepared.changes if change.is_change]
    for change in changed:
        yield from _change_lines(change)
    for program in prepared.programs:
        yield Styled(f"run {shlex.join(program)}", bold=True)
    for note in prepared.warnings:
        yield from (Styled(line, "yellow") for line in wrap_prose(note))
    if prepared.is_empty:
        yield f"{title} is {'not connected' if prepared.removes else 'connected already'}: nothing to change."
        return
    for note in (*prepared.permissions, *(prepared.notes if prepared.removes or applied else ())):
        yield from wrap_prose(note)
    if not applied:
        yield DRY_RUN
    elif prepared.removes:
        yield f"{title} is disconnected: {plural(len(changed), 'file')} restored."
    else:
        scope = " --scope project" if prepared.record and prepared.record.scope == "project" else ""
        yield f"{title} is connected: {plural(len(changed), 'file')} written."
        yield f"`lcm install {prepared.host}{scope} --remove --apply` reverts it."
        yield "`lcm hosts` shows if it delivers."


def _change_lines(change: FileChange) -> Iterator[Line]:
    from lossless.hosts.install.diffs import is_whole_copy, unified, verb

    if is_whole_copy(change):
        size = format_size(len(change.after or change.before or b""))
        yield Styled(f"{verb(change)} {short_path(change.path)} ({size})", bold=True)
        return
    yield from diff_lines(unified(change))


@click.command(cls=Plain, examples=("lcm hosts", "lcm hosts --json"))
def hosts() -> None:
    """Show the agent programs on this machine: which are connected, and what they delivered.

    Reads files only: no program is started and nothing is changed.
    """
    from lossless.hosts.install import overview, this_place

    found = overview(this_place())
    answer({"hosts": [msgspec.to_builtins(each) for each in found]}, _host_lines(found))


def _host_lines(found: list[HostState]) -> Iterator[Line]:
    yield from table(("host", "found", "connected", "messages", "last delivery"), [_row(each) for each in found])
    if active := [
        _activity(each.name, each.activity) for each in found if each.activity and each.activity.last_event_at
    ]:
        yield ""
        yield from table(("host", "delivers since", "last event", "took", "at"), active)
    for state in found:
        if state.problems or state.projects or (state.activity and state.activity.failures):
            yield ""
            yield from _details(state)
    if not any(state.connection != "not connected" for state in found):
        near = next((state.name for state in found if state.found), "claude-code")
        yield ""
        yield f"No host is connected. `lcm install {near}` shows what would change."


def _row(state: HostState) -> tuple[str, ...]:
    recent = state.activity
    return (
        state.name,
        _where(state),
        state.connection,
        f"{recent.delivered:,}" if recent else "-",
        _minute(recent.last_delivery if recent else 0),
    )


def _activity(host: str, recent: HostActivity) -> tuple[str, ...]:
    took = f"{recent.last_seconds:.2f} s"
    return host, _minute(recent.first_delivery), recent.last_event, took, _minute(recent.last_event_at)


def _where(state: HostState) -> str:
    if state.program:
        return state.version or short_path(state.program)
    return short_path(state.directory) if state.directory else state.version or "-"


def _minute(at: float) -> str:
    return format_minute(datetime.fromtimestamp(at, UTC)) if at else "-"


def _details(state: HostState) -> Iterator[Line]:
    color = _COLORS.get(state.connection)
    for problem in state.problems:
        yield from (Styled(line, color) for line in wrap_prose(f"{state.name}: {problem}"))
    for project in state.projects:
        yield f"{state.name}: connected for the project {short_path(project)}"
    recent = state.activity
    if recent and recent.failures:
        count = plural(recent.failures, "failure")
        text = f"{state.name}: {count} in a row, the last {_minute(recent.last_error_at)} UTC: {recent.last_error}"
        yield from (Styled(line, "red") for line in wrap_prose(text))
