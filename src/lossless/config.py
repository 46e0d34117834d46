"""Settings: what each means, its default and its range, and where its value came from.

`Settings` is the schema, the defaults and the documentation at once; a test holds
`docs/reference/configuration.md` to it. Nobody else reads `lcm.toml` or an `LCM_` variable
(`settingsfile` changes the file). Each source overrides the ones before it: defaults, `lcm.toml`, a host plugin's
configuration, the environment, arguments.

A configuration is never taken from the working directory: a cloned repository could otherwise
send an agent's memory to a database of its own choice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints
from urllib.parse import unquote

from msgspec import Meta, Struct, field, inspect, json
from msgspec.inspect import BoolType, FloatType, IntType, LiteralType, Metadata, StrType, UnionType, VarTupleType
from msgspec.structs import force_setattr, replace

from lossless import providers, rules
from lossless.errors import ConfigError, SettingNotFound
from lossless.providers import Provider
from lossless.rules import ThresholdRule as ThresholdRule

AtLeast1: TypeAlias = Annotated[int, Meta(ge=1)]
AtLeast2: TypeAlias = Annotated[int, Meta(ge=2)]
Depth: TypeAlias = Annotated[int, Meta(ge=-1)]
File: TypeAlias = Annotated[str, Meta(title="a path")]
Database: TypeAlias = Annotated[
    str, Meta(title="a path or a postgresql:// address", pattern=r"\A(?:postgres(?:ql)?://|(?!\w[\w+.-]*://))")
]
Address: TypeAlias = Annotated[str, Meta(title="an http or https address", pattern=r"\Ahttps?://[^\s/]")]
KeyPattern: TypeAlias = Annotated[str, Meta(title="a pattern", min_length=1)]
ProviderModel: TypeAlias = Annotated[str, Meta(title="of the form provider/model", pattern=r"\A[^/\s]+/\S+\Z")]
SecretPattern: TypeAlias = Annotated[str, Meta(title="`on` or a pattern", min_length=1)]
TagName: TypeAlias = Annotated[str, Meta(title="the name of a tag", pattern=r"\A[A-Za-z_][\w.-]*\Z")]


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set. A value that is not one raises `ConfigError`, from wherever it came."""

    enabled: Annotated[bool, "Master switch: when off, nothing is stored, compacted or recalled."] = True
    database_path: Annotated[
        Database | None,
        "The SQLite file, or the `postgresql://` address (or `host=... dbname=...`); when not set, `lcm.db` in the platform's data directory.",
    ] = None
    large_files_dir: Annotated[
        File | None,
        "Where large content is kept out of line; when not set, beside the database (`lcm-files` for `lcm.db`).",
    ] = None
    large_file_token_threshold: Annotated[
        Annotated[int, Meta(ge=1000)],
        "Content of more tokens than this is kept out of line and stands in the context as a reference.",
    ] = 25_000
    ignore_session_patterns: Annotated[
        tuple[KeyPattern, ...], "Conversations whose key matches are left alone: nothing of them is stored."
    ] = ()
    stateless_session_patterns: Annotated[
        tuple[KeyPattern, ...], "Conversations whose key matches may read from memory but never write to it."
    ] = ()
    skip_stateless_sessions: Annotated[bool, "Whether `stateless_session_patterns` is honoured."] = True
    strip_injected_context_tags: Annotated[
        tuple[TagName, ...],
        "Blocks in these tags, put into messages by other memory plugins, count neither for recognising a message nor for summaries; none when empty.",
    ] = ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories")
    redact: Annotated[
        tuple[SecretPattern, ...],
        "Secrets to replace by placeholders before anything is stored: `on` for the built-in kinds, patterns (RE2) of your own "
        "for more besides them; nothing when empty.",
    ] = ()
    timezone: Annotated[
        str | None,
        "The IANA zone of times shown to people and models; `TZ` counts too, and with neither the system's zone.",
    ] = None

    compaction_trigger: Annotated[
        Literal["threshold", "leaf", "both"],
        "Compact when the context passes `context_threshold` (`threshold`), when a whole chunk of messages lies "
        "outside the fresh tail (`leaf`), or on either (`both`).",
    ] = "threshold"
    context_threshold: Annotated[
        Annotated[float, Meta(gt=0, le=1)], "The share of its budget a context may fill before it is compacted."
    ] = 0.75
    context_threshold_overrides: Annotated[
        tuple[ThresholdRule, ...], "Rules that set other limits for some models or conversations."
    ] = ()
    proactive_threshold_compaction_mode: Annotated[
        Literal["deferred", "inline"],
        "Whether a turn that passes the threshold leaves compaction to an idle moment, or waits for it.",
    ] = "deferred"
    fresh_tail_count: Annotated[
        AtLeast1, "How many of the newest messages are not summarised, as long as they take at most half of the window."
    ] = 64
    fresh_tail_max_tokens: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "A limit in tokens on the fresh tail below half of the window; the newest tool round and the newest message of the "
        "user stay whole even beyond it.",
    ] = None
    leaf_chunk_tokens: Annotated[AtLeast1, "The most tokens of messages that go into one leaf summary."] = 20_000
    leaf_target_tokens: Annotated[AtLeast1, "The length asked for in a leaf summary."] = 1200
    leaf_min_fanout: Annotated[
        AtLeast2, "How many leaf summaries make a condensed one, and how many messages the `leaf` trigger waits for."
    ] = 8
    condensed_target_tokens: Annotated[AtLeast1, "The length asked for in a condensed summary."] = 2000
    condensed_min_fanout: Annotated[AtLeast2, "How many condensed summaries of one depth make a deeper one."] = 4
    condensed_min_fanout_hard: Annotated[
        AtLeast2, "The same when the context has to shrink and no longer run is left."
    ] = 2
    incremental_max_depth: Annotated[
        Depth, "How deep condensation goes without pressure: 0 makes leaves only, -1 sets no limit."
    ] = 1
    max_sweep_iterations: Annotated[AtLeast1, "The most passes one sweep makes."] = 12
    sweep_deadline_ms: Annotated[AtLeast1, "How long one sweep may take, in milliseconds."] = 120_000
    compact_until_under_deadline_ms: Annotated[
        AtLeast1, "How long sweeps may follow one another to get below a target, in milliseconds."
    ] = 300_000
    max_assembly_token_budget: Annotated[
        Annotated[int, Meta(ge=1000)] | None, "A ceiling on the budget of a context, whatever window the host names."
    ] = None
    max_request_bytes: Annotated[
        Annotated[int, Meta(ge=10_000)] | None,
        "The most bytes of messages in one request, pictures as base64 included; when not set, what the provider of the "
        "host's model takes (Anthropic 30 MB, OpenAI 45 MB, others 18 MB).",
    ] = None
    max_request_images: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "The most pictures in one request; when not set, what the provider of the host's model takes (Anthropic 100, "
        "OpenAI 500, others 20).",
    ] = None
    new_session_retain_depth: Annotated[
        Depth, "Summaries of this depth and deeper stay in the context after `/new`; -1 keeps the messages too."
    ] = 2
    bootstrap_max_tokens: Annotated[
        AtLeast1 | None,
        "How much of the session it was forked from a new conversation shows; when not set, 6000 tokens or 0.3 of "
        "`leaf_chunk_tokens`, whichever is more.",
    ] = None
    prune_heartbeat_ok: Annotated[
        bool,
        "Whether heartbeat turns in which nothing was done (a poll, then exactly `HEARTBEAT_OK`) lose their words at the next "
        "bootstrap; they are stored out of the context either way.",
    ] = False

    summary_model: Annotated[
        str | None, "The model that writes summaries: `provider/model`, or a name that `summary_provider` completes."
    ] = None
    summary_provider: Annotated[str | None, "The provider of a `summary_model` that does not name its own."] = None
    summary_base_url: Annotated[
        Address | None, "The address of the summary model's API; when not set, the provider's own."
    ] = None
    providers: Annotated[
        tuple[Provider, ...],
        "Tables `[providers.NAME]` in `lcm.toml`: the address of a provider and where its key comes from (`base_url`, "
        "`api_key_env`, `api_key_cmd` or `api_key_openclaw`, `headers`, `api`); in a variable, a JSON object.",
    ] = ()
    summary_timeout_ms: Annotated[AtLeast1, "How long one call for a summary may take, in milliseconds."] = 60_000
    summary_max_overage_factor: Annotated[
        Annotated[float, Meta(ge=1)], "How many times its target a summary may measure before it is cut."
    ] = 3.0
    summary_temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None,
        "The temperature sent with requests for summaries, half of it with the stricter second one; none is sent when "
        "not set, as some models refuse it.",
    ] = None
    fallback_providers: Annotated[
        tuple[ProviderModel, ...], "Models to try in turn, as `provider/model`, when the summary model fails."
    ] = ()
    fallback_max_tokens: Annotated[
        Annotated[int, Meta(ge=64)], "The length of a summary that had to be cut from its sources without a model."
    ] = 512
    custom_instructions: Annotated[str, "Wishes of your own that go into every request for a summary."] = ""
    prompt_dir: Annotated[File | None, "A directory of templates that replace the built-in prompts they name."] = None
    circuit_breaker_threshold: Annotated[
        AtLeast1, "How many refused credentials in a row stop the calls to a model."
    ] = 5
    circuit_breaker_cooldown_ms: Annotated[
        AtLeast1, "How long a model stopped that way is left alone, in milliseconds."
    ] = 1_800_000
    summary_max_calls_per_window: Annotated[
        AtLeast1, "How many calls for summaries one conversation may make within the window below."
    ] = 24
    summary_call_window_ms: Annotated[AtLeast1, "The length of that window, in milliseconds."] = 600_000
    summary_spend_backoff_ms: Annotated[
        AtLeast1, "How long a conversation that made too many calls makes none, in milliseconds."
    ] = 1_800_000
    max_calls_per_day: Annotated[
        AtLeast1 | None,
        "How many requests to models are sent in 24 hours, for all conversations of the database together; beyond it "
        "summaries are written without a model. Empty for no limit.",
    ] = 2000
    large_file_summary_model: Annotated[
        str | None,
        "The model that tells what is in large prose, without its provider; when not set, no model is needed for it.",
    ] = None
    large_file_summary_provider: Annotated[
        str | None, "The provider of that model; neither of the two has an effect alone."
    ] = None

    expansion_model: Annotated[
        str | None,
        "The model that answers questions about old history: `provider/model`, or a name that "
        "`expansion_provider` completes.",
    ] = None
    expansion_provider: Annotated[str | None, "The provider of an `expansion_model` that does not name its own."] = None
    max_expand_tokens: Annotated[AtLeast1, "The most tokens of old history that one question may read."] = 4000
    delegation_timeout_ms: Annotated[AtLeast1, "How long one question may take, in milliseconds."] = 120_000
    semantic: Annotated[
        bool, "Whether vectors are computed in the background for `grep` in mode `semantic` (`lossless[semantic]`)."
    ] = False

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name, setting in catalogue().items():
            try:
                force_setattr(self, name, setting.accept(getattr(self, name)))
            except ValueError as error:
                problems += _told(name, error)
        if problems:
            raise ConfigError("\n".join(problems))

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        changed = (f"{name}={hidden(value)!r}" for name, value in values if value != catalogue()[name].default)
        return f"Settings({', '.join(changed)})"

    @property
    def database(self) -> str:
        """The path or address of the database, the platform's own place if none is set."""
        return self.database_path or str(default_database())

    @property
    def files_dir(self) -> Path:
        """Where large content is kept: as set, else beside the database."""
        if self.large_files_dir:
            return Path(self.large_files_dir)
        if not is_file(self.database):
            return data_dir() / "lcm-files"
        path = Path(self.database)
        return path.with_name(f"{path.stem}-files")

    def provider(self, name: str) -> Provider | None:
        """Return the table of a provider, if there is one."""
        return next((each for each in self.providers if each.name == name), None)

    @property
    def bootstrap_budget(self) -> int:
        """How many tokens of an earlier history a new conversation begins with."""
        return self.bootstrap_max_tokens or max(6000, int(0.3 * self.leaf_chunk_tokens))

    @property
    def least_condensation_tokens(self) -> int:
        """How many tokens of summaries may go into a condensed one, however small the chunk for leaves is.

        Enough for each fan-out that is set, and for two summaries.
        """
        return max(min(self._fanout_tokens, _USUAL_CHUNK), 2 * self.condensed_target_tokens)

    @property
    def _fanout_tokens(self) -> int:
        """How many tokens the summaries come to that a fan-out waits for. A leaf is about a third of its chunk at most."""
        leaf = min(self.leaf_target_tokens, self.leaf_chunk_tokens * 35 // 100)
        return max(self.leaf_min_fanout * leaf, self.condensed_min_fanout * self.condensed_target_tokens)

    @property
    def zone(self) -> tzinfo:
        """The zone in which times are shown."""
        return _zone(self.timezone) if self.timezone else _SYSTEM_ZONE


Check: TypeAlias = Callable[[Settings], Iterable[tuple[str, str]]]
"""Tells the names of settings that do not serve, and why."""


def adapted(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that cannot work beside others as they are, and what is done instead."""
    chunk, condensed = settings.leaf_chunk_tokens, settings.condensed_target_tokens
    least = settings.least_condensation_tokens
    if chunk < min(settings._fanout_tokens, least):
        yield (
            "leaf_chunk_tokens",
            f"{chunk:,} tokens hold too few summaries for the fan-outs and targets that are set; a condensed summary is"
            f" made from up to {least:,} tokens.",
        )
    fanouts = {name: getattr(settings, name) for name in ("leaf_min_fanout", "condensed_min_fanout")}
    name, fanout = min(fanouts.items(), key=lambda each: each[1])
    if settings.condensed_min_fanout_hard > fanout:
        hard = settings.condensed_min_fanout_hard
        yield "condensed_min_fanout_hard", f"{hard} is more than {name} ({fanout}); {fanout} is used."
    budget = settings.max_assembly_token_budget
    if budget is None:
        return
    threshold = int(settings.context_threshold * budget)
    within = f"within max_assembly_token_budget ({budget:,})"
    if 4 * condensed > threshold:
        yield (
            "condensed_target_tokens",
            f"summaries of {condensed:,} tokens leave no room for each other {within}; shorter ones are asked for.",
        )
    tail = settings.fresh_tail_max_tokens
    if tail is not None and tail > threshold:
        yield (
            "fresh_tail_max_tokens",
            f"a fresh tail of {tail:,} tokens is over context_threshold {within}; assembly shows less of it.",
        )
    if settings.large_file_token_threshold > threshold:
        yield (
            "large_file_token_threshold",
            f"content of {settings.large_file_token_threshold:,} tokens does not fit {within}; set it lower.",
        )


class Setting(Struct, frozen=True):
    """One setting, as it is explained to a person."""

    name: str
    environment: str
    default: object
    meaning: str
    schema: inspect.Type

    @property
    def type(self) -> str:
        if self.name in _PATHS:
            return "path"
        if self.name == "context_threshold_overrides":
            return "list of rules"
        if self.name == "providers":
            return "tables"
        names = {BoolType: "true or false", IntType: "whole number", FloatType: "number", LiteralType: "choice"}
        return (names | {VarTupleType: "list"}).get(type(_base(self.schema)), "text")

    @property
    def range(self) -> str:
        return _range(_base(self.schema))

    def accept(self, value: object, *, base: str = "") -> Any:
        """The value as `Settings` keeps it, a relative path taken from `base`; a ValueError tells why it is none."""
        if self.name == "providers":
            return providers.read(value, _accept)
        value = _accept(self.schema, _listed(value) if self.name == "redact" else value)
        if isinstance(value, str) and self.name in _PATHS and is_file(value):
            return os.path.join(base, os.path.expanduser(value))
        if isinstance(value, str) and self.name == "timezone":
            _zone(value)
        return value

    def read(self, text: str) -> object:
        """What a person wrote for it: TOML if that is a value of it, otherwise what the text would be in a variable."""
        import tomllib

        try:
            (value,) = tomllib.loads(f"value = {text}").values()
            self.accept(value)
        except (ValueError, RecursionError):
            return _from_text(_base(self.schema), text.strip())
        return value


class Source(Struct, frozen=True):
    """Where the value of a setting came from, and what was written there (a password hidden)."""

    kind: Literal["default", "file", "plugin", "environment", "argument"]
    where: str
    raw: object


class Loaded(Struct, frozen=True):
    """Settings, the source of each, and what was found but has no effect."""

    settings: Settings
    sources: Mapping[str, Source]
    warnings: tuple[str, ...]
    problems: tuple[str, ...] = ()
    adapted: tuple[str, ...] = ()
    """Settings that cannot work beside others as they are, and what is done instead."""


@cache
def catalogue() -> Mapping[str, Setting]:
    """Every setting by its name, in the order of their declaration."""
    declared = inspect.type_info(Settings)
    assert isinstance(declared, inspect.StructType)
    hints = get_type_hints(Settings, include_extras=True)
    return {
        f.name: Setting(f.name, f"LCM_{f.name.upper()}", f.default, hints[f.name].__metadata__[-1], f.type)
        for f in declared.fields
    }


def setting(name: str) -> Setting:
    """The setting of that name, in any way to write it; that of its variable is one."""
    plain = name.removeprefix("LCM_").lower() if name.startswith("LCM_") else name
    known = _spellings().get(plain)
    if known is None:
        meant = _spellings().get(_nearest(plain.lower(), _spellings()), "")
        hint = _did_you_mean(meant).strip() or "`lcm config show --all` lists them."
        raise SettingNotFound("setting", _printable(redact_url(name)), hint=hint)
    return catalogue()[known]


def spellings(name: str) -> set[str]:
    """Every way to write the name of a setting in `lcm.toml`."""
    return {written for written, known in _spellings().items() if known == name}


def load(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """The settings in force; `resolve` tells where each came from as well."""
    found = resolve(arguments, plugin=plugin, plugin_name=plugin_name, environment=environment, file=file)
    return found.settings


def resolve(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Read every source. Whatever is wrong in any of them is told in one `ConfigError`, a line each.

    An argument that is None counts as not given. `plugin` is a host plugin's configuration, and `plugin_name` how it is
    called where a value came from. `file` is read in place of `config_path()`.
    """
    loaded = look(arguments, plugin=plugin, plugin_name=plugin_name, environment=environment, file=file)
    if loaded.problems:
        raise ConfigError("\n".join(loaded.problems))
    return loaded


def look(
    arguments: Mapping[str, object] | None = None,
    *,
    plugin: Mapping[str, object] | None = None,
    plugin_name: str = "plugin",
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    check: Check | None = None,
) -> Loaded:
    """The same, mistakes and all: they are `problems`, and what is mistaken does not count.

    `check` tells what only shows once a setting is used; that is a problem too, though it counts.
    """
    environment = os.environ if environment is None else environment
    found = _Found()
    found.in_file(file, environment)
    found.in_table("plugin", plugin_name, plugin or {})
    found.in_environment(environment)
    found.in_table("argument", "arguments", arguments or {})
    found.in_pairs()
    defaults = {name: Source("default", "default", setting.default) for name, setting in catalogue().items()}
    settings = Settings(**found.values)
    found.checked(settings, check)
    notes = (tuple(found.warnings), tuple(found.problems), tuple(found.adapted))
    return Loaded(settings, defaults | found.sources, *notes)


def mistakes(path: Path, table: Mapping[str, object], check: Check | None = None) -> list[str]:
    """What is wrong with a table that stands, or is to stand, in that `lcm.toml`, the variables being what they are."""
    found = _Found()
    found.in_environment(os.environ)
    found.in_table("file", _printable(path.name), table, base=str(path.parent))
    found.checked(Settings(**found.values), check)
    return found.problems


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """The `lcm.toml` to read: the one `LCM_CONFIG` names, else the one in the platform's configuration directory."""
    named = (os.environ if environment is None else environment).get("LCM_CONFIG", "").strip()
    if named:
        return Path(os.path.expanduser(named))
    import platformdirs

    return platformdirs.user_config_path("lossless", appauthor=False) / "lcm.toml"


def data_dir() -> Path:
    """The platform's data directory of lossless."""
    import platformdirs

    return platformdirs.user_data_path("lossless", appauthor=False)


def default_database() -> Path:
    """The database used when none is named."""
    return data_dir() / "lcm.db"


def make_directory(path: Path) -> None:
    """Create a directory and the missing ones above it for their owner only, at any umask; others stay as they are."""
    missing: list[Path] = []
    for each in (path, *path.parents):
        if each.is_dir():
            break
        missing.append(each)
    for each in reversed(missing):
        try:
            each.mkdir(mode=0o700)
        except FileExistsError:
            if not each.is_dir():
                raise
        else:
            each.chmod(0o700)


def private(path: str, flags: int) -> int:
    """Open a file as `open(..., opener=private)` does: one that is created is for its owner only."""
    return os.open(path, flags, 0o600)


def redact_url(url: str) -> str:
    """The address with its passwords replaced by `***`; in doubt it hides too much."""
    if _CONNINFO.match(url):
        return _CONNINFO_SECRET.sub(r"\1***", url)
    scheme, _, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if colon:
        url = f"{scheme}://{user}:***@{host}"
    elif not at and scheme.startswith("postgres"):  # without a host, what should be a port may be a password
        url = _NO_PORT.sub(r"\1***", url)
    elif at and scheme.startswith("http"):  # such an address has a token there, and no name
        url = f"{scheme}://***@{host}"
    return _SECRET.sub(r"\1***", _QUERY.sub(_without_secret, url) if is_server(url) else url)


def _without_secret(pair: re.Match[str]) -> str:
    """A parameter of an address; its name may be encoded."""
    return f"{pair[1]}***" if _SECRET_NAME.search(unquote(pair[1])) else pair[0]


_QUERY = re.compile(r"([?&][^=&]*=)[^&]*")
_SECRET_NAME = re.compile(r"(?i)password|secret|token|_key")
_NO_PORT = re.compile(r"(://[^/?\[\]:]*:)(?!\d*(?:[/?,]|\Z))[^?]*")
_CONNINFO = re.compile(
    r"\s*(?:application_name|client_encoding|connect_timeout|dbname|fallback_application_name|gssencmode|host|hostaddr"
    r"|keepalives\w*|krbsrvname|load_balance_hosts|oauth_\w+|options|passfile|password|port|require\w*|scram_\w+|service"
    r"|servicefile|ssl\w*|target_session_attrs|tcp_user_timeout|user)\s*="
)
"""How an address of PostgreSQL begins that is written as `host=... dbname=...`."""
_CONNINFO_SECRET = re.compile(
    r"(?is)(\w*(?:password|secret|_key|token)\s*=\s*)(?:'(?:\\.|[^'\\])*'(?=\s|\Z)|.*?(?=\s+[a-z_]+\s*=|\Z))"
)
_SECRET = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|(?<=[?&])(?:key|sig|signature|auth))\s*=\s*"
    r"|--?(?:password|token|secret|api[_-]?key|key)\s+|\bbearer\s+)(?:'(?:\\.|[^'\\])*'?|[^&\s]+)"
)
_PATHS = ("database_path", "large_files_dir", "prompt_dir")
_ALIASES = {"db_path": "database_path", "large_file_threshold_tokens": "large_file_token_threshold"}
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
# Read by the command, by tests, or before there are settings.
_NO_SETTINGS = re.compile(r"LCM_(?:CONFIG|OUTPUT|TRACEBACK|TEST_.*)")
_NOT_TEXT = re.compile(r"[\0\ud800-\udfff]")
_LARGEST = 2**31 - 1
_USUAL_CHUNK = 20_000
"""No adapted request for a summary is larger than the default one."""

