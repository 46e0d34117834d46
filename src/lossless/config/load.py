"""Read settings from their sources: defaults, `lcm.toml`, a host plugin, the environment, arguments.

Each source overrides the ones before it. No other module reads `lcm.toml` or an `LCM_` variable; `config.edit_file` changes the file.

A configuration is never taken from the working directory: a cloned repository could otherwise
send an agent's memory to a database of its own choice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from lossless.config.conflicts import Check, adaptations
from lossless.config.paths import config_path
from lossless.config.redact import hide_secrets
from lossless.config.settings import Settings, all_spellings, catalogue, error_lines
from lossless.config.values import NOT_TEXT, base_type, did_you_mean, nearest, parse_text, printable, quote
from lossless.errors import ConfigError

# Read by the command line, by tests, or before there are settings.
_OTHER_VARIABLES = re.compile(r"LCM_(?:CONFIG|CONVERSATION|MCP_TOKEN|OUTPUT|PAGER|TRACEBACK|TEST_.*)")

# Settings of other implementations of LCM: users who switch from them get a warning, not an error.
_UNSUPPORTED = re.compile(
    "auto_rotate_session_files|autocompact_disabled|cache_aware_compaction|cache_ttl_seconds|cold_cache_observation|"
    "critical_budget_pressure|dynamic_leaf_chunk_tokens|enable_summary_thinking|"
    "host_fallback_mode|hot_cache_|independent_log_file|log_file|log_max_file_bytes|"
    "max_cold_cache_catchup_passes|prompt_aware_eviction|replay_flood_threshold_|"
    "stub_large_tool_payloads|summary_prefix_target_tokens|"
    "transcript_gc_enabled"
)


class Source(Struct, frozen=True):
    """The origin of a setting's value, and the text written there (passwords hidden)."""

    kind: Literal["default", "file", "plugin", "environment", "argument"]
    where: str
    raw: object


class Loaded(Struct, frozen=True):
    """Settings, the source of each, and the problems found while reading them."""

    settings: Settings
    sources: Mapping[str, Source]
    warnings: tuple[str, ...]
    """Entries that have no effect."""
    problems: tuple[str, ...] = ()
    adapted: tuple[str, ...] = ()
    """Settings that conflict with others, and what is done instead."""


