"""The seam between engine and database: what a driver provides, and the sections with the queries both share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lossless.errors import StoreUnavailable
from lossless.store.base import Dump, KnownEvent, Match, Rows, Step, SummaryMatch, TextKind, Unscrubbed
from lossless.store.sql.columns import Row

if TYPE_CHECKING:
    from lossless.store.sql.backups import Backups
    from lossless.store.sql.context import ContextItems
    from lossless.store.sql.conversations import Conversations
    from lossless.store.sql.debts import Debts
    from lossless.store.sql.details import Details
    from lossless.store.sql.erase import Erase
    from lossless.store.sql.figures import Figures
    from lossless.store.sql.files import Files
    from lossless.store.sql.grants import Grants
    from lossless.store.sql.housekeeping import Housekeeping
    from lossless.store.sql.imported import Imported
    from lossless.store.sql.integrity import Integrity
    from lossless.store.sql.lists import Lists
    from lossless.store.sql.manifests import Manifests
    from lossless.store.sql.messages import Messages
    from lossless.store.sql.operations import Operations
    from lossless.store.sql.promise import Promise
    from lossless.store.sql.recall_calls import RecallCalls
    from lossless.store.sql.state import State
    from lossless.store.sql.summaries import Summaries
    from lossless.store.sql.tables import Tables
    from lossless.store.sql.texts import Texts


def opened_before_fork(location: str) -> StoreUnavailable:
    """Return the error of a child that uses what its parent has open."""
    return StoreUnavailable(
        f"{location} was opened before this process was forked.",
        hint="Open it again in this process (Lossless.open), or fork first.",
    )


class Store(ABC):
    """A database of conversations. `tests/store/test_contract.py` says what each driver must do.

    A driver connects, runs statements and transactions, and searches. The queries both databases share are in sections,
    loaded when they are first used.
    """

    read_only: bool
    beyond: tuple[str, ...]
    dialect: str
    indexed: dict[str, str]
    """The ids that the search index holds, of messages and of summaries."""
    indexed_as: str
    """The column of a search index that says whose words they are."""
    binary: str
    """The collation that compares texts by their bytes."""
    owner: str
    location: str
    for_update = ""
    skip_locked = ""
    finds: str
    """The condition that one text holds another."""

    @abstractmethod
    def version(self) -> int:
        """The number of its schema."""

    @abstractmethod
    def place(self) -> Path | None:
        """What the names of files that are kept beside it begin with; None in memory."""

    @abstractmethod
    def dump(self, path: Path) -> Dump:
        """In a snapshot: everything, of all owners, as a new file."""

    @abstractmethod
    def erasing(self) -> AbstractContextManager[None]:
        """A transaction whose deleted words are overwritten, as far as the database does that."""

    @abstractmethod
    def scrub(self) -> Unscrubbed:
        """Outside a transaction: what was deleted leaves the search index, free pages and logs too, as far as they are ours.

        Nobody waits long for it. Unless the answer is empty it is to be done again.
        """

    @abstractmethod
    def give_back(self) -> bool:
        """Outside a transaction: let go of them. False if somebody's reading keeps the log of writes from being emptied."""

    @abstractmethod
    def remains(self, needles: Sequence[str]) -> list[str] | None:
        """Those of these words, which no row holds, that are still among the bytes of the database; None if these are not ours to read."""

    @abstractmethod
    def kept_copies(self) -> list[str]:
        """The copies of this database, or of rows of it, that were kept before migrations and repairs."""

    @abstractmethod
    def drop_copies(self) -> None:
        """Remove all of those."""

    @abstractmethod
    def stream(self, sql: str, **parameters: Any) -> Rows: ...

    @abstractmethod
    def script(self, sql: str) -> None: ...

    @abstractmethod
    def present(self) -> set[str]:
        """The names of all tables, views and indexes, and of columns as `table.column`."""

    @abstractmethod
    def references(self) -> list[tuple[str, str, str]]:
        """Table, column, and the table whose `id` it refers to."""

    @abstractmethod
    def lost_events(self) -> list[tuple[int, int]]: ...

    @abstractmethod
    def rebuild_events(self) -> None: ...

    @abstractmethod
    def unindex_conversation(self, conversation_id: int) -> None:
        """Nothing of a conversation is found any more, and none of its event ids is known."""

    @abstractmethod
    def slack(self) -> list[str]:
        """Room that the database takes and does not use, as sentences."""

    @abstractmethod
    def keep(self, name: str, steps: Sequence[Step]) -> str:
        """Before these steps: a copy of all they touch, under that name; where it is, "" if nowhere. More may be added to it."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """What this thread reads meanwhile is one state of the database, whatever others write."""

    @abstractmethod
    def columns(self, table: str) -> list[tuple[str, str, int]]:
        """Name, type and place in the primary key (from 1 on; 0: none) of the columns that can be written."""

    @abstractmethod
    def defer_links(self) -> None:
        """In a transaction: rows may refer to rows that come later in it."""

    @abstractmethod
    def renumber(self) -> None:
        """In a transaction: new rows are numbered behind those that were taken in."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One write transaction for this thread: committed whole on leaving, rolled back on any error."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def all(self, sql: str, **parameters: Any) -> list[Row]:
        """The rows of a query, in this thread's transaction if there is one."""

    @abstractmethod
    def run(self, sql: str, **parameters: Any) -> int:
        """A write inside the transaction; how many rows it changed."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Many rows into one table, in the fastest way the database has."""

    @abstractmethod
    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        """Add texts by their ids, which ascend, to the search index of messages; see `recall_calls.index`."""

    @abstractmethod
    def unindex(self, ids: Sequence[int]) -> None:
        """Messages that have no words any more, in the search index."""

    @abstractmethod
    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        """Event ids of new messages, where the database keeps them apart from the messages."""

    @abstractmethod
    def search(
        self,
        question: str,
        *,
        conversation_ids: Sequence[int] | None = None,
        limit: int = 20,
        since: int | None = None,
        before: int | None = None,
        roles: Sequence[str] | None = None,
        include_recall: bool = False,
    ) -> list[Match]:
        """Messages that answer the question, the best match first, the newest of equals.

        Words without a sentence around them find messages that hold some of them; a sentence also finds the
        turns beside those. Times are microseconds, of the message's own time if it has one. Calls of our own recall
        tools and their results are left out unless `include_recall` is set.
        """

    @abstractmethod
    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        """Summaries that hold any term of the question, the best match first."""

    @abstractmethod
    def count_matches(
        self,
        kind: TextKind,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
        include_recall: bool = False,
    ) -> int:
        """Count the messages, or the summaries, that hold any term of the question."""

    @abstractmethod
    def check_search(self) -> list[str]:
        """What is wrong with the search index, as sentences; empty when it agrees with the messages."""

    @abstractmethod
    def rebuild_search(self) -> int:
        """Make the search index anew from the messages; how many there are."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What is wrong with the database itself, as sentences."""

    @abstractmethod
    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """What is stored under the event ids that messages came with."""

    @abstractmethod
    def hold_files(self, *, alone: bool) -> None:
        """In a transaction: keep the files directory as it is; with `alone`, nobody else may hold it until the end."""

    @abstractmethod
    def hold_key(self, key: str) -> None:
        """In a transaction: no other one that holds the key goes on until the end of this one."""

    @abstractmethod
    def each_of(self, name: str, kind: str) -> str:
        """A query giving the column `value`, of an SQL type, for each element of a list parameter."""

    @abstractmethod
    def listing(self, values: Sequence[Any]) -> Any:
        """A list as the parameter that `each_of` reads."""

    @abstractmethod
    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        """How a literal is looked for in `t.text`: a condition with a place for a parameter, and the parameter.

        Texts without it may pass, if that is faster; a `folded` one is in lower case and found in either.
        """

    @abstractmethod
    def new_ids(self, table: str, count: int) -> list[int]:
        """In a transaction: ids for rows to come, of a table that numbers its rows."""

    @abstractmethod
    def index_summary(self, summary_id: int, text: str) -> None:
        """The words of a summary into its search index, in the place of what it said before."""

    @cached_property
    def conversations(self) -> Conversations:
        from lossless.store.sql.conversations import Conversations

        return Conversations(self)

    @cached_property
    def messages(self) -> Messages:
        from lossless.store.sql.messages import Messages

        return Messages(self)

    @cached_property
    def context(self) -> ContextItems:
        from lossless.store.sql.context import ContextItems

        return ContextItems(self)

    @cached_property
    def files(self) -> Files:
        from lossless.store.sql.files import Files

        return Files(self)

    @cached_property
    def state(self) -> State:
        from lossless.store.sql.state import State

        return State(self)

    @cached_property
    def backups(self) -> Backups:
        from lossless.store.sql.backups import Backups

        return Backups(self)

    @cached_property
    def debts(self) -> Debts:
        from lossless.store.sql.debts import Debts

        return Debts(self)

    @cached_property
    def details(self) -> Details:
        from lossless.store.sql.details import Details

        return Details(self)

    @cached_property
    def erase(self) -> Erase:
        from lossless.store.sql.erase import Erase

        return Erase(self)

    @cached_property
    def figures(self) -> Figures:
        from lossless.store.sql.figures import Figures

        return Figures(self)

    @cached_property
    def grants(self) -> Grants:
        from lossless.store.sql.grants import Grants

        return Grants(self)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        from lossless.store.sql.housekeeping import Housekeeping

        return Housekeeping(self)

    @cached_property
    def imported(self) -> Imported:
        from lossless.store.sql.imported import Imported

        return Imported(self)

    @cached_property
    def integrity(self) -> Integrity:
        from lossless.store.sql.integrity import Integrity

        return Integrity(self)

    @cached_property
    def lists(self) -> Lists:
        from lossless.store.sql.lists import Lists

        return Lists(self)

    @cached_property
    def manifests(self) -> Manifests:
        from lossless.store.sql.manifests import Manifests

        return Manifests(self)

    @cached_property
    def operations(self) -> Operations:
        from lossless.store.sql.operations import Operations

        return Operations(self)

    @cached_property
    def promise(self) -> Promise:
        from lossless.store.sql.promise import Promise

        return Promise(self)

    @cached_property
    def recall_calls(self) -> RecallCalls:
        from lossless.store.sql.recall_calls import RecallCalls

        return RecallCalls(self)

    @cached_property
    def summaries(self) -> Summaries:
        from lossless.store.sql.summaries import Summaries

        return Summaries(self)

    @cached_property
    def tables(self) -> Tables:
        from lossless.store.sql.tables import Tables

        return Tables(self)

    @cached_property
    def texts(self) -> Texts:
        from lossless.store.sql.texts import Texts

        return Texts(self)


class Site(Protocol):
    """Where a database is, or will be, as a whole: nobody need have opened it."""

    form: str
    """Which dumps `load` takes."""
    beside: Path
    """What the name of a draft may begin with, so that `load` need not copy it."""

    def is_taken(self) -> bool:
        """Whether there is a database."""

    def cleared(self, now: datetime, *, replaces: bool) -> AbstractContextManager[tuple[str, ...]]:
        """Keep what is there aside, and the place for whoever fills it within; where that is.

        `StoreBusy` if somebody has it open, `InvalidInput` unless it `replaces` what is there by now. If anything goes
        wrong within, everything is as it was before.
        """

    def load(self, path: Path, schema: int) -> None:
        """Within: put the database there whose rows a dump of a schema holds, whole or not at all. A file is moved."""

    def filling(self) -> AbstractContextManager[Store]:
        """Within, in its stead: a new database, which takes the place once it was left without an error."""
