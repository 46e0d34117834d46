"""The base of a section of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lossless.store.rows.types import Rows
from lossless.store.sql.columns import Row

if TYPE_CHECKING:
    from lossless.store.store import Store


class Section:
    """Queries on one subject, run by the store they belong to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.owner = store.owner

    @property
    def all(self) -> Callable[..., list[Row]]:
        """Return the rows of a query."""
        return self.store.all

    @property
    def run(self) -> Callable[..., int]:
        """Run a statement that writes; return how many rows it changed."""
        return self.store.run

    @property
    def insert(self) -> Callable[[str, Sequence[str], Iterable[Row]], None]:
        """Insert many rows into one table."""
        return self.store.insert

    @property
    def stream(self) -> Callable[..., Rows]:
        """Return the rows of a query one by one."""
        return self.store.stream

    def each_of(self, name: str, kind: str) -> str:
        """Return a query that gives each element of a list parameter as `value`."""
        return self.store.each_of(name, kind)

    def listing(self, values: Sequence[Any]) -> Any:
        """Return a list as the parameter that `each_of` reads."""
        return self.store.listing(values)
