"""Prepare the exact changes of an installation or a removal, and carry them out."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from lossless.config.paths import make_directory
from lossless.errors import InstallRefused
from lossless.hosts.install import entries, files, records
from lossless.hosts.install.files import FileChange, Kind
from lossless.hosts.install.hosts import Host, find_program
from lossless.hosts.install.plans import ConfigFile, CopiedFile, HostPlan, Place
from lossless.hosts.install.records import RanProgram, Record, WrittenFile
from lossless.version import __version__

_PROGRAM_SECONDS = 900


class Preparation(Struct, frozen=True, kw_only=True):
    """The changes that connect or disconnect a host, before any of them is made."""

    host: str
    removes: bool
    changes: tuple[FileChange, ...]
    programs: tuple[tuple[str, ...], ...]
    permissions: tuple[str, ...] = ()
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    record: Record | None
    """What is remembered afterwards; None after a removal."""
    old_record: Record | None
    backups: tuple[bytes, ...] = ()
    """The files as they were before, which the record refers to."""
    undo: tuple[RanProgram, ...] = ()
    """The programs of an installation, with those that revert them."""

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to do."""
        return not self.programs and not any(change.is_change for change in self.changes)


def prepare(host: Host, place: Place, clock: Callable[[], float] = time.time) -> Preparation:
    """Return the changes that connect a host."""
    plan = host.plan(place)
    old = records.load(host.name, plan.root)
    written = dict[str, WrittenFile]() if old is None else {each.path: each for each in old.files}
    changes, backups = list[FileChange](), list[bytes]()
    for each in plan.files:
        before = files.read(each.path)
        base = _base(before, old, written.get(str(each.path)))
        after = _wanted(each, before, base, written.get(str(each.path)))
        directories = files.missing_directories(each.path)
        kind: Kind = "config" if isinstance(each, ConfigFile) else "copy"
        changes.append(FileChange(path=each.path, before=before, after=after, kind=kind, directories=directories))
        if after != before:
            _check(each.path, place)
            backups += [base] if base is not None else []
            written[str(each.path)] = _written(each, base, after, directories, written.get(str(each.path)))
    for stale in _stale(plan, old):
        changes.append(stale)
        del written[str(stale.path)]
    undo = tuple(RanProgram(program.arguments, program.undo) for program in plan.programs)
    record = Record(
        host=host.name,
        scope="user" if place.project is None else "project",
        root=str(plan.root),
        interpreter=place.command[0],
        version=__version__,
        at=old.at if old else clock(),
        files=tuple(written.values()),
        programs=old.programs if old else (),
    )
    return Preparation(
        host=host.name,
        removes=False,
        changes=tuple(changes),
        programs=tuple(program.arguments for program in plan.programs),
        permissions=plan.permissions,
        notes=plan.notes,
        warnings=plan.warnings or _not_here(host, place),
        record=record,
        old_record=old,
        backups=tuple(backups),
        undo=undo,
    )


def prepare_removal(host: Host, place: Place) -> Preparation:
    """Return the changes that disconnect a host: files get the bytes that they had before."""
    plan = host.plan(place)
    old = records.load(host.name, plan.root)
    notes = list[str]()
    if old is None:
        changes = _without_record(plan)
        if any(change.is_change for change in changes):
            notes.append("There is no record of an installation: only the entries of lossless are taken out.")
    else:
        changes = [_restored(each, old) for each in reversed(old.files)]
        notes += [change.note for change in changes if change.note]
        notes += _left_by_hand(plan, changes)
    for change in changes:
        if change.is_change:
            _check(change.path, place)
    programs = tuple(program.undo for program in (old.programs if old else ()))
    return Preparation(
        host=host.name,
        removes=True,
        changes=tuple(changes),
        programs=programs,
        notes=tuple(notes),
        warnings=(),
        record=None,
        old_record=old,
    )


