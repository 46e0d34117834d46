"""Read the messages that Hermes holds: dicts in the shape of chat completions, with fields of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import structs

from lossless.engine.ingest.message_digest import Canonicalize, without_tags
from lossless.formats import openai_chat
from lossless.hosts.hermes.generated import IsOurs, shortened, without_generated
from lossless.model import Message
from lossless.model.messages import instant

Record = dict[str, Any]

_ROLES = ("user", "assistant", "tool")
_FIELDS = ("role", "content", "name", "tool_call_id", "refusal", "reasoning_details")
_CALL_FIELDS = ("id", "type", "function", "extra_content")
_TASK_LIST = "[Your active task list was preserved across context compression]"
_PICTURE = "[screenshot]"
"""What Hermes keeps of a picture when it reads a session from its own database."""


def spoken(history: Iterable[object]) -> list[Record]:
    """Return the messages of a conversation, without those that Hermes adds for one request and drops again."""
    return [each for each in history if isinstance(each, dict) and each.get("role") in _ROLES and not _is_made_up(each)]


def answered(history: Sequence[Record]) -> list[Record]:
    """Return the messages without the prompts at the end: Hermes may still join them with the next one."""
    end = len(history)
    while end and history[end - 1].get("role") == "user":
        end -= 1
    return list(history[:end])


def read(history: Sequence[Record], is_ours: IsOurs, before: Record | None = None) -> list[Message]:
    """Return the messages of a history, without what we wrote into it; `before` is the one that precedes it."""
    pairs = zip([before, *history], history, strict=False)
    return [_read(own, last) for last, each in pairs if (own := _own(each, is_ours)) is not None]


def canonical(tags: Sequence[str]) -> Canonicalize:
    """Return a function that removes what Hermes changes about a text when it reads a session again."""
    plain = without_tags((*tags, "memory-context"))
    return lambda role, text: plain(role, text).strip()


def _is_made_up(record: Mapping[str, Any]) -> bool:
    if record.get("_thinking_prefill") or any(
        record[key] for key in record if str(key).startswith("_") and str(key).endswith("_synthetic")
    ):
        return True
    content = record.get("content")
    return record["role"] == "user" and isinstance(content, str) and content.startswith(_TASK_LIST)


def _own(record: Record, is_ours: IsOurs) -> Record | None:
    if record["role"] != "user":
        return record
    content = record.get("content")
    rest = shortened(content, is_ours)
    if rest is content:
        return record
    sent = record.get("api_content")
    rest_sent = without_generated(sent, is_ours) if isinstance(sent, str) else None
    return None if rest is None else record | {"content": rest, "api_content": rest_sent}


def _read(record: Record, before: Record | None) -> Message:
    kept = {key: record[key] for key in _FIELDS if record.get(key) is not None}
    kept["content"] = _content(record)
    if reasoning := record.get("reasoning_content") or record.get("reasoning"):
        kept["reasoning_content"] = reasoning
    if record["role"] == "tool" and "name" not in kept and record.get("tool_name"):
        kept["name"] = record["tool_name"]
    if calls := [_call(each) for each in record.get("tool_calls") or () if isinstance(each, dict)]:
        kept["tool_calls"] = calls
    message = openai_chat.load(kept)
    stop, at = record.get("finish_reason"), record.get("timestamp")
    return structs.replace(
        message,
        at=instant(at) if isinstance(at, int | float) and not isinstance(at, bool) else None,
        stop=stop if isinstance(stop, str) else None,
        event_id=_event_id(record, before),
    )


def _call(call: Record) -> Record:
    return {key: call[key] for key in _CALL_FIELDS if call.get(key) is not None}


def _content(record: Mapping[str, Any]) -> Any:
    """Return the content as it was said.

    A session that is read again has a shortened content, and what was sent beside it (`api_content`). Text that only follows
    the content was added for one request.
    """
    content, sent = record.get("content"), record.get("api_content")
    if isinstance(content, str) and isinstance(sent, str) and not sent.lstrip().startswith(content.strip()):
        return sent
    if isinstance(content, dict):  # a tool's result with pictures
        return content.get("content") or content.get("text_summary") or str(content)
    return content


def _event_id(record: Mapping[str, Any], before: Mapping[str, Any] | None) -> str | None:
    """Return an id for a message with pictures: Hermes gives it back without them."""
    content = _content(record)
    words = _reduced(content)
    if isinstance(content, str) and _PICTURE not in content.split("\n"):
        return None
    if not isinstance(content, str | list) or _PICTURE not in words.split("\n"):
        return None
    place = record.get("tool_call_id") or _reduced(_content(before) if before else "")
    identity = "\0".join((str(record["role"]), words, str(place)))
    return f"hermes-picture-{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _reduced(content: Any) -> str:
    """Return the text that Hermes keeps of a content."""
    if not isinstance(content, list):
        return content.strip() if isinstance(content, str) else ""
    kinds = {"image", "image_url", "input_image"}
    lines = [
        str(part.get("text", "")) if part.get("type") == "text" else _PICTURE
        for part in content
        if isinstance(part, dict) and (part.get("type") == "text" or part.get("type") in kinds)
    ]
    return "\n".join(lines).strip()
