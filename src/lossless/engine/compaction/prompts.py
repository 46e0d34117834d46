"""The prompts for a summariser: built-in templates, or an operator's own.

A template is Jinja reduced to variables, `if` and a few filters: nothing it can say reaches beyond the values it
is given, and what is wrong with one is found when it is loaded, not in the middle of a compaction. History is
always a value and never a template, and it cannot close the block it stands in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from lossless.config import Settings, make_directory, open_private
from lossless.engine.compaction import summary_lengths
from lossless.engine.compaction.summary_source import without_reasoning
from lossless.errors import InvalidInput, NotFound
from lossless.model import SummaryRequest
from lossless.tokens import estimate

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import SandboxedEnvironment

Values: TypeAlias = dict[str, str | int | bool]

_KINDS = ("leaf", "condensed-d1", "condensed-d2", "condensed-d3")
NAMES = ("system", *(f"{kind}{form}" for kind in _KINDS for form in ("", "-aggressive")))
_FILES = tuple(f"{name}.txt" for name in NAMES)
VARIABLES = (
    *("target_words", "target_tokens", "custom_instructions", "depth", "aggressive"),
    *("previous_context", "conversation_segment"),
)
_HISTORY = ("previous_context", "conversation_segment")
_FILTERS = ("default", "d", "trim", "length")
_TESTS = ("defined", "undefined", "none")
_NODES = re.compile("Output|TemplateData|Name|Const|If|CondExpr|Compare|Operand|And|Or|Not|Filter|Test|Keyword|Concat")
_MOST_BYTES = 256 * 1024
_MOST_FLAWS = 100
FOOTER = "Expand for details about:"
_TRIAL = "the segment of a trial"
_TRIAL_WISH = "\x00a wish of a trial\x00"
_SAMPLE_SEGMENT = """\
[2026-02-17 15:37 UTC | user]
Where does the deploy script read its key from? It failed again tonight.

[2026-02-17 15:38 UTC | assistant]
From DEPLOY_KEY, which the new runner does not set. I changed ops/deploy.sh to stop with a message."""
_SAMPLE_SUMMARIES = """\
[2026-02-17 15:37 - 16:20 UTC]
The deploy failed because the new runner sets no DEPLOY_KEY. ops/deploy.sh: changed, stops with a message.
Expand for details about: the runner's log

