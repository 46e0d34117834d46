"""Build a context: load what could fit, assemble it, and record what was shown.

Without a stored view (nothing stored yet, disabled, database unavailable) the live messages of the host are used, within
the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import partial
from itertools import takewhile
from typing import Literal

from msgspec import Struct, structs

from lossless.engine.compaction.plan import Limits
from lossless.engine.context import live_messages, load
from lossless.engine.context.fit_budget import Assembly, ViewEntry, assemble, is_from_user, shown_as
from lossless.engine.context.guidance import guidance
from lossless.engine.context.provider_rejections import Rejections, apply_rejections
from lossless.engine.context.summary_xml import stands_for
from lossless.engine.ingest import large_content
from lossless.engine.ingest.message_digest import Canonicalize, digest
from lossless.engine.ingest.resent_list import list_start
from lossless.engine.shared.transplanted_ranges import own_after
from lossless.formats.fit import Caps
from lossless.model import INSTRUCTIONS, Context, LeftOut, Message, StoredMessage, Summary
from lossless.store.rows.codec import event_key
from lossless.store.rows.types import ConversationRow, NewManifest
from lossless.store.store import Store
from lossless.tokens import IMAGE_TOKENS, message_tokens

_HIDDEN = ("budget", "tail over budget")
"""The reasons of entries of which nothing is shown."""
_GROUP = 8
Guidance = Literal["none", "short", "full"]


class BuildOptions(Struct, frozen=True):
    """The options of a context: limits, text before and after it, formats and caps."""

    limits: Limits
    window: int
    """The budget in tokens of the host's model; `limits` and `budget` are in estimated tokens."""
    budget: int
    zone: tzinfo
    canonicalize: Canonicalize
    exact: Callable[[Message, Sequence[int]], Message]
    """Return a message with some of its large contents restored, by their places."""
    size: Callable[[Sequence[str]], int]
    """Return the bytes of some files, by their ids."""
    caps: Caps
    guidance: Guidance = "none"
    live: Sequence[Message] | None = None
    prompt_follows: bool = False
    session: str | None = None
    rejections: Rejections = Rejections()
    """The contents that a provider refused; they are left out."""


def build_context(
    store: Store, row: ConversationRow, options: BuildOptions, now: Callable[[], int]
) -> tuple[Context, NewManifest]:
    """Build the context of a model, and the manifest of it."""
    found = load.load_view(store, row, options.limits, options.zone)
    head = [*_guidance(options.guidance), *load.pin_entries(store, row.key)]
    unsaved = [] if options.live is None else _unsaved(store, row, options.live, options.canonicalize, options.session)
    if options.live is not None and (why := _fallback_reason(row, found.entries, unsaved, options.live)):
        context = live_messages.fit_live(
            without_rejected(options.live, options.rejections, options.canonicalize),
            options.budget,
            why,
            prompt_follows=options.prompt_follows,
            caps=options.caps,
        )
        made, brief = Assembly(context, [], 0), None
    else:
        body = [
            *_use_host_text(_restore_large_content(found.entries, options), options),
            *live_messages.as_entries(unsaved),
        ]
        refused = _remove_rejected(body, options)
        prompt = load.system_entry(store, row.id)
        brief_id, brief = load.brief_entry(store, row, options.budget)
        made = _name_brief(_with_prompt(prompt, head, body, found, options, brief), brief_id, brief)
        hidden = found.older - _unread_tokens(prompt, found)
        if hidden or made.context.left_out or refused:
            older = (LeftOut("older", "budget", hidden),) if hidden else ()
            left = (*older, *made.context.left_out, *refused)
            hidden = sum(each.tokens for each in left if each.reason in _HIDDEN)
            made = structs.replace(made, context=structs.replace(made.context, left_out=left, uncovered=hidden))
    note = load.manifest(
        made.kept,
        made.fresh,
        at=now(),
        window=options.window,
        tokens=made.context.tokens,
        reason=made.context.reason,
        extra="".join(entry.message.text for entry in (*head, *([brief] if brief and made.context.brief else ()))),
        uncovered=made.context.uncovered,
    )
    return made.context, note


