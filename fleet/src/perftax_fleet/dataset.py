"""Which files of a data set count: publications, what they replace, and whether each file is what was published.

A file that is corrupt, truncated or missing is named, left out and counted, never silently a part of a sum.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import unquote_to_bytes

import pyarrow.parquet as pq

from perftax_fleet.errors import UsageError
from perftax_fleet.schema import SCHEMA_VERSION, TABLES, columns_of

_PATH = re.compile(
    r"table=([a-z]+)/date=(\d{4}-\d\d-\d\d)/service=((?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})+)/([0-9a-f]{64})\.parquet"
)
_ID = re.compile(r"[0-9a-f]{32}")
_CHUNK = 1 << 20
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What engines take for NULL in a path; here it is a service's name like any other."""


@dataclass(frozen=True)
class DataFile:
    """A file that counts. `raw_service` is the name as the path spells it."""

    path: Path
    table: str
    day: date
    raw_service: str
    version: int
    rows: int
    size: int

    @property
    def service(self) -> str:
        """The service's name; bytes that are no UTF-8 are spelled `\\xff`."""
        return service_name(self.raw_service)


@dataclass(frozen=True)
class LeftOut:
    """A publication or file that does not count, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True)
class DataSet:
    """The files that count, and what was left out."""

    folder: str
    files: tuple[DataFile, ...]
    left_out: tuple[LeftOut, ...]
    publications: int
    replaced: int
    warnings: tuple[str, ...] = ()
    by_table: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)

    def of(self, table: str) -> tuple[DataFile, ...]:
        """The files of one table."""
        return self.by_table.get(table, ())

    def between(self, since: date | None, until: date | None) -> DataSet:
        """The same with the files of these days only. Hosts and recordings stay: rows of other tables refer to them."""
        files = tuple(
            f
            for f in self.files
            if f.table in ("hosts", "recordings") or ((not since or f.day >= since) and (not until or f.day <= until))
        )
        return replace(self, files=files, by_table=_by_table(files))

    @property
    def bytes(self) -> int:
        """Size of all files that count."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class _Listed:
    """A file as a publication lists it."""

    path: str
    rows: int
    size: int


@dataclass(frozen=True)
class _Publication:
    id: str
    version: int
    replaces: frozenset[str]
    files: tuple[_Listed, ...]


class _Unreadable(Exception):
    """Why a publication's file cannot be used."""


def service_name(raw: str) -> str:
    """Decodes `%XX`. Bytes that are no UTF-8 become `\\xff`, so that different names stay different."""
    return unquote_to_bytes(raw).decode("utf-8", "backslashreplace")


def open_dataset(folder: Path, *, trust: bool = False, name: str | None = None) -> DataSet:
    """Reads the publications and checks every file that they list.

    `trust` skips the hash of each file (sizes, footers, columns and numbers of rows are still checked). `name` is what
    messages call the folder. Raises `UsageError` where the folder is no data set.
    """
    name = name or str(folder)
    markers = folder / "publications"
    if not folder.is_dir():
        raise UsageError(f"{name}: not a folder; needed is the folder that `perftax trace publish` writes to")
    if not markers.is_dir():
        raise UsageError(f"{name}: has no folder publications/, so it is no data set; give the folder that holds it")
    left_out: list[LeftOut] = []
    publications: dict[str, _Publication] = {}
    for marker in sorted(markers.glob("*.json")):
        try:
            publication = _read_publication(marker)
        except _Unreadable as error:
            left_out.append(LeftOut(f"publications/{marker.name}", str(error)))
        else:
            publications[publication.id] = publication
    replaced = {old for p in publications.values() for old in p.replaces if old != p.id}
    warnings = [
        f"publications {a} and {b} replace each other, so neither counts; one of them was written wrongly"
        for a, b in _mutual(publications)
    ]
    counting = [p for p in publications.values() if p.id not in replaced]
    listed = {file.path: (file, p.version) for p in counting for file in p.files}
    files: list[DataFile] = []
    with ThreadPoolExecutor(max_workers=4) as pool:
        for outcome in pool.map(lambda each: _check(folder, *each, trust=trust), listed.values()):
            (files if isinstance(outcome, DataFile) else left_out).append(outcome)  # type: ignore[arg-type]
    return DataSet(
        folder=name,
        files=tuple(files),
        left_out=tuple(left_out),
        publications=len(counting),
        replaced=len(publications) - len(counting),
        warnings=tuple(warnings),
        by_table=_by_table(files),
    )


