"""JSON schemas of the structured results, one per tool."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from lossless.mcp.requests import NOTICE

_STRING, _INTEGER, _BOOLEAN, _NUMBER = ({"type": kind} for kind in ("string", "integer", "boolean", "number"))
_STRING_OR_NULL, _INTEGER_OR_NULL = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
_STRINGS = {"type": "array", "items": _STRING}
_TRUST: Final = {"trust": {"const": "untrusted", "description": NOTICE}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_MATCH = _object(
    {
        "id": _STRING,
        "type": {"enum": ["message", "summary", "file"]},
        "snippet": _STRING,
        "conversationId": _INTEGER,
        "createdAt": _STRING_OR_NULL,
    },
    {
        "summaryId": _STRING,
        "depth": _INTEGER_OR_NULL,
        "kind": _STRING,
        "seq": _INTEGER_OR_NULL,
        "role": _STRING_OR_NULL,
        "leafSummaryId": _STRING_OR_NULL,
        "around": _list(_object({"id": _STRING, "role": _STRING, "snippet": _STRING})),
        "fileId": _STRING,
        "fileName": _STRING_OR_NULL,
        "lineNumber": _INTEGER_OR_NULL,
        "byteOffset": _INTEGER_OR_NULL,
    },
)
_GREP = _object(
    {
        **_TRUST,
        "messageCount": _INTEGER,
        "summaryCount": _INTEGER,
        "fileCount": _INTEGER,
        "totalMatches": _INTEGER,
        "mode": {"enum": ["regex", "full_text", "semantic"]},
        "matches": _list(_MATCH),
    },
    {"totalIsLowerBound": _BOOLEAN, "nextCursor": _STRING},
)
_DESCRIBE = _object(
    {
        **_TRUST,
        "id": _STRING,
        "type": {"enum": ["summary", "message", "file"]},
        "conversationId": _INTEGER,
        "createdAt": _STRING_OR_NULL,
        "contentTruncated": _BOOLEAN,
        "text": _STRING,
    },
    {
        "startByte": _INTEGER,
        "endByte": _INTEGER,
        "totalBytes": _INTEGER,
        "totalLines": _INTEGER_OR_NULL,
        "nextStartLine": _INTEGER_OR_NULL,
        "nextOffset": _INTEGER_OR_NULL,
        "kind": _STRING,
        "depth": _INTEGER,
        "tokenCount": _INTEGER,
        "earliestAt": _STRING_OR_NULL,
        "latestAt": _STRING_OR_NULL,
        "descendantCount": _INTEGER,
        "sourceMessageTokenCount": _INTEGER,
        "model": _STRING_OR_NULL,
        "level": _STRING,
        "suspected": _INTEGER_OR_NULL,
        "parentIds": _STRINGS,
        "childIds": _STRINGS,
        "messageIds": _list({"type": ["string", "integer"]}),
        "fileIds": _STRINGS,
        "manifest": {"type": "object"},
        "role": _STRING,
        "seq": _INTEGER,
        "saidAt": _STRING_OR_NULL,
        "leafSummaryId": _STRING_OR_NULL,
        "fileName": _STRING_OR_NULL,
        "mimeType": _STRING_OR_NULL,
        "byteSize": _INTEGER,
        "lineCount": _INTEGER_OR_NULL,
        "sha256": _STRING,
    },
)
_EVIDENCE = _object(
    {"quote": _STRING, "seq": _INTEGER_OR_NULL, "at": _STRING_OR_NULL},
    {"summaryId": _STRING, "messageId": _STRING, "fileId": _STRING, "reason": _STRING},
)
_EXPAND_QUERY = _object(
    {
        **_TRUST,
        "answer": _STRING,
        "citedIds": _STRINGS,
        "sourceConversationIds": _list(_INTEGER),
        "expandedSummaryCount": _INTEGER,
        "totalSourceTokens": _INTEGER,
        "truncated": _BOOLEAN,
        "evidence": _list(_EVIDENCE),
    },
    {
        "sourceConversationId": _INTEGER,
        "droppedCitations": _STRINGS,
        "conversationBreakdown": _list({"type": "object"}),
    },
)
_EXPAND = _object(
    {
        **_TRUST,
        "expansionCount": _INTEGER,
        "citedIds": _STRINGS,
        "totalTokens": _INTEGER,
        "truncated": _BOOLEAN,
        "nextCursor": _STRING_OR_NULL,
        "skipped": _list(_object({"id": _STRING, "tokenCount": _INTEGER})),
        "text": _STRING,
    },
    {"policy": {"type": "object"}, "executionPath": _STRING},
)
RECALL: Final = {
    "lcm_grep": _GREP,
    "lcm_describe": _DESCRIBE,
    "lcm_expand_query": _EXPAND_QUERY,
    "lcm_expand": _EXPAND,
}
"""The results of the tools of `lossless.tools`."""

ANY: Final = _object(_TRUST)
"""The result of a tool that is not described further."""


def of(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a result that is a value class."""
    (root,), definitions = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    name = root["$ref"].rpartition("/")[2]
    described = {key: value for key, value in definitions.pop(name).items() if key not in ("title", "description")}
    return {**described, **({"$defs": definitions} if definitions else {})}
