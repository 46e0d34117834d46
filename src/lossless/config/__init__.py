"""Settings: their meaning, defaults and ranges, and the sources of their values.

`config.edit_file` changes one setting in `lcm.toml`.
"""

from lossless.config.conflicts import Check, adaptations
from lossless.config.load import Loaded, Source, collect, find_problems, load, parse, resolve
from lossless.config.paths import (
    config_path,
    data_dir,
    default_database,
    is_file,
    is_server,
    make_directory,
    open_private,
)
from lossless.config.providers import KNOWN, Provider
from lossless.config.redact import hide_secrets, redact_url
from lossless.config.rules import ThresholdRule
from lossless.config.settings import Setting, Settings, catalogue, find_setting, spellings

__all__ = [
    "KNOWN",
    "Check",
    "Loaded",
    "Provider",
    "Setting",
    "Settings",
    "Source",
    "ThresholdRule",
    "adaptations",
    "catalogue",
    "collect",
    "config_path",
    "data_dir",
    "default_database",
    "find_problems",
    "find_setting",
    "hide_secrets",
    "is_file",
    "is_server",
    "load",
    "make_directory",
    "open_private",
    "parse",
    "redact_url",
    "resolve",
    "spellings",
]