# What other implementations of LCM know and this one does not: whoever moves over from there is told, not stopped.
_ELSEWHERE = re.compile(
    "auto_rotate_session_files|autocompact_disabled|cache_aware_compaction|cache_ttl_seconds|cold_cache_observation|"
    "critical_budget_pressure|dynamic_leaf_chunk_tokens|enable_summary_thinking|"
    "host_fallback_mode|hot_cache_|independent_log_file|log_file|log_max_file_bytes|"
    "max_cold_cache_catchup_passes|prompt_aware_eviction|replay_flood_threshold_|"
    "stub_large_tool_payloads|summary_prefix_target_tokens|"
    "transcript_gc_enabled"
)


class _Found(Struct):
    """What the sources said so far, the later on top of the earlier."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    adapted: list[str] = field(default_factory=list)

    def in_file(self, file: Path | None, environment: Mapping[str, str]) -> None:
        named = environment.get("LCM_CONFIG", "").strip() if file is None else str(file)
        origin = "LCM_CONFIG: " if file is None else ""
        if _NOT_TEXT.search(named):
            self.problems.append(f"{origin}{_shown(named)} is not a path.")
            return
        path = config_path(environment) if file is None else Path(file)
        # Some platformdirs follow a relative XDG_CONFIG_HOME, which would be the working directory after all.
        if not (named or path.is_absolute()):
            return
        try:
            self.in_table("file", _printable(path.name), _read(path), base=str(path.parent))
        except (FileNotFoundError, NotADirectoryError):
            if named:
                self.problems.append(f"{origin}{_printable(str(path))} does not exist.")
        except ConfigError as error:
            self.problems.append(error.message)

    def in_environment(self, environment: Mapping[str, str]) -> None:
        zone = environment.get("TZ", "").strip().removeprefix(":")
        # A rule such as UTC0, or the path of a file, is no IANA name, but the system's own zone follows it already.
        if zone and "LCM_TIMEZONE" not in environment and not re.match(r"/|(?:<[^>]+>|[A-Za-z]{3,})[+-]?\d", zone):
            self.put("timezone", zone, "TZ", Source("environment", "TZ", zone))
        for variable, text in sorted(environment.items()):
            name = variable.removeprefix("LCM_").lower()
            setting = catalogue().get(name)
            if setting and setting.environment == variable:
                value = _from_text(_base(setting.schema), text.strip())
                self.put(name, value, variable, Source("environment", variable, hidden(text)))
            elif variable.startswith("LCM_") and not _NO_SETTINGS.fullmatch(variable):
                self.unknown("environment", variable, name)

    def in_table(
        self, kind: Literal["file", "plugin", "argument"], where: str, table: Mapping[str, object], *, base: str = ""
    ) -> None:
        written_as: dict[str, str] = {}
        for written, value in table.items():
            name = _spellings().get(written)
            if value is None:
                continue
            if name is None:
                self.unknown(where, written, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", written).lower())
            elif name in written_as:
                self.problems.append(f"{where}: {written_as[name]} and {written} are one setting. Keep one of them.")
            else:
                written_as[name] = written
                self.put(name, value, f"{where}: {written}", Source(kind, where, hidden(value)), base)

    def put(self, name: str, value: object, label: str, source: Source, base: str = "") -> None:
        try:
            self.values[name] = catalogue()[name].accept(value, base=base)
            self.sources[name], self.labels[name] = source, label
        except ValueError as error:
            self.problems += _told(label, error)

    def in_pairs(self) -> None:
        pair = ("large_file_summary_model", "large_file_summary_provider")
        for name, other in (pair, pair[::-1]):
            if self.values.get(name) and not self.values.get(other):
                self.warnings.append(f"{self.sources[name].where}: {name} has no effect without {other}.")
        for name, why in adapted(Settings(**self.values)):
            self.adapted.append(f"{self.labels.get(name, name)}: {why}")

    def checked(self, settings: Settings, check: Check | None) -> None:
        self.problems += [f"{self.labels.get(name, name)}: {why}" for name, why in (check(settings) if check else ())]

    def unknown(self, where: str, written: str, name: str) -> None:
        label = f"{where}: {_printable(written)}"
        if _ELSEWHERE.match(name):
            self.warnings.append(f"{label} is known from other versions of LCM and has no effect here.")
        else:
            meant = _spellings().get(_nearest(name, _spellings()), "")
            if meant and where == "environment":
                meant = catalogue()[meant].environment
            self.problems.append(f"{label} is not a setting.{_did_you_mean(meant)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return parsed(path, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise ConfigError(f"{_printable(str(path))} cannot be read: {error.strerror}.") from error


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """The table in the bytes of that `lcm.toml`; a `ConfigError` tells the line that is no TOML."""
    import tomllib

    where = _printable(str(path))
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 text (see byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = line[1] if line else text.count("\n") + 1
        raise ConfigError(f"{_printable(path.name)}, line {number}: {_printable(reason)}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} cannot be read: a name or number is too long, or it is nested too deep.") from error


@cache
def _spellings() -> Mapping[str, str]:
    """Every way to write the name of a setting, the camelCase of older tools included, and the name it stands for."""
    snake = {name: name for name in catalogue()} | _ALIASES
    return {re.sub(r"_(\w)", lambda m: m[1].upper(), written): name for written, name in snake.items()} | snake


def _base(schema: inspect.Type) -> inspect.Type:
    """The type beneath its title and its `| None`."""
    while isinstance(schema, Metadata | UnionType):
        schema = schema.type if isinstance(schema, Metadata) else schema.types[0]
    return schema


def _range(schema: inspect.Type) -> str:
    match schema:
        case LiteralType(values=values):
            return ", ".join(map(str, values))
        case IntType() | FloatType():
            bounds = (("more than", schema.gt), ("at least", schema.ge), ("at most", schema.le))
            return ", ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)
        case _:
            return ""


def _from_text(schema: inspect.Type, text: str) -> object:
    """What the text of a variable stands for; what cannot be read stays text, which `_accept` then refuses."""
    match schema:
        case BoolType():
            return _WORDS.get(text.lower(), text)
        case IntType() | FloatType():
            try:
                return int(text) if isinstance(schema, IntType) else float(text)
            except ValueError:
                return text
        case VarTupleType(item_type=inspect.StructType()) if text:
            try:
                return json.decode(text)
            except (ValueError, RecursionError):
                return text
        case VarTupleType():
            return [item for item in map(str.strip, text.split(",")) if item]
        case _:
            return text


def _accept(schema: inspect.Type, value: object, noun: str = "a text") -> object:
    """The value in the type of the schema. Nothing is guessed: a text is no number, a number no truth."""
    if isinstance(value, str | PurePath):
        value = str(value).strip()
    match schema:
        case Metadata(type=inner, extra_json_schema=extra):
            return _accept(inner, value, (extra or {}).get("title", noun))
        case UnionType(types=(inner, *_)):
            return None if value is None or (isinstance(value, str) and not value) else _accept(inner, value, noun)
        case BoolType():
            if isinstance(value, bool):
                return value
            noun = "true or false"
        case IntType():
            if isinstance(value, int) and not isinstance(value, bool):
                return _in_range(schema, value)
            noun = "a whole number"
        case FloatType():
            if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
                return float(_in_range(schema, value))
            noun = "a number"
        case LiteralType(values=values):
            if value in values:
                return value
            noun = f"one of {_range(schema)}"
        case VarTupleType(item_type=inspect.StructType()):
            if isinstance(value, list | tuple):
                return rules.read(value, _accept)
            noun = "a list of rules (in a variable, a JSON array)"
        case VarTupleType(item_type=item):
            if isinstance(value, list | tuple):
                return tuple(_accept(item, entry) for entry in value)
            noun = "a list"
        case StrType(pattern=pattern, min_length=least) if isinstance(value, str) and len(value) >= (least or 0):
            if re.search(pattern or "", value) and not _NOT_TEXT.search(value):
                return value
    raise ValueError(f"{_shown(value)} is not {noun}.")


def _listed(value: object) -> object:
    """A word in the place of a list, or in it: `on` and whatever means it is kept as `on`, `off` is nothing."""
    given = value if isinstance(value, list | tuple) else [value]
    words = [_WORDS.get(each.strip().lower(), each) if isinstance(each, str) else each for each in given]
    return ["on" if each is True else each for each in words if each is not False]


def _in_range(schema: IntType | FloatType, value: float) -> float:
    if value > _LARGEST:
        raise ValueError(f"{_shown(value)} is too large (at most {_LARGEST}).")
    enough = (schema.gt is None or value > schema.gt) and (schema.ge is None or value >= schema.ge)
    if not enough or (schema.le is not None and value > schema.le):
        raise ValueError(f"{_shown(value)} is out of range ({_range(schema)}).")
    return value


def _told(label: str, error: ValueError) -> list[str]:
    if isinstance(error, rules.Misread):
        return [f"{label}{_printable(place)}{why}" for place, why in error.mistakes]
    return [f"{label}: {error}"]


def _zone(name: str) -> tzinfo:
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, OSError, ValueError) as error:
        meant = _did_you_mean(_nearest(name, zoneinfo.available_timezones()))
        raise ValueError(f"{_shown(name)} is not a time zone.{meant}") from error


class _SystemZone(tzinfo):
    """The machine's own zone, its daylight saving included, which the standard library has no object for."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def tzname(self, when: datetime | None) -> str | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def fromutc(self, when: datetime) -> datetime:
        local = when.replace(tzinfo=UTC).astimezone()
        here = local.replace(tzinfo=self)
        # Of the hour that clocks go through twice, fold marks the second time.
        return here if here.utcoffset() == local.utcoffset() else here.replace(fold=1)


