"""Tides."""

import math
from collections import deque


class Tide(Base):
    def height(self, hour: int) -> float:
        return math.sin(hour)


async def fetch(port: str, *, days: int = 1) -> list[Tide]:
    return deque(
    # the file breaks off here: no parser would accept it
