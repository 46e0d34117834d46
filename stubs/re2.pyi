# What we use of google-re2, which ships no types.
from typing import Protocol

class error(Exception): ...

class Options:
    log_errors: bool
    max_mem: int

class Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...
    def group(self, group: int = 0) -> str: ...

class Pattern(Protocol):
    def search(self, text: str, pos: int = ..., endpos: int = ...) -> Match | None: ...

def compile(pattern: str, options: Options = ...) -> Pattern: ...
