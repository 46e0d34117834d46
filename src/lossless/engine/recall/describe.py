"""`describe`: show a summary, message or file, and the cost of reading what is below it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

from msgspec import Struct, structs

from lossless.engine.compaction.summarize import as_summary
from lossless.engine.compaction.summary_source import file_ids
from lossless.engine.recall.reader import Reader, stamp, words
from lossless.errors import FileUnavailable, InvalidInput
from lossless.ids import Reference, message_id
from lossless.model import Branch, Description, StoredFile, StoredMessage, TextPage
from lossless.request_strings import is_text_type
from lossless.store import jsontext
from lossless.store.rows.codec import message_of, moment
from lossless.store.rows.types import SPAN, BranchRow
from lossless.tokens import estimate

INLINE_BYTES = 32_768
"""The bytes of a file that are shown at once."""
MOST_HEAD = 24_000
"""The characters of a header that are shown to a model."""
_MOST_BRANCHES = 200
_BLOCK = 1 << 20
_CHARACTER = 4
"""The bytes of the longest character."""
_FRAME, _FRAME_TOKENS = 400, 120
"""The characters and tokens around header and content: tags, and the line about the page."""


class PageRequest(Struct, frozen=True):
    """A part of a text, and the limits of one page of it.

    Lines are counted from 1, `last` included; `offset` in bytes from 0, as a search counts them in files.
    """

    first: int | None = None
    last: int | None = None
    offset: int | None = None
    most_bytes: int | None = None
    """The limit of a page in bytes; for files there is a default."""
    most_tokens: int | None = None
    most_characters: int | None = None
    """The limit of header and content together, the content escaped."""
    all_tokens: int | None = None
    """The limit of header and content together in tokens, the content escaped."""

    def check(self) -> None:
        """Raise `InvalidInput` if no text can have such a part."""
        if self.first is not None and self.first < 1:
            raise InvalidInput(f"There is no line {self.first}.", hint="Lines are counted from 1.")
        if self.last is not None and self.last < (self.first or 1):
            raise InvalidInput(
                f"{self.first or 1} to {self.last} is not a range of lines.", hint="The first comes before the last."
            )
        if self.offset is not None and self.offset < 0:
            raise InvalidInput(f"There is no byte {self.offset}.", hint="Bytes are counted from 0.")
        if self.offset is not None and self.first is not None:
            raise InvalidInput("A line and an offset were both given.", hint="Give one of startLine and offset.")


class Body(Struct, frozen=True):
    """A text in memory or in a file: its size in bytes, and a function that reads some of it."""

    size: int
    read: Callable[[int, int], bytes]

    def count(self, start: int, end: int) -> int:
        """Count the lines that end between two offsets."""
        return sum(self.read(at, min(at + _BLOCK, end)).count(b"\n") for at in range(start, end, _BLOCK))

    def lines(self) -> int:
        return self.count(0, self.size) + (self.size > 0 and self.read(self.size - 1, self.size) != b"\n")

    def after(self, count: int) -> int:
        """Return the offset after so many lines; the end if there are fewer."""
        left = count
        for at in range(0, self.size if left else 0, _BLOCK):
            block = self.read(at, min(at + _BLOCK, self.size))
            found = block.count(b"\n")
            if found >= left:
                place = -1
                for _ in range(left):
                    place = block.index(b"\n", place + 1)
                return at + place + 1
            left -= found
        return self.size if left else 0


def page(body: Body, request: PageRequest, fits: Callable[[str], bool]) -> TextPage:
    """Return one page of a text, as much as `fits` accepts: whole lines if they fill half of it.

    At least one character is shown, so that every page makes progress.
    """
    end = body.size if request.last is None else body.after(request.last)
    start = body.after((request.first or 1) - 1) if request.offset is None else _boundary(body, request.offset)
    most = max(start, end) - start if request.most_bytes is None else min(request.most_bytes, max(start, end) - start)
    data = body.read(start, min(start + most + _CHARACTER, max(start, end)))
    kept = data[: _fitting(data, most, fits)]
    if len(kept) < len(data):
        whole = kept.rfind(b"\n") + 1
        kept = kept[:whole] if 2 * whole >= len(kept) else kept
    before = body.count(0, start)
    through = before + kept.count(b"\n")
    ends_line = not kept or kept.endswith(b"\n") or start + len(kept) == body.size
    return TextPage(
        text(kept),
        start,
        start + len(kept),
        body.size,
        before + 1,
        through + (bool(kept) and not kept.endswith(b"\n")),
        body.lines(),
        ends_line,
    )


def _boundary(body: Body, offset: int) -> int:
    """Return the offset at which the character at an offset starts."""
    start = min(offset, body.size)
    before = min(start, _CHARACTER - 1)
    return start - _inside(body.read(start - before, min(start + 1, body.size)), before)


def _inside(data: bytes, at: int) -> int:
    """Return the number of bytes from the start of the character at `at`; 0 between characters."""
    if at >= len(data) or not _continues(data[at]):
        return 0
    for back in range(1, min(at, _CHARACTER - 1) + 1):
        lead = data[at - back]
        if not _continues(lead):
            return back if back < (1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4) else 0
    return 0


def _continues(byte: int) -> bool:
    return 0x80 <= byte < 0xC0


def _fitting(data: bytes, most: int, fits: Callable[[str], bool]) -> int:
    """Return the number of bytes that fit, ending between characters; at least one character."""
    low, high = 0, min(most, len(data)) + 1
    if fits(text(data[: high - 1])):
        low = high - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text(data[:middle])) else (low, middle)
    return low - _inside(data, low) or next((n for n in range(1, len(data)) if not _inside(data, n)), len(data))


def text(data: bytes) -> str:
    """Decode stored bytes. Keep lone surrogates; replace what is not UTF-8."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def describe(
    reader: Reader, id: str | int, request: PageRequest | None = None, *, cap: int | None = None, inline: bool = True
) -> Description:
    """Describe one id. Branches are marked as within or over `cap` tokens."""
    request = request or PageRequest()
    request.check()
    named = reader.named(id)
    if named.kind == "summary":
        return _summary(reader, named, request, reader.settings.max_expand_tokens if cap is None else cap)
    if named.kind == "message":
        return _message(reader, named, request)
    return _file(reader, named, request, inline=inline)


