"""Configuration files of hosts as people have them: empty, commented, with other line ends, linked, and so on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

JSON_OTHERS = """{
  "model": "large",
  "hooks": {
    "Stop": [
      {
        "hooks": [
          { "type": "command", "command": "say done" }
        ]
      }
    ]
  },
  "permissions": {
    "allow": ["Bash(ls:*)"]
  },
  "mcpServers": {
    "other": { "command": "other-server", "args": [] }
  },
  "plugins": {
    "allow": ["telegram"],
    "load": { "paths": ["/opt/other-plugin"] },
    "slots": { "contextEngine": "legacy", "memory": "core" },
    "entries": { "telegram": { "enabled": true } }
  }
}
"""
JSON_COMMENTS = """// my configuration
{
  "model": "large", // the large one
  /* hooks are
     below */
  "hooks": {
    // nothing here yet
  },
  "plugins": {
    "allow": [
      "telegram", // chat
    ],
  },
}
// the end
"""
TOML_OTHERS = """# my configuration
model = "large"   # the large one

[mcp_servers.other]
command = "other-server"
args = [
  "a",  # first
  "b",
]

# a project
[projects."/home/me/work"]
trust_level = "trusted"
"""
TOML_COMMENTS = """# only a model
model = "large"

# the end
"""
YAML_OTHERS = """# my configuration
model:
  default: large   # the large one
  prompt: |
    plugins:
      enabled: none
plugins:
  enabled:
    - other   # mine
    - second
  disabled: []
context:
  engine: compressor   # built in
  threshold: 0.5
toolsets: [a, b]
"""
YAML_COMMENTS = """---
# nothing is set
model: large

# plugins:
#   enabled: []
"""
TABBED_YAML = "model: 'large\twide'\n#\tmine\nplugins:\n  enabled: [ other ]  #\ttoo\n"

TEXTS = {
    "json": (JSON_OTHERS, JSON_COMMENTS, "{}\n"),
    "toml": (TOML_OTHERS, TOML_COMMENTS, "model = 1\n"),
    "yaml": (YAML_OTHERS, YAML_COMMENTS, "model: x\n"),
}


def _tabs(grammar: str, text: str) -> str:
    return TABBED_YAML if grammar == "yaml" else text.replace("  ", "\t")


def texts(grammar: str) -> dict[str, bytes | None]:
    """Return the samples of a grammar by name; None for no file."""
    others, comments, small = TEXTS[grammar]
    return {
        "missing": None,
        "empty": b"",
        "small": small.encode(),
        "blank lines": b"\n\n",
        "others": others.encode(),
        "comments": comments.encode(),
        "CRLF": others.replace("\n", "\r\n").encode(),
        "comments with CRLF": comments.replace("\n", "\r\n").encode(),
        "tabs": _tabs(grammar, others).encode(),
        "no newline at the end": others.rstrip("\n").encode(),
        "BOM": b"\xef\xbb\xbf" + others.encode(),
        "other scripts": others.replace("large", "größer 大 🙂").encode(),
        "one line": b'{"model":"large","hooks":{"Stop":[]}}' if grammar == "json" else small.rstrip().encode(),
    }


def write_link(path: Path, data: bytes) -> Path:
    """Write a file elsewhere, as managers of dotfiles do, and a link to it."""
    target = path.parent.parent / "dotfiles" / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return target


Snapshot = dict[str, tuple[str, bytes | str, int]]


def snapshot(directory: Path, leave_out: Callable[[Path], bool] = lambda path: False) -> Snapshot:
    """Return every file, link and directory with its contents and mode."""
    found: Snapshot = {}
    for path in sorted(directory.rglob("*")):
        if leave_out(path):
            continue
        mode = path.lstat().st_mode & 0o7777
        if path.is_symlink():
            found[str(path)] = ("link", str(path.readlink()), 0)
        elif path.is_dir():
            found[str(path)] = ("directory", "", mode)
        else:
            found[str(path)] = ("file", path.read_bytes(), mode)
    return found
