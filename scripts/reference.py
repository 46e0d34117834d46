"""Write the pages that follow from the program: `make reference`.

`docs/reference/cli.md` is written whole, from the commands and their help; of `docs/reference/configuration.md` the
rows of the tables, from `Settings`; of `docs/reference/doctor.md` the table of the checks; of the skill the tables of
settings, commands and tools. A test compares them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from lossless import config
from lossless.cli import cli
from lossless.cli.app import SECTIONS
from lossless.cli.options import common_options
from lossless.engine.doctor.checks import CHECKS
from lossless.tools.arguments import TOOLS, parameters

PAGES: Final = Path(__file__).parents[1] / "docs" / "reference"
SKILL: Final = Path(__file__).parents[1] / "skills" / "lossless" / "references"

_NUMBER: Final = re.compile(r"\b(?:INTEGER|FLOAT)(?: RANGE)?\b")

INTRO: Final = """\
# Commands

This page is written by `make reference` from the commands themselves: what it says is what `lcm COMMAND --help` says.

{contents}

## What all of them share

{shared}

They stand right behind `lcm`, or behind the command; commands that open no database have no `--db` of their own. `-h` or `--help` explains a
command, `lcm --version` tells the version. An option that a command does not have is an error; none is ignored.

**Which database.** `--db`, otherwise the setting `database_path`, otherwise `lcm.db` in the platform's data directory: see
[configuration](configuration.md). A command that only reads never makes, migrates or changes one.

**Which conversation.** Commands about one conversation take it as `CONVERSATION` or as `-c NAME`: its key, its number
(`12` or `#12`, also of an archived one), or the beginning of its key if no other key begins so. Without a name, a
command that reads takes the only conversation or the newest active one, and standard error says which; a command that
writes takes none of several.

**What is changed.** What changes old data, or takes it away, says what it would do; `--apply` does it.

### Text and JSON

The answer is text, on a terminal and in a pipe. `--json` or `LCM_OUTPUT=json` asks for JSON; `--text` goes before the
variable. Tables fit the width of the terminal, or 80 columns in a pipe. Control characters of stored text are printed
escaped (`\\x1b`), so that nothing in it can take over a terminal. There are no colors with `--no-color`, with the
variable `NO_COLOR`, with `TERM=dumb`, and where there is no terminal.

On a terminal, text that is longer than the screen goes through a pager: `LCM_PAGER`, otherwise `PAGER`, otherwise
`less`. `--no-pager` or `LCM_PAGER=cat` prints it at once.

Notes and progress go to standard error. In JSON, notes are in `meta.notes`, so that standard error is empty or one error.

An answer, on standard output:

```json
{{"ok": true, "command": "messages.list", "data": {{}}, "pagination": {{}}, "meta": {{"database_path": "...", "config_path": null}}}}
```

`data` is an object in every answer, a list has a name in it (`{{"messages": [...]}}`), and all names are in snake_case.
`ok` is false when the command did what it was asked and the outcome is bad, as with faults that `lcm doctor` finds. An error, on standard error:

```json
{{"ok": false, "error": {{"code": "CONVERSATION_NOT_FOUND", "message": "There is no conversation x.", "hint": ""}}}}
```

### Long lists

Lists of conversations, messages, summaries and files, and what `lcm grep` finds, have `--limit` and come with `"pagination": {{"limit", "returned", "has_more", "next_cursor"}}`; `--cursor` with that `next_cursor`
goes on behind the last entry, and neither repeats nor leaves out one when more is stored meanwhile. A cursor belongs to the list it came from.

### Exit codes

| code | means | codes of the error |
|---|---|---|
| 0 | it worked | |
| 1 | nothing was found, a part could not be done, or something failed that is no mistake of yours: the command's own help says which | `INTERNAL_ERROR`, `OS_ERROR` and those of [models and grants](errors.md) |
| 2 | the command line | `INVALID_COMMAND`, `INVALID_ARGUMENT`, `INVALID_INPUT`, `INVALID_CURSOR`, `INVALID_TIME_FILTER` |
| 3 | something is not there | `DATABASE_NOT_FOUND`, `CONVERSATION_NOT_FOUND`, `MESSAGE_NOT_FOUND`, `SUMMARY_NOT_FOUND`, `FILE_NOT_FOUND`, `CONFIG_KEY_NOT_FOUND`, `NOT_FOUND` |
| 4 | the configuration | `CONFIG_...` |
| 5 | the database | `STORE_...`, `NOT_OUR_DATABASE`, `SCHEMA_TOO_NEW` |
| 6 | `lcm doctor`, `lcm status --fail-on` or `lcm backup --prove` found something wrong | |
| 130 | interrupted by Ctrl-C; what was written stays, and nothing is half written | `INTERRUPTED` |
| 141 | the reader of the output closed it | |

