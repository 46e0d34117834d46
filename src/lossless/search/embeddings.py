"""Texts as vectors, by a small model whose weights come with its package: no hub, no key, no network.

The vector of a text is the mean of its words': near in meaning, blind to order. It finds the violin in
an orchestra for `classical music`; it does not tell names or numbers apart, so words go first and vectors help.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lossless.errors import InvalidInput

if TYPE_CHECKING:
    from wordllama import WordLlamaInference

_BEGINNING = 2_000
"""Characters that a vector is made of: the mean of many more words says little of any of them."""
_INSTALL = "Install it with: pip install 'lossless[semantic]' (Python 3.11 to 3.13)."
_WORD = re.compile(r"\w+(?:['’]\w+)*")


class Embedder(Protocol):
    """A model that makes vectors."""

    name: str
    """Vectors of models with other names cannot be compared."""

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """One for each text: 256 numbers of a byte, -127 to 127. Only its direction means anything."""


def is_installed() -> bool:
    return find_spec("wordllama") is not None and find_spec("numpy") is not None


def require() -> None:
    """`InvalidInput` with the way out, if there is no model."""
    if not is_installed():
        raise InvalidInput("Semantic search needs the extra lossless[semantic].", hint=_INSTALL)


@lru_cache(1)
def embedder() -> Embedder:
    """The model, loaded when it is first asked for: half a second or so."""
    require()
    root, quiet = logging.getLogger(), logging.NullHandler()
    # The package sets up everybody's logging when it is imported, unless somebody has done so.
    root.addHandler(quiet)
    try:
        import wordllama

        # Its own directory is the cache, because it would look for the tokenizer on a hub.
        return _WordLlama(wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True))
    except (ImportError, OSError) as error:
        raise InvalidInput(f"The model of lossless[semantic] cannot be loaded: {error}.", hint=_INSTALL) from error
    finally:
        root.removeHandler(quiet)


class _WordLlama:
    name = "wordllama/l2_supercat_256"

    def __init__(self, model: WordLlamaInference) -> None:
        self._model = model

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        # One at a time: of several, all would be padded to the length of the longest.
        made = self._model.embed([_beginning(text) for text in texts], batch_size=1)
        largest = np.abs(made).max(axis=1, keepdims=True, initial=1e-9)
        return [vector.tobytes() for vector in np.rint(made / largest * 127).astype(np.int8)]


def _beginning(text: str) -> str:
    return text[:_BEGINNING].encode("utf-8", "replace").decode()


def cosines(vector: bytes, others: Sequence[bytes]) -> list[float]:
    """How near a vector is to each of the others: 1 for the same direction, 0 for nothing in common."""
    import numpy as np

    one = np.frombuffer(vector, np.int8).astype(np.float32)
    many = np.frombuffer(b"".join(others), np.int8).reshape(len(others), len(vector)).astype(np.float32)
    lengths = np.linalg.norm(many, axis=1) * np.linalg.norm(one)
    near: list[float] = (many @ one / np.maximum(lengths, 1.0)).tolist()
    return near


def meaning(question: str) -> str:
    """A question without names and numbers, unless it has nothing else.

    Words find those exactly. A vector would lead to whoever is greeted by a name rather than to what they did.
    """
    words = _WORD.findall(question)
    kept = [word for at, word in enumerate(words) if not (word[0].isdigit() or (at and word[0].isupper()))]
    return " ".join(kept) or question
