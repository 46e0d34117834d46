# What we use of wordllama, which ships no types.
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

class WordLlamaInference:
    def embed(self, texts: list[str], *, batch_size: int = ...) -> NDArray[np.float32]: ...

class WordLlama:
    @classmethod
    def load(cls, *, cache_dir: Path, disable_download: bool) -> WordLlamaInference: ...