def load(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings in force; `resolve` also returns the source of each."""
    return resolve(arguments, plugin=plugin, plugin_name=plugin_name, environment=environment, file=file).settings


def resolve(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Read every source; raise one `ConfigError` with a line for each mistake.

    An argument that is None counts as not given. `plugin` is a host plugin's configuration, `plugin_name` its name in
    sources and errors. `file` is read instead of `config_path()`.
    """
    loaded = collect(arguments, plugin=plugin, plugin_name=plugin_name, environment=environment, file=file)
    if loaded.problems:
        raise ConfigError("\n".join(loaded.problems))
    return loaded


def collect(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    check: Check | None = None,
) -> Loaded:
    """Read every source like `resolve`, but return mistakes as `problems`; wrong values are ignored.

    `check` finds mistakes that only show once a setting is used; those are problems too, but their values count.
    """
    environment = os.environ if environment is None else environment
    collector = _Collector()
    collector.read_file(file, environment)
    collector.read_table("plugin", plugin_name, plugin or {})
    collector.read_environment(environment)
    collector.read_table("argument", "arguments", arguments or {})
    settings = Settings(**collector.values)
    collector.check_combinations(settings)
    collector.run_check(settings, check)
    defaults = {name: Source("default", "default", setting.default) for name, setting in catalogue().items()}
    return Loaded(
        settings=settings,
        sources=defaults | collector.sources,
        warnings=tuple(collector.warnings),
        problems=tuple(collector.problems),
        adapted=tuple(collector.adapted),
    )


def find_problems(path: Path, table: Mapping[str, object], check: Check | None = None) -> list[str]:
    """Return the mistakes in a table of that `lcm.toml`, together with the current environment."""
    collector = _Collector()
    collector.read_environment(os.environ)
    collector.read_table("file", printable(path.name), table, base=str(path.parent))
    collector.run_check(Settings(**collector.values), check)
    return collector.problems


class _Collector(Struct):
    """The values read so far, with their sources and problems; later sources override earlier ones."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    adapted: list[str] = field(default_factory=list)

    def read_file(self, file: Path | None, environment: Mapping[str, str]) -> None:
        named = environment.get("LCM_CONFIG", "").strip() if file is None else str(file)
        origin = "LCM_CONFIG: " if file is None else ""
        if NOT_TEXT.search(named):
            self.problems.append(f"{origin}{quote(named)} is not a path.")
            return
        path = config_path(environment) if file is None else Path(file)
        # Some versions of platformdirs accept a relative XDG_CONFIG_HOME, which would be the working directory.
        if not (named or path.is_absolute()):
            return
        try:
            self.read_table("file", printable(path.name), _read(path), base=str(path.parent))
        except (FileNotFoundError, NotADirectoryError):
            if named:
                self.problems.append(f"{origin}{printable(str(path))} does not exist.")
        except ConfigError as error:
            self.problems.append(error.message)

    def read_environment(self, environment: Mapping[str, str]) -> None:
        zone = environment.get("TZ", "").strip().removeprefix(":")
        # A rule such as UTC0 or the path of a file is not an IANA name, but the system's own zone follows it already.
        if zone and "LCM_TIMEZONE" not in environment and not re.match(r"/|(?:<[^>]+>|[A-Za-z]{3,})[+-]?\d", zone):
            self.set("timezone", zone, "TZ", Source("environment", "TZ", zone))
        for variable, text in sorted(environment.items()):
            name = variable.removeprefix("LCM_").lower()
            setting = catalogue().get(name)
            if setting and setting.environment == variable:
                value = parse_text(base_type(setting.schema), text.strip())
                self.set(name, value, variable, Source("environment", variable, hide_secrets(text)))
            elif variable.startswith("LCM_") and not _OTHER_VARIABLES.fullmatch(variable):
                self.report_unknown("environment", variable, name)

    def read_table(
        self, kind: Literal["file", "plugin", "argument"], where: str, table: Mapping[str, object], *, base: str = ""
    ) -> None:
        written_as: dict[str, str] = {}
        for written, value in table.items():
            name = all_spellings().get(written)
            if value is None:
                continue
            if name is None:
                self.report_unknown(where, written, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", written).lower())
            elif name in written_as:
                self.problems.append(f"{where}: {written_as[name]} and {written} are one setting. Keep one of them.")
            else:
                written_as[name] = written
                self.set(name, value, f"{where}: {written}", Source(kind, where, hide_secrets(value)), base)

    def set(self, name: str, value: object, label: str, source: Source, base: str = "") -> None:
        try:
            self.values[name] = catalogue()[name].accept(value, base=base)
            self.sources[name], self.labels[name] = source, label
        except ValueError as error:
            self.problems += error_lines(label, error)

    def check_combinations(self, settings: Settings) -> None:
        pair = ("large_file_summary_model", "large_file_summary_provider")
        for name, other in (pair, pair[::-1]):
            if self.values.get(name) and not self.values.get(other):
                self.warnings.append(f"{self.sources[name].where}: {name} has no effect without {other}.")
        self.adapted += [f"{self.labels.get(name, name)}: {why}" for name, why in adaptations(settings)]

    def run_check(self, settings: Settings, check: Check | None) -> None:
        self.problems += [f"{self.labels.get(name, name)}: {why}" for name, why in (check(settings) if check else ())]

    def report_unknown(self, where: str, written: str, name: str) -> None:
        label = f"{where}: {printable(written)}"
        if _UNSUPPORTED.match(name):
            self.warnings.append(f"{label} is known from other versions of LCM and has no effect here.")
        else:
            proposal = all_spellings().get(nearest(name, all_spellings()), "")
            if proposal and where == "environment":
                proposal = catalogue()[proposal].environment
            self.problems.append(f"{label} is not a setting.{did_you_mean(proposal)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse(path, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise ConfigError(f"{printable(str(path))} cannot be read: {error.strerror}.") from error


def parse(path: Path, data: bytes) -> dict[str, Any]:
    """Parse the bytes of an `lcm.toml`; a `ConfigError` names the line with a syntax error."""
    import tomllib

    where = printable(str(path))
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 text (see byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = line[1] if line else text.count("\n") + 1
        raise ConfigError(f"{printable(path.name)}, line {number}: {printable(reason)}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} cannot be read: a name or number is too long, or it is nested too deep.") from error
