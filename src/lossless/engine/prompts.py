"""What a summariser is asked, in the built-in words or in an operator's own.

A template is Jinja reduced to variables, `if` and a few filters: nothing it can say reaches beyond the values it
is given, and what is wrong with one is found when it is loaded, not in the middle of a compaction. History is
always a value and never a template, and it cannot close the block it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from lossless.config import Settings
from lossless.engine.source import without_reasoning
from lossless.errors import NotFound
from lossless.model import SummaryRequest

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import SandboxedEnvironment

Values: TypeAlias = dict[str, str | int | bool]

_KINDS = ("leaf", "condensed-d1", "condensed-d2", "condensed-d3")
NAMES = ("system", *(f"{kind}{form}" for kind in _KINDS for form in ("", "-aggressive")))
VARIABLES = ("target_tokens", "custom_instructions", "depth", "aggressive", "previous_context", "conversation_segment")
_HISTORY = ("previous_context", "conversation_segment")
_FILTERS = ("default", "d", "trim", "length")
_TESTS = ("defined", "undefined", "none")
_NODES = re.compile("Output|TemplateData|Name|Const|If|CondExpr|Compare|Operand|And|Or|Not|Filter|Test|Keyword|Concat")
_MOST_BYTES = 256 * 1024
_TRIAL = "the segment of a trial"
_PLACEHOLDER = re.compile(r"(?<!\{)\{(targetTokens|previousContext|conversationSegment)\}(?!\})")
_PLACEHOLDERS = {
    "targetTokens": "{{ target_tokens }}",
    "previousContext": '{{ previous_context or "(none)" }}',
    "conversationSegment": "{{ conversation_segment }}",
}
# Whatever a model could take for the border of a block, not only what an XML parser would.
_BORDER = re.compile(
    r"<(?=[^\w<>]{0,20}(?:conversation[\W_]{0,3}(?:segment|to[\W_]{0,3}condense)"
    r"|previous[\W_]{0,3}context|operator[\W_]{0,3}instructions))",
    re.I,
)


def request(
    source: str,
    *,
    depth: int,
    target_tokens: int,
    max_tokens: int,
    previous: str | None,
    aggressive: bool,
    settings: Settings,
    templates: Templates | None = None,
) -> SummaryRequest:
    """What to ask for a summary of `source`. From depth 2 up `previous` does not count.

    Whoever asks more than once passes `templates`, so that the directory of the settings is read once.
    """
    templates = templates or Templates.load(settings.prompt_dir)
    earlier = without_reasoning(previous or "") if depth <= 1 else ""
    values: Values = {
        "target_tokens": target_tokens,
        "custom_instructions": settings.custom_instructions,
        "depth": depth,
        "aggressive": aggressive,
    }
    history: Values = {"previous_context": _contained(earlier), "conversation_segment": _contained(source)}
    system = templates.render("system", values)
    prompt = templates.render(template_name(depth, aggressive=aggressive), values | history)
    return SummaryRequest(system, prompt, source, depth, target_tokens, max_tokens, earlier or None, aggressive)


def template_name(depth: int, *, aggressive: bool = False) -> str:
    """The template that asks for a summary of that depth."""
    return _KINDS[min(max(depth, 0), 3)] + ("-aggressive" if aggressive else "")


def _contained(text: str) -> str:
    """The text with no tag that could open or close a block of ours."""
    return _BORDER.sub("&lt;", text)


class Templates(Struct, frozen=True):
    """The prompts in force: the built-in ones, or files of the same name from an operator's directory."""

    texts: Mapping[str, str]
    overrides: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    """Why files of the directory do not serve, a sentence or two each."""

    @classmethod
    def load(cls, prompt_dir: str | Path | None) -> Templates:
        """The built-in prompts, each replaced by the file of its name if there is one and it can serve."""
        if prompt_dir is None:
            return cls(_builtin())
        root = Path(prompt_dir)
        if not root.is_dir():
            return cls(_builtin(), problems=(f"{root} is not a directory. The built-in prompts serve.",))
        own, problems = {}, []
        for name in NAMES:
            try:
                if (text := _read(root, name)) is not None:
                    own[name] = text
            except _Refused as reason:
                problems.append(f"{root / name}.txt{reason}. The built-in prompt serves instead.")
        return cls({**_builtin(), **own}, frozenset(own), tuple(problems))

    @property
    def version(self) -> str:
        """Twelve hex digits that change with any of the texts in force."""
        return sha256("\0".join(f"{name}\0{self.texts[name]}" for name in NAMES).encode()).hexdigest()[:12]

    def names(self) -> tuple[str, ...]:
        return NAMES

    def source(self, name: str) -> str:
        """The text of a template, as it was written."""
        name = name.removesuffix(".txt")
        if name not in self.texts:
            raise NotFound("prompt", name, hint=f"There are: {', '.join(NAMES)}.")
        return self.texts[name]

    def is_override(self, name: str) -> bool:
        return name.removesuffix(".txt") in self.overrides

    def render(self, name: str, values: Values) -> str:
        """The template with the values in it; the built-in one where an override turns out to fail on them."""
        if name in self.overrides:
            from jinja2 import TemplateError

            try:
                return _compiled(self.texts[name]).render(values)
            except (TemplateError, TypeError):
                pass
        return _compiled(_builtin()[name]).render(values)