def _with_prompt(
    prompt: ViewEntry | None,
    head: Sequence[ViewEntry],
    body: Sequence[ViewEntry],
    found: load.LoadedView,
    options: BuildOptions,
    brief: ViewEntry | None,
) -> Assembly:
    """Assemble a context that always contains the newest system message.

    In the fresh tail, or after older instructions, it keeps its place. Otherwise, or if it would not fit there, it comes first.
    """
    older = found.older - _unread_tokens(prompt, found)
    show = partial(assemble, budget=options.budget, older=older, caps=options.caps, brief=brief)
    if prompt is None:
        return show(head, body, fresh=found.fresh)
    at = next((at for at, entry in enumerate(body) if _is_same(entry, prompt)), None)
    if at is not None and (at >= max(1, found.fresh) or any(_instructs(entry) for entry in body[:at])):
        made = show(head, body, fresh=found.fresh)
        if any(_is_same(entry, prompt) for entry in made.kept):
            return made
    rest = [entry for entry in body if not _is_same(entry, prompt)]
    fresh = found.fresh - (at is not None and at < found.fresh)
    first = prompt if at is None else body[at]
    return show([first, *head], rest, fresh=fresh)


def _name_brief(made: Assembly, brief_id: str, brief: ViewEntry | None) -> Assembly:
    """Return the assembly with the id of the brief that it shows, or leaves out."""
    if not brief_id:
        return made
    if brief is not None and any(message is brief.message for message in made.context.messages):
        return structs.replace(made, context=structs.replace(made.context, brief=brief_id))
    left = (*made.context.left_out, LeftOut(brief_id, "no space", brief.tokens if brief else 0))
    return structs.replace(made, context=structs.replace(made.context, left_out=left))


def _instructs(entry: ViewEntry) -> bool:
    return isinstance(entry.item, StoredMessage) and entry.message.role in INSTRUCTIONS


def _is_same(entry: ViewEntry, other: ViewEntry) -> bool:
    return isinstance(entry.item, StoredMessage) and entry.item.id == getattr(other.item, "id", None)


def _unread_tokens(prompt: ViewEntry | None, found: load.LoadedView) -> int:
    """Return the tokens of the system message, if it is older than what was loaded."""
    if prompt is None or any(_is_same(entry, prompt) for entry in found.entries):
        return 0
    return min(prompt.tokens, found.older)


def _restore_large_content(entries: list[ViewEntry], options: BuildOptions) -> list[ViewEntry]:
    """Restore the large contents of the current turn, so that the model can see them.

    If not all of them fit, the newest are restored: see `choose_restored`.
    """
    newest = next((at for at in range(len(entries) - 1, -1, -1) if is_from_user(entries[at])), len(entries))
    pieces_found = [
        (at, each) for at in range(newest, len(entries)) for each in large_content.pieces(entries[at].message)
    ]
    if not pieces_found:
        return entries
    total = sum(entry.tokens for entry in entries)
    chosen = choose_restored(
        [(at, piece.is_picture, options.size(piece.files)) for at, piece in pieces_found],
        last=len(entries) - 1,
        user=newest,
        free=options.budget - total,
        budget=options.budget - entries[newest].tokens - entries[-1].tokens,
        caps=options.caps,
    )
    for at in {at for at, _ in pieces_found}:
        places = [place for place, (where, _) in enumerate(pieces_found) if where == at]
        chosen_pieces = [place - places[0] for place in places if place in chosen]
        exact = options.exact(entries[at].message, chosen_pieces)
        if exact is not entries[at].message:
            entries[at] = shown_as(entries[at], exact, entries[at].message)
    return entries


