"""The tools of an agent: typed once, never raising for what an agent got wrong, never showing what is not its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from lossless import AsyncLossless, Conversation, Lossless, Message, Summary, SummaryRequest
from lossless.engine.context.guidance import FULL, SHORT, guidance
from lossless.errors import InvalidInput, StoreError
from lossless.search import embeddings
from lossless.store.rows.types import NewSummary
from lossless.store.store import Store
from lossless.times import clock
from lossless.tokens import estimate
from lossless.tools import ToolOutcome, Tools, tools
from tests.engine.compaction.test_compaction import SMALL, WINDOW, turns
from tests.engine.recall.test_ask import FACT, QUESTION, Host, faithful, filled
from tests.engine.recall.test_recall import grown, leaf, top


@pytest.fixture
def lcm(database: str, tmp_path: Path) -> Iterator[Lossless]:
    own = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"), large_file_token_threshold=1_000)
    with Lossless.open(database, settings=own, summarizer=Host(faithful)) as lcm:
        yield lcm


@pytest.fixture
def chat(lcm: Lossless) -> Conversation:
    return filled(lcm)


def refused(outcome: ToolOutcome, why: str) -> None:
    assert outcome.is_error
    assert json.loads(outcome.text) == outcome.details
    assert why in outcome.details["error"]


# schemas


def test_there_are_three_tools_and_under_a_grant_expand_in_the_place_of_the_question(chat: Conversation) -> None:
    three = ("lcm_grep", "lcm_describe", "lcm_expand_query")
    assert tools(chat).names == three
    assert tools(chat, chat.grant()).names == ("lcm_grep", "lcm_describe", "lcm_expand")


def test_the_schemas_have_the_shape_of_each_api(chat: Conversation) -> None:
    kit = tools(chat)
    openai, anthropic, mcp = kit.schemas("openai"), kit.schemas("anthropic"), kit.schemas("mcp")
    assert [each["function"]["name"] for each in openai] == list(kit.names)
    assert openai[0]["type"] == "function"
    for one, two, three in zip(openai, anthropic, mcp, strict=True):
        assert one["function"]["parameters"] == two["input_schema"] == three["inputSchema"]
        assert one["function"]["description"] == two["description"] == three["description"]
        schema = two["input_schema"]
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)
        assert "null" not in json.dumps(schema)
        assert {"conversationId", "allConversations"} <= set(schema["properties"])
    with pytest.raises(InvalidInput, match="style"):
        kit.schemas("soap")  # type: ignore[arg-type]  # wrong on purpose


def test_the_arguments_have_the_names_agents_know(chat: Conversation) -> None:
    grep, describe, query = (each["inputSchema"] for each in tools(chat).schemas("mcp"))
    assert {"pattern", "mode", "scope", "since", "before", "limit", "sort"} <= set(grep["properties"])
    assert grep["required"] == ["pattern"]
    assert (grep["properties"]["limit"]["minimum"], grep["properties"]["limit"]["maximum"]) == (1, 200)
    assert set(grep["properties"]["mode"]["enum"]) == {"regex", "full_text", "semantic"}
    assert {"id", "tokenCap", "startLine", "endLine", "expandFile", "expandFileMaxBytes"} <= set(describe["properties"])
    assert {"prompt", "query", "summaryIds", "maxTokens", "tokenCap", "timeoutMs"} <= set(query["properties"])
    assert query["required"] == ["prompt"]


# what an agent gets wrong


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("lcm_grep", {}, "required field `pattern`"),
        ("lcm_grep", {"pattern": 5}, "Expected `str`"),
        ("lcm_grep", {"pattern": " "}, "empty"),
        ("lcm_grep", {"pattern": "x", "mode": "fuzzy"}, "fuzzy"),
        ("lcm_grep", {"pattern": "x", "limit": 0}, "limit=0"),
        ("lcm_grep", {"pattern": "x", "limit": 201}, "limit=201"),
        ("lcm_grep", {"pattern": "x", "since": "yesterdy"}, "since='yesterdy'"),
        ("lcm_grep", {"pattern": "x", "since": "2026-02-02", "before": "2026-02-01"}, "is not before"),
        ("lcm_grep", {"pattern": "(", "mode": "regex"}, ""),
        ("lcm_grep", {"pattern": "x", "until": "2026"}, "unknown field `until`"),
        ("lcm_grep", "not json", "not JSON"),
        ("lcm_grep", "[1]", "not an object"),
        ("lcm_grep", {"pattern": "x", "cursor": "nonsense"}, "cursor"),
        ("lcm_grep", {"pattern": "x", "conversationId": 77}, "no conversation 77"),
        ("lcm_grep", {"pattern": "x", "conversationId": "many"}, "conversationId"),
        ("lcm_describe", {}, "required field `id`"),
        ("lcm_describe", {"id": "sum_a sum_b"}, "multiple ids"),
        ("lcm_describe", {"id": "sum_ffffffffffffffff"}, "no summary"),
        ("lcm_describe", {"id": "file_f", "startLine": 3, "endLine": 1}, "range of lines"),
        ("lcm_expand_query", {"prompt": "", "query": "x"}, "prompt is empty"),
        ("lcm_expand_query", {"prompt": "x", "summaryIds": ["sum_ffffffffffffffff"]}, "no summary"),
        ("lcm_expand_query", {"prompt": "x", "summaryIds": [5]}, "summaryIds"),
        ("lcm_expand_query", {"prompt": "x", "query": "y", "maxTokens": 0}, "max_tokens=0"),
        ("lcm_expand", {"summaryIds": ["sum_a"]}, "for delegates"),
        ("lcm_forget", {}, "no tool"),
    ],
)
def test_what_an_agent_gets_wrong_it_can_put_right(chat: Conversation, name: str, arguments: Any, why: str) -> None:
    refused(tools(chat).call(name, arguments), why)


@given(
    name=st.sampled_from(["lcm_grep", "lcm_describe", "lcm_expand_query", "lcm_expand", "?"]),
    arguments=st.dictionaries(
        st.sampled_from(
            [
                "pattern",
                "id",
                "prompt",
                "query",
                "summaryIds",
                "conversationId",
                "allConversations",
                "limit",
                "mode",
                "scope",
                "since",
                "before",
                "cursor",
                "fileIds",
                "tokenCap",
                "maxTokens",
                "timeoutMs",
                "startLine",
                "endLine",
                "expandFileMaxBytes",
                "maxDepth",
                "x",
            ]
        ),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(10**25), 10**25),
            st.floats(),
            st.text(max_size=20),
            st.sampled_from(["a\0b", "\ud800", "msg#1000000001", "full_text", "2026-01-01", "(", "\\d+", "words"]),
            st.lists(st.sampled_from(["msg#1000000001", "sum_1", "\ud800", "\0"]), max_size=3),
            st.lists(st.integers(), max_size=2),
            st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
        ),
    ),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_arguments_whatever_make_a_call_raise(opened: tuple[Tools, Tools], name: str, arguments: Any) -> None:
    for kit in opened:
        outcome = kit.call(name, arguments)
        assert outcome.text.encode()
        assert len(outcome.text) <= 45_000


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Tools, Tools]]:
    with Lossless.open(tmp_path / "lcm.db", settings=SMALL, summarizer="extractive") as lcm:
        chat = lcm.conversation("k")
        chat.ingest([*turns(3), Message.user("half \ud83d, NUL \0 and words")])
        yield tools(chat), tools(chat, chat.grant(max_tokens=10**9, seconds=10_000))


def test_an_unknown_choice_is_told_the_known_ones(chat: Conversation) -> None:
    told = tools(chat).call("lcm_grep", {"pattern": "x", "mode": "fuzzy"}).details
    assert told["hint"] == "Give one of full_text, regex, semantic."


def test_arguments_are_taken_as_they_are_meant(chat: Conversation) -> None:
    kit = tools(chat)
    exact = kit.call("lcm_grep", {"pattern": "blue safe", "limit": 3, "scope": "messages"})
    loose = '{"pattern": " blue safe ", "limit": 3.9, "scope": "messages", "since": null, "conversationId": null}'
    assert kit.call("lcm_grep", loose).details == exact.details
    number = str(chat.messages()[10].id)
    assert kit.call("lcm_describe", {"id": int(number)}).text == kit.call("lcm_describe", {"id": number}).text
    assert kit.call("lcm_grep", {"pattern": "blue", "conversationId": "1"}).details["totalMatches"] >= 1
    assert not kit.call("lcm_expand_query", {"prompt": QUESTION, "summaryIds": leaf(chat).id}).is_error


def test_only_true_means_all_conversations(lcm: Lossless, chat: Conversation) -> None:
    lcm.conversation("other").ingest([Message.user("a walrus")])
    kit = tools(chat)
    for value, hits in ((True, 1), (False, 0), ("true", 0), (1, 0)):
        found = kit.call("lcm_grep", {"pattern": "walrus", "allConversations": value})
        assert found.details["totalMatches"] == hits


def test_a_conversation_that_is_not_there_yet_is_told(lcm: Lossless) -> None:
    refused(tools(lcm.conversation("new")).call("lcm_grep", {"pattern": "x"}), "no conversation under new yet")


def test_a_switched_off_memory_says_so(chat: Conversation) -> None:
    own = structs.replace(chat._lcm.settings, enabled=False)
    with Lossless.open(chat._store.location if "://" not in chat._store.location else ":memory:", settings=own) as off:
        refused(tools(off.conversation("k")).call("lcm_grep", {"pattern": "x"}), "LCM_ENABLED is false")


def test_a_database_that_is_gone_raises(lcm: Lossless, chat: Conversation) -> None:
    kit = tools(chat)
    lcm.close()
    with pytest.raises(StoreError):
        kit.call("lcm_grep", {"pattern": "x"})


# grep


def test_grep_shows_where_each_hit_is_and_gives_the_list(chat: Conversation) -> None:
    outcome = tools(chat).call("lcm_grep", {"pattern": "deploy key", "mode": "full_text", "sort": "relevance"})
    lines = outcome.text.splitlines()
    assert lines[:4] == [
        "## LCM Grep Results",
        "Pattern: deploy key",
        "Mode: full_text | Scope: both | Sort: relevance",
        "Conversation scope: session family rooted at 1 (1 segments)",
    ]
    stored = chat.messages()[10]
    hit = next(line for line in lines if f"msg#{stored.id}" in line)
    leaf = chat.describe(stored.id).consumers[0]
    assert hit.startswith(f"- [conv=1 msg#{stored.id}] (user, 2026-02-17T15:37:00Z, in {leaf}): ")
    assert "&lt;nobody else knows&gt;" in hit
    match = next(each for each in outcome.details["matches"] if each["id"] == f"msg#{stored.id}")
    assert match["type"] == "message"
    assert match["createdAt"] == "2026-02-17T15:37:00Z"
    assert match["conversationId"] == 1
    assert match["leafSummaryId"] == leaf
    assert outcome.details["totalMatches"] == len(outcome.details["matches"])


def test_summaries_among_the_hits_tell_their_depth(chat: Conversation) -> None:
    outcome = tools(chat).call("lcm_grep", {"pattern": "Expand for details", "scope": "summaries", "limit": 2})
    match = outcome.details["matches"][0]
    assert (match["type"], match["kind"], match["depth"]) == ("summary", "leaf", 0)
    assert match["summaryId"] == match["id"]
    assert outcome.details["nextCursor"]
    more = tools(chat).call(
        "lcm_grep",
        {"pattern": "Expand for details", "scope": "summaries", "limit": 2, "cursor": outcome.details["nextCursor"]},
    )
    assert {each["id"] for each in more.details["matches"]}.isdisjoint(
        each["id"] for each in outcome.details["matches"]
    )


def test_no_match_is_said_in_a_line(chat: Conversation) -> None:
    outcome = tools(chat).call("lcm_grep", {"pattern": "xylophone"})
    assert "No matches." in outcome.text
    assert outcome.details["totalMatches"] == 0


def test_grep_tells_the_total_and_puts_the_best_first(lcm: Lossless) -> None:
    chat = lcm.conversation("many")
    best = "The deploy key, the deploy key: in the vault."
    chat.ingest([Message.user(best), *(Message.user(f"The key of door {n}") for n in range(80))])
    found = tools(chat).call("lcm_grep", {"pattern": "deploy key", "mode": "full_text", "limit": 5})
    assert found.details["matches"][0]["snippet"] == best
    assert (len(found.details["matches"]), found.details["totalMatches"]) == (5, 81)
    assert "totalIsLowerBound" not in found.details
    assert "Sort: relevance" in found.text
    assert "Total matches: 81" in found.text
    asked = tools(chat).call("lcm_grep", {"pattern": "where is the deploy key?", "mode": "full_text", "limit": 5})
    assert asked.details["totalIsLowerBound"] is True
    assert "Total matches: at least " in asked.text


def asked_of(lcm: Lossless) -> Conversation:
    chat = lcm.conversation("asked")
    chat.ingest(
        [
            *(Message.user(f"straw {n}") for n in range(9)),
            Message.user("Where should we keep the deploy key?"),
            Message.assistant("In the blue safe."),
            *(Message.user(f"hay {n}") for n in range(9)),
        ]
    )
    return chat


def test_a_question_without_a_mode_is_answered_by_words_with_the_turns_around(lcm: Lossless) -> None:
    found = tools(asked_of(lcm)).call("lcm_grep", {"pattern": "Where do we keep the deploy key?", "limit": 1})
    assert (found.details["mode"], len(found.details["matches"])) == ("full_text", 1)
    assert "Mode: full_text | Scope: both | Sort: relevance" in found.text
    assert "searched as words" in found.text.splitlines()[-1]
    (match,) = found.details["matches"]
    near = {match["snippet"], *(each["snippet"] for each in match["around"])}
    assert {"Where should we keep the deploy key?", "In the blue safe."} <= near
    assert "  before: [msg#" in found.text
    exact = tools(asked_of(lcm)).call("lcm_grep", {"pattern": "Where should we .* key", "limit": 1})
    assert (exact.details["mode"], exact.details["totalMatches"]) == ("regex", 2)


@pytest.mark.parametrize("mode", [{}, {"mode": "regex"}])
def test_words_that_match_nothing_as_a_pattern_are_searched_as_words(lcm: Lossless, mode: dict[str, str]) -> None:
    kit = tools(asked_of(lcm))
    found = kit.call("lcm_grep", {"pattern": "key for deploying", **mode})
    assert (found.details["mode"], found.details["matches"][0]["seq"]) == ("full_text", 10)
    assert "No text matches this as a pattern" in found.text
    assert "No matches." in kit.call("lcm_grep", {"pattern": "key.*for", **mode}).text


def test_the_pages_of_words_that_were_a_pattern_go_on(lcm: Lossless) -> None:
    kit = tools(asked_of(lcm))
    for pattern in ("hay straws", "Is there any hay or straw?"):
        asked = {"pattern": pattern, "limit": 5, "scope": "messages"}
        first = kit.call("lcm_grep", asked)
        second = kit.call("lcm_grep", {**asked, "cursor": first.details["nextCursor"]})
        seqs = [each["seq"] for page in (first, second) for each in page.details["matches"]]
        assert len(set(seqs)) == 10


def test_a_question_alone_finds_its_passages_without_a_model(database: str) -> None:
    with Lossless.open(database) as lcm:
        asked = {"prompt": "Where do we keep the deploy key?"}
        found = tools(asked_of(lcm)).call("lcm_expand_query", asked).details["evidence"]
    reasons = {each["quote"]: each["reason"] for each in found}
    assert reasons["Where should we keep the deploy key?"] == "contains: keep, deploy, key"
    assert reasons["In the blue safe."].startswith("next to a match")
    assert [each["seq"] for each in found] == sorted(each["seq"] for each in found)


def test_semantic_search_is_offered_where_it_is_installed(chat: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not tools(chat).call("lcm_grep", {"pattern": "a safe place", "mode": "semantic"}).is_error
    monkeypatch.setattr(embeddings, "is_installed", lambda: False)
    (grep, *_) = tools(chat).schemas("openai")
    assert grep["function"]["parameters"]["properties"]["mode"]["enum"] == ["full_text", "regex"]
    refused(tools(chat).call("lcm_grep", {"pattern": "x", "mode": "semantic"}), "lossless[semantic]")


def test_a_text_never_exceeds_forty_thousand_characters(lcm: Lossless) -> None:
    chat = lcm.conversation("long")
    chat.ingest([Message.user(f"needle {n} " + "<&> hay " * 300) for n in range(200)])
    found = tools(chat).call("lcm_grep", {"pattern": "needle", "limit": 200})
    assert len(found.text) <= 40_000
    assert found.details["totalMatches"] == 200
    rest = tools(chat).call("lcm_grep", {"pattern": "needle", "limit": 200, "cursor": found.details["nextCursor"]})
    seqs = [each["seq"] for outcome in (found, rest) for each in outcome.details["matches"]]
    assert seqs == list(range(200, 0, -1))
    chat.ingest([Message.user("<&>" * 1_100)])
    described = tools(chat).call("lcm_describe", {"id": chat.messages()[-1].id})
    assert len(described.text) <= 40_000
    chat.ingest([Message.user('<file name="x.txt">' + "<&> line\n" * 50_000 + "</file>")])
    file = tools(chat).call("lcm_describe", {"id": chat.files()[-1].id, "expandFileMaxBytes": 512_000})
    assert 39_000 < len(file.text) <= 40_000
    assert "; continue with startLine=" in file.text


def test_a_manifest_of_many_branches_leaves_room_for_the_text(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("wide"))
    upper, store = top(chat), chat._store
    found = store.summaries.named(upper.id)
    assert found is not None
    assert isinstance(store, Store)
    with store.transaction():  # as if it had been made from many more
        store.insert(
            "summary_source",
            ("summary_id", "source_id", "ordinal"),
            [(found[1].id, copied(store, found[0], n), 100 + n) for n in range(230)],
        )
    outcome = tools(chat).call("lcm_describe", {"id": upper.id})
    assert len(outcome.text) <= 40_000
    assert "(the manifest goes on)" in outcome.text
    assert upper.text in outcome.text
    manifest = outcome.details["manifest"]
    assert (len(manifest["nodes"]), manifest["more"]) == (200, upper.descendants + 1 + 230 - 200)


def copied(store: Store, conversation: int, n: int) -> int:
    row = store.summaries.read(conversation)[0]
    values = {column: getattr(row, column) for column in NewSummary.__struct_fields__}
    return store.context.insert_summary(conversation, NewSummary(**{**values, "public_id": f"sum_copy{n}"}))


# describe


def test_describe_gives_the_text_marked_and_its_place_in_numbers(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("g"))
    upper = top(chat)
    outcome = tools(chat).call("lcm_describe", {"id": upper.id, "tokenCap": 150})
    assert outcome.text.startswith(f"LCM_SUMMARY {upper.id}\n")
    assert f'<content trust="untrusted">\n{upper.text}\n</content>' in outcome.text
    details = outcome.details
    assert (details["kind"], details["depth"], details["tokenCount"]) == ("condensed", 2, upper.tokens)
    assert details["parentIds"] == list(chat.describe(upper.id).sources)
    assert details["childIds"] == []
    manifest = details["manifest"]
    assert (manifest["tokenCap"], manifest["budgetSource"]) == (150, "request")
    root, below = manifest["nodes"][0], manifest["nodes"][1]
    assert (root["depthFromRoot"], below["depthFromRoot"], below["parentSummaryId"]) == (0, 1, upper.id)
    assert root["costs"]["withMessages"] == root["costs"]["summariesOnly"] + upper.source_tokens
    assert not root["budgetFit"]["summariesOnly"]
    assert tools(chat).call("lcm_describe", {"id": upper.id}).details["manifest"]["budgetSource"] == "config_default"


def test_describe_tells_all_about_a_file(lcm: Lossless) -> None:
    chat = lcm.conversation("f")
    chat.ingest([Message.user('<file name="a<b.csv" mime="text/csv">' + "x,y\n" * 2_000 + "</file>")])
    id = chat.files()[0].id
    shown = chat.context().messages[0].text
    copied = tools(chat).call("lcm_describe", {"id": shown[shown.index("[LCM File:") :]})
    assert copied.details["id"] == id
    found = tools(chat).call("lcm_describe", {"id": id, "startLine": 1_999})
    assert found.details["fileName"] == "a<b.csv"
    assert (found.details["mimeType"], found.details["byteSize"]) == ("text/csv", 8_000)
    assert found.text.endswith("Content:\nx,y\nx,y\n\n</content>")
    assert "Content:" not in tools(chat).call("lcm_describe", {"id": id, "expandFile": False}).text


# expand and expand_query


def test_expand_query_gives_the_json_agents_know(chat: Conversation) -> None:
    outcome = tools(chat).call("lcm_expand_query", {"prompt": QUESTION, "query": "deploy key"})
    assert json.loads(outcome.text) == outcome.details
    assert outcome.text.startswith('{\n  "answer": "In the blue safe."')
    details = outcome.details
    assert details["citedIds"] == [f"msg#{chat.messages()[10].id}"]
    assert details["sourceConversationIds"] == [details["sourceConversationId"]] == [1]
    assert details["expandedSummaryCount"] >= 1
    assert 0 < details["totalSourceTokens"] <= 4_000
    assert details["truncated"] is False
    assert details["evidence"][0]["quote"] == "in the blue safe"
    assert details["conversationBreakdown"][0]["status"] == "success"


def test_a_failure_has_its_own_shape(lcm: Lossless, chat: Conversation) -> None:
    host = lcm._models._named
    assert isinstance(host, Host)
    host.answers = ["nonsense"]
    details = tools(chat).call("lcm_expand_query", {"prompt": QUESTION, "query": "deploy key"}).details
    share = details.pop("conversationBreakdown")[0]
    assert "not the JSON" in details.pop("error")
    assert FACT in [each["quote"] for each in details["evidence"]]
    assert details["totalSourceTokens"] > 0
    assert {name: details[name] for name in ("errorCode", "truncated", "citedIds", "sourceConversationIds")} == {
        "errorCode": "DELEGATED_EXPANSION_REPLY_INVALID",
        "truncated": True,
        "citedIds": [],
        "sourceConversationIds": [chat.status().id],
    }
    assert "answer" not in details
    assert {"conversationId", "status", "summaryIds", "phase", "elapsedMs", "errorCode", "error"} <= set(share)


def test_expand_returns_the_words_it_charges_for(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("g"))
    kit = tools(chat, chat.grant(max_tokens=2_000))
    outcome = kit.call("lcm_expand", {"summaryIds": [leaf(chat).id], "includeMessages": True})
    for message in chat.messages()[:3]:
        assert message.text.strip() in outcome.text
    assert kit._delegate is not None
    assert outcome.details["totalTokens"] == 2_000 - kit._delegate.remaining()
    assert outcome.details["totalTokens"] == sum(each.tokens for each in kit._delegate.ledger())
    assert outcome.details["citedIds"][0] == leaf(chat).id
    assert outcome.details["policy"]["action"] in ("expand_shallow", "delegate_traversal")
    assert outcome.text.splitlines()[0].startswith("## Expansion Results (")
    assert outcome.text.endswith("[Truncated: no]")


def test_expand_without_messages_says_how_to_get_them(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("g"))
    kit = tools(chat, chat.grant(max_tokens=2_000))
    outcome = kit.call("lcm_expand", {"summaryIds": [leaf(chat).id]})
    assert "includeMessages reads the messages below it" in outcome.text
    by_query = kit.call("lcm_expand", {"query": "question", "includeMessages": True, "maxDepth": 99})
    assert "<message" not in by_query.text
    refused(kit.call("lcm_expand", {}), "Neither summaryIds nor query")


def test_a_truncated_expansion_goes_on(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("g"))
    kit = tools(chat, chat.grant(max_tokens=100_000))
    asked: dict[str, Any] = {"summaryIds": [top(chat).id], "tokenCap": 100, "includeMessages": True}
    seen: list[str] = []
    while True:
        outcome = kit.call("lcm_expand", asked)
        seen += outcome.details["citedIds"][1:]
        if outcome.details["nextCursor"] is None:
            break
        assert "More with cursor:" in outcome.text
        asked["cursor"] = outcome.details["nextCursor"]
    everything = kit.call("lcm_expand", {**asked, "tokenCap": 50_000, "cursor": None}).details["citedIds"][1:]
    assert list(dict.fromkeys(seen)) == everything


# grants


def test_a_grant_covers_what_its_family_says_later_and_nobody_else(lcm: Lossless, chat: Conversation) -> None:
    stranger = lcm.conversation("stranger")
    stranger.ingest([Message.user("a later word of a stranger")])
    kit = tools(chat, chat.grant(max_tokens=100_000))
    chat.ingest([Message.user("a later word in the same conversation")])
    chat.reset()
    chat.ingest([Message.user("a later word after the reset")])
    child = lcm.conversation("agent:helper", parent=chat)
    log = "".join(f"a later word in line {n} of a log\n" for n in range(2_000))
    child.ingest([Message.user(f'<file name="log.txt">{log}</file>')])
    lcm.conversation("agent:elsewhere", parent=stranger).ingest([Message.user("a later word elsewhere")])
    found = kit.call("lcm_grep", {"pattern": "a later word"})
    assert {each["snippet"] for each in found.details["matches"] if len(each["snippet"]) < 60} == {
        "a later word in the same conversation",
        "a later word after the reset",
    }
    assert {each["conversationId"] for each in found.details["matches"]} <= {*chat._family()}
    (file,) = child.files()
    assert "a later word in line 0" in kit.call("lcm_describe", {"id": file.id}).text
    assert kit.call("lcm_grep", {"pattern": "line 1999", "scope": "files"}).details["totalMatches"] == 1
    refused(kit.call("lcm_grep", {"pattern": "x", "conversationId": stranger.status().id}), "outside")
    refused(kit.call("lcm_describe", {"id": stranger.messages()[0].id}), "no message")


def test_a_grant_for_one_run_of_a_job_covers_no_other_run(lcm: Lossless) -> None:
    job = lcm.conversation("agent:a:cron:nightly")
    job.ingest([Message.user("first run")])
    first = job.status().id
    job.reset()
    job.ingest([Message.user("second run")])
    kit = tools(job, job.grant(conversations=[first], max_tokens=10_000))
    lcm.conversation("agent:b", parent=job).ingest([Message.user("helper of the second run")])
    found = kit.call("lcm_grep", {"pattern": "run"})
    assert [each["snippet"] for each in found.details["matches"]] == ["first run"]


def test_every_reading_under_a_grant_is_metered_by_what_came_back(chat: Conversation) -> None:
    kit = tools(chat, chat.grant(max_tokens=1_500))
    assert kit._delegate is not None
    left = 1_500
    for name, arguments in (
        ("lcm_grep", {"pattern": "Question", "limit": 3}),
        ("lcm_describe", {"id": leaf(chat).id}),
        ("lcm_describe", {"id": chat.messages()[0].id}),
    ):
        outcome = kit.call(name, arguments)
        left -= estimate(outcome.text)
        assert kit._delegate.remaining() == left
    assert [each.verb for each in kit._delegate.ledger()] == ["lcm_grep", "lcm_describe", "lcm_describe"]


def test_nothing_larger_than_what_is_left_comes_back_and_then_nothing(chat: Conversation) -> None:
    kit = tools(chat, chat.grant(max_tokens=120))
    assert kit._delegate is not None
    first = kit.call("lcm_grep", {"pattern": "Question", "limit": 50})
    assert estimate(first.text) <= 120
    assert len(first.details["matches"]) < first.details["totalMatches"]
    while not (outcome := kit.call("lcm_describe", {"id": leaf(chat).id})).is_error:
        assert estimate(outcome.text) <= 120
    refused(outcome, "exhausted")
    assert kit._delegate.remaining() == 0


def test_too_little_left_gives_nothing_rather_than_too_much(lcm: Lossless) -> None:
    chat = grown(lcm.conversation("g"))
    kit = tools(chat, chat.grant(max_tokens=20))
    refused(kit.call("lcm_expand", {"summaryIds": [top(chat).id]}), "Too little is left")
    assert kit._delegate is not None
    assert kit._delegate.remaining() == 20


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tools_of_an_awaited_conversation_are_awaited(tmp_path: Path, backend: str) -> None:
    async def host(request: SummaryRequest) -> str:
        return faithful(request)

    async def called() -> dict[str, Any]:
        async with AsyncLossless.open(tmp_path / "lcm.db", settings=SMALL, summarizer=host) as lcm:
            chat = lcm.conversation("k")
            await chat.ingest([Message.user(FACT)])
            return (await tools(chat).acall("lcm_expand_query", {"prompt": QUESTION, "query": "key"})).details

    assert anyio.run(called, backend=backend)["answer"] == "In the blue safe."


def test_a_dead_grant_opens_nothing(chat: Conversation) -> None:
    grant = chat.grant()
    kit = tools(chat, grant)
    chat.revoke(grant)
    for name in kit.names:
        arguments = {"pattern": "x", "id": leaf(chat).id, "prompt": "x", "query": "x", "summaryIds": [leaf(chat).id]}
        known = kit.schemas("mcp")[kit.names.index(name)]["inputSchema"]["properties"]
        outcome = kit.call(name, {key: value for key, value in arguments.items() if key in known})
        refused(outcome, "Expansion authorization failed")
    refused(tools(chat, "grant_nobody").call("lcm_grep", {"pattern": "x"}), "no such grant")


def test_whoever_answers_a_question_cannot_ask_one(chat: Conversation) -> None:
    kit = tools(chat, chat.grant())
    asked = {"prompt": QUESTION, "query": "key"}
    first, second = kit.call("lcm_expand_query", asked).details, kit.call("lcm_expand_query", asked).details
    assert (first["errorCode"], first["reason"]) == ("EXPANSION_RECURSION_BLOCKED", "depth_cap")
    assert second["reason"] == "idempotent_reentry"
    assert first["requestId"] == second["requestId"]
    assert (first["expansionDepth"], first["originSessionKey"]) == (1, "k")
    assert "lcm_expand" in first["error"]


# what is not one's own


class World(NamedTuple):
    """Mine, another of mine, and somebody else's; each with a secret in messages, summaries and a file."""

    kit: Tools
    ids: list[str]
    conversations: list[int]


