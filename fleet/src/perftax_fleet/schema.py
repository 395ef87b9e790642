"""The tables of docs/reference/dataset.md: columns, types, and since which version each exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

SCHEMA_VERSION = 2
OLDEST_VERSION = 1

Kind = Literal["text", "int", "double"]


@dataclass(frozen=True)
class Column:
    """One column. `since` is the version of the schema that brought it."""

    name: str
    kind: Kind
    nullable: bool = False
    since: int = 1

    @property
    def sql_type(self) -> str:
        """The type's name in the dialect that both engines read."""
        return {"text": "STRING", "int": "BIGINT", "double": "DOUBLE"}[self.kind]

    @property
    def arrow_type(self) -> pa.DataType:
        """The type as pyarrow writes it."""
        return {"text": pa.string(), "int": pa.int64(), "double": pa.float64()}[self.kind]


def _columns(*words: str) -> tuple[Column, ...]:
    """Columns by short words: `ns` is an integer, `cpu:text`; a `?` at the end allows NULL, a `2` the version."""
    kinds: dict[str, Kind] = {"text": "text", "int": "int", "double": "double"}
    found = []
    for word in words:
        name, _, rest = word.partition(":")
        found.append(Column(name, kinds[rest.rstrip("?2") or "int"], "?" in rest, 2 if "2" in rest else 1))
    return tuple(found)


_MACHINE = ("cpu:text", "microcode:text", "kernel:text", "mitigations:text", "virtualisation:text")

TABLES: dict[str, tuple[Column, ...]] = {
    "messages": _columns(
        "host:text", "recording:text", "message:text", "minute_ns", "begin_ns", "latency_ns", "number:text",
        "label:text?", "trace:text?", "span:text?", "is_slow", "is_sampled", "revision:text?2",
    ),
    "causes": _columns(
        "host:text", "recording:text", "minute_ns", "message:text?", "cause:text", "detail:text?2", "ns", "messages",
        "revision:text?2",
    ),
    "histograms": _columns(
        "host:text", "recording:text", "minute_ns", "revision:text?2", "low_ns", "high_ns", "messages"
    ),
    "hops": _columns("host:text", "recording:text", "message:text", "time_ns", "trace:text", "span:text", "way:text"),
    "profiles": _columns(
        "host:text", "recording:text", "minute_ns", "revision:text?2", "is_slow", "cause:text", "function:text",
        "samples", "ns:int?",
    ),
    "recordings": _columns(
        "host:text", "recording:text", "revision:text?2", "boot:text", "fingerprint:text", "from_ns", "to_ns",
        "messages", "slow_ns", "lost", "weakened:text?", "clock_error_ns:int?", "overhead_low:double?",
        "overhead_high:double?", "perftax:text",
    ),
    "hosts": _columns("host:text", "recording:text", "time_ns", "fingerprint:text", *_MACHINE, "cpus"),
    "prices": _columns(
        "host:text", "recording:text", "fingerprint:text", *_MACHINE, "time_ns", "source:text", "mechanism:text",
        "event:text", "term:text", "unit:text", "value:double", "low:double", "high:double", "confidence:double",
    ),
    "audits": _columns(
        "host:text", "recording:text", "fingerprint:text", "cpu:text", "kernel:text", "time_ns", "mechanism:text",
        "event:text", "finding:text", "unit:text", "value:double?", "low:double?", "high:double?",
    ),
}  # fmt: skip


def columns_of(table: str, version: int) -> tuple[Column, ...]:
    """The columns that files of this version hold."""
    return tuple(column for column in TABLES[table] if column.since <= version)


def arrow_schema(table: str, version: int = SCHEMA_VERSION) -> pa.Schema:
    """The schema that a writer of this version writes."""
    return pa.schema([pa.field(c.name, c.arrow_type, c.nullable) for c in columns_of(table, version)])
