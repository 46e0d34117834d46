"""Histories Hypothesis can invent: any message a host could send."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import strategies as st

from lossless.model import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

# Lone surrogates, NUL, other scripts, escapes: all of it is text.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
words = st.sampled_from(["ok", "hello world", "数据库迁移", "привет", "🙂", "", "error: 42", "a\0b", "\ud800"])
some_text = words | texts
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**300), 10**300) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
extras: st.SearchStrategy[dict[str, object]] = st.just({}) | st.dictionaries(
    st.sampled_from(["openclaw", "anthropic"]), json_values, max_size=2
)
plain = st.builds(Text, some_text, extras)
files = st.builds(
    File,
    st.sampled_from(["image/png", None]),
    st.none() | texts,
    st.none() | st.sampled_from(["iVBORw0KGgo=", "no base64"]),
    st.none() | texts,
    extras,
)
opaques = st.builds(Opaque, texts, json_values, extras)
parts: st.SearchStrategy[Part] = st.one_of(
    plain,
    st.builds(Reasoning, some_text, st.none() | texts, extras),
    st.builds(ToolCall, texts, texts, some_text | json_values.map(json.dumps), extras),
    st.builds(
        ToolResult,
        texts,
        st.lists(plain | files | opaques, max_size=3).map(tuple),
        st.none() | texts,
        st.booleans(),
        extras,
    ),
    files,
    opaques,
)
moments = st.none() | st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)
)
roles = st.sampled_from(["user", "assistant", "system", "tool", "developer", "narrator", "x\ud800"])
messages = st.builds(
    Message,
    roles,
    st.lists(parts, max_size=4).map(tuple),
    moments,
    st.none() | texts,
    st.none(),
    st.none() | st.sampled_from(["stop", "error", "aborted"]),
    extras,
)
