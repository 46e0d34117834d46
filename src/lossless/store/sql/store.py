"""Every query that both databases share, one module per idea, as one store."""

from __future__ import annotations

from lossless.errors import StoreUnavailable
from lossless.store.sql.backups import Backed
from lossless.store.sql.core import Row
from lossless.store.sql.debts import Owing
from lossless.store.sql.detached import Detached
from lossless.store.sql.details import Inspected
from lossless.store.sql.erase import Erased
from lossless.store.sql.figures import Counted
from lossless.store.sql.grants import Granted
from lossless.store.sql.housekeeping import Swept
from lossless.store.sql.imported import Moved
from lossless.store.sql.integrity import Checked
from lossless.store.sql.lists import Listed
from lossless.store.sql.manifests import Noted
from lossless.store.sql.operations import Operations
from lossless.store.sql.promise import Proven
from lossless.store.sql.sessions import Sessions
from lossless.store.sql.summaries import Summaries
from lossless.store.sql.tables import Tables
from lossless.store.sql.texts import Texts

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