[2026-02-17 16:31 - 17:05 UTC]
DEPLOY_KEY was added to the runner's settings, and the deploy went through at 16:58.
Expand for details about: how the key was made"""
_SAMPLE_PREVIOUS = """\
The move to the new runner was decided on 2026-02-16, for its speed.
Expand for details about: the runners compared"""
_WISHES = """\
Wishes of the operator, which you follow:
<operator_instructions>
{}
</operator_instructions>"""
_PLACEHOLDER = re.compile(r"(?<!\{)\{(targetTokens|previousContext|conversationSegment)\}(?!\})")
_PLACEHOLDERS = {
    "targetTokens": "{{ target_tokens }}",
    "previousContext": '{{ previous_context or "(none)" }}',
    "conversationSegment": "{{ conversation_segment }}",
}
# Remove whatever a model could take for a tag, not only valid XML.
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
    """Build the request for a summary of `source`. From depth 2 up, `previous` is not used.

    Pass `templates` for several requests, so that the directory is read once.
    """
    templates = templates or Templates.load(settings.prompt_dir)
    earlier = without_reasoning(previous or "") if depth <= 1 else ""
    values: Values = {
        "target_words": summary_lengths.words(target_tokens),
        "target_tokens": target_tokens,
        "custom_instructions": settings.custom_instructions,
        "depth": depth,
        "aggressive": aggressive,
    }
    history: Values = {"previous_context": _without_tags(earlier), "conversation_segment": _without_tags(source)}
    name = template_name(depth, aggressive=aggressive)
    system = templates.render("system", values)
    prompt = templates.render(name, values | history)
    if not templates.honours(name, values | history):
        prompt = f"{prompt.rstrip()}\n\n{_WISHES.format(settings.custom_instructions.strip())}"
    temperature = settings.summary_temperature
    if temperature is not None and aggressive:
        temperature /= 2
    return SummaryRequest(
        system, prompt, source, depth, target_tokens, max_tokens, earlier or None, aggressive, temperature
    )


def template_name(depth: int, *, aggressive: bool = False) -> str:
    """Return the name of the template for that depth."""
    return _KINDS[min(max(depth, 0), 3)] + ("-aggressive" if aggressive else "")


def known(name: str) -> str:
    """Return the name of a template as people may write it: in capitals, or as a file name."""
    plain = name.lower().removesuffix(".txt")
    if plain not in NAMES:
        raise NotFound("prompt", name, hint=f"There are: {', '.join(NAMES)}.")
    return plain


def preview(
    name: str,
    settings: Settings,
    *,
    source: str | None = None,
    previous: str | None = None,
    target_tokens: int | None = None,
    depth: int | None = None,
    templates: Templates | None = None,
) -> SummaryRequest:
    """Return the request that a template makes: for `source`, or for a small sample history."""
    name = known(name)
    kind, aggressive = name.removesuffix("-aggressive"), name.endswith("-aggressive")
    if depth is None:
        depth = _KINDS.index(kind) if kind in _KINDS else 0
    serving = template_name(depth, aggressive=aggressive)
    if name not in ("system", serving):
        raise InvalidInput(f"{name} does not serve depth {depth}.", hint=f"{serving} does.")
    if source is None:
        source, previous = _SAMPLE_SUMMARIES if depth else _SAMPLE_SEGMENT, previous or _SAMPLE_PREVIOUS
    wanted = target_tokens or summary_lengths.target(depth, estimate(source), settings, aggressive=aggressive)
    return request(
        source,
        depth=depth,
        target_tokens=wanted,
        max_tokens=summary_lengths.completion_limit(wanted),
        previous=previous,
        aggressive=aggressive,
        settings=settings,
        templates=templates,
    )


def _without_tags(text: str) -> str:
    """Return the text without tags that could open or close our blocks."""
    return _BORDER.sub("&lt;", text)


@lru_cache(8)
def _version(texts: tuple[str, ...]) -> str:
    named = (f"{name}\0{text}" for name, text in zip(NAMES, texts, strict=True))
    return sha256("\0".join(named).encode()).hexdigest()[:12]


class Templates(Struct, frozen=True):
    """The prompts in force: the built-in ones, or files of the same name from an operator's directory."""

    texts: Mapping[str, str]
    overrides: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    """The reasons for which files of the directory are not used."""
    directory: Path | None = None

    @classmethod
    def load(cls, prompt_dir: str | Path | None) -> Templates:
        """Return the built-in prompts, each replaced by the file of its name if that is valid."""
        if prompt_dir is None:
            return cls(_builtin())
        root = Path(prompt_dir)
        if not os.path.isdir(root):
            return cls(_builtin(), problems=(f"{_no_directory(root)} The built-in prompts serve.",), directory=root)
        own, problems = {}, []
        for name in NAMES:
            text, findings = _inspect_override(root, name)
            refusal = next((each for each in findings if not each.serves), None)
            if refusal:
                problems.append(f"{refusal} The built-in prompt serves instead.")
            elif text is not None:
                own[name] = text
        return cls({**_builtin(), **own}, frozenset(own), tuple(problems), root)

    @property
    def version(self) -> str:
        """Return twelve hex digits that change with any of the texts in force."""
        return _version(tuple(self.texts[name] for name in NAMES))

    def names(self) -> tuple[str, ...]:
        return NAMES

    def source(self, name: str) -> str:
        """Return the text of a template as written."""
        return self.texts[known(name)]

    def origin(self, name: str) -> str:
        """Return the origin of a template: the path of its file, or `built-in`."""
        name = known(name)
        return str(_file(self.directory, name)) if self.directory and name in self.overrides else "built-in"

    def diff(self, name: str) -> str:
        """Return a unified diff from the built-in text to an override."""
        from difflib import unified_diff

        name = known(name)
        if name not in self.overrides:
            raise NotFound("override of", name, hint=self._why_none(name))
        before, after = _lines(_builtin()[name]), _lines(self.texts[name])
        return "\n".join(unified_diff(before, after, f"built-in/{name}.txt", self.origin(name), lineterm=""))

    def _why_none(self, name: str) -> str:
        if self.directory is None:
            return "No prompt_dir is set."
        path = str(_file(self.directory, name))
        refusals = (problem for problem in self.problems if problem.startswith(path))
        return next(refusals, f"There is no file {path}.")

    def honours(self, name: str, values: Values) -> bool:
        """Return True if a request by that template contains the operator's instructions, if there are any."""
        if not str(values["custom_instructions"]).strip() or name not in self.overrides:
            return True
        # Not the instructions themselves: history may contain the same words.
        marked = values | {"custom_instructions": _TRIAL_WISH}
        own = {key: value for key, value in marked.items() if key not in _HISTORY}
        return _TRIAL_WISH in self.render(name, marked) or _TRIAL_WISH in self.render("system", own)

    def render(self, name: str, values: Values) -> str:
        """Render a template; use the built-in one if an override fails."""
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

    directory = files("lossless.engine.compaction").joinpath("templates")
    return {name: directory.joinpath(f"{name}.txt").read_text("utf-8") for name in NAMES}


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.txt"