def _by_table(files: Iterable[DataFile]) -> dict[str, tuple[DataFile, ...]]:
    tables: dict[str, list[DataFile]] = {}
    for file in files:
        tables.setdefault(file.table, []).append(file)
    return {table: tuple(found) for table, found in tables.items()}


def _mutual(publications: Mapping[str, _Publication]) -> Iterable[tuple[str, str]]:
    for p in publications.values():
        for old in sorted(p.replaces):
            other = publications.get(old)
            if other and p.id < other.id and p.id in other.replaces:
                yield p.id, other.id


def _read_publication(marker: Path) -> _Publication:
    try:
        text = marker.read_bytes()
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from error
    if not text.strip():
        raise _Unreadable("is empty")
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise _Unreadable(f"is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _Unreadable("is no JSON object")
    version = document.get("schema")
    if not _is_count(version) or version < 1:
        raise _Unreadable(f"schema is {version!r}; needed is a number from 1 on")
    if version > SCHEMA_VERSION:
        raise _Unreadable(
            f"schema {version} is newer than {SCHEMA_VERSION}, the newest known here; update perftax-fleet"
        )
    name = document.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name != marker.stem:
        raise _Unreadable(f"id is {name!r}; needed is the file's name, 32 hexadecimal digits")
    replaces = document.get("replaces", [])
    if not isinstance(replaces, list) or not all(isinstance(old, str) for old in replaces):
        raise _Unreadable("replaces is no list of ids")
    files = document.get("files")
    if not isinstance(files, list):
        raise _Unreadable("files is no list")
    return _Publication(name, version, frozenset(replaces), tuple(_listed(file) for file in files))


def _listed(file: object) -> _Listed:
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        raise _Unreadable("files holds an entry without a path")
    if not _is_count(file.get("rows")) or not _is_count(file.get("bytes")):
        raise _Unreadable(f"{file['path']}: rows and bytes are needed, as numbers from 0 on")
    return _Listed(file["path"], file["rows"], file["bytes"])


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check(folder: Path, listed: _Listed, version: int, *, trust: bool) -> DataFile | LeftOut:
    """The file, or why it does not count."""
    try:
        return _checked(folder, listed, version, trust=trust)
    except _Unreadable as error:
        return LeftOut(listed.path, str(error))
    except FileNotFoundError:
        return LeftOut(listed.path, "is missing")
    except OSError as error:
        return LeftOut(listed.path, f"cannot be read: {error.strerror or error}")
    except ValueError as error:
        return LeftOut(listed.path, f"cannot be read: {error}")


def _checked(folder: Path, listed: _Listed, version: int, *, trust: bool) -> DataFile:
    # The pattern also keeps out absolute paths and `..`: a publication names files of its own data set only.
    parts = _PATH.fullmatch(listed.path)
    if not parts:
        raise _Unreadable("is no path of a data set: table=T/date=D/service=S/HASH.parquet is needed")
    table, day, raw_service, digest = parts.groups()
    if table not in TABLES:
        raise _Unreadable(f"table {table!r} is not of schema {version}")
    path = folder / listed.path
    size = path.stat().st_size
    if size != listed.size:
        raise _Unreadable(f"has {size} bytes, its publication says {listed.size}: truncated or overwritten")
    if not trust and _sha256(path) != digest:
        raise _Unreadable("its bytes do not hash to its name: corrupt")
    metadata = pq.read_metadata(path)
    if metadata.num_rows != listed.rows:
        raise _Unreadable(f"has {metadata.num_rows} rows, its publication says {listed.rows}")
    wrong = _wrong_column(metadata, table, version)
    if wrong:
        raise _Unreadable(wrong)
    return DataFile(path, table, date.fromisoformat(day), raw_service, version, listed.rows, size)


def _wrong_column(metadata: pq.FileMetaData, table: str, version: int) -> str | None:
    """What keeps the file from being read as this table."""
    try:
        schema = metadata.schema.to_arrow_schema()
    except Exception as error:  # pyarrow raises several kinds for a damaged schema
        return f"its schema cannot be read: {error}"
    for column in columns_of(table, version):
        index = schema.get_field_index(column.name)
        if index < 0:
            return f"lacks the column {column.name}"
        found = schema.field(index).type
        if found != column.arrow_type:
            return f"column {column.name} is {found}, needed is {column.arrow_type}"
    return None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
