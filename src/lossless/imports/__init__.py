"""Open other systems' databases, and archives, as values that can be imported."""

from lossless.imports.recognise import recognise

__all__ = ["recognise"]