def choose_restored(
    pieces: Sequence[tuple[int, bool, int]], *, last: int, user: int, free: int, budget: int, caps: Caps
) -> frozenset[int]:
    """Choose the pieces of a turn to restore: (entry, is a picture, bytes) each, oldest first.

    Pieces of the `last` entry and of the newest words of the `user` come first and may use the whole `budget`. Of the others,
    the newest that fit into the `free` tokens and the caps are restored. They leave in groups of eight, so that the
    beginning of a request stays the same for some rounds.
    """
    size = tokens = pictures = 0

    def fits(at: int, most: int) -> bool:
        nonlocal size, tokens, pictures
        _, is_picture, length = pieces[at]
        size += length * 4 // 3
        tokens += IMAGE_TOKENS if is_picture else length // 3
        pictures += is_picture
        return size <= caps.bytes and pictures <= caps.pictures and tokens <= most

    newest_first = range(len(pieces) - 1, -1, -1)
    first = [at for entry in (last, user) for at in newest_first if pieces[at][0] == entry]
    kept = list(takewhile(lambda at: fits(at, budget), dict.fromkeys(first)))
    rest = [at for at in range(len(pieces)) if at not in first]
    fitting = sum(1 for _ in takewhile(lambda at: fits(at, free), reversed(rest)))
    gone = -(-(len(rest) - fitting) // _GROUP) * _GROUP
    return frozenset([*kept, *rest[gone:]])


def _use_host_text(entries: list[ViewEntry], options: BuildOptions) -> list[ViewEntry]:
    """Use the host's own version of messages of the current turn, which may have additions."""
    pieces_found = live_messages.current_turn(options.live or ())
    newest = next((at for at in range(len(entries) - 1, -1, -1) if _opens_turn(entries[at])), len(entries))
    budget = options.budget - sum(entry.tokens for entry in entries[newest:])
    for message in pieces_found:
        mark = digest(message, options.canonicalize)
        for at in range(len(entries) - 1, newest - 1, -1):
            item = entries[at].item
            named = (
                message.event_id is not None and isinstance(item, StoredMessage) and item.event_id == message.event_id
            )
            if not isinstance(item, StoredMessage) or not (named or item.digest == mark) or item.role != message.role:
                continue
            tokens = message_tokens(message)
            if message.parts != entries[at].message.parts and tokens - entries[at].tokens <= budget:
                budget -= tokens - entries[at].tokens
                entries[at] = shown_as(entries[at], message, entries[at].plain or entries[at].message)
            break
    return entries


def _remove_rejected(entries: list[ViewEntry], options: BuildOptions) -> list[LeftOut]:
    """Remove what a provider refused from the entries; return what was left out."""
    if options.rejections == Rejections():
        return []
    left: list[LeftOut] = []
    for at, entry in enumerate(entries):
        if entry.summary is not None:
            continue
        item = entry.item
        mark = item.digest if isinstance(item, StoredMessage) else digest(entry.message, options.canonicalize)
        shown = apply_rejections(options.rejections, mark.hex(), entry.message)
        if shown is not entry.message:
            # A message without parts is not sent, and the places of the others stay the same.
            message = shown or structs.replace(entry.message, parts=(), extra={})
            tokens = message_tokens(message) if shown else 0
            plain = entry.plain and apply_rejections(options.rejections, mark.hex(), entry.plain)
            entries[at] = structs.replace(entry, message=message, tokens=tokens, plain=plain)
            left.append(LeftOut(entry.name, "rejected", max(0, entry.tokens - tokens)))
    return left


def without_rejected(live: Sequence[Message], rejections: Rejections, canonicalize: Canonicalize) -> list[Message]:
    """Return live messages without what a provider refused."""
    if rejections == Rejections():
        return list(live)
    shown = (apply_rejections(rejections, digest(message, canonicalize).hex(), message) for message in live)
    return [message for message in shown if message is not None]


def _opens_turn(entry: ViewEntry) -> bool:
    return entry.message.role == "user" and entry.summary is None


def _guidance(kind: Guidance) -> list[ViewEntry]:
    if kind == "none":
        return []
    message = Message.system(guidance(kind))
    return [ViewEntry(None, message, message_tokens(message))]


def _nameless(live: Sequence[Message]) -> list[Message]:
    return [each for each in live if each.event_id is None and stands_for(each) is None]


def _unsaved(
    store: Store, row: ConversationRow, live: Sequence[Message], canonicalize: Canonicalize, session: str | None
) -> list[Message]:
    keys = [key for message in live if (key := event_key(message.event_id)) is not None]
    known = store.messages.known_events(row.id, keys, aliases=row.transcribed) if keys else {}
    # Compare only with as many stored messages as the host holds, and none from before a /new that cleared its list.
    start = list_start(store, row, session, lambda: [digest(each, canonicalize) for each in _nameless(live)])
    newest = own_after(store.imported.transplants(row.id), row, 2 * len(live))
    stored = store.messages.digests(row.id, after=max(start, newest))
    return live_messages.find_unsaved(
        live, known, stored, lambda message: digest(message, canonicalize), lambda message: event_key(message.event_id)
    )


def _fallback_reason(
    row: ConversationRow, entries: Sequence[ViewEntry], unsaved: Sequence[Message], live: Sequence[Message]
) -> str:
    """Return the reason for using live messages instead of the stored view; empty if there is none."""
    brings_prompt = any(message.role in INSTRUCTIONS for message in live)
    if not entries or (brings_prompt and all(_instructs(entry) for entry in entries)):
        return "nothing is stored"
    if any(isinstance(entry.item, Summary) for entry in entries):
        return ""
    if row.messages + len(unsaved) < sum(message.role not in INSTRUCTIONS for message in live):
        return "less is stored than the host holds"
    messages = [*(entry.message for entry in entries), *unsaved]
    return "" if any(message.role == "user" for message in messages) else "no user's turn is stored"