def secretive(lcm: Lossless, key: str, secret: str) -> Conversation:
    chat = lcm.conversation(key)
    told = [Message.user(f"Question {n}: our secret is {secret} " + "and more " * 20) for n in range(40)]
    chat.ingest(
        [*told, Message.user(f'<file name="{secret}.txt">' + f"secret {secret}\n" * 2_000 + "</file>"), *turns(4)]
    )
    chat.compact(WINDOW)
    return chat


def telling(request: SummaryRequest) -> str:
    return "\n".join(line[:60] for line in request.source.splitlines() if line.startswith("Question"))[:90]


def names(chat: Conversation) -> list[str]:
    return [chat.summaries()[0].id, f"msg#{chat.messages()[0].id}", str(chat.messages()[1].id), chat.files()[0].id]


@pytest.mark.parametrize("who", ["another owner", "outside the grant"])
def test_no_parameter_of_any_tool_shows_a_byte_of_what_is_not_ones_own(database: str, tmp_path: Path, who: str) -> None:
    own = structs.replace(SMALL, large_files_dir=str(tmp_path / "files"), large_file_token_threshold=1_000)
    owner = "them" if who == "another owner" else "me"
    with (
        Lossless.open(database, settings=own, summarizer=telling, owner="me") as mine,
        Lossless.open(database, settings=own, summarizer=telling, owner=owner) as theirs,
    ):
        chat = secretive(mine, "mine", "AMBER")
        other = secretive(theirs, "other", "VIOLET")
        assert other.summaries()
        grant = None if who == "another owner" else chat.grant(max_tokens=10**6)
        kit = tools(chat, grant)
        foreign, number = names(other), other.status().id
        assert "VIOLET" in tools(other).call("lcm_describe", {"id": foreign[0]}).text
        cursor = tools(other).call("lcm_grep", {"pattern": "secret", "limit": 1}).details["nextCursor"]
        outcomes = [kit.call(name, arguments) for name, arguments in attempts(foreign, number, cursor)]
        assert len(outcomes) >= 30
        for outcome in outcomes:
            assert "VIOLET" not in outcome.text
            assert "VIOLET" not in json.dumps(outcome.details)
        assert "AMBER" in "".join(outcome.text for outcome in outcomes)
        if kit._delegate:
            assert "VIOLET" not in "".join(each.what for each in kit._delegate.ledger())


