"""The seam between engine and database: what a driver provides, and the sections with the shared queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lossless.errors import StoreUnavailable
from lossless.store.rows.types import Dump, KnownEvent, Match, Matches, Rows, Step, SummaryMatch, Unscrubbed
from lossless.store.sql.columns import Row

if TYPE_CHECKING:
    from lossless.search.ranking.messages import Limits
    from lossless.store.sql.backups import Backups
    from lossless.store.sql.briefs import Briefs
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
        """Return the number of its schema."""

    @abstractmethod
    def place(self) -> Path | None:
        """Return the prefix of files that are kept beside it; None in memory."""

    @abstractmethod
    def dump(self, path: Path) -> Dump:
        """Write everything, of all owners, to a new file (in a snapshot)."""

    @abstractmethod
    def erasing(self) -> AbstractContextManager[None]:
        """Open a transaction whose deleted words are overwritten, as far as the database does that."""

    @abstractmethod
    def scrub(self) -> Unscrubbed:
        """Remove deleted words from the search index, free pages and logs, as far as they are ours (outside a transaction).

        Nobody waits long for it. Unless the answer is empty it is to be done again.
        """

    @abstractmethod
    def give_back(self) -> bool:
        """Release unused disk space; False if a reader keeps the log from being emptied (outside a transaction)."""

    @abstractmethod
    def remains(self, needles: Sequence[str]) -> list[str] | None:
        """Return those of these words, which no row contains, that are still in the bytes of the database; None if we cannot read them."""

    def namesakes(self) -> list[str]:
        """Return other databases in the same directory that would keep their payloads under the same name."""
        return []  # a server has one database of a name

    @abstractmethod
    def kept_copies(self) -> list[str]:
        """Return the copies of this database, or of rows of it, that were kept before migrations and repairs."""

    @abstractmethod
    def drop_copies(self) -> None:
        """Remove all kept copies."""

    @abstractmethod
    def stream(self, sql: str, **parameters: Any) -> Rows: ...

    @abstractmethod
    def script(self, sql: str) -> None: ...

    @abstractmethod
    def present(self) -> set[str]:
        """Return the names of all tables, views and indexes, and of columns as `table.column`."""

    @abstractmethod
    def references(self) -> list[tuple[str, str, str]]:
        """Return table, column, and the table whose `id` it refers to."""

    @abstractmethod
    def lost_events(self) -> list[tuple[int, int]]: ...

    @abstractmethod
    def rebuild_events(self) -> None: ...

    @abstractmethod
    def unindex_conversation(self, conversation_id: int) -> None:
        """Remove a conversation from the search index and its event ids from the known ones."""

    @abstractmethod
    def slack(self) -> list[str]:
        """Return sentences about disk space that the database takes and does not use."""

    @abstractmethod
    def keep(self, name: str, steps: Sequence[Step]) -> str:
        """Copy all rows that these steps touch under a name; return where, "" if nowhere. More may be added to it."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read one state of the database in this thread, whatever others write."""

    @abstractmethod
    def columns(self, table: str) -> list[tuple[str, str, int]]:
        """Return name, type and position in the primary key (from 1; 0: none) of the writable columns."""

    @abstractmethod
    def defer_links(self) -> None:
        """Let rows refer to rows that come later in the transaction."""

    @abstractmethod
    def renumber(self) -> None:
        """Number new rows after those that were copied in (in a transaction)."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Open one write transaction for this thread: committed on leaving, rolled back on any error."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def all(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a query, in this thread's transaction if there is one."""

    @abstractmethod
    def run(self, sql: str, **parameters: Any) -> int:
        """Run a statement that writes, in the transaction; return how many rows it changed."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert many rows into one table, in the fastest way the database has."""

    @abstractmethod
    def index(self, texts: Sequence[tuple[int, str]]) -> None:
        """Add the words of new messages to the search index."""

    @abstractmethod
    def unindex(self, ids: Sequence[int]) -> None:
        """Remove messages from the search index."""

    @abstractmethod
    def remember_events(self, conversation_id: int, events: Sequence[tuple[str, int]]) -> None:
        """Store the event ids of new messages, where the database keeps them apart from the messages."""

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
        now: int | None = None,
    ) -> list[Match]:
        """Return messages that match the question, the best first, the newest of equals; see `ranked`."""
        from lossless.search.ranking.messages import Limits

        limits = Limits(since, before, None if roles is None else tuple(roles), include_recall)
        return self.ranked(question, conversation_ids, limits, limit=limit, now=now).matches

    @abstractmethod
    def ranked(
        self,
        question: str,
        conversation_ids: Sequence[int] | None,
        limits: Limits,
        *,
        limit: int,
        now: int | None = None,
        by_words: bool = False,
    ) -> Matches:
        """Return messages that match the question, the best first, the newest of equals, and their number.

        Words without a sentence around them find messages that hold some of them; a sentence also finds the
        turns beside those. Times are microseconds, of the message's own time if it has one. Relative times in a
        question are counted back from `now`. `by_words` leaves the order to the words alone, which is faster. Calls of
        our own recall tools and their results are left out unless the limits include them.
        """

    @abstractmethod
    def search_summaries(
        self, question: str, *, conversation_ids: Sequence[int] | None = None, limit: int = 20
    ) -> list[SummaryMatch]:
        """Return summaries that contain any term of the question, the best match first."""

    @abstractmethod
    def count_summaries(
        self,
        question: str,
        conversation_ids: Sequence[int] | None = None,
        *,
        since: int | None = None,
        before: int | None = None,
    ) -> int:
        """Count the summaries that contain any term of the question."""

    @abstractmethod
    def check_search(self) -> list[str]:
        """Return sentences about what is wrong with the search index; empty if it is consistent with the messages."""

    @abstractmethod
    def rebuild_search(self) -> int:
        """Rebuild the search index from the messages; return how many there are."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes on disk."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Return sentences about what is wrong with the database file itself."""

    @abstractmethod
    def own_events(self, conversation_id: int, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """Return what is stored under the event ids that messages came with."""

    @abstractmethod
    def hold_files(self, *, alone: bool) -> None:
        """Lock the files directory until the end of the transaction; with `alone`, against all others."""

    @abstractmethod
    def hold_key(self, key: str) -> None:
        """Lock a key until the end of the transaction."""

    @abstractmethod
    def each_of(self, name: str, kind: str) -> str:
        """Return a query that gives each element of a list parameter as the column `value`, of an SQL type."""

    @abstractmethod
    def listing(self, values: Sequence[Any]) -> Any:
        """Return a list as the parameter that `each_of` reads."""

    @abstractmethod
    def needle(self, literal: str, *, folded: bool) -> tuple[str, str]:
        """Return how to find a literal in `t.text`: a condition with a place for a parameter, and the parameter.

        Texts without it may pass, if that is faster; a `folded` one is in lower case and found in either.
        """

    @abstractmethod
    def new_ids(self, table: str, count: int) -> list[int]:
        """Return ids for new rows of a numbered table (in a transaction)."""

    @abstractmethod
    def index_summary(self, summary_id: int, text: str) -> None:
        """Add the words of a summary to its search index, replacing earlier ones."""

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
    def briefs(self) -> Briefs:
        from lossless.store.sql.briefs import Briefs

        return Briefs(self)

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
    """The place of a database as a whole, whether or not it is open."""

    form: str
    """Which dumps `load` takes."""
    beside: Path
    """What the name of a draft may begin with, so that `load` need not copy it."""

    def is_taken(self) -> bool:
        """Tell whether there is a database."""

    def cleared(self, now: datetime, *, replaces: bool) -> AbstractContextManager[tuple[str, ...]]:
        """Move what is there aside and hold the place; return where it is.

        `StoreBusy` if it is open elsewhere, `InvalidInput` unless it `replaces` what is there by now. If anything goes
        wrong within, everything is as it was before.
        """

    def load(self, path: Path, schema: int) -> None:
        """Put the database there whose rows a dump of a schema contains, whole or not at all. A file is moved."""

    def filling(self) -> AbstractContextManager[Store]:
        """Open a new database, which takes the place once it was left without an error."""
