"""Open other systems' databases, and archives, as values that can be imported."""

from lossless.imports.recognise_system import recognise

__all__ = ["recognise"]