def _lines(text: str) -> list[str]:
    """Return the lines as Jinja sees them, whatever their line ends."""
    lines = re.split(r"\r\n|\r|\n", text)
    return lines if lines[-1] else lines[:-1]


def export(directory: Path, *, force: bool = False) -> list[Path]:
    """Write the built-in prompts into a directory, as a starting point for changes.

    When one of the files is there already none is written, unless `force` says that they may be replaced.
    """
    from lossless.engine.shared.output_paths import refuse_ours

    texts = {_file(directory, name): text for name, text in _builtin().items()}
    for path in texts:
        refuse_ours(path)
    taken = [path.name for path in texts if os.path.lexists(path) and not (force and _replaceable(path))]
    if taken:
        raise InvalidInput(
            f"{directory} already has {', '.join(taken)}.",
            hint="Nothing was written; with --force, files are replaced.",
        )
    try:
        make_directory(directory)
        for path, text in texts.items():
            # A link is replaced, not followed: its target may not be a prompt.
            path.unlink(missing_ok=True)
            with open(path, "xb", opener=open_private) as file:
                file.write(text.encode())
    except OSError as error:
        raise InvalidInput(f"{error.filename or directory} cannot be written: {error.strerror}.") from error
    return list(texts)


def _replaceable(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


class Finding(Struct, frozen=True):
    """A problem with a file in a directory of prompts."""

    path: str
    reason: str
    line: int | None = None
    serves: bool = False
    """True if the file is used in spite of the problem."""

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.reason}." if self.line else f"{self.path} {self.reason}."


class PromptsReport(Struct, frozen=True):
    """The problems found in a directory of prompts."""

    directory: str
    overrides: tuple[str, ...]
    """The prompts that have a file there, in use or not."""
    findings: tuple[Finding, ...]


