"""`lcm new` and `lcm reset`: start a new context, or a new conversation under the same key."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import msgspec

from lossless.cli.options import Command, apply_option, choose_conversation, conversation_option, open_database
from lossless.cli.output import DRY_RUN, answer
from lossless.cli.tables import escape_name, plural
from lossless.model import ConversationStatus, Renewed


@click.command(cls=Command, examples=("lcm new demo", "lcm new demo --retain-depth 0 --apply"))
@conversation_option()
@click.option(
    "--retain-depth",
    type=click.IntRange(min=-1),
    metavar="N",
    help="Keep summaries of depth N and deeper; 0 keeps all summaries, -1 everything (default: `new_session_retain_depth`).",
)
@apply_option()
def new(retain_depth: int | None, apply: bool) -> None:
    """Start a new context, as `/new` does: old messages and shallow summaries leave it.

    They stay stored: `lcm grep` finds them and `lcm expand` reads them. The conversation continues under its key.
    """
    with open_database(read_only=not apply) as lcm:
        chat = choose_conversation(lcm, writes=True)
        chat.status()
        done = chat.new(retain_depth, dry_run=not apply)
    data = {"key": chat.key, "applied": apply, **msgspec.to_builtins(done)}
    answer(data, _renewed(chat.key, done, apply))


def _renewed(key: str, done: Renewed, applied: bool) -> Iterator[str]:
    messages = sum(each.id.startswith("msg#") for each in done.detached)
    left = f"{plural(messages, 'message')} and {plural(len(done.detached) - messages, 'summary', 'summaries')}"
    yield f"{escape_name(key)}: {left} {'left' if applied else 'would leave'} the context"
    yield f"context: {done.tokens_before:,} → {done.tokens_after:,} tokens"
    if not applied:
        yield DRY_RUN
    elif done.detached:
        yield f"Nothing was deleted: `lcm grep` finds it, and `lcm expand {done.detached[-1].id}` reads the last of it."


@click.command(cls=Command, examples=("lcm reset demo", "lcm reset demo --apply"))
@conversation_option()
@apply_option()
def reset(apply: bool) -> None:
    """Archive a conversation and start a new one under its key, as `/reset` does.

    Searches still find the archived one. `lcm transplant` copies its summaries into the new one.
    """
    with open_database(read_only=not apply) as lcm:
        chat = choose_conversation(lcm, writes=True)
        before = chat.status()
        done = chat.reset() if apply else before.messages > 0
    data = {"applied": apply and done, "archived": before.id if done else None, **msgspec.to_builtins(before)}
    answer(data, _reset(before, done, apply))


def _reset(before: ConversationStatus, done: bool, applied: bool) -> Iterator[str]:
    if not done:
        yield (f"{escape_name(before.key)} is empty already." if not before.messages else "Nothing was changed.")
        return
    yield (
        f"{escape_name(before.key)}: conversation {before.id} with {plural(before.messages, 'message')} "
        f"{'is' if applied else 'would be'} archived, and a new one {'started' if applied else 'would start'}"
    )
    yield f"context: {before.context_tokens:,} → 0 tokens"
    if applied:
        yield "Nothing was deleted: `lcm grep` still finds it."
        yield f"`lcm transplant '#{before.id}' {shlex.quote(escape_name(before.key))} --apply` copies its summaries into the new one."
    else:
        yield DRY_RUN
