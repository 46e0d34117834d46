# What we use of google-re2, which ships no types.
from collections.abc import Iterator
from typing import AnyStr, Generic, overload

class error(Exception): ...

class Options:
    class Encoding:
        UTF8: Options.Encoding
        LATIN1: Options.Encoding

    encoding: Options.Encoding
    log_errors: bool
    max_mem: int

class _Match(Generic[AnyStr]):
    lastindex: int | None
    def span(self, group: int = 0) -> tuple[int, int]: ...
    def group(self, group: int = 0) -> AnyStr: ...

class _Pattern(Generic[AnyStr]):
    def search(self, text: AnyStr, pos: int = ..., endpos: int = ...) -> _Match[AnyStr] | None: ...
    def finditer(self, text: AnyStr, pos: int = ..., endpos: int = ...) -> Iterator[_Match[AnyStr]]: ...

Match = _Match[str]
Pattern = _Pattern[str]

@overload
def compile(pattern: str, options: Options = ...) -> _Pattern[str]: ...
@overload
def compile(pattern: bytes, options: Options = ...) -> _Pattern[bytes]: ...