def check_directory(directory: Path) -> PromptsReport:
    """Check the files of a directory; report every problem, also harmless ones."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return PromptsReport(str(directory), (), (_no_directory(directory),))
    findings = [finding for name in NAMES for finding in _inspect_override(directory, name)[1]]
    findings += [Finding(str(directory / name), _means_nothing(name)) for name in names if _is_stray(directory, name)]
    return PromptsReport(str(directory), tuple(name for name in NAMES if f"{name}.txt" in names), tuple(findings))


def _no_directory(path: Path) -> Finding:
    return Finding(str(path), "cannot be listed" if os.path.isdir(path) else "is not a directory")


def _is_stray(directory: Path, name: str) -> bool:
    return not (name in _FILES or name.startswith(".") or os.path.isdir(directory / name))


def _means_nothing(name: str) -> str:
    from difflib import get_close_matches

    meant = get_close_matches(name.lower(), _FILES, 1)
    return f"is not the name of a prompt{f' (did you mean {meant[0]}?)' if meant else ''}"


def _inspect_override(root: Path, name: str) -> tuple[str | None, list[Finding]]:
    """Return the override of that name, if it can be read, and its problems."""
    path = _file(root, name)
    try:
        text = _read(root, path)
    except _Unreadable as reason:
        return None, [Finding(str(path), *reason.args)]
    return text, [] if text is None else list(_findings(path, text))


class _Unreadable(Exception):
    """The reason for which a file has no usable text, and its line if known."""


def _read(root: Path, path: Path) -> str | None:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve(strict=True)):
            raise _Unreadable("leads out of its directory")
        if not real.is_file():
            raise _Unreadable("is not a file")
        with real.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (OSError, RuntimeError) as error:  # a loop of links was a RuntimeError before Python 3.13
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return None
        reason = getattr(error, "strerror", None) or "it is a loop of links"
        raise _Unreadable(f"cannot be read: {reason}") from error
    return _decoded(data)


def _decoded(data: bytes) -> str:
    if len(data) > _MOST_BYTES:
        raise _Unreadable(f"has more than {_MOST_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Unreadable("this is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from error


def _findings(path: Path, text: str) -> Iterator[Finding]:
    from jinja2 import TemplateError, TemplateSyntaxError

    name, shown_path = path.stem, str(path)
    try:
        tree = _sandbox().parse(_as_jinja(text))
        found = islice(_flaws(tree, system=name == "system"), _MOST_FLAWS)
        flaws = dict.fromkeys((node.lineno, flaw) for node, flaw in found)
        yield from (Finding(shown_path, flaw, line) for line, flaw in sorted(flaws, key=lambda each: each[0]))
        if not flaws:
            yield from _shortcomings(path, list(_trials(name, text)))
    except TemplateSyntaxError as error:
        yield Finding(shown_path, (error.message or "this is not a template").rstrip("."), error.lineno)
    except (TemplateError, TypeError) as error:
        yield Finding(shown_path, str(error), _line(error))
    except (SyntaxError, RecursionError, MemoryError):  # what Python says of a template nested too deep
        yield Finding(shown_path, "is nested too deep")


def _flaws(tree: nodes.Template, *, system: bool) -> Iterator[tuple[nodes.Node, str]]:
    """Yield what a template must not contain, each with its node."""
    from jinja2 import nodes

    variables = [name for name in VARIABLES if not (system and name in _HISTORY)]
    for node in tree.find_all(nodes.Node):
        if isinstance(node, nodes.Name) and node.name not in variables:
            yield node, _unknown(node.name, variables)
        elif isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            yield node, f"{node.name} is not one of the filters {', '.join(_FILTERS)}"
        elif isinstance(node, nodes.Test) and node.name not in _TESTS:
            yield node, f"{node.name} is not one of the tests {', '.join(_TESTS)}"
        elif not _NODES.fullmatch(type(node).__name__):
            yield node, f"{_construct(node)} cannot be used here, only variables, if and filters"


def _unknown(name: str, variables: list[str]) -> str:
    from difflib import get_close_matches

    if name in VARIABLES:
        return f"{name} is history, which has no place in the system prompt"
    meant = get_close_matches(name, variables, 1)
    return f"{name} is not a variable{f' (did you mean {meant[0]}?)' if meant else ''}"


def _construct(node: nodes.Node) -> str:
    words = {"Getattr": "an attribute", "Getitem": "an item", "Call": "a call", "For": "a loop", "Include": "include"}
    return words.get(type(node).__name__, type(node).__name__)


def _trials(name: str, text: str) -> Iterator[str]:
    """Yield the template rendered with the values that compaction may pass."""
    template = _compiled(text)
    depths = {"condensed-d1": (1,), "condensed-d2": (2,), "condensed-d3": (3, 9)}
    for depth in depths.get(name.removesuffix("-aggressive"), (0,)):
        for other in ("", "something"):
            values: Values = {"target_words": 800, "target_tokens": 1200, "custom_instructions": other, "depth": depth}
            values |= {"aggressive": name.endswith("-aggressive"), "previous_context": other}
            yield template.render(values | {"conversation_segment": _TRIAL})


def _shortcomings(path: Path, trials: list[str]) -> Iterator[Finding]:
    """Yield what a template must contain and does not."""
    if not all(map(str.strip, trials)):
        yield Finding(str(path), "is empty")
    elif path.stem != "system":
        serves = all(_TRIAL in shown for shown in trials)
        if not serves:
            reason = "does not always show conversation_segment, so there would be nothing to summarise"
            yield Finding(str(path), reason)
        if not all(FOOTER in shown for shown in trials):
            yield Finding(str(path), f'does not always ask for the last line "{FOOTER} ..."', serves=serves)


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
    """Return the text with the placeholders of other implementations of LCM as variables."""
    return _PLACEHOLDER.sub(lambda found: _PLACEHOLDERS[found[1]], text)
