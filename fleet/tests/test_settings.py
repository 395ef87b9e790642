"""What a Spark session is started with, as far as it can be told without one."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from perftax_fleet.dataset import DataFile, DataSet
from perftax_fleet.spark import is_local, shuffle_partitions


def dataset(*sizes: tuple[str, int]) -> DataSet:
    """Files of these tables and sizes."""
    files = [DataFile(Path("x"), table, date(2026, 11, 28), "s", 2, 1, size) for table, size in sizes]
    tables = {table: tuple(f for f in files if f.table == table) for table, _ in sizes}
    return DataSet("x", tuple(files), (), 1, 0, (), tables)


@pytest.mark.parametrize(
    ("files", "cores", "parts"),
    [
        ([], 2, 4),
        ([("messages", 10 << 20)], 2, 4),
        ([("messages", 10 << 20)], 64, 128),
        # The largest table counts, all its files together.
        ([("messages", 64 << 20), ("messages", 64 << 20), ("hops", 32 << 20)], 2, 20),
    ],
)
def test_shuffles_have_parts_for_the_cores_and_for_the_data(
    files: list[tuple[str, int]], cores: int, parts: int
) -> None:
    assert shuffle_partitions(dataset(*files), cores) == parts


def test_a_driver_without_workers_works_itself() -> None:
    assert all(is_local(master) for master in ("local", "local[2]", "local[*]", "local[2,3]"))
    assert not any(is_local(master) for master in ("local-cluster[2,1,1024]", "spark://localhost:7077", "yarn"))
