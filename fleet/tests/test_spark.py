"""The same text gives the same answers in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small import histogram_row, price_row, publish

from perftax_fleet import catalog
from perftax_fleet.compare import differences
from perftax_fleet.dataset import HIVE_NULL, DataSet, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Result
from perftax_fleet.errors import UsageError
from perftax_fleet.spark import SparkEngine

pytestmark = pytest.mark.spark

CASES: list[tuple[str, dict[str, str]]] = [(name, {}) for name in catalog.names() if name != "rollout"] + [
    ("rollout", {"before": "a41", "after": "a42"}),
    ("rollout", {"moment_ns": "1795800000000000000"}),
    ("tail_blame", {"by": "host", "service": "store"}),
    ("latency", {"by": "revision"}),
]
MOST = 2**63 - 1


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    pytest.importorskip("pyspark")
    empty = tmp_path_factory.mktemp("empty")
    (empty / "publications").mkdir()
    engine = SparkEngine(open_dataset(empty), "local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def spark_fleet(spark: SparkEngine, fleet: DataSet) -> SparkEngine:
    """The session over the generated fleet. Views are made once: listing thousands of files takes seconds."""
    spark.use(fleet)
    return spark


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_both_engines_agree(
    spark_fleet: SparkEngine, engine: DuckEngine, name: str, parameters: dict[str, str]
) -> None:
    query = catalog.load(name)
    values = query.bind(parameters)
    ours, theirs = engine.run(query.sql, values), spark_fleet.run(query.sql, values)
    assert ours.rows
    assert differences(ours, theirs) == []


def test_both_engines_agree_on_odd_data(spark: SparkEngine, tmp_path: Path) -> None:
    publish(
        tmp_path, 1, "histograms", [histogram_row(MOST, low=MOST - 10, high=MOST, host="a'\"\n\\n")], service=b"\xff\\"
    )
    publish(tmp_path, 2, "histograms", [histogram_row(MOST, host="é<script>")], service="é %'\\n")
    publish(tmp_path, 3, "histograms", [histogram_row(2)], service="17", version=1)
    publish(
        tmp_path, 4, "prices", [price_row(f"h'{i}", 100.0 + i, 0.0 if i == 4 else 2.0) for i in range(8)], service="-"
    )
    publish(tmp_path, 5, "histograms", [histogram_row(3)], service=HIVE_NULL)
    publish(tmp_path, 6, "histograms", [histogram_row(4)], service="NULL")
    dataset = open_dataset(tmp_path)
    assert dataset.left_out == ()
    spark.use(dataset)
    engine = DuckEngine(dataset)
    for name in catalog.names():
        query = catalog.load(name)
        values = query.bind({})
        assert differences(engine.run(query.sql, values), spark.run(query.sql, values)) == [], name
    statement = "SELECT service, host, date, revision, messages FROM histograms ORDER BY service, host"
    assert engine.run(statement).rows == spark.run(statement).rows
    services = {row[0] for row in spark.run(statement).rows}
    assert services == {"\\xff\\", "é %'\\n", "17", HIVE_NULL, "NULL"}


def test_a_number_of_partitions_that_was_given_stands(spark: SparkEngine) -> None:
    assert spark.run("SET spark.sql.shuffle.partitions").rows == (("spark.sql.shuffle.partitions", "2"),)


def test_a_bad_statement_is_bad_input(spark: SparkEngine) -> None:
    with pytest.raises(UsageError, match="refuses"):
        spark.run("SELEC 1")


def test_a_difference_is_seen() -> None:
    one = Result(("a", "b"), ((1, 2.0),))
    assert differences(one, Result(("a", "b"), ((1, 2.0 + 1e-12),))) == []
    assert differences(one, Result(("a", "b"), ((1, 2.0 + 1e-6),)))
    assert differences(one, Result(("a", "b"), ((2, 2.0),)))
    assert differences(one, Result(("a", "b"), ((1, None),)))
    assert differences(one, Result(("a", "b"), ()))
