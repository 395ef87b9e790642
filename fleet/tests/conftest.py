"""One generated fleet for all tests, and helpers that write small data sets by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perftax_fleet import catalog
from perftax_fleet.dataset import DataSet, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Cell
from perftax_fleet.generate import Planted, generate

HOSTS = 120
MESSAGES = 480_000


@pytest.fixture(scope="session")
def fleet_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Planted]:
    """Read only: tests that change files copy it or write their own."""
    folder = tmp_path_factory.mktemp("fleet") / "data"
    return folder, generate(folder, HOSTS, MESSAGES, seed=11, keep_raw=True)


@pytest.fixture(scope="session")
def planted(fleet_folder: tuple[Path, Planted]) -> Planted:
    return fleet_folder[1]


@pytest.fixture(scope="session")
def fleet(fleet_folder: tuple[Path, Planted]) -> DataSet:
    return open_dataset(fleet_folder[0])


@pytest.fixture(scope="session")
def engine(fleet: DataSet) -> Iterator[DuckEngine]:
    engine = DuckEngine(fleet)
    yield engine
    engine.close()


def ask(engine: DuckEngine, name: str, **parameters: str) -> list[dict[str, Cell]]:
    """A query's rows by column."""
    query = catalog.load(name)
    return engine.run(query.sql, query.bind(parameters)).records()


def real(value: Cell) -> float:
    """The value as a number; a test fails where it is none."""
    assert isinstance(value, int | float), value
    return float(value)
