"""Write the manifest of the OpenClaw plugin and the schemas of its tools, from the settings and the tools themselves.

Usage: python scripts/openclaw_manifest.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from lossless import __version__
from lossless.config import Settings
from lossless.config.settings import all_spellings, catalogue
from lossless.tools.arguments import READING, schema

PLUGIN = Path(__file__).resolve().parents[1] / "integrations" / "openclaw"

COMMAND = {
    "description": "The program that runs lossless, with its arguments. `lcm install openclaw` writes it. Default: lcm.",
    "type": "array",
    "items": {"type": "string"},
}


def camel(name: str) -> str:
    """Return the spelling of a setting in a plugin's configuration."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def properties() -> dict[str, Any]:
    """Return the schema of each setting, by its name in camelCase, with the older names after them."""
    declared = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    found = {"command": COMMAND}
    for name, setting in catalogue().items():
        found[camel(name)] = {"description": _plain(setting.meaning), **_type(name, declared[name])}
    for written, name in all_spellings().items():
        if "_" not in written and written not in found and camel(name) != written:
            found[written] = {"description": f"Older name of {camel(name)}.", **_type(name, declared[name])}
    return found


def _type(name: str, declared: dict[str, Any]) -> dict[str, Any]:
    """Return the type of a setting. Python checks the rest and names what is wrong."""
    if name == "providers":
        return {"type": "object", "additionalProperties": {"type": "object"}}
    choices = [each for each in declared.get("anyOf", [declared]) if each.get("type") != "null"]
    (kept,) = ({key: value for key, value in each.items() if key not in ("title", "pattern")} for each in choices)
    if kept.get("type") == "array":
        is_table = name == "context_threshold_overrides"
        kept["items"] = {"type": "object"} if is_table else {"type": "string"}
    elif "enum" in kept:
        kept["type"] = "string"
    kept.pop("default", None)
    if declared.get("default") not in (None, "", (), []):
        default = declared["default"]
        kept["default"] = list(default) if isinstance(default, tuple) else default
    return kept


def _plain(meaning: str) -> str:
    return meaning.replace("`", "")


def _label(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower().capitalize()


def _written(default: object) -> str:
    return ", ".join(default) if isinstance(default, list) else json.dumps(default).strip('"')


def manifest() -> dict[str, Any]:
    """Return the manifest."""
    found = properties()
    # The host keeps the default of a field that is empty; ours is in Python, and the environment may change it.
    fields = {name: {key: value for key, value in each.items() if key != "default"} for name, each in found.items()}
    hints = {
        name: {
            "label": _label(name),
            "help": each["description"],
            **({"placeholder": _written(each["default"])} if "default" in each else {}),
            **({"advanced": True} if name not in _FIRST else {}),
        }
        for name, each in found.items()
    }
    return {
        "id": "lossless",
        "name": "Lossless",
        "description": "Memory that loses nothing: a context engine, recall tools and /lcm.",
        "version": __version__,
        "kind": "context-engine",
        "activation": {"onStartup": True},
        "contracts": {"tools": list(READING)},
        "skills": ["./skills"],
        "uiHints": hints,
        # Not closed: Python names a wrong key with the nearest right one, and keys of other versions are only reported.
        "configSchema": {"type": "object", "additionalProperties": True, "properties": fields},
    }


_FIRST = ("enabled", "databasePath", "command", "summaryModel", "contextThreshold", "freshTailCount", "expansionModel")


def files() -> dict[Path, str]:
    """Return the files and their contents."""
    tools = [schema("mcp", name, semantic=False) for name in READING]
    return {
        PLUGIN / "openclaw.plugin.json": json.dumps(manifest(), indent=2) + "\n",
        PLUGIN / "tools.json": json.dumps(tools, indent=2) + "\n",
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, "utf-8")
        print(path)