def _not_here(host: Host, place: Place) -> tuple[str, ...]:
    """Return a sentence if a host was never used on this machine."""
    if find_program(host, place) is not None or host.root(place).is_dir():
        return ()
    return (f"{host.title} was not found on this machine. It uses these files once it is installed.",)


def carry_out(preparation: Preparation) -> None:
    """Make the changes. Interrupted at any point, `--remove` still restores everything.

    Hold `records.exclusive` from the preparation on: two at once would overwrite each other's record.
    """
    for change in preparation.changes:
        files.clear_draft(change.path)
    if preparation.removes:
        _remove(preparation)
    else:
        _install(preparation)


def _install(preparation: Preparation) -> None:
    record = preparation.record
    assert record is not None
    is_same = preparation.old_record is not None and _same(preparation.old_record, record)
    if preparation.is_empty and is_same:
        return
    for data in preparation.backups:
        records.keep_backup(record, data)
    records.save(record)
    for program in preparation.undo:
        _run(program.arguments)
        record = structs.replace(record, programs=(*record.programs, program))
        records.save(record)
    for change in preparation.changes:
        if change.is_change:
            files.write(change)


def _same(one: Record, other: Record) -> bool:
    return structs.replace(one, at=0.0) == structs.replace(other, at=0.0)


def _remove(preparation: Preparation) -> None:
    for change in preparation.changes:
        if change.is_change:
            if change.kind == "copy" and change.note and change.before is not None:
                _keep_copy(change)
            files.write(change)
    made = {each for change in preparation.changes for each in change.directories}
    files.remove_empty(tuple(sorted(made, key=lambda path: len(path.parts))))
    for program in preparation.programs:
        _run(program)
    if preparation.old_record is not None:
        records.discard(preparation.old_record)


def _run(arguments: Sequence[str]) -> None:
    try:
        ran = subprocess.run(arguments, capture_output=True, text=True, timeout=_PROGRAM_SECONDS, check=False)  # noqa: S603  # shown before
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallRefused(
            f"{' '.join(arguments)} failed: {error}.", hint="Run it by hand, then try again."
        ) from error
    if ran.returncode:
        last = (ran.stderr or ran.stdout).strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
        raise InstallRefused(f"{' '.join(arguments)} failed: {last[0]}", hint="Run it by hand, then try again.")


def _check(path: Path, place: Place) -> None:
    """Refuse a file that must not or cannot be written."""
    if place.project is not None:
        files.check_inside(path, place.project)
    files.check_writable(path)


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstallRefused(f"{path} is not UTF-8 text.", hint="Nothing was changed.") from error


def _base(before: bytes | None, old: Record | None, written: WrittenFile | None) -> bytes | None:
    """Return a file as it would be without us."""
    if old is None or written is None or before is None:
        return before
    original = None if written.before is None else records.backup(old, written.before)
    if before == original or records.digest(before) == written.digest:
        return original
    if written.grammar is None:
        return original
    return _taken_out(Path(written.path), before, written, original)


def _wanted(
    each: ConfigFile | CopiedFile, before: bytes | None, base: bytes | None, written: WrittenFile | None
) -> bytes:
    """Return the bytes that a file should have; those that it has, if they contain everything already."""
    if isinstance(each, CopiedFile):
        return each.content
    is_current = written is None or written.entries == each.entries
    if before is not None and is_current and _with_entries(each, before) == before:
        return before
    return _with_entries(each, base or b"")


def _with_entries(each: ConfigFile, data: bytes) -> bytes:
    try:
        return entries.add(each.grammar, _text(each.path, data), each.entries).encode()
    except ValueError as error:
        hint = "Fix it first. Nothing was changed." if "not valid" in str(error) else "Nothing was changed."
        raise InstallRefused(f"{each.path}: {error}.", hint=hint) from error