@cache
def _builtin() -> Mapping[str, str]:
    from importlib.resources import files

    directory = files("lossless.engine").joinpath("prompts")
    return {name: directory.joinpath(f"{name}.txt").read_text("utf-8") for name in NAMES}


class _Refused(Exception):
    """Why an override cannot serve, to be read behind the name of its file."""


def _read(root: Path, name: str) -> str | None:
    """The override of that name, if there is one."""
    path = root / f"{name}.txt"
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve(strict=True)):
            raise _Refused(" leads out of its directory")
        if not real.is_file():
            raise _Refused(" is not a file")
        with real.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (OSError, RuntimeError) as error:  # a loop of links was a RuntimeError before Python 3.13
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return None
        raise _Refused(f" cannot be read: {getattr(error, 'strerror', None) or 'it is a loop of links'}") from error
    return _checked(name, data)


def _checked(name: str, data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        raise _Refused(f" has more than {_MOST_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Refused(f", line {line}: this is not UTF-8 text") from error
    _check(name, text)
    return text


def _check(name: str, text: str) -> None:
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        for node, flaw in _flaws(_sandbox().parse(_as_jinja(text)), system=name == "system"):
            raise _Refused(f", line {node.lineno}: {flaw}")
        _try_out(name, text)
    except TemplateSyntaxError as error:
        raise _Refused(f", line {error.lineno}: {(error.message or 'this is not a template').rstrip('.')}") from error
    except (TemplateError, TypeError) as error:
        raise _Refused(f", line {_line(error)}: {error}") from error
    except (SyntaxError, RecursionError, MemoryError) as error:  # what Python says of a template nested too deep
        raise _Refused(" is nested too deep") from error


def _flaws(tree: nodes.Template, *, system: bool) -> Iterator[tuple[nodes.Node, str]]:
    """What a template may not say, each with its node."""
    from jinja2 import nodes

    known = [name for name in VARIABLES if not (system and name in _HISTORY)]
    for node in tree.find_all(nodes.Node):
        if isinstance(node, nodes.Name) and node.name not in known:
            yield node, _unknown(node.name, known)
        elif isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            yield node, f"{node.name} is not one of the filters {', '.join(_FILTERS)}"
        elif isinstance(node, nodes.Test) and node.name not in _TESTS:
            yield node, f"{node.name} is not one of the tests {', '.join(_TESTS)}"
        elif not _NODES.fullmatch(type(node).__name__):
            yield node, f"{_construct(node)} cannot be used here, only variables, if and filters"


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    if name in VARIABLES:
        return f"{name} is history, which has no place in the system prompt"
    meant = get_close_matches(name, known, 1)
    return f"{name} is not a variable{f' (did you mean {meant[0]}?)' if meant else ''}"


def _construct(node: nodes.Node) -> str:
    words = {"Getattr": "an attribute", "Getitem": "an item", "Call": "a call", "For": "a loop", "Include": "include"}
    return words.get(type(node).__name__, type(node).__name__)


def _try_out(name: str, text: str) -> None:
    template = _compiled(text)
    depths = {"condensed-d1": (1,), "condensed-d2": (2,), "condensed-d3": (3, 9)}
    for depth in depths.get(name.removesuffix("-aggressive"), (0,)):
        for other in ("", "something"):
            values: Values = {"target_tokens": 1200, "custom_instructions": other, "depth": depth}
            values |= {"aggressive": name.endswith("-aggressive"), "previous_context": other}
            shown = template.render(values | {"conversation_segment": _TRIAL})
            if not shown.strip():
                raise _Refused(" is empty")
            if name != "system" and _TRIAL not in shown:
                raise _Refused(" does not always show conversation_segment, so there would be nothing to summarise")


def _line(error: BaseException) -> int:
    from traceback import extract_tb

    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return (lines or [1])[-1] or 1


@cache
def _sandbox() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(autoescape=False, undefined=StrictUndefined)


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    return _sandbox().from_string(_as_jinja(text))


def _as_jinja(text: str) -> str:
    """The text with the placeholders of other implementations of LCM as variables."""
    return _PLACEHOLDER.sub(lambda found: _PLACEHOLDERS[found[1]], text)
