"""Answer `/lcm` in the chat of a host: status, doctor, compact, help."""

from __future__ import annotations

from lossless import Conversation, Lossless

HELP = """\
/lcm status    what is stored here, what is pending and what failed
/lcm doctor    check the database
/lcm compact   replace old messages with summaries now; nothing is lost
/lcm help      this text

On a terminal, `lcm -h` lists everything else."""
_MOST_FINDINGS = 10


def run_command(lcm: Lossless, chat: Conversation, text: str, window: int | None) -> str:
    """Return the answer to the words after `/lcm`."""
    match text.split():
        case [] | ["status", *_]:
            return _status(lcm, chat)
        case ["doctor", *_]:
            return _doctor(lcm)
        case ["compact", *_]:
            return _compact(chat, window)
        case ["help", *_]:
            return HELP
        case [word, *_]:
            return f"There is no command /lcm {word[:40]}.\n\n{HELP}"
    return HELP


def _status(lcm: Lossless, chat: Conversation) -> str:
    row = chat._row()
    found = lcm.status(None if row is None else chat.key)
    lines = [
        f"lossless {found.version}: {found.verdict}",
        f"database: {found.database}",
        f"stored: {found.messages:,} messages in {found.conversations:,} conversations",
    ]
    if row is None:
        lines.append("this conversation: nothing stored yet")
    else:
        summaries = len(chat.summaries())
        lines.append(
            f"this conversation: {row.messages:,} messages, {summaries:,} summaries, {row.context_tokens:,} tokens in context"
        )
    lines.append(f"pending work: {found.pending:,}, failed: {found.failed:,}")
    lines += [f"- {reason.text}" + (f" ({reason.command})" if reason.command else "") for reason in found.reasons]
    return "\n".join(lines)


def _doctor(lcm: Lossless) -> str:
    found = lcm.doctor()
    if not found.findings:
        return f"{len(found.checked)} checks passed ({found.seconds:.1f} s)."
    lines = [f"{each.severity}: {each.text}" for each in found.findings[:_MOST_FINDINGS]]
    left = len(found.findings) - len(lines)
    more = [f"... and {left} more"] if left > 0 else []
    return "\n".join([*lines, *more, "`lcm doctor` on a terminal shows the fixes."])


def _compact(chat: Conversation, window: int | None) -> str:
    done = chat.compact(window, force=True)
    if not done.summaries:
        return f"Nothing was compacted: {done.stop}. The context has {done.tokens_after:,} tokens."
    return (
        f"{len(done.summaries)} summaries written: {done.tokens_before:,} -> {done.tokens_after:,} tokens. "
        "Every message is still stored word for word."
    )