def _stale(plan: HostPlan, old: Record | None) -> list[FileChange]:
    """Return the changes that remove files which an older version copied."""
    planned = {str(each.path) for each in plan.files}
    copies = [each for each in (old.files if old else ()) if each.grammar is None and each.path not in planned]
    return [] if old is None else [_restored(each, old) for each in copies]


def _written(
    each: ConfigFile | CopiedFile,
    base: bytes | None,
    after: bytes,
    directories: tuple[Path, ...],
    old: WrittenFile | None,
) -> WrittenFile:
    return WrittenFile(
        path=str(each.path),
        before=None if base is None else f"{records.digest(base)[:32]}.backup",
        digest=records.digest(after),
        grammar=each.grammar if isinstance(each, ConfigFile) else None,
        entries=each.entries if isinstance(each, ConfigFile) else (),
        directories=tuple(dict.fromkeys([*(old.directories if old else ()), *map(str, directories)])),
    )


def _restored(written: WrittenFile, old: Record) -> FileChange:
    """Return the change that reverts what was written to a file."""
    path = Path(written.path)
    current = files.read(path)
    original = None if written.before is None else records.backup(old, written.before)
    after, note = original, ""
    if current is None:
        after, note = None, f"{path} is gone already." if original is not None else ""
    elif current != original and records.digest(current) != written.digest:
        if written.grammar is None:
            note = f"{path} was changed since: your version is kept in {_kept(path)}."
        else:
            after = _taken_out(path, current, written, original)
            note = f"{path} was changed since: only the entries of lossless are taken out."
    return FileChange(
        path=path,
        before=current,
        after=after,
        kind="copy" if written.grammar is None else "config",
        directories=tuple(map(Path, written.directories)),
        note=note,
    )


def _taken_out(path: Path, current: bytes, written: WrittenFile, original: bytes | None) -> bytes | None:
    """Return a changed file without our entries; None if nothing is left of a file that we created."""
    assert written.grammar is not None
    before = None if original is None else _text(path, original)
    try:
        text = entries.take_out(written.grammar, _text(path, current), written.entries, before)
    except ValueError as error:
        hint = "Remove the entries of lossless by hand. Nothing was changed."
        raise InstallRefused(f"{path}: {error}.", hint=hint) from error
    return None if original is None and entries.is_blank(written.grammar, text) else text.encode()


def _kept(path: Path) -> Path:
    return records.directory().parent / "kept" / f"{records.digest(str(path).encode())[:12]}-{path.name}"


def _keep_copy(change: FileChange) -> None:
    kept = _kept(change.path)
    make_directory(kept.parent)
    records.write_private(kept, change.before or b"")


def _without_record(plan: HostPlan) -> list[FileChange]:
    """Return the changes that take out what an installation would have written."""
    changes = list[FileChange]()
    for copy in plan.copies:
        before = files.read(copy.path)
        if before == copy.content:
            folder = (copy.path.parent,)
            changes.append(FileChange(path=copy.path, before=before, after=None, kind="copy", directories=folder))
    for config in plan.configs:
        before = files.read(config.path)
        if before is not None:
            written = WrittenFile(
                path=str(config.path), before=None, digest="", grammar=config.grammar, entries=config.entries
            )
            taken = _taken_out(config.path, before, written, None)
            after = before if taken is None and entries.is_blank(config.grammar, _text(config.path, before)) else taken
            changes.append(FileChange(path=config.path, before=before, after=after, kind="config"))
    return changes


def _left_by_hand(plan: HostPlan, changes: Sequence[FileChange]) -> list[str]:
    """Return a sentence for each file that had our entries before the installation."""
    after = {change.path: change.after for change in changes}
    notes = list[str]()
    for config in plan.configs:
        data = after[config.path] if config.path in after else files.read(config.path)
        if data is not None and not entries.missing(config.grammar, _text(config.path, data), config.entries):
            notes.append(f"{config.path} had these entries before the installation, and keeps them.")
    return notes