The [page of errors](errors.md) has every code. `LCM_TRACEBACK=1` shows where an `INTERNAL_ERROR` happened.
"""


def cli_page() -> str:
    """The reference of the commands."""
    root = click.Context(cli, info_name="lcm")
    contents = " · ".join(f"[{section}](#{section.lower()})" for section in SECTIONS)
    parts = [INTRO.format(contents=contents, shared=_options(common_options(), root))]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            parts += _command(cli, name, root, "###")
    return "\n".join(parts)


def _command(group: click.Group, name: str, parent: click.Context, level: str) -> Iterator[str]:
    command = group.get_command(parent, name)
    assert command is not None, name
    ctx = click.Context(command, parent=parent, info_name=name)
    yield f"{level} {ctx.command_path}\n"
    if not isinstance(command, click.Group):
        yield f"```\n{' '.join([ctx.command_path, *command.collect_usage_pieces(ctx)])}\n```\n"
    yield f"{_prose(command.help or '')}\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(ctx):
            yield from _command(command, inner, ctx, f"{level}#")
    elif own := _options(_own(command), ctx):
        yield f"{own}\n"


def _own(command: click.Command) -> list[click.Parameter]:
    """The options that not every command has."""
    everywhere = [each.to_info_dict() for each in common_options()]
    return [each for each in command.params if each.to_info_dict() not in everywhere]


def _options(options: list[click.Parameter], ctx: click.Context) -> str:
    records = [record for each in options if isinstance(each, click.Option) and (record := each.get_help_record(ctx))]
    rows = [f"| `{_NUMBER.sub('N', _cell(names))}` | {_cell(help)} |" for names, help in records]
    return "\n".join(["| option | |", "|---|---|", *rows]) if rows else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _prose(help: str) -> str:
    """The help of a command; what its author laid out line by line stays so."""
    paragraphs = inspect.cleandoc(help).split("\f")[0].strip().split("\n\n")
    return "\n\n".join(f"```\n{each[2:]}\n```" if each.startswith("\b\n") else each for each in paragraphs)


def configuration_page(page: str) -> str:
    """The page of the settings, with the row of each as the setting is."""
    row = re.compile(r"^\| `(\w+)`<br>`LCM_\w+` \|.*$", re.M)
    return row.sub(lambda found: setting_row(config.find_setting(found[1])), page)


def setting_row(setting: config.Setting) -> str:
    values = ", ".join(filter(None, (setting.type, setting.range)))
    if setting.type == "choice":
        values = ", ".join(f"`{choice}`" for choice in setting.range.split(", "))
    default = "*not set*" if setting.default is None else f"`{json.dumps(setting.default)}`"
    return f"| `{setting.name}`<br>`{setting.environment}` | {values} | {default} | {setting.meaning} |"


def doctor_page(page: str) -> str:
    """Return the page of the doctor with its table of checks rewritten from the registry."""
    rows = "\n".join(f"| {each.id} | {each.severity} | {each.title} | {each.fix} |" for each in CHECKS.values())
    return re.sub(r"(?:^\| [A-Z]\d\d \|.*$\n?)+", rows.replace("\\", r"\\") + "\n", page, count=1, flags=re.M)


def skill_page(page: str) -> str:
    """Return a page of the skill with its tables rewritten from the program."""
    tables = {"settings": _settings_table, "commands": _commands_table, "tools": _tools_table}
    return re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda found: "\n".join([f"<!-- {found[1]} -->", *tables[found[1]](), "<!-- end -->"]),
        page,
        flags=re.S,
    )


def _settings_table() -> Iterator[str]:
    yield from ("| setting | default | meaning |", "|---|---|---|")
    for setting in config.catalogue().values():
        default = "*not set*" if setting.default is None else f"`{json.dumps(setting.default)}`"
        yield f"| `{setting.name}` | {default} | {_cell(setting.meaning)} |"


def _commands_table() -> Iterator[str]:
    yield from ("| command | does |", "|---|---|")
    for names in SECTIONS.values():
        yield from (f"| `lcm {name}` | {about} |" for name, (_, about) in names.items())


def _tools_table() -> Iterator[str]:
    yield from ("| tool | argument | meaning |", "|---|---|---|")
    for tool, kind in TOOLS.items():
        taken = parameters(kind)
        for name, about in taken["properties"].items():
            needed = " (required)" if name in taken.get("required", ()) else ""
            yield f"| `{tool}` | `{name}`{needed} | {_cell(about['description'])} |"


def main() -> None:
    """Write the pages."""
    for path in sorted(SKILL.glob("*.md")):
        path.write_text(skill_page(path.read_text("utf-8")), "utf-8")
    (PAGES / "cli.md").write_text(cli_page(), "utf-8")
    configuration = PAGES / "configuration.md"
    configuration.write_text(configuration_page(configuration.read_text("utf-8")), "utf-8")
    doctor = PAGES / "doctor.md"
    doctor.write_text(doctor_page(doctor.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
