"""`lcm config`: show settings and their sources, explain and change one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from lossless import config as settings
from lossless.cli.options import Group, Plain, named_database
from lossless.cli.output import answer, print_note
from lossless.cli.tables import Line, Styled, table
from lossless.config import Loaded, Setting, Settings
from lossless.config import edit_file as settings_file
from lossless.config.edit_file import Change

_BROKEN = 4


class _Config(Group):
    command_class = Plain


@click.group(
    cls=_Config,
    default="show",
    examples=("lcm config", "lcm config set summary_model anthropic/claude-haiku-4-5"),
)
def config() -> None:
    """Show settings and their sources, explain and change one.

    Each source overrides those before it: defaults, lcm.toml, the configuration of a host plugin, LCM_ variables,
    options of a command. The configuration that a host plugin passes to its own process is not visible here. Passwords
    in URLs are never shown.
    """


def _names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = settings.catalogue().values()
    return [CompletionItem(each.name, help=each.meaning) for each in found if each.name.startswith(incomplete)]


def _values(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = settings.catalogue().get(ctx.params.get("name") or "")
    choices = {"choice": known.range.split(", "), "true or false": ["true", "false"]} if known else {}
    return [
        CompletionItem(each) for each in choices.get(known.type if known else "", []) if each.startswith(incomplete)
    ]


_name = click.argument("name", shell_complete=_names)


@config.command(examples=("lcm config show", "lcm config show --all"))
@click.option("--all", "whole", is_flag=True, help="Include settings with their default value.")
def show(whole: bool) -> None:
    """List the settings that differ from the default, with their source.

    Problems follow, also those that only appear in use: a pattern, a model, prompts. Exits with 4 if there are any.
    """
    loaded = _loaded()
    path = settings.config_path()
    shown = [name for name, source in loaded.sources.items() if whole or source.kind != "default"]
    data = {
        "path": str(path),
        "exists": path.exists(),
        "settings": {name: _value(name, loaded) for name in shown},
        "environment": [each.where for each in loaded.sources.values() if each.kind == "environment"],
        "warnings": (*loaded.warnings, *loaded.adapted),
        "problems": loaded.problems,
    }
    answer(data, _overview(loaded, shown), ok=not loaded.problems)
    sys.exit(_BROKEN if loaded.problems else 0)


@config.command(examples=("lcm config get fresh_tail_count", "lcm config get freshTailCount --json"))
@_name
def get(name: str) -> None:
    """Print the value of the setting NAME.

    NAME may also be that of its variable, or in camelCase.
    """
    setting, loaded = settings.find_setting(name), _loaded()
    data = {"name": setting.name, **_value(setting.name, loaded)}
    _remark(loaded.problems)
    answer(data, [_shown(data["effective"])])


@config.command(examples=("lcm config explain summary_model", "lcm config explain fresh_tail_count --json"))
@_name
def explain(name: str) -> None:
    """Explain the setting NAME: its meaning, values and source, and the way to change it."""
    setting, loaded = settings.find_setting(name), _loaded()
    value = _value(setting.name, loaded)
    data = {
        "name": setting.name,
        "meaning": setting.meaning,
        "type": setting.type,
        "range": setting.range,
        "default": setting.default,
        "variable": setting.environment,
        "line": f"{setting.name} = {_example(setting, value['effective'])}",
        **value,
    }
    if setting.name in _MODELS:
        data["credentials"] = list(_credentials(setting.name, loaded.settings))
    _remark(loaded.problems)
    answer(data, _explanation(setting, data))


_MODELS = ("summary_model", "fallback_providers", "expansion_model", "large_file_summary_model", "providers")


def _credentials(name: str, given: Settings) -> Iterator[dict[str, str]]:
    """Yield the source and the address of the key of each model, never the key."""
    from lossless.client.settings_check import credentials

    for setting, model, source, address in credentials(given):
        if name in (setting, "providers"):
            yield {"model": model, "key": source, "address": address}


class _Set(Plain):
    """A command with a VALUE that may be a negative number, which looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args:
            negative = [each for each in args if re.fullmatch(r"-\.?\d[\d_.eE+-]*", each)]
            args = [each for each in args if each not in negative] + (["--", *negative] if negative else [])
        return super().parse_args(ctx, args)


