"""Small data sets written by hand, whose answers are known."""

from __future__ import annotations

from pathlib import Path

from perftax_fleet.publish import Publisher

DAY = "2026-11-28"
MINUTE = 1_795_860_000_000_000_000
Row = dict[str, object]


def identity(number: int) -> str:
    """An id of 32 digits."""
    return f"{number:032x}"


def histogram_row(messages: int = 1, low: int = 1000, high: int = 1008, host: str = "h", recording: str = "r") -> Row:
    return {
        "host": host, "recording": recording, "minute_ns": MINUTE, "revision": "v1", "low_ns": low, "high_ns": high,
        "messages": messages,
    }  # fmt: skip


def price_row(host: str, value: float, half: float, **other: object) -> Row:
    row: Row = {
        "host": host, "recording": "r", "fingerprint": f"f-{host}", "cpu": "CPU", "microcode": "0x1", "kernel": "6.1",
        "mitigations": "PTI off", "virtualisation": "none", "time_ns": MINUTE, "source": "calibrate",
        "mechanism": "pebs", "event": "cycles:pp", "term": "alpha", "unit": "ns", "value": value, "low": value - half,
        "high": value + half, "confidence": 0.95,
    }  # fmt: skip
    return {**row, **other}


def publish(
    folder: Path,
    number: int,
    table: str,
    rows: list[Row],
    *,
    service: str | bytes = "front",
    replaces: list[int] | None = None,
    version: int = 2,
) -> list[Path]:
    """One publication with one file; gives the paths of its files."""
    publisher = Publisher(folder, version)
    publisher.add(table, DAY, service, rows)
    old = [identity(each) for each in replaces or []]
    return [folder / path for path in publisher.publish(identity(number), "h", MINUTE, old)]


def publish_histogram(folder: Path, number: int, messages: int, replaces: list[int] | None = None) -> Path:
    """One publication of that many messages; gives its file."""
    return publish(folder, number, "histograms", [histogram_row(messages)], replaces=replaces)[0]
