"""Spark: a cluster, or some processes of this machine as one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perftax_fleet.catalog import Value, placeholders
from perftax_fleet.dataset import HIVE_NULL, DataFile, DataSet
from perftax_fleet.engine import Result, quoted, result
from perftax_fleet.errors import FleetError, UsageError
from perftax_fleet.schema import SCHEMA_VERSION, TABLES, columns_of

DEFAULT_MASTER = "local[2]"
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # A service named 17 is text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Before it runs, Spark knows a table's size as Parquet only, a tenth of what it takes in memory: a table of
    # messages that it broadcasts by that ends the driver. At run time it knows better, and may still broadcast.
    "spark.sql.autoBroadcastJoinThreshold": "256KB",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    # Files are listed by the driver, which has just opened each: a job with a task for each file takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # All queries together have more generated classes than the 100 that are kept by default: a session that asks again
    # would compile them again, in the driver and in each worker.
    "spark.sql.codegen.cache.maxEntries": "3000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_PARTITIONS = "spark.sql.shuffle.partitions"
_IN_MEMORY = 10
"""What a byte of Parquet takes in memory, about."""
# What is given as `extraJavaOptions` comes after these, and wins. Metaspace grows by generated classes; by default each
# step of it begins a concurrent collection.
_JAVA = "-XX:MetaspaceSize=256m -XX:+UseParallelGC"
# A driver that has workers plans and waits: its optimising compiler would take more time than it saves.
_JAVA_DRIVER = f"{_JAVA} -XX:TieredStopAtLevel=1"


class SparkEngine:
    """A Spark session, with a view for each table."""

    name = "spark"

    def __init__(self, dataset: DataSet, master: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        try:
            import pyspark  # noqa: PLC0415
            from pyspark.sql import SparkSession  # noqa: PLC0415
        except ImportError as error:
            raise UsageError(
                "--engine spark: pyspark is missing; install it: pip install 'perftax-fleet[spark]'"
            ) from error
        self.version: str = pyspark.__version__
        # The scripts that start workers are looked up here; pip's pyspark holds them.
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
        builder = SparkSession.builder.master(master or DEFAULT_MASTER).appName("perftax-fleet")
        java = {
            "spark.driver.defaultJavaOptions": _JAVA if is_local(master or DEFAULT_MASTER) else _JAVA_DRIVER,
            "spark.executor.defaultJavaOptions": _JAVA,
        }
        for key, value in {**_SETTINGS, **java, **(settings or {})}.items():
            builder = builder.config(key, value)
        try:
            self._session: Any = builder.getOrCreate()
        except Exception as error:
            raise FleetError(
                f"--master {master or DEFAULT_MASTER}: Spark did not start: {_first_line(error)}"
            ) from error
        self._session.sparkContext.setLogLevel("ERROR")
        self.use(dataset)

    def use(self, dataset: DataSet) -> None:
        """Makes the views over another data set, in the same session."""
        self._dataset = dataset
        for table in TABLES:
            self._view(table, dataset)

    def _view(self, table: str, dataset: DataSet) -> None:
        versions: dict[int, list[DataFile]] = {}
        for file in dataset.of(table):
            versions.setdefault(file.version, []).append(file)
        frames = [self._frame(table, version, files) for version, files in sorted(versions.items())]
        if not frames:
            frames = [self._session.createDataFrame([], self._schema(table, SCHEMA_VERSION, partitions=True))]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other)
        frame.createOrReplaceTempView(table)

    @staticmethod
    def _schema(table: str, version: int, *, partitions: bool) -> str:
        columns = [f"`{c.name}` {c.sql_type}" for c in columns_of(table, version)]
        return ", ".join(columns + (["`date` DATE", "`service` STRING"] if partitions else []))

    def _frame(self, table: str, version: int, files: list[DataFile]) -> Any:
        # Schema and partition types are declared: nothing is inferred, no file is opened before a query needs it.
        reader = self._session.read.schema(self._schema(table, version, partitions=True))
        paths = [_uri(file.path) for file in files]
        frame = reader.option("basePath", _uri(files[0].path.parents[3])).parquet(*paths)
        known = {column.name for column in columns_of(table, version)}
        columns = [
            f"`{c.name}`" if c.name in known else f"CAST(NULL AS {c.sql_type}) AS `{c.name}`"
            for c in columns_of(table, SCHEMA_VERSION)
        ]
        return frame.selectExpr(*columns, "`date`", f"{_service_expression(files)} AS `service`")

    def run(self, sql: str, values: Mapping[str, Value] | None = None) -> Result:
        """Runs one statement with `:name` bound."""
        values = values or {}
        used = {name: values[name] for name in placeholders(sql) if name in values}
        try:
            self._set_partitions()
            frame = self._session.sql(sql, args=used) if used else self._session.sql(sql)
            rows = frame.collect()
        except KeyboardInterrupt:
            raise
        except Exception as error:
            kind = type(error).__name__
            if kind in ("ParseException", "AnalysisException"):
                raise UsageError(f"Spark refuses the query: {_first_line(error)}") from error
            raise FleetError(f"Spark failed: {_first_line(error)}") from error
        return result(frame.columns, [tuple(row) for row in rows])

    def _set_partitions(self) -> None:
        # Before each statement: a cluster's workers come after the session does.
        context = self._session.sparkContext
        # A number that whoever runs the cluster chose stands.
        if not context.getConf().contains(_PARTITIONS):
            self._session.conf.set(_PARTITIONS, str(shuffle_partitions(self._dataset, context.defaultParallelism)))

    def close(self) -> None:
        """Ends the session and its workers."""
        self._session.stop()


def shuffle_partitions(dataset: DataSet, cores: int) -> int:
    """How many parts a shuffle has: two for each core, and none above 64 MiB in memory, even of the largest table.

    Each task writes a block for each part: Spark's 200 for data sets of any size take up to a third of a query's time.
    """
    largest = max((sum(file.size for file in dataset.of(table)) for table in TABLES), default=0)
    return max(2 * cores, -(-largest * _IN_MEMORY // (64 << 20)))


def is_local(master: str) -> bool:
    """Whether the driver does the work itself."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _uri(path: Path) -> str:
    # Spark takes a path's text as it stands; as a URI, `%` and odd bytes would be decoded once more.
    return str(path.absolute())


def _service_expression(files: list[DataFile]) -> str:
    """The decoded service of each file.

    Spark decodes `%XX` of a path to a character for each byte, not to UTF-8: such names are put right one by one.
    """
    odd = {file.raw_service: file.service for file in files if "%" in file.raw_service}
    whens = [f"WHEN {_literal(_as_spark_decodes(raw))} THEN {_literal(name)}" for raw, name in sorted(odd.items())]
    service = f"COALESCE(`service`, '{HIVE_NULL}')"
    return f"CASE {service} {' '.join(whens)} ELSE {service} END" if whens else service


def _as_spark_decodes(raw: str) -> str:
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), raw)


def _literal(text: str) -> str:
    # Spark reads backslash escapes in literals; characters beyond printable ASCII are spelled by number.
    if text.isascii() and text.isprintable() and "\\" not in text:
        return quoted(text)
    return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
