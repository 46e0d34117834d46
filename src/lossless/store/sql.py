"""Every query that both databases share, one module per idea, as one store."""

from __future__ import annotations

from lossless.errors import StoreUnavailable
from lossless.store.checked import Checked
from lossless.store.core import Row
from lossless.store.counted import Counted
from lossless.store.detached import Detached
from lossless.store.erased import Erased
from lossless.store.granted import Granted
from lossless.store.inspected import Inspected
from lossless.store.kept import Backed
from lossless.store.listed import Listed
from lossless.store.moved import Moved
from lossless.store.noted import Noted
from lossless.store.operations import Operations
from lossless.store.owing import Owing
from lossless.store.proven import Proven
from lossless.store.sessions import Sessions
from lossless.store.summaries import Summaries
from lossless.store.swept import Swept
from lossless.store.tables import Tables
from lossless.store.texts import Texts

__all__ = ["Row", "SQLStore", "opened_before_fork"]


def opened_before_fork(location: str) -> StoreUnavailable:
    """Return the error of a child that uses what its parent has open."""
    return StoreUnavailable(
        f"{location} was opened before this process was forked.",
        hint="Open it again in this process (Lossless.open), or fork first.",
    )


class SQLStore(
    Checked,
    Sessions,
    Operations,
    Detached,
    Summaries,
    Owing,
    Noted,
    Granted,
    Texts,
    Tables,
    Moved,
    Proven,
    Swept,
    Erased,
    Backed,
    Inspected,
    Listed,
    Counted,
):
    """The shared half of a store; see `lossless.store.base.Store` for what each method promises."""