def attempts(foreign: list[str], number: int, cursor: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way to name, point at or widen to what is not one's own."""
    wide: list[dict[str, Any]] = [{}, {"allConversations": True}, {"conversationId": number}]
    wide.append({"conversationId": number, "allConversations": True})
    for more in wide:
        for id in foreign:
            yield "lcm_describe", {"id": id, **more}
        for scope in ("messages", "summaries", "both", "files"):
            yield "lcm_grep", {"pattern": "secret", "scope": scope, **more}
        yield "lcm_grep", {"pattern": "our secret", "mode": "full_text", **more}
        yield "lcm_grep", {"pattern": "secret", "scope": "files", "fileIds": foreign[3:], **more}
        yield "lcm_grep", {"pattern": "secret", "limit": 1, "cursor": cursor, **more}
        yield "lcm_expand_query", {"prompt": "the secret?", "query": "secret", **more}
        yield "lcm_expand_query", {"prompt": "the secret?", "summaryIds": foreign[:2], **more}
        yield "lcm_expand", {"summaryIds": foreign[:1], "includeMessages": True, **more}
        yield "lcm_expand", {"query": "secret", **more}
    yield "lcm_expand", {"summaryIds": foreign[:1], "cursor": f"{foreign[1]}@0"}
    yield "lcm_describe", {"id": f"[LCM File: {foreign[3]} | x]", "startLine": 1, "endLine": 5}


# guidance


def test_the_guidance_is_short_constant_and_true_about_the_search(chat: Conversation) -> None:
    assert (guidance("short"), guidance("full")) == (SHORT, FULL)
    assert len(SHORT.split()) <= 120
    for text in (SHORT, FULL):
        for word in ("lcm_grep", "lcm_describe", "lcm_expand_query", "untrusted", "Expand for"):
            assert word in text
    # As it says: not every word has to be there, phrases in quotes do, and a pattern takes (?i).
    kit = tools(chat)
    assert FACT[:20] in kit.call("lcm_grep", {"pattern": "deploy key xylophone", "mode": "full_text"}).text
    assert kit.call("lcm_grep", {"pattern": '"key deploy"', "mode": "full_text"}).details["totalMatches"] == 0
    assert kit.call("lcm_grep", {"pattern": "(?i)DEPLOY KEY"}).details["totalMatches"] >= 1


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns"])
def test_the_times_of_a_summary_find_what_it_stands_for(database: str, zone: str) -> None:
    with Lossless.open(database, settings=structs.replace(SMALL, timezone=zone), summarizer=Host(faithful)) as lcm:
        chat, noon = lcm.conversation("k"), datetime(2026, 3, 1, 12, tzinfo=UTC)
        chat.ingest([structs.replace(each, at=noon + timedelta(minutes=n)) for n, each in enumerate(turns(45))])
        chat.compact(WINDOW)
        item = next(
            each for each in chat.context().items if isinstance(each, Summary) and (each.earliest_at or noon) > noon
        )
        shown = next(each.text for each in chat.context().messages if f'id="{item.id}"' in each.text)
        first, last = (shown.partition(f'{name}="')[2].partition('"')[0] for name in ("earliest_at", "latest_at"))
        kit = tools(chat)

        def seqs(**times: str) -> list[int]:
            found = kit.call("lcm_grep", {"pattern": ".", "scope": "messages", "limit": 200, **times})
            return sorted(each["seq"] for each in found.details["matches"])

        assert item.earliest_at is not None
        covered = [each.seq for each in chat.messages() if each.at >= item.earliest_at]
        grepped = kit.call("lcm_grep", {"pattern": ".", "scope": "messages", "since": first, "limit": 200})
        for since in (first, grepped.details["matches"][-1]["createdAt"], clock(item.earliest_at, lcm.settings.zone)):
            assert seqs(since=since) == covered
        inside = [each.seq for each in chat.messages() if item.earliest_at <= each.at < (item.latest_at or noon)]
        assert seqs(since=first, before=last) == inside != []
