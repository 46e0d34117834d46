"""The adapter for Hermes, driven as Hermes drives it: its lists, requests and sessions. Hermes itself is not needed."""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lossless import Lossless
from lossless.engine.shared import host_activity
from lossless.hosts import hermes
from lossless.hosts.hermes import Engine, host
from lossless.hosts.hermes.wires import WIRES, newest, size
from tests.hosts.hermes_turns import API_FORMATS, LONG, WINDOW, Hermes, as_chat
from tests.locks import locked
from tests.validators import violations


@pytest.fixture(autouse=True)
def activity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Hermes]:
    made = Hermes(tmp_path / "lcm.db")
    yield made
    made.memory.close()


def _recorded() -> host_activity.HostActivity:
    (found,) = host_activity.read_all()
    return found


def test_every_message_is_stored_once_and_in_order(agent: Hermes) -> None:
    agent.say("Where is the key?", calls=3)
    agent.say("ok", "ok")
    agent.say("ok", "ok")
    assert agent.rows() == agent.held()
    assert _recorded().delivered == len(agent.list)
    assert _recorded().last_error == ""


def test_rounds_of_a_turn_are_stored_before_it_ends(agent: Hermes) -> None:
    agent.list = [{"role": "user", "content": "Look twice."}]
    agent.request()
    assert agent.rows() == []  # a prompt waits for its reply: Hermes may still join it with the next one
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    agent.list.append({"role": "assistant", "content": None, "tool_calls": [call]})
    agent.list.append({"role": "tool", "tool_call_id": "c1", "content": "found"})
    agent.request()
    assert [role for role, _ in agent.rows()] == ["user", "assistant", "tool"]


