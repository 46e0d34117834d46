"""Every query that both databases share, one module per idea, as one store."""

from __future__ import annotations

from lossless.store.core import Row
from lossless.store.granted import Granted
from lossless.store.noted import Noted
from lossless.store.owing import Owing
from lossless.store.summaries import Summaries
from lossless.store.texts import Texts

__all__ = ["Row", "SQLStore"]


class SQLStore(Summaries, Owing, Noted, Granted, Texts):
    """The shared half of a store; see `lossless.store.base.Store` for what each method promises."""
