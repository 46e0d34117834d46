"""Checks of the database as a whole: its pages, schema, references, indexes and settings."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lossless import config
from lossless.engine.doctor.examination import Examination
from lossless.engine.doctor.registry import Fault, check, to_faults
from lossless.engine.shared.abandoned_drafts import find_drafts
from lossless.store.rows.types import Step


@check(
    "D01",
    "critical",
    "The database file is intact.",
    "The database is damaged ({count} [problem|problems]): restore a backup.",
)
def find_damage(examination: Examination) -> Iterator[Fault]:
    if examination.whole_database:
        yield from (Fault(None, problem) for problem in examination.store.damage())


@check(
    "D02",
    "critical",
    "Every reference leads to an existing row.",
    "{count} [row refers to a row that does|rows refer to rows that do] not exist.",
    fix="Removes links to missing rows. Rows that are not links stay.",
    also_fix=("S05", "C08"),
    guarded=True,
)
def find_dangling_references(examination: Examination) -> Iterator[Fault]:
    if examination.whole_database:
        yield from (Fault(None, row.what, row.step) for row in examination.store.integrity.dangling())


@check(
    "D03",
    "critical",
    "Tables, columns, views and indexes match the newest schema.",
    "{count} [part of the schema is|parts of the schema are] missing.",
    fix="Recreates indexes. An older schema is migrated when the database is opened for writing.",
)
def find_missing_schema(examination: Examination) -> Iterator[Fault]:
    if examination.whole_database:
        yield from (Fault(None, row.what, row.step) for row in examination.store.integrity.absent())


@check(
    "D04",
    "info",
    "The database file has little unused space, and no drafts are left beside it.",
    "The database takes more space than it needs.",
)
def find_unused_space(examination: Examination) -> Iterator[Fault]:
    if not examination.whole_database:
        return
    yield from (Fault(None, "", text=text) for text in examination.store.slack())
    if drafts := find_drafts(examination.store, examination.files, examination.now):
        size = sum(each.bytes for each in drafts) / 1e6
        count = f"{len(drafts):,} " + ("draft" if len(drafts) == 1 else "drafts")
        text = f"{count} of interrupted backups or other writers ({size:,.1f} MB): lcm gc --apply removes them."
        yield Fault(None, "", text=text)


@check(
    "X01",
    "warn",
    "The search index contains every message and summary, and nothing else.",
    "{count} [text is|texts are] missing from the search index, or left over in it.",
    fix="Rebuilds the search index.",
)
def compare_search_index(examination: Examination) -> Iterator[Fault]:
    if not examination.whole_database:
        return
    store = examination.store
    faults = [Fault(None, row.what, row.step) for row in store.integrity.unsearchable()]
    yield from faults
    if "X01" in examination.thorough and not faults and not store.read_only:
        # Compares every word, which takes as long as building the index.
        yield from (Fault(None, "", Step("rebuild", "search"), text=text) for text in store.check_search())


@check(
    "X03",
    "warn",
    "Every event id is indexed, so that duplicates are recognised.",
    "{count} event [id is|ids are] not indexed: duplicates would be stored.",
    fix="Rebuilds the index of event ids.",
    guarded=True,
)
def find_forgotten_events(examination: Examination) -> Iterator[Fault]:
    if examination.whole_database:
        yield from to_faults(examination.store.integrity.forgotten_events())


@check(
    "K01",
    "warn",
    "Settings in the file take effect, and no password is in clear text.",
    "{count} [setting is|settings are] overridden, or contain a password in clear text.",
)
def find_ineffective_settings(examination: Examination) -> Iterator[Fault]:
    if examination.loaded is None or not examination.whole_database:
        return
    named = {"LCM_CONFIG": os.environ["LCM_CONFIG"]} if "LCM_CONFIG" in os.environ else {}
    written = config.resolve(environment=named)
    for name, source in written.sources.items():
        if source.kind != "file":
            continue
        current = examination.loaded.sources[name]
        if current.kind in ("plugin", "environment"):
            yield Fault(None, name, text=f"{name} in {source.where} is overridden by {current.where}.")
        value = getattr(written.settings, name)
        if isinstance(value, str) and config.redact_url(value) != value:
            yield Fault(None, name, text=f"{source.where} contains the password of {name} in clear text.")
