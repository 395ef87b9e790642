"""Results as text of at most 110 columns, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perftax_fleet import __version__
from perftax_fleet.catalog import Query
from perftax_fleet.dataset import DataSet
from perftax_fleet.engine import Cell, Result
from perftax_fleet.units import estimate, number

WIDTH = 110
MAX_ROWS = 40
_MIN_TEXT = 6


@dataclass(frozen=True)
class Grid:
    """A table of texts. `numeric` says which columns stand at the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


def grid(query: Query, result: Result, rows: int = MAX_ROWS) -> Grid:
    """The columns that the query shows, with units; an estimate and its interval are one column.

    Columns that are NULL in every row are left out: they belong to another choice of parameters.
    """
    records = result.records()
    wanted = [c for c in query.shown or result.columns if c in result.columns]
    kept = [c for c in wanted if not records or any(record[c] is not None for record in records)]
    return Grid(
        headings=tuple(_heading(c) for c in kept),
        rows=tuple(tuple(cell(query, record, c) for c in kept) for record in records[:rows]),
        numeric=tuple(c in query.units and query.units[c] != "yes" for c in kept),
    )


def _heading(column: str) -> str:
    name = column.removesuffix("_ns")
    return {"p999": "p99.9", "p9999": "p99.99"}.get(name, name).replace("_", " ")


def cell(query: Query, record: dict[str, Cell], column: str) -> str:
    """One value with its unit and, where the record has `_low` and `_high`, its interval."""
    value, unit = record[column], query.units.get(column)
    if value is None:
        return "–"
    if unit == "yes":
        return "yes" if value else "no"
    if column == "differs":
        return printable(differs(record)) or "–"
    if unit is None or isinstance(value, str | bool):
        return printable(str(value)) or "–"
    if unit == "unit":
        unit = str(record.get("unit") or "")
    low, high = record.get(f"{column}_low"), record.get(f"{column}_high")
    if isinstance(low, int | float) and isinstance(high, int | float):
        return estimate(value, low, high, unit)
    return number(value, unit)


def differs(record: dict[str, Cell]) -> str:
    """In what an outlier differs: of mitigations, the parts alone that are not the usual ones."""
    found = []
    for trait in str(record["differs"] or "").split():
        own, usual = (str(record.get(name) or "").split(" | ") for name in (trait, f"usual_{trait}"))
        found.append(f"{trait} {', '.join(part for part in own if part not in usual)}")
    return "; ".join(found)


def printable(text: str) -> str:
    """Text that cannot move the cursor, colour the terminal or end the line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(columns: Grid, width: int = WIDTH) -> str:
    """Aligned columns. Where they are too wide, the widest texts are cut in their middle."""
    widths = [max(map(len, column)) for column in zip(columns.headings, *columns.rows, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > width:
        texts = [i for i, is_number in enumerate(columns.numeric) if not is_number and widths[i] > _MIN_TEXT]
        if not texts:
            return blocks(columns)
        widths[max(texts, key=lambda i: widths[i])] -= 1
    lines = [columns.headings, *columns.rows]
    return "\n".join(
        "  ".join(
            _cut(text, w).rjust(w) if is_number else _cut(text, w).ljust(w)
            for text, w, is_number in zip(line, widths, columns.numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def blocks(columns: Grid) -> str:
    """A line for each value: what a row becomes that no line holds."""
    longest = max(map(len, columns.headings))
    return "\n\n".join(
        "\n".join(
            f"{h.ljust(longest)}  {_cut(v, WIDTH - longest - 2)}" for h, v in zip(columns.headings, row, strict=True)
        )
        for row in columns.rows
    )


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def as_text(query: Query, result: Result, dataset: DataSet, width: int = WIDTH) -> str:
    """The query's title, its rows, and what was left out. Lines of tables are at most so wide."""
    lines = [printable(query.title)] if query.title else []
    if result.rows:
        lines.append(table(grid(query, result), width))
        hidden = len(result.rows) - MAX_ROWS
        if hidden > 0:
            lines.append(f"… and {hidden:,} more rows: --format csv has all")
    else:
        lines.append("no rows")
    return "\n".join([*lines, "", summary(dataset)]) + "\n"


def summary(dataset: DataSet) -> str:
    """What the result is of: `files left out: 0` is there, too."""
    return (
        f"of {len(dataset.files):,} files of {dataset.publications:,} publications "
        f"({number(dataset.bytes, 'bytes')}); files left out: {len(dataset.left_out):,}"
    )


def as_csv(result: Result) -> str:
    """One line of names, then one line a row, quoted as in RFC 4180; NULL is empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(result.columns)
    writer.writerows(["" if value is None else value for value in row] for row in result.rows)
    return out.getvalue()


def as_json(query: Query, result: Result, dataset: DataSet, extra: dict[str, Any]) -> str:
    """The rows with what they are of."""
    document = {
        "schema": 1,
        "kind": "fleet",
        "perftax_fleet": __version__,
        "query": query.name,
        **extra,
        "dataset": dataset.folder,
        "publications": dataset.publications,
        "files": len(dataset.files),
        "files_left_out": len(dataset.left_out),
        "left_out": [{"what": each.what, "why": each.why} for each in dataset.left_out],
        "warnings": list(dataset.warnings),
        "units": dict(query.units),
        "rows": result.records(),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def warnings(dataset: DataSet, most: int = 10) -> Sequence[str]:
    """Lines for stderr."""
    lines = [printable(f"left out: {each}") for each in dataset.left_out[:most]]
    if len(dataset.left_out) > most:
        lines.append(f"left out: {len(dataset.left_out) - most:,} more; `perftax-fleet check` names all")
    lines += [printable(each) for each in dataset.warnings]
    if not dataset.publications:
        lines.append(
            printable(f"{dataset.folder}: holds no publication that counts; publish with: perftax trace publish")
        )
    return lines
