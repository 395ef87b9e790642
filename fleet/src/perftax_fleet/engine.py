"""What every engine offers: views over the files that count, and rows of plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Protocol

from perftax_fleet.catalog import Value

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Result:
    """Columns by name, and rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def records(self) -> list[dict[str, Cell]]:
        """Each row by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Engine(Protocol):
    """A session over one data set at a time."""

    name: str
    version: str

    def run(self, sql: str, values: Mapping[str, Value] | None = None) -> Result:
        """Runs one statement of the dialect. Raises `FleetError`."""

    def close(self) -> None:
        """Ends the session."""


def plain(value: object) -> Cell:
    """A value as both engines give it: dates as text, whole decimals as integers."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def result(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Result:
    """A result of plain values."""
    return Result(tuple(columns), tuple(tuple(plain(value) for value in row) for row in rows))


def quoted(text: str) -> str:
    """A literal of the dialect, of text without backslashes' meaning: only quotes are doubled."""
    return "'" + text.replace("'", "''") + "'"
