"""Whether two engines' results are equal: counts and texts exactly, doubles within a relative tolerance."""

from __future__ import annotations

from perftax_fleet.engine import Cell, Result

TOLERANCE = 1e-9


def differences(left: Result, right: Result, tolerance: float = TOLERANCE) -> list[str]:
    """What differs, by row and column; empty where the results are equal."""
    if left.columns != right.columns:
        return [f"columns {left.columns} and {right.columns}"]
    if len(left.rows) != len(right.rows):
        return [f"{len(left.rows)} rows and {len(right.rows)}"]
    return [
        f"row {i}, {column}: {a!r} and {b!r}"
        for i, (one, other) in enumerate(zip(left.rows, right.rows, strict=True))
        for column, a, b in zip(left.columns, one, other, strict=True)
        if not _equal(a, b, tolerance)
    ]


def _equal(a: Cell, b: Cell, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b))
    return type(a) is type(b) and a == b