def _with_page(head: list[str], body: Body, request: PageRequest, before: str = "") -> tuple[str, TextPage, bool]:
    """Return the header with a line about the page, the page, and True if more of the part follows."""
    used = "\n".join(head)
    used = used[:MOST_HEAD] if request.most_characters is not None else used
    cost = estimate(used) + estimate(before) + _FRAME_TOKENS if request.all_tokens is not None else 0

    def fits(part: str) -> bool:
        marked = escape(part)
        return (
            (request.most_tokens is None or estimate(marked) <= request.most_tokens)
            and (request.all_tokens is None or cost + estimate(marked) <= request.all_tokens)
            and (
                request.most_characters is None
                or len(used) + len(escape(before)) + len(marked) + _FRAME <= request.most_characters
            )
        )

    found = page(body, request, fits)
    goal = body.size if request.last is None else body.after(request.last)
    truncated = found.end < goal or (request.last or 0) > found.lines
    return "\n".join([*head, f"shown {_extent(found)}", "content"]), found, truncated


def _extent(found: TextPage) -> str:
    """Return the line that says which part is shown, and how to get the next."""
    if not found.size:
        return "in full: it is empty"
    if (found.start, found.end) == (0, found.size):
        return f"in full: {_many(found.lines, 'line')}, {_many(found.size, 'byte')}"
    if found.start == found.end:
        return f"no line: there are {found.lines:,}, {_many(found.size, 'byte')}"
    part = f"lines {found.first_line:,}-{found.last_line:,} of {found.lines:,}, bytes {found.start:,}-{found.end:,} of {found.size:,}"
    if found.next_offset is None:
        return f"{part}; this is the end"
    following = f"offset={found.next_offset}" if found.next_line is None else f"startLine={found.next_line}"
    return f"{part}; continue with {following}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def in_memory(words: str) -> Body:
    """Return a text as a `Body`."""
    data = words.encode("utf-8", "surrogatepass")
    return Body(len(data), lambda start, end: data[start:end])


def _summary(reader: Reader, named: Reference, request: PageRequest, cap: int) -> Description:
    conversation, row = reader.summary(named)
    seqs, _ = reader.store.summaries.sources(conversation, row.id)
    branches = _branches(reader, conversation, row.id)
    consumers = tuple(reader.store.summaries.consumers(conversation, row.id))
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
    header, found, truncated = _with_page(head, in_memory(row.text), request)
    return Description(
        row.public_id,
        "summary",
        conversation,
        header,
        found.text,
        moment(row.created_at),
        summary=as_summary(row),
        sources=sources,
        consumers=consumers,
        message_ids=tuple(conversation * SPAN + seq for seq in seqs),
        file_ids=files,
        branches=tuple(branches[:_MOST_BRANCHES]),
        more=more,
        cap=cap,
        truncated=truncated,
        page=found,
    )


