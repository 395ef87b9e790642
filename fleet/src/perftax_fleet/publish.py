"""Writes publications as the contract wants them: files named by their bytes, the publication last, all by rename."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perftax_fleet import __version__
from perftax_fleet.schema import SCHEMA_VERSION, arrow_schema, columns_of

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
# Ids differ in every row: a dictionary of them would be a second copy.
_NO_DICTIONARY = frozenset({"message", "trace", "span", "number"})
NO_SERVICE = "-"


def spelled(service: str | bytes) -> str:
    """A service's name as paths spell it."""
    raw = service.encode() if isinstance(service, str) else service
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in raw)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes under another name beside the place, then renames: the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class Publisher:
    """Collects the tables of one publication, and writes them."""

    def __init__(self, folder: Path, version: int = SCHEMA_VERSION) -> None:
        self._folder = folder
        self._version = version
        self._tables: dict[tuple[str, str, str], list[pa.Table]] = {}

    def add(self, table: str, day: str, service: str | bytes, rows: pa.Table | Sequence[dict[str, object]]) -> None:
        """Adds rows to a table's file of that day and service."""
        schema = arrow_schema(table, self._version)
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist(list(rows), schema)
        self._tables.setdefault((table, day, spelled(service)), []).append(rows.select(schema.names).cast(schema))

    def publish(self, name: str, host: str, published_ns: int, replaces: Sequence[str] = ()) -> list[str]:
        """Writes the files, then the publication that lists them. Gives the files' paths."""
        files = []
        for (table, day, service), parts in sorted(self._tables.items(), key=lambda item: item[0]):
            rows = pa.concat_tables(parts)
            content = self._parquet(table, rows)
            digest = hashlib.sha256(content).hexdigest()
            path = f"table={table}/date={day}/service={service}/{digest}.parquet"
            write_atomically(self._folder / path, content)
            files.append({"path": path, "rows": rows.num_rows, "bytes": len(content)})
        marker = {
            "schema": self._version,
            "id": name,
            "perftax": __version__,
            "host": host,
            "published_ns": published_ns,
            "replaces": list(replaces),
            "files": files,
        }
        write_atomically(self._folder / "publications" / f"{name}.json", json.dumps(marker, indent=1).encode())
        self._tables.clear()
        return [str(file["path"]) for file in files]

    def _parquet(self, table: str, rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        dictionary = [c.name for c in columns_of(table, self._version) if c.name not in _NO_DICTIONARY]
        pq.write_table(rows, sink, compression="zstd", use_dictionary=dictionary, store_schema=False)
        return bytes(sink.getvalue().to_pybytes())
