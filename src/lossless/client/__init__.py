"""The public classes: `Lossless` opens a database, `Conversation` is one history in it."""

from lossless.client.conversation import Conversation
from lossless.client.lossless import Lossless

__all__ = ["Conversation", "Lossless"]
