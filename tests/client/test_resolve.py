"""A conversation is named in one grammar everywhere: key, number, `#number`, unique prefix of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lossless import Lossless, Message
from lossless.cli import cli
from lossless.errors import InvalidInput, NotFound

KEY = "agent:main:main"
Verb = Callable[[Lossless, "str | int", Path], object]

VERBS: dict[str, Verb] = {
    "find": lambda lcm, name, _: lcm.find(name),
    "status": lambda lcm, name, _: lcm.status(name),
    "stats": lambda lcm, name, _: lcm.stats(name),
    "conversations.show": lambda lcm, name, _: lcm.conversations.show(name),
    "messages": lambda lcm, name, _: lcm.messages(name),
    "messages.show": lambda lcm, name, _: lcm.messages.show(1, name),
    "messages.tail": lambda lcm, name, _: lcm.messages.tail(name),
    "messages.around": lambda lcm, name, _: lcm.messages.around(1, name),
    "files": lambda lcm, name, _: lcm.files(name),
    "files.show": lambda lcm, name, _: lcm.files.show(lcm.files(KEY)[0].id, name),
    "files.read": lambda lcm, name, _: lcm.files.read(lcm.files(KEY)[0].id, name),
    "summaries": lambda lcm, name, _: lcm.summaries(name),
    "summaries.tree": lambda lcm, name, _: lcm.summaries.tree(name),
    "history": lambda lcm, name, _: lcm.history(name),
    "doctor": lambda lcm, name, _: lcm.doctor(name, ["S14"]),
    "doctor.prove": lambda lcm, name, _: lcm.doctor.prove(name),
    "doctor.fix": lambda lcm, name, _: lcm.doctor.fix(["S14"], name),
    "merge": lambda lcm, name, _: lcm.merge(name),
    "forget": lambda lcm, name, _: lcm.forget(name),
    "export": lambda lcm, name, place: lcm.export(place / "archive.zip", conversations=[name]),
    "transplant from": lambda lcm, name, _: lcm.transplant(name, "other"),
    "transplant to": lambda lcm, name, _: lcm.transplant("other", name),
    "grant": lambda lcm, name, _: lcm.conversation(KEY).grant(conversations=[name]),
}
SPELLINGS: tuple[str | int, ...] = (KEY, 1, "1", "#1", "agent:ma")


@pytest.fixture
def lcm(tmp_path: Path) -> Iterator[Lossless]:
    with Lossless.open(tmp_path / "lcm.db", summarizer="extractive") as lcm:
        lcm.conversation(KEY).ingest([Message.user("a very long line\n" * 20_000)])
        lcm.conversation("other").ingest([Message.user("hello")])
        lcm.conversation("agent:minor").ingest([Message.user("hello")])
        yield lcm


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_every_spelling(verb: str, lcm: Lossless, tmp_path: Path) -> None:
    for number, name in enumerate(SPELLINGS):
        place = tmp_path / str(number)
        place.mkdir()
        VERBS[verb](lcm, name, place)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_lists_the_candidates_of_an_ambiguous_name(verb: str, lcm: Lossless, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'agent:m' is ambiguous.*agent:minor, agent:main:main"):
        VERBS[verb](lcm, "agent:m", tmp_path)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_the_nearest_key_for_an_unknown_one(verb: str, lcm: Lossless, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"There is no conversation agent:mian:main\. Did you mean agent:main:main"):
        VERBS[verb](lcm, "agent:mian:main", tmp_path)
    for unknown in (99, "99", "#99", ""):
        with pytest.raises(NotFound, match="conversation"):
            VERBS[verb](lcm, unknown, tmp_path)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_what_is_no_name(verb: str, lcm: Lossless, tmp_path: Path) -> None:
    for wrong in (True, 1.5, [KEY], b"agent"):
        with pytest.raises(InvalidInput):
            VERBS[verb](lcm, wrong, tmp_path)  # type: ignore[arg-type]  # the point: a wrong type


def test_a_key_that_looks_like_a_number_is_reached_by_its_key(lcm: Lossless) -> None:
    lcm.conversation("1").ingest([Message.user("under the key 1")])
    lcm.conversation("#2").ingest([Message.user("under the key #2")])
    assert lcm.find("1").key == "1"
    assert lcm.find("#2").key == "#2"
    assert lcm.find(1).key == lcm.find("#1").key == KEY
    assert lcm.find(2).key == lcm.find("2").key == "other"


def test_a_number_means_one_conversation_and_a_key_all_under_it(lcm: Lossless) -> None:
    chat = lcm.conversation("other")
    chat.reset()
    chat.ingest([Message.user("again")])
    assert lcm.forget("other").messages == 2
    assert lcm.forget("#2").messages == 1
    assert len(lcm.doctor.prove("other")) == 2
    assert len(lcm.doctor.prove(2)) == 1
    assert lcm.conversations.show("#2").conversation.active is False


def test_an_archived_conversation_is_no_target_unless_it_is_named_by_its_number(lcm: Lossless) -> None:
    lcm.conversation("other").end("deleted")
    with pytest.raises(NotFound, match="#2"):
        lcm.transplant(KEY, "other")
    assert lcm.transplant(KEY, "#2").target == "other"
    with pytest.raises(InvalidInput, match="archived"):
        lcm.find("#2")


def test_a_conversation_is_found_by_a_message_and_by_a_summary(lcm: Lossless) -> None:
    assert lcm.find("msg#2000000001").key == "other"
    with pytest.raises(NotFound, match="message"):
        lcm.find("msg#99000000001")
    with pytest.raises(NotFound, match="summary"):
        lcm.find("sum_0000000000000000")


def test_a_new_key_is_never_taken_for_a_prefix(lcm: Lossless) -> None:
    lcm.conversation("agent:main").ingest([Message.user("its own")])
    assert lcm.find("agent:main").status().messages == 1


WRITES = ("compact", "pin a", "unpin pin_1", "new", "reset", "rewrite --all", "repair")


@pytest.mark.parametrize("command", WRITES)
def test_a_command_that_writes_never_guesses_among_several(command: str, lcm: Lossless, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--db", str(tmp_path / "lcm.db")])
    assert done.exit_code == 2
    assert "There are 3 conversations. Name one with -c: agent:minor, other, agent:main:main." in done.stderr


@pytest.mark.parametrize("name", ["1", "#1", "agent:ma", KEY])
@pytest.mark.parametrize(
    "command", ["context", "messages list", "doctor", "status", "stats", "history", "summaries tree"]
)
def test_the_command_line_takes_every_spelling(command: str, name: str, lcm: Lossless, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "-c", name, "--db", str(tmp_path / "lcm.db"), "--json"])
    assert done.exit_code in (0, 6), done.stderr
    assert '"ok": ' in done.stdout or '"ok":' in done.stdout