_SYSTEM_ZONE = _SystemZone()


def is_file(database: str) -> bool:
    """Whether a database is a file, and not a server or memory."""
    return database != ":memory:" and not is_server(database)


def is_server(database: str) -> bool:
    """Whether a database is on a server of PostgreSQL: a URL, or `host=... dbname=...`."""
    return database.startswith(("postgres://", "postgresql://")) or _CONNINFO.match(database) is not None


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(name[:80], known, 1, 0.75)), "")


def _did_you_mean(name: str) -> str:
    return f" Did you mean {name}?" if name else ""


def hidden(value: object) -> object:
    """A value as it may be shown: without the passwords in it."""
    match value:
        case str():
            return redact_url(value)
        case list() | tuple():
            return type(value)(map(hidden, value))
        case dict():
            # A header may well hold a key.
            return {
                name: dict.fromkeys(each, "***") if _is_headers(name, each) else hidden(each)
                for name, each in value.items()
            }
        case Provider():
            command = None if value.api_key_cmd is None else redact_url(value.api_key_cmd)
            return replace(value, headers=dict.fromkeys(value.headers, "***"), api_key_cmd=command)
        case _:
            return value


def _is_headers(name: object, value: object) -> bool:
    return name == "headers" and isinstance(value, dict)


def _shown(value: object) -> str:
    """A value as an error may quote it: short, printable, and without its password."""
    match value:
        case str():
            return f'"{_printable(redact_url(value))}"'
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > 200:
            return "this number"
        case int() | float() | None:
            return str(value)
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def _printable(text: str) -> str:
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
