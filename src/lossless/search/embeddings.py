"""Embed texts as vectors with a small model whose weights are in its package: no hub, no key, no network.

The vector of a text is the mean of the vectors of its words, so their order is lost. It finds the violin in an
orchestra for `classical music`, but does not distinguish names or numbers: words rank first, vectors add to them.
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
"""Characters of a text that are embedded: the mean of many more words would say little about any of them."""
_INSTALL = "Install it with: pip install 'lossless[semantic]' (Python 3.11 to 3.13)."
_WORD = re.compile(r"\w+(?:['’]\w+)*")


class Embedder(Protocol):
    """A model that embeds texts."""

    name: str
    """Only vectors of the same model can be compared."""

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text: 256 signed bytes, of which only the direction matters."""


def is_installed() -> bool:
    """Return whether the extra `lossless[semantic]` is installed."""
    return find_spec("wordllama") is not None and find_spec("numpy") is not None


def require() -> None:
    """Raise `InvalidInput` unless the extra is installed."""
    if not is_installed():
        raise InvalidInput("Semantic search needs the extra lossless[semantic].", hint=_INSTALL)


@lru_cache(1)
def load_embedder() -> Embedder:
    """Load the model once, in about half a second."""
    require()
    root, quiet = logging.getLogger(), logging.NullHandler()
    # The package configures the root logger when it is imported, unless it has a handler.
    root.addHandler(quiet)
    try:
        import wordllama

        # Its own directory is the cache; else it would look for the tokenizer on a hub.
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

        # One at a time: in a batch, all would be padded to the length of the longest.
        vectors = self._model.embed([_beginning(text) for text in texts], batch_size=1)
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
        return [vector.tobytes() for vector in np.rint(vectors / largest * 127).astype(np.int8)]


def _beginning(text: str) -> str:
    return text[:_BEGINNING].encode("utf-8", "replace").decode()


def cosines(vector: bytes, others: Sequence[bytes]) -> list[float]:
    """Return the cosine of the angle to each other vector: 1 for the same direction, 0 for unrelated."""
    import numpy as np

    one = np.frombuffer(vector, np.int8).astype(np.float32)
    many = np.frombuffer(b"".join(others), np.int8).reshape(len(others), len(vector)).astype(np.float32)
    lengths = np.linalg.norm(many, axis=1) * np.linalg.norm(one)
    result: list[float] = (many @ one / np.maximum(lengths, 1.0)).tolist()
    return result


def without_names(question: str) -> str:
    """Return a question without names and numbers, unless it has nothing else.

    Word search finds those exactly. A vector would find greetings with a name rather than what the person did.
    """
    words = _WORD.findall(question)
    kept = [word for at, word in enumerate(words) if not (word[0].isdigit() or (at and word[0].isupper()))]
    return " ".join(kept) or question
