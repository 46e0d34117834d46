"""Group messages into sessions, and spread the hits of a question over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lossless.search.ranking.scoring import Line

_PAUSE = 3_600_000_000
"""Microseconds without a message that end a session."""
_FADE = 0.7
"""What the score of a hit is multiplied by for each better one of its session."""


def group_sessions(ids: Iterable[int], lines: Mapping[int, Line]) -> list[list[int]]:
    """Return the messages by session, as far as a pause between them shows one."""
    sessions: list[list[int]] = []
    before: Line | None = None
    for each in sorted(ids):
        line = lines[each]
        if before is None or abs(line.at - before.at) > _PAUSE:
            sessions.append([])
        sessions[-1].append(each)
        before = line
    return sessions


def spread_over_sessions(hits: Sequence[tuple[int, float]], lines: Mapping[int, Line]) -> list[tuple[int, float]]:
    """Return the hits with lower scores for those after the best of each session."""
    scores = dict(hits)
    return [
        (each, scores[each] * _FADE**place)
        for session in group_sessions(scores, lines)
        for place, each in enumerate(sorted(session, key=lambda each: (-scores[each], -each)))
    ]
