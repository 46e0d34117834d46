"""The version of this lossless."""

__version__ = "0.1.0"