def _branches(reader: Reader, conversation: int, root: int) -> list[Branch]:
    """Return a summary and all summaries below it, by distance and place, each once."""
    links: defaultdict[int, list[int]] = defaultdict(list)
    for consumer, source in reader.store.summaries.links_below(conversation, root):
        links[consumer].append(source)
    rows = reader.store.summaries.branches(conversation, [root, *{each for found in links.values() for each in found}])
    waiting, seen, listed = deque([(root, "", 0, "")]), {root}, []
    while waiting:
        at, above, steps, path = waiting.popleft()
        below = [each for each in links[at] if each in rows]
        listed.append(_branch(rows[at], above, steps, path, below, _cost_below(at, links, rows)))
        for place, each in enumerate(below):
            if each not in seen:
                seen.add(each)
                waiting.append((each, rows[at].public_id, steps + 1, f"{path}.{place:04}".lstrip(".")))
    return listed


def _cost_below(root: int, links: dict[int, list[int]], rows: dict[int, BranchRow]) -> int:
    """Return the tokens of all summaries below one, each counted once."""
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


def _message(reader: Reader, named: Reference, request: PageRequest) -> Description:
    conversation, row = reader.message(named)
    message = message_of(row)
    stored = StoredMessage(
        named.number, row.seq, row.tokens, row.digest, moment(row.created_at), message, outside=row.outside
    )
    leaf = reader.store.summaries.leaves_over(conversation, [row.seq]).get(row.seq)
    files = file_ids([row.text]) if "file_" in row.text else ()
    facts = f"meta conv={conversation} seq={row.seq} role={_plain(row.role)} tok={row.tokens} at={stamp(stored.at)}"
    head = [f"LCM_MESSAGE {named.id}", facts]
    head += [f"consumers {leaf}"] if leaf else []
    head += [f"files {' '.join(files)}"] if files else []
    header, found, truncated = _with_page(head, in_memory(words(message)), request)
    return Description(
        named.id,
        "message",
        conversation,
        header,
        found.text,
        stored.created_at,
        message=stored,
        consumers=(leaf,) if leaf else (),
        message_ids=(named.number,),
        file_ids=files,
        truncated=truncated,
        page=found,
    )


def _file(reader: Reader, named: Reference, request: PageRequest, *, inline: bool) -> Description:
    conversation, row = reader.file(named)
    known = StoredFile(
        row.id, row.name, row.mime, row.bytes, row.lines, row.sha256, row.summary, moment(row.created_at)
    )
    size = f"{row.bytes:,} bytes" + (f", {row.lines:,} lines" if row.lines is not None else "")
    head = [
        f"LCM_FILE {row.id}",
        f"meta conv={conversation} name={_plain(row.name)} type={_plain(row.mime)} size={size} created={stamp(known.created_at)}",
    ]
    content, found, truncated = f"Exploration summary:\n{row.summary or 'none'}", None, False
    if not inline:
        header = "\n".join([*head, "shown nothing: it was not asked for", "content"])
    elif row.lines is None and not is_text_type(row.mime):
        header = "\n".join([*head, "shown nothing: it is not text", "content"])
    else:
        request = request if request.most_bytes is not None else structs.replace(request, most_bytes=INLINE_BYTES)
        body = Body(row.bytes, lambda start, end: reader.files.read(row.sha256, start, end))
        try:
            header, found, truncated = _with_page(head, body, request, f"{content}\n\nContent:\n")
            content += f"\n\nContent:\n{found.text}" if found.text else ""
        except FileUnavailable as error:
            header, truncated = "\n".join([*head, f"shown nothing: {error}", "content"]), True
    return Description(
        row.id,
        "file",
        conversation,
        header,
        content,
        known.created_at,
        file=known,
        file_ids=(row.id,),
        truncated=truncated,
        page=found,
    )


def _plain(name: str | None) -> str:
    """Return a name from a host or file without characters that have a meaning in our lines."""
    clean = "".join(_printable(name or ""))
    return clean or "unknown"


def _printable(name: str) -> Iterator[str]:
    yield from (character for character in name[:120] if character.isprintable() and character not in "[]|=<>")
