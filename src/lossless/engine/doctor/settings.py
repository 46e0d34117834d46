"""Settings that do not do what they seem to: overridden ones, and passwords that everybody can read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lossless import config
from lossless.engine.doctor.examination import Fault, Ward


def settings(ward: Ward) -> Iterator[Fault]:
    if ward.loaded is None or not ward.everything:
        return
    named = {"LCM_CONFIG": os.environ["LCM_CONFIG"]} if "LCM_CONFIG" in os.environ else {}
    written = config.resolve(environment=named)
    for name, source in written.sources.items():
        if source.kind != "file":
            continue
        if ward.loaded.sources[name].kind in ("plugin", "environment"):
            where = ward.loaded.sources[name].where
            yield Fault("K01", None, name, told=f"{name} in {_literal(source.where)} is overridden by {where}.")
        value = getattr(written.settings, name)
        if isinstance(value, str) and config.redact_url(value) != value:
            yield Fault("K01", None, name, told=f"{_literal(source.where)} holds the password of {name} in clear text.")


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
