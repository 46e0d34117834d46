"""`lcm forget`, `gc` and `prune`: remove content for good, unused data, and old conversations."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli.options import Command, apply_option, complete_keys, open_database
from lossless.cli.output import DRY_RUN, answer, print_progress
from lossless.cli.tables import (
    Line,
    Styled,
    escape_name,
    fact_lines,
    format_minute,
    format_size,
    format_time,
    plural,
    table,
    zone_heading,
)
from lossless.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model import Forgotten, Garbage, Pruning

_unshared = click.option(
    "--unshared", is_flag=True, help="Confirm that no other database uses the same files directory."
)
_REMOVES = "remove them with `lcm gc --unshared --apply`"


@click.command(
    cls=Command, examples=("lcm forget demo msg#1000000007..msg#1000000009", "lcm forget agent:old --all --apply")
)
@click.argument("conversation", shell_complete=complete_keys)
@click.argument("messages", metavar="[MESSAGE[..MESSAGE]]", required=False)
@click.option("--all", "whole", is_flag=True, help="All messages under the key, or of the numbered conversation.")
@apply_option("Apply the change; it cannot be undone (default: dry run).")
@click.option("--backups", is_flag=True, help="Also remove copies made before earlier changes.")
@_unshared
def forget(conversation: str, messages: str | None, whole: bool, apply: bool, backups: bool, unshared: bool) -> None:
    """Erase one message (msg#...), a range of messages, or --all of CONVERSATION, for good.

    The text is removed from messages, summaries, the search index, vectors, files, and the pages and logs of the
    database. It cannot be restored.
    """
    if whole == (messages is not None):
        raise InvalidInput("Name messages or give --all.", hint="lcm forget KEY msg#1000000007..msg#1000000009")
    with open_database(read_only=not apply) as lcm:
        if messages is None:
            done = lcm.forget(conversation, apply=apply, backups=backups, unshared=unshared)
        else:
            first, _, last = messages.partition("..")
            done = lcm.find(conversation).forget(
                first, until=last or None, apply=apply, backups=backups, unshared=unshared
            )
    answer(done, _forget_lines(done))


def _forget_lines(done: Forgotten) -> Iterator[Line]:
    verb = "forgotten" if done.applied else "would forget"
    copies = f", {done.copied:,} of them copied into other conversations" if done.copied else ""
    yield f"{verb}: {plural(done.messages, 'message')} of {escape_name(done.key)}{copies}"
    yield from fact_lines("summaries", f"{len(done.summaries):,} rewritten from the rest, {len(done.gone):,} removed")
    yield from fact_lines("files", f"{len(done.files):,}")
    yield from fact_lines("vectors", f"{done.vectors:,}")
    yield from fact_lines("other texts", f"{done.other_texts:,}")
    yield from fact_lines("pins", f"{done.pins:,}")
    if done.briefs:
        yield from fact_lines("briefs", f"{done.briefs:,}")
    if done.applied:
        yield from fact_lines("verified", f"{done.sought:,} words searched, {done.left:,} left among the bytes")
        yield from (f"the same words are in {name}" for name in done.elsewhere)
    yield from (Styled(f"a copy still contains it: {name} (--backups removes it)", "yellow") for name in done.backups)
    yield from (Styled(f"a transcript still contains it: {name}", "yellow") for name in done.transcripts)
    yield from done.beyond
    if not done.complete:
        yield "Deleted bytes may remain: the database is in use by others. Run it again when they are idle."
    if not done.applied:
        yield f"{DRY_RUN} It cannot be undone."


@click.command(cls=Command, examples=("lcm gc", "lcm gc --apply --keep-copies 30"))
@apply_option()
@click.option(
    "--keep-copies",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Also remove copies made before changes, if older than DAYS.",
)
@_unshared
@click.option("--vacuum", is_flag=True, help="Rewrite the database to free disk space (needs as much free space).")
def gc(apply: bool, keep_copies: int | None, unshared: bool, vacuum: bool) -> None:
    """Remove unused files and leftovers. Messages and summaries are never touched.

    These are payloads without a row (older than an hour), drafts of writers that ended early, expired grants and
    leases, and records of what archived conversations showed a model more than 90 days ago. The write-ahead log is
    emptied and free pages are returned. On a server, --vacuum locks tables.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.gc(apply=apply, keep_copies=keep_copies, unshared=unshared, vacuum=vacuum)
    answer(done, _gc_lines(done))


def _gc_lines(done: Garbage) -> Iterator[str]:
    for count, noun in (
        (done.files, "payloads without a row"),
        (done.drafts, "drafts left behind"),
        (done.grants, "expired grants"),
        (done.manifests, "old records of archived conversations"),
        (done.leases, "expired leases of workers"),
        (len(done.copies), "copies of the database"),
    ):
        yield f"{count:>9,}  {noun}"
    yield from (f"           {name}" for name in done.copies)
    if done.doubtful:
        yield f"{plural(done.doubtful, 'payload')} may belong to another database; --unshared confirms that none exists."
    if not done.complete:
        yield "Some tables were not rewritten: the database is in use by others."
    yield f"{format_size(done.bytes)} freed." if done.applied else f"{format_size(done.bytes)} in total. {DRY_RUN}"


@click.command(cls=Command, examples=("lcm prune --before 90d", "lcm prune --before 2026-01-31 --apply"))
@click.option("--before", required=True, metavar="TIME", help="Last message before this time: 90d, 6mo, 2026-01-31.")
@click.option("--include-active", is_flag=True, help="Also active conversations.")
@apply_option("Export and remove them (default: dry run).")
@click.option(
    "--archive", type=click.Path(path_type=Path), metavar="PATH", help="Archive file (default: beside the database)."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="Conversations to remove per transaction.",
)
@click.option("--vacuum", is_flag=True, help="Rewrite the database afterwards to free disk space.")
@click.option("--without-files", is_flag=True, help="Also if payloads cannot be read and are not exported.")
def prune(
    before: str,
    include_active: bool,
    apply: bool,
    archive: Path | None,
    batch: int,
    vacuum: bool,
    without_files: bool,
) -> None:
    """Remove archived conversations without a message since a time, with all their data.

    They are exported to an archive first; `lcm import` restores them. A conversation that changes meanwhile stays, and
    so do the sub-agents of a conversation that stays.
    """
    with open_database(read_only=not apply) as lcm:
        done = lcm.prune(
            before,
            include_active=include_active,
            apply=apply,
            archive=archive,
            batch=batch,
            vacuum=vacuum,
            without_files=without_files,
            progress=lambda done, total: print_progress(f"{done:,} of {total:,}"),
        )
        zone = lcm.settings.zone
    answer(done, _prune_lines(done, include_active, zone))


def _prune_lines(done: Pruning, include_active: bool, zone: tzinfo) -> Iterator[Line]:
    if done.applied:
        yield from _removed_lines(done)
        return
    if done.oldest:
        rows = [
            (f"#{each.id}", f"{each.messages:,}", format_minute(each.newest_at, zone), each.key) for each in done.oldest
        ]
        yield from table(("id", "messages", zone_heading("newest", zone), "conversation"), rows)
    if done.conversations > len(done.oldest):
        yield f"and {done.conversations - len(done.oldest):,} more"
    noun = "conversation" if include_active else "archived conversation"
    total = f"{plural(done.conversations, noun)} with {plural(done.messages, 'message')}"
    yield f"{total}: no message since {format_time(done.before, zone)}."
    if done.related:
        yield f"Also old, but related to a conversation that stays: {done.related:,}."
    if not include_active:
        yield "Active conversations stay; --include-active includes them."
    if done.conversations:
        yield DRY_RUN


def _removed_lines(done: Pruning) -> Iterator[str]:
    yield (
        f"Removed {plural(done.conversations, 'conversation')} with {plural(done.messages, 'message')} and"
        f" {plural(done.files, 'file')}; {format_size(done.bytes)} freed."
    )
    if done.changed:
        yield f"{plural(done.changed, 'conversation')} changed meanwhile and stayed."
    if done.doubtful:
        yield f"{plural(done.doubtful, 'payload')} may belong to another database: {_REMOVES}."
    yield f"`lcm import {shlex.quote(str(done.archive))} --apply` restores them."