@config.command(
    "set",
    cls=_Set,
    examples=("lcm config set fresh_tail_count 32", "lcm config set --unset fresh_tail_count"),
)
@_name
@click.argument("value", required=False, shell_complete=_values)
@click.option("--unset", "is_unset", is_flag=True, help="Remove NAME from lcm.toml.")
def set_(name: str, value: str | None, is_unset: bool) -> None:
    """Set NAME to VALUE in lcm.toml.

    VALUE is TOML, JSON, or the text of the variable: 0.6, true, anthropic/claude-haiku-4-5, '["a", "b"]'. A relative
    path starts at the directory of lcm.toml.

    The value and the file are checked first, and the old file is kept as lcm.toml.backup-TIME. Comments and layout
    stay. This also repairs a broken configuration; --unset removes unknown names, too.
    """
    if is_unset == (value is not None):
        raise click.UsageError("Give a VALUE or --unset.")
    done = settings_file.unset(name, check=_wrong) if value is None else settings_file.put(name, value, check=_wrong)
    _remark(done.problems)
    if done.overridden_by:
        print_note(Styled(f"{done.overridden_by} is set and overrides lcm.toml.", "yellow"))
    answer(done, _done(done))


def _loaded() -> Loaded:
    return settings.collect({"database_path": named_database()}, check=_wrong)


def _wrong(given: Settings) -> Iterable[tuple[str, str]]:
    # Imported late: completion of a name needs no models and prompts.
    from lossless.client.settings_check import wrong

    return wrong(given)


def _value(name: str, loaded: Loaded) -> dict[str, Any]:
    source = loaded.sources[name]
    is_set = source.kind != "default"
    return {
        "is_set": is_set,
        "raw": source.raw if is_set else None,
        "effective": settings.hide_secrets(getattr(loaded.settings, name)),
        "source": source.kind,
        "where": source.where,
    }


def _remark(problems: Iterable[str]) -> None:
    for problem in problems:
        print_note(Styled(problem, "yellow"))


def _overview(loaded: Loaded, shown: list[str]) -> Iterator[Line]:
    path = settings.config_path()
    yield f"{path}{'' if path.exists() else ' (does not exist)'}"
    if shown:
        values = [(name, _value(name, loaded)) for name in shown]
        rows = [(name, value["where"], _shown(value["effective"])) for name, value in values]
        yield from table(("setting", "from", "value"), rows, wrap=True)
    else:
        yield "All settings have their default value. --all lists them."
    yield from (Styled(each, "yellow") for each in (*loaded.warnings, *loaded.adapted))
    yield from (Styled(each, "red") for each in loaded.problems)


def _shown(value: object) -> str:
    return "not set" if value is None else settings_file.toml(value)


def _example(setting: Setting, value: object) -> str:
    if value is not None:
        return settings_file.toml(value)
    return "1000" if setting.type == "whole number" else '"..."'


def _explanation(setting: Setting, data: dict[str, Any]) -> Iterator[Line]:
    yield Styled(setting.name, bold=True), f": {setting.meaning}"
    yield (
        f"  now      {_shown(data['effective'])}, from {data['where']}" if data["is_set"] else "  now      the default"
    )
    yield f"  default  {_shown(setting.default)}"
    yield f"  values   {setting.range if setting.type == 'choice' else ', '.join(filter(None, (setting.type, setting.range)))}"
    for each in data.get("credentials", ()):
        to = f", sent to {each['address']} only" if each["address"] else ""
        yield f"  key      {each['model']}: {each['key']}{to}"
    yield f"  set it   {data['line']}"
    yield f"           in {settings.config_path()}, or `lcm config set {setting.name} VALUE`"
    yield f"           {setting.environment} overrides the file, an argument overrides both"


def _done(done: Change) -> Iterator[Line]:
    if done.backup is None and done.old == done.new:
        yield f"{done.name} is {'not set' if done.new is None else 'unchanged'} in {done.path}."
        return
    yield f"{done.name}: {_shown(done.old)} -> {_shown(done.new)} in {done.path}"
    if done.backup:
        yield Styled(f"Old file: {done.backup}", dim=True)
