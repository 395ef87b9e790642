"""Numbers with units scaled for people, as perftax's other text has them (docs/reference/output.md).

An estimate shows its interval: `17.2 µs ± 0.7` where it is symmetric, `0.80 % [0.70, 0.99]` where it is not.
"""

from __future__ import annotations

from math import floor, isfinite, log10

UNKNOWN = "unknown"
_SYMMETRY = 0.1
_MAX_DECIMALS = 6


def scale_of(unit: str, size: float) -> tuple[float, str]:
    """What to divide by, and the name of the unit that fits the size."""
    if unit == "ns":
        for factor, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
            if abs(size) >= factor:
                return factor, name
        return 1.0, "ns"
    if unit == "share":
        return 0.01, "%"
    if unit == "bytes":
        for exponent, name in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
            if abs(size) >= 1024**exponent:
                return float(1024**exponent), name
        return 1.0, "B"
    return 1.0, "" if unit in ("count", "number", "ratio") else unit


def number(value: float | int | None, unit: str) -> str:
    """A number without an interval: `17.2 µs`, `12,345`."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if unit == "count":
        return f"{value:,.0f}" if value == round(value) else f"{value:,}"
    if unit == "ratio":
        return f"{value:,.{_decimals_of_ratio(value)}f}"
    factor, name = scale_of(unit, value)
    scaled = value / factor
    # A share of less than a hundredth of a per cent is noise to a reader.
    decimals = min(_decimals_of_value(scaled), 2) if unit == "share" else _decimals_of_value(scaled)
    text = f"{scaled:,.{decimals}f}"
    if unit == "share" and value and not text.strip("-0."):
        return "<0.01 %" if value > 0 else ">-0.01 %"
    if unit == "share" and "." in text:
        text = text.rstrip("0").rstrip(".")
    return _with_unit(_without_negative_zero(text), name)


def estimate(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    """A number with its interval."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if low is None or high is None:
        return number(value, unit)
    half = (high - low) / 2
    factor, name = scale_of(unit, value if abs(value) >= half or not isfinite(half) else half)
    value, low, high, half = value / factor, low / factor, high / factor, half / factor
    if half == 0:
        return _with_unit(f"{value:,.{_decimals_of_value(value)}f}", name)
    decimals = _decimals_of_half(half if isfinite(half) else value)

    def text(x: float) -> str:
        return _without_negative_zero(f"{x:,.{decimals}f}") if isfinite(x) else "∞"

    if isfinite(half) and abs((high - value) - (value - low)) <= _SYMMETRY * 2 * half:
        return f"{_with_unit(text(value), name)} ± {text(half)}"
    return f"{_with_unit(text(value), name)} [{text(low)}, {text(high)}]"


def _with_unit(text: str, name: str) -> str:
    return f"{text} {name}" if name else text


def _decimals_of_half(half: float) -> int:
    """Two digits of a half-width that begins with 1 or 2, else one."""
    if half == 0:
        return 0
    magnitude = floor(log10(abs(half)))
    digits = 1 if abs(half) / 10.0**magnitude < 2.95 else 0
    return min(max(digits - magnitude, 0), _MAX_DECIMALS)


def _decimals_of_ratio(ratio: float) -> int:
    """Two, or as many as tell it from 1."""
    apart = abs(ratio - 1)
    return min(max(-floor(log10(apart)), 2), _MAX_DECIMALS) if apart else 2


def _decimals_of_value(value: float) -> int:
    if value == 0 or (value == round(value) and abs(value) < 1e15):
        return 0
    return min(max(2 - floor(log10(abs(value))), 0), _MAX_DECIMALS)


def _without_negative_zero(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
