"""Search texts with regular expressions from users and models, in linear time."""

from lossless.search.regex.pattern import MOST_CHARACTERS, Pattern, compile, has_upper_case

__all__ = ["MOST_CHARACTERS", "Pattern", "compile", "has_upper_case"]
