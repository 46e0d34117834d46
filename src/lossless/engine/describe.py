"""`describe`: what a summary, a message or a file is, and what it would cost to climb down from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from msgspec import Struct

from lossless.engine.draft import as_summary
from lossless.engine.reading import Reader, stamp, words
from lossless.engine.reference import Reference, message_id
from lossless.engine.source import file_ids
from lossless.errors import FileUnavailable, InvalidInput
from lossless.model import Branch, Description, StoredFile, StoredMessage
from lossless.store import jsontext
from lossless.store.base import SPAN, BranchRow, FileRow
from lossless.store.rows import message_of, moment

INLINE_BYTES = 32_768
"""How much of a file is shown at once."""
_MOST_BRANCHES = 200


class Lines(Struct, frozen=True):
    """Which part of a file is wanted; lines are counted from 1, `last` included."""

    first: int | None = None
    last: int | None = None
    most_bytes: int = INLINE_BYTES


def describe(
    reader: Reader, id: str | int, lines: Lines | None = None, *, cap: int | None = None, inline: bool = True
) -> Description:
    """Tell everything about one id. `cap` is what a reading may cost, by which branches are said to fit."""
    lines = lines or Lines()
    if lines.first is not None and lines.first < 1:
        raise InvalidInput(f"There is no line {lines.first}.", hint="Lines are counted from 1.")
    if lines.last is not None and lines.last < (lines.first or 1):
        raise InvalidInput(
            f"{lines.first or 1} to {lines.last} is not a range of lines.", hint="The first comes before the last."
        )
    named = reader.named(id)
    if named.kind == "summary":
        return _summary(reader, named, reader.settings.max_expand_tokens if cap is None else cap)
    if named.kind == "message":
        return _message(reader, named)
    return _file(reader, named, lines, inline=inline)


def _summary(reader: Reader, named: Reference, cap: int) -> Description:
    conversation, row = reader.summary(named)
    seqs, _ = reader.store.sources(conversation, row.id)
    branches = _branches(reader, conversation, row.id)
    consumers = tuple(reader.store.consumers(conversation, row.id))
    sources = tuple(branch.id for branch in branches if branch.steps == 1)
    files = tuple(jsontext.stored(row.file_ids))
    root = branches[0]
    facts = (
        f"meta conv={conversation} kind={root.kind} depth={row.depth} tok={row.tokens} descTok={root.below_tokens}"
        f" srcTok={row.source_tokens} desc={row.descendants} range={_range(root)} budgetCap={cap}"
    )
    head = [f"LCM_SUMMARY {row.public_id}", facts]
    head += [f"sources {' '.join(sources)}"] if sources else []
    head += [f"messages {_span(conversation, seqs)}"] if seqs else []
    head += [f"consumers {' '.join(consumers)}"] if consumers else []
    head += [f"files {' '.join(files)}"] if files else []
    head += ["manifest", *(_line(branch, cap) for branch in branches[:_MOST_BRANCHES])]
    more = max(0, len(branches) - _MOST_BRANCHES)
    head += [f"({more:,} more)"] if more else []
    return Description(
        row.public_id,
        "summary",
        conversation,
        "\n".join([*head, "content"]),
        row.text,
        moment(row.created_at),
        summary=as_summary(row),
        sources=sources,
        consumers=consumers,
        message_ids=tuple(conversation * SPAN + seq for seq in seqs),
        file_ids=files,
        branches=tuple(branches[:_MOST_BRANCHES]),
        more=more,
        cap=cap,
    )


def _branches(reader: Reader, conversation: int, root: int) -> list[Branch]:
    """The summary and all below it, by distance and place, each once: its sources, not its consumers."""
    links: defaultdict[int, list[int]] = defaultdict(list)
    for consumer, source in reader.store.links_below(conversation, root):
        links[consumer].append(source)
    rows = reader.store.branches(conversation, [root, *{each for found in links.values() for each in found}])
    waiting, seen, listed = deque([(root, "", 0, "")]), {root}, []
    while waiting:
        at, above, steps, path = waiting.popleft()
        below = [each for each in links[at] if each in rows]
        listed.append(_branch(rows[at], above, steps, path, below, _reached(at, links, rows)))
        for place, each in enumerate(below):
            if each not in seen:
                seen.add(each)
                waiting.append((each, rows[at].public_id, steps + 1, f"{path}.{place:04}".lstrip(".")))
    return listed


def _reached(root: int, links: dict[int, list[int]], rows: dict[int, BranchRow]) -> int:
    """What the summaries below one cost together, each counted once."""
    waiting, seen = list(links.get(root, ())), {root}
    while waiting:
        at = waiting.pop()
        if at in rows and at not in seen:
            seen.add(at)
            waiting += links.get(at, ())
    return sum(rows[each].tokens for each in seen - {root})


def _branch(row: BranchRow, above: str, steps: int, path: str, below: list[int], below_tokens: int) -> Branch:
    return Branch(
        row.public_id,
        above or None,
        steps,
        path,
        row.depth,
        row.tokens,
        below_tokens,
        row.source_tokens,
        row.descendants,
        len(below),
        None if row.earliest_at is None else moment(row.earliest_at),
        None if row.latest_at is None else moment(row.latest_at),
    )


def _line(branch: Branch, cap: int) -> str:
    summaries, everything = branch.cost, branch.cost_with_messages
    return (
        f"d{branch.steps} {branch.id} k={branch.kind} tok={branch.tokens} descTok={branch.below_tokens}"
        f" srcTok={branch.source_tokens} desc={branch.descendants} child={branch.sources} range={_range(branch)}"
        f" cost[s={summaries},m={everything}] budget[s={_fit(summaries, cap)},m={_fit(everything, cap)}]"
    )


def _fit(cost: int, cap: int) -> str:
    return "in" if cost <= cap else "over"


def _range(branch: Branch) -> str:
    return f"{stamp(branch.earliest_at)}..{stamp(branch.latest_at)}"


def _span(conversation: int, seqs: list[int]) -> str:
    first, last = (message_id(conversation * SPAN + seq) for seq in (seqs[0], seqs[-1]))
    return f"{first}..{last} ({len(seqs):,})" if len(seqs) > 1 else first


def _message(reader: Reader, named: Reference) -> Description:
    conversation, row = reader.message(named)
    message = message_of(row)
    stored = StoredMessage(
        named.number, row.seq, row.tokens, row.digest, moment(row.created_at), message, outside=row.outside
    )
    leaf = reader.store.leaves_over(conversation, [row.seq]).get(row.seq)
    files = file_ids([row.text]) if "file_" in row.text else ()
    facts = f"meta conv={conversation} seq={row.seq} role={_plain(row.role)} tok={row.tokens} at={stamp(stored.at)}"
    head = [f"LCM_MESSAGE {named.id}", facts]
    head += [f"consumers {leaf}"] if leaf else []
    head += [f"files {' '.join(files)}"] if files else []
    return Description(
        named.id,
        "message",
        conversation,
        "\n".join([*head, "content"]),
        words(message),
        stored.created_at,
        message=stored,
        consumers=(leaf,) if leaf else (),
        message_ids=(named.number,),
        file_ids=files,
    )


def _file(reader: Reader, named: Reference, lines: Lines, *, inline: bool) -> Description:
    conversation, row = reader.file(named)
    known = StoredFile(
        row.id, row.name, row.mime, row.bytes, row.lines, row.sha256, row.summary, moment(row.created_at)
    )
    size = f"{row.bytes:,} bytes" + (f", {row.lines:,} lines" if row.lines is not None else "")
    head = [
        f"LCM_FILE {row.id}",
        f"meta conv={conversation} name={_plain(row.name)} type={_plain(row.mime)} size={size} created={stamp(known.created_at)}",
    ]
    text, told, truncated = _content(reader, row, lines) if inline else ("", "not asked for", False)
    content = f"Exploration summary:\n{row.summary or 'none'}"
    content += f"\n\nContent:\n{text}" if text else ""
    return Description(
        row.id,
        "file",
        conversation,
        "\n".join([*head, f"shown {told}", "content"]),
        content,
        known.created_at,
        file=known,
        file_ids=(row.id,),
        truncated=truncated,
    )


def _content(reader: Reader, row: FileRow, lines: Lines) -> tuple[str, str, bool]:
    """Some of a file, what part of it that is, and whether there is more."""
    if row.lines is None:
        return "", "nothing: it is not text", False
    try:
        data = _read(reader, row, lines)
    except FileUnavailable as error:
        return "", f"nothing: {error}", True
    first, kept = lines.first or 1, _whole_lines(data, lines.most_bytes)
    count = kept.count(b"\n") + (not kept.endswith(b"\n") if kept else 0)
    last = first + count - 1
    part = f"lines {first:,}-{last:,} of {row.lines:,}" if count else f"no line: there are {row.lines:,}"
    cut = len(kept) < len(data)
    truncated = cut or (last < row.lines and lines.last is None) or (lines.last or 0) > row.lines
    following = last + 1 if kept.endswith(b"\n") or not cut else last
    more = f"; go on with startLine={following}" if cut or last < row.lines else ""
    return kept.decode("utf-8", "replace"), part + more, truncated


def _read(reader: Reader, row: FileRow, lines: Lines) -> bytes:
    """The wanted lines, and one byte more than may be shown where there are more."""
    if lines.first is None and lines.last is None:
        return reader.files.read(row.sha256, 0, lines.most_bytes + 1)
    first = lines.first or 1
    # A line has a byte at least, so that more of them cannot be shown anyway.
    return reader.files.lines(row.sha256, first, min(lines.last or first + lines.most_bytes, first + lines.most_bytes))


def _whole_lines(data: bytes, most: int) -> bytes:
    """The beginning of some bytes, ending with a line if one ends there, else with a character."""
    if len(data) <= most:
        return data
    head = data[:most]
    end = head.rfind(b"\n") + 1
    return head[:end] if end else head.decode("utf-8", "ignore").encode()


def _plain(name: str | None) -> str:
    """A name that a host or a file gave, fit to stand in a line of ours."""
    clean = "".join(_printable(name or ""))
    return clean or "unknown"


def _printable(name: str) -> Iterator[str]:
    yield from (character for character in name[:120] if character.isprintable() and character not in "[]|=<>")