def test_a_session_read_again_by_another_process_is_recognised(agent: Hermes, tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    agent.say("Hello. ", " Hi.\n")
    agent.list.append({"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]})
    agent.list.append({"role": "assistant", "content": "A ferry."})
    agent.say("<memory-context>old</memory-context> And now?")
    count = len(agent.rows())

    again = Hermes(tmp_path / "lcm.db")
    again.list = [
        {"role": "user", "content": "Hello.", "timestamp": 1.0},
        {"role": "assistant", "content": "Hi.", "timestamp": 2.0, "finish_reason": "stop"},
        {"role": "user", "content": "What is this?\n[screenshot]", "timestamp": 3.0},
        {"role": "assistant", "content": "A ferry.", "timestamp": 4.0},
        {"role": "user", "content": "And now?", "timestamp": 5.0},
        {"role": "assistant", "content": agent.list[-1]["content"].strip(), "timestamp": 6.0},
    ]
    again.say("Go on.")
    assert agent.rows()[:count] == again.rows()[:count]
    assert again.rows()[count:] == [("user", "Go on."), ("assistant", "Reply to Go on.")]
    again.memory.close()


def test_what_hermes_adds_for_one_request_is_not_stored(agent: Hermes) -> None:
    agent.say("Hello.")
    agent.list.append({"role": "assistant", "content": "(empty)", "_empty_recovery_synthetic": True})
    agent.list.append({"role": "user", "content": "Continue.", "_verification_stop_synthetic": True})
    agent.list.append({"role": "assistant", "content": "Done."})
    agent.say("Thanks.")
    assert [text for _, text in agent.rows()] == ["Hello.", "Reply to Hello.", "Done.", "Thanks.", "Reply to Thanks."]


def test_a_prompt_that_was_sent_with_notes_is_stored_without_them(agent: Hermes) -> None:
    agent.list = [{"role": "user", "content": "Hello.", "api_content": "Hello.\n\nRecalled: nothing."}]
    agent.list.append({"role": "assistant", "content": "Hi."})
    agent.say("Go on.")
    assert agent.rows()[0] == ("user", "Hello.")


def test_a_text_that_hermes_shortened_for_its_own_database_is_the_one_that_was_sent(agent: Hermes) -> None:
    agent.say("[voice] Hello.")
    agent.list = [dict(each) for each in agent.list]
    agent.list[0] |= {"content": "Hello.", "api_content": "[voice] Hello."}
    agent.say("Go on.")
    assert [text for role, text in agent.rows() if role == "user"] == ["[voice] Hello.", "Go on."]


def test_a_review_in_the_background_is_not_stored(agent: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.say("Hello.")
    module = ModuleType("tools.skill_provenance")
    module.__dict__["get_current_write_origin"] = lambda: "background_review"
    monkeypatch.setitem(sys.modules, "tools.skill_provenance", module)
    monkeypatch.setattr(agent, "list", list(agent.list))
    agent.say("Review the conversation above.")
    assert [text for _, text in agent.rows()] == ["Hello.", "Reply to Hello."]


@pytest.mark.parametrize("api_mode", API_FORMATS)
def test_old_text_is_replaced_by_summaries_in_every_api(api_mode: str, tmp_path: Path) -> None:
    agent = Hermes(tmp_path / "lcm.db", api_mode=api_mode)
    for number in range(24):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    agent.say("Look everywhere.", calls=12, result=f"All of it: {LONG}")
    assert len(agent.asked) >= 2
    assert agent.rows() == agent.held()
    assert not [fault for each in agent.sent for fault in violations(API_FORMATS[api_mode], each)]
    assert max(map(size, agent.sent)) < WINDOW
    assert "<summary id=" in agent.last
    assert "Question 0." not in agent.last
    assert "Look everywhere." in agent.last
    assert agent.memory.last_error == ""
    agent.memory.close()


def test_the_newest_messages_go_out_as_hermes_wrote_them(agent: Hermes) -> None:
    for number in range(24):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    sent = agent.sent[-1]["messages"]
    assert sent[0] == {"role": "system", "content": "You are Hermes."}
    assert sent[-1] == {"role": "user", "content": agent.list[-2]["content"], "cache_control": {"type": "ephemeral"}}
    assert [each["content"] for each in sent[-4:]] == [each["content"] for each in agent.list[-5:-1]]


def test_notes_that_hermes_adds_to_a_prompt_stay_in_the_request(agent: Hermes) -> None:
    for number in range(24):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    agent.list.append({"role": "user", "content": "And now?"})
    request = as_chat(copy.deepcopy(agent.list))
    request["messages"][-1]["content"] += "\n\n<memory-context>likes ferries</memory-context>"
    done = agent.hooks.llm_request(request=request, session_id="s1", api_mode="chat_completions", model="stand-in")
    assert done is not None
    assert done["request"]["messages"][-1] == request["messages"][-1]


def test_a_short_conversation_is_sent_unchanged(agent: Hermes) -> None:
    agent.say("Hello.", calls=2)
    agent.say("Go on.")
    assert agent.sent[-1]["messages"][1:] == as_chat(agent.list[:-1])["messages"][1:]


@pytest.mark.parametrize("api_mode", API_FORMATS)
def test_large_content_is_sent_once_and_then_shown_as_a_reference(api_mode: str, tmp_path: Path) -> None:
    agent = Hermes(tmp_path / "lcm.db", api_mode=api_mode)
    agent.say("Look.", calls=3, result=f"Everything: {LONG * 18}")
    agent.say(f"All this: {LONG * 18}", "Thanks.")
    agent.say("And now?")
    agent.say("Go on.")
    assert agent.rows() == agent.held()
    assert max(map(size, agent.sent)) < WINDOW
    assert size(agent.sent[-1]) < WINDOW / 2
    assert "[LCM " in agent.last
    assert not [fault for each in agent.sent for fault in violations(API_FORMATS[api_mode], each)]
    agent.memory.close()


def test_a_turn_that_was_taken_back_is_not_shown_again(agent: Hermes) -> None:
    agent.say("Hello.")
    agent.say("Forget this.")
    agent.list = agent.list[:2]
    agent.say("Something else.")
    assert "Forget this." not in agent.last
    assert ("user", "Forget this.") in agent.rows()
    assert agent.rows()[-1] == ("assistant", "Reply to Something else.")


def test_an_api_that_is_not_known_is_left_alone_and_reported_once(tmp_path: Path) -> None:
    agent = Hermes(tmp_path / "lcm.db", api_mode="bedrock_converse")
    agent.say("Hello.")
    assert agent.sent[-1]["messages"] == agent.list[:-1]
    assert "bedrock_converse" in _recorded().last_error
    assert agent.engine.should_compress(int(WINDOW * 0.8))
    assert not agent.engine.should_compress(int(WINDOW * 0.5))
    agent.memory.close()


def test_the_size_of_hermes_list_does_not_matter_while_requests_are_rebuilt(agent: Hermes) -> None:
    agent.say("Hello.")
    assert not agent.engine.should_compress(2 * WINDOW)
    assert agent.engine.should_defer_preflight_to_real_usage(2 * WINDOW)
    assert agent.engine.should_compress(5 * WINDOW)
    agent.engine.last_prompt_tokens = -1  # Hermes's mark after a compaction
    assert not agent.engine.should_compress()
    agent.engine.last_compression_rough_tokens = 5 * WINDOW  # it could not be made shorter
    assert not agent.engine.should_compress(5 * WINDOW)


def test_compress_shortens_the_list_and_loses_nothing(agent: Hermes) -> None:
    for number in range(8):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    before = agent.held()
    agent.list = agent.engine.compress(agent.list, size(agent.list), force=True)
    assert len(agent.list) < len(before)
    assert agent.list[0]["content"].startswith("<summary id=")
    assert not any("_db_persisted" in each for each in agent.list)
    assert agent.rows() == before
    assert agent.engine.compression_count == 0

    agent.list = _joined(agent.list)
    agent.say("Question 8.")
    assert agent.rows() == [*before, ("user", "Question 8."), ("assistant", "Reply to Question 8.")]
    assert agent.last.count("<summary id=") == len({*_summary_ids(agent.last)})

    again = agent.engine.compress(agent.list, size(agent.list), force=True)
    assert size(again) <= size(agent.list)


def test_a_brief_in_a_shortened_list_is_never_stored_and_leaves_with_unfocus(agent: Hermes) -> None:
    for number in range(8):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    before = agent.held()
    agent.chat.focus("When does the ferry leave?")
    agent.list = agent.engine.compress(agent.list, size(agent.list), force=True)
    assert "<focus_brief " in json.dumps(agent.list)

    agent.list = _joined(agent.list)
    agent.say("Question 8.")
    assert agent.last.count("<focus_brief ") == 1
    assert agent.rows() == [*before, ("user", "Question 8."), ("assistant", "Reply to Question 8.")]
    assert agent.chat.unfocus()
    agent.say("Question 9.")
    assert "<focus_brief " not in agent.last


def _joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join prompts at the beginning that follow each other, as Hermes does."""
    first, second, *rest = messages
    if second["role"] != "user":
        return messages
    return [first | {"content": f"{first['content']}\n\n{second['content']}"}, *rest]


def _summary_ids(text: str) -> list[str]:
    return [part.partition('\\"')[0] for part in text.split('<summary id=\\"')[1:]]


def test_a_list_that_cannot_be_shortened_is_returned_as_it_is(agent: Hermes) -> None:
    agent.say("Hello.")
    assert agent.engine.compress(agent.list, 100) is agent.list


def test_a_rotated_session_continues_its_conversation(agent: Hermes) -> None:
    agent.say("Hello.")
    agent.engine.on_session_end("s1", agent.list)
    agent.engine.on_session_start("s2", boundary_reason="compression", old_session_id="s1")
    key = agent.engine.get_status()["conversation"]
    assert key == "hermes:s1"
    agent.list.append({"role": "user", "content": "Go on."})
    agent.list.append({"role": "assistant", "content": "I go on."})
    agent.hooks.post_llm_call(session_id="s2", conversation_history=list(agent.list))
    assert agent.rows() == agent.held()


def test_another_session_is_another_conversation(agent: Hermes) -> None:
    agent.say("Hello.")
    agent.engine.on_session_reset()
    agent.engine.bind_session_state(None, "s2")
    assert agent.engine.get_status()["conversation"] == "hermes:s2"
    assert agent.engine.last_prompt_tokens == 0


class Rows:
    """Hermes's table of sessions: s1, continued as s2 and s3, and a branch of it."""

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        rows: dict[str, dict[str, Any]] = {
            "s1": {"end_reason": "compression"},
            "s2": {"end_reason": "compression", "parent_session_id": "s1"},
            "s3": {"end_reason": None, "parent_session_id": "s2"},
            "branch": {"end_reason": None, "parent_session_id": "s3"},
        }
        return rows.get(session_id)


def test_a_resumed_session_is_found_by_the_first_of_its_chain(agent: Hermes) -> None:
    assert host.root_session(Rows(), "s3") == "s1"
    assert host.root_session(Rows(), "branch") == "branch"
    assert host.root_session(None, "s3") == "s3"
    agent.engine.bind_session_state(session_db=Rows(), session_id="s3")
    assert agent.engine.get_status()["conversation"] == "hermes:s1"


def test_a_sub_agent_is_found_from_its_parent_only(agent: Hermes) -> None:
    agent.say("Hello.")
    child = copy.deepcopy(agent.engine)
    child.on_session_start("sub")
    agent.hooks.subagent_start(parent_session_id="s1", child_session_id="sub")
    said = [{"role": "user", "content": "Count the gulls."}, {"role": "assistant", "content": "Nine gulls."}]
    agent.hooks.post_llm_call(session_id="sub", conversation_history=said)
    found = agent.engine.handle_tool_call("lcm_grep", {"pattern": "gulls"})
    assert "Nine gulls." in found
    assert "Reply to Hello." not in child.handle_tool_call("lcm_grep", {"pattern": "Hello"})


def test_a_copied_engine_shares_the_database_and_nothing_else(agent: Hermes) -> None:
    other = copy.deepcopy(agent.engine)
    other.update_model("small", 70_000)
    assert (agent.engine.context_length, other.context_length) == (WINDOW, 70_000)
    assert other._memory is agent.engine._memory
    assert other.name == "lossless"


def test_the_tools_have_bare_schemas_and_answer(agent: Hermes) -> None:
    agent.say("The harbour master is called Ines.")
    names = [schema["name"] for schema in agent.engine.get_tool_schemas()]
    assert names == ["lcm_grep", "lcm_describe", "lcm_expand_query"]
    assert all(schema["parameters"]["type"] == "object" for schema in agent.engine.get_tool_schemas())
    assert "Ines" in agent.engine.handle_tool_call("lcm_grep", {"pattern": "harbour"}, messages=agent.list)
    assert "error" in json.loads(agent.engine.handle_tool_call("lcm_fly", {}))


def test_the_count_of_the_provider_corrects_the_estimate(agent: Hermes) -> None:
    for _ in range(3):
        agent.say(LONG, LONG)
    assert agent.engine.get_status()["last_prompt_tokens"] == size(agent.sent[-1])
    with Lossless.open(agent.database) as lcm:
        assert lcm.conversation("hermes:s1")._compactor.factor("stand-in") == pytest.approx(1, abs=0.3)
    agent.engine.update_from_response({})
    assert agent.engine.last_prompt_tokens == size(agent.sent[-1])


def test_a_broken_database_leaves_hermes_its_own_messages(tmp_path: Path) -> None:
    (tmp_path / "lcm.db").write_bytes(b"not a database" * 1_000)
    agent = Hermes(tmp_path / "lcm.db")
    agent.say("Hello.")
    assert agent.sent[-1]["messages"][1]["content"] == "Hello."
    for number in range(20):
        agent.say(f"Question {number}. {LONG}", f"Answer {number}. {LONG}")
    assert max(map(size, agent.sent)) < WINDOW
    assert "Question 19." in agent.last
    assert agent.engine.should_compress(WINDOW)
    shorter = agent.engine.compress(agent.list, size(agent.list))
    assert size(shorter) <= WINDOW // 2
    assert shorter[-1]["content"] == agent.list[-1]["content"]
    assert "error" in json.loads(agent.engine.handle_tool_call("lcm_grep", {"pattern": "x"}))
    assert _recorded().failures > 0
    assert "is not a database" in _recorded().last_error
    assert agent.engine.get_status()["last_error"]

    (tmp_path / "lcm.db").unlink()
    agent.memory._failed_at = 0
    agent.say("Back again.")
    assert agent.rows() == agent.held()
    assert agent.engine.get_status()["requests_rebuilt"]
    agent.memory.close()


def test_a_locked_database_delays_a_turn_by_seconds_and_nothing_is_lost(agent: Hermes) -> None:
    agent.say("One.")
    with locked(agent.database):
        begun = time.monotonic()
        agent.say("Two.", calls=10)
        assert time.monotonic() - begun < 15
        assert "Two." in agent.last
        assert agent.engine.get_status()["last_error"]
        assert _recorded().failures > 0
    agent.say("Three.")
    assert agent.rows() == agent.held()
    assert _recorded().failures == 0


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_database_that_was_deleted_or_replaced_is_opened_again(agent: Hermes, how: str) -> None:
    agent.say("One.")
    for path in agent.database.parent.glob("lcm.db*"):
        path.unlink()
    if how == "replaced":
        Lossless.open(agent.database).close()
    agent.say("Two.")
    assert "was deleted, moved or replaced" in agent.engine.get_status()["last_error"]
    # Hermes holds what the other database had.
    assert agent.rows() == agent.held()
    agent.say("Three.")
    assert agent.rows() == agent.held()
    assert _recorded().failures == 0


def test_a_plugin_whose_engine_is_not_selected_says_so(agent: Hermes) -> None:
    agent.hooks.post_llm_call(session_id="other", conversation_history=[{"role": "user", "content": "Hello."}])
    assert agent.hooks.llm_request(request={"messages": []}, session_id="other", api_mode="chat_completions") is None
    assert "context.engine" in _recorded().last_error


class Context:
    """What Hermes gives to a plugin."""

    def __init__(self) -> None:
        self.engines: list[Any] = []
        self.names: list[str] = []

    def register_context_engine(self, engine: Any) -> None:
        self.engines.append(engine)

    def register_hook(self, hook_name: str, callback: Any) -> None:
        self.names.append(hook_name)


class NewContext(Context):
    def register_middleware(self, kind: str, callback: Any) -> None:
        self.names.append(kind)


class ContextEngine:
    """The class of Hermes that engines extend, with something that only a newer one has."""

    def on_something_new(self) -> str:
        return "default"


@pytest.mark.parametrize(("version", "warned"), [("0.19.0", False), ("0.19.7", False), ("0.20.0", True), ("1.0", True)])
def test_a_host_newer_than_the_tested_one_is_used_and_reported(
    version: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("agent.context_engine")
    module.__dict__["ContextEngine"] = ContextEngine
    monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
    monkeypatch.setitem(sys.modules, "agent.context_engine", module)
    monkeypatch.setattr(host, "version", lambda: version)
    context = NewContext()
    hermes.register(context)
    assert context.names == ["pre_llm_call", "pre_api_request", "post_llm_call", "subagent_start", "llm_request"]
    assert isinstance(context.engines[0], ContextEngine)
    assert isinstance(copy.deepcopy(context.engines[0]), Engine)
    assert context.engines[0].on_something_new() == "default"
    assert any("newer" in found.last_error for found in host_activity.read_all()) == warned


def test_the_newest_turns_that_fit_are_kept_and_the_last_one_always() -> None:
    turns = [
        {"role": role, "content": f"{role} {number} {LONG}"} for number in range(5) for role in ("user", "assistant")
    ]
    kept = newest(turns, 3 * size(turns[0]))
    assert kept == turns[-2:]
    assert newest(turns, 1) == turns[-2:]
    assert newest(turns, 10**9) == turns
    assert set(WIRES) == set(API_FORMATS)
