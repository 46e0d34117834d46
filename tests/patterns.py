"""Patterns and texts that Hypothesis can invent, small enough to meet each other often."""

from __future__ import annotations

from hypothesis import strategies as st

# Letters with relatives outside ASCII (k and the Kelvin sign, s and the long s), other scripts, what LIKE reads as a sign.
ALPHABET = "abkKsS_%!-. \u212a\u017féЯя数\u0665"
texts = st.text(ALPHABET, max_size=12)
_literals = st.text("abksKéя数%_!- ", min_size=1, max_size=3)
_pieces = st.one_of(
    _literals,
    st.sampled_from(
        [r"\w", r"\W", r"\d", r"\s", r"\S", r"\b", r"\B", ".", "[ab]", "[^a]", r"[^\W_]", r"[\Wa]", r"\.", "^", "$"]
    ),
)
_grown = st.recursive(
    _pieces,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,3}?"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
        inner.map(lambda each: f"(?i:{each})"),
        inner.map(lambda each: f"({each})"),
    ),
    max_leaves=6,
)
patterns = st.tuples(st.sampled_from(["", "(?i)"]), _grown).map("".join)
