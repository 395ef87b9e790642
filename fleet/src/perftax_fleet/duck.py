"""DuckDB: embedded, on one machine, the default."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from urllib.parse import unquote_to_bytes

import duckdb

from perftax_fleet.catalog import Value, placeholders, with_dollars
from perftax_fleet.dataset import HIVE_NULL, DataFile, DataSet
from perftax_fleet.engine import Result, quoted, result
from perftax_fleet.errors import FleetError, UsageError
from perftax_fleet.schema import SCHEMA_VERSION, TABLES, columns_of

Answer = tuple[list[str], list[tuple[object, ...]]]


class DuckEngine:
    """A DuckDB session in memory, with a view for each table."""

    name = "duckdb"
    version = duckdb.__version__

    def __init__(self, dataset: DataSet, threads: int | None = None) -> None:
        self._connection = duckdb.connect(":memory:")
        self._is_stuck = False
        if threads:
            self._connection.execute(f"SET threads = {int(threads)}")
        self._connection.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            self._view(table, dataset.of(table))

    def _view(self, table: str, files: tuple[DataFile, ...]) -> None:
        # A view's text cannot be bound: lists of paths go in by variables, which also keeps the text short.
        groups: dict[tuple[int, str], list[DataFile]] = {}
        for file in files:
            # Names that DuckDB does not read as we do are few, and have a part of their own.
            odd = "" if _is_decoded(file.raw_service) else file.raw_service
            groups.setdefault((file.version, f"{file.day} {odd}" if odd else ""), []).append(file)
        parts = [self._part(table, i, key[0], group) for i, (key, group) in enumerate(sorted(groups.items()))]
        parts = parts or [self._empty(table)]
        self._connection.execute(f"CREATE OR REPLACE VIEW {table} AS " + " UNION ALL ".join(parts))

    def _part(self, table: str, number: int, version: int, files: list[DataFile]) -> str:
        variable = f"files_{table}_{number}"
        paths = ", ".join(quoted(str(file.path)) for file in files)
        self._connection.execute(f"SET VARIABLE {variable} = [{paths}]")
        known = {column.name for column in columns_of(table, version)}
        columns = [
            f'"{c.name}"' if c.name in known else f'CAST(NULL AS {c.sql_type}) AS "{c.name}"'
            for c in columns_of(table, SCHEMA_VERSION)
        ]
        if _is_decoded(files[0].raw_service):
            columns += ["date", "service"]
            options = "hive_partitioning = true, hive_types = {'table': VARCHAR, 'date': DATE, 'service': VARCHAR}"
        else:
            columns += [f"DATE {quoted(files[0].day.isoformat())} AS date", f"{quoted(files[0].service)} AS service"]
            options = "hive_partitioning = false"
        return f"SELECT {', '.join(columns)} FROM read_parquet(getvariable('{variable}'), {options})"

    @staticmethod
    def _empty(table: str) -> str:
        columns = [f'CAST(NULL AS {c.sql_type}) AS "{c.name}"' for c in columns_of(table, SCHEMA_VERSION)]
        columns += ["CAST(NULL AS DATE) AS date", "CAST(NULL AS STRING) AS service"]
        return f"SELECT {', '.join(columns)} WHERE 1 = 0"

    def run(self, sql: str, values: Mapping[str, Value] | None = None) -> Result:
        """Runs one statement with `:name` bound."""
        values = values or {}
        used = {name: values[name] for name in placeholders(sql) if name in values}
        try:
            columns, rows = self._interruptible(lambda: self._fetch(with_dollars(sql, used), used))
        except duckdb.InterruptException as error:
            raise KeyboardInterrupt from error
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
            raise UsageError(f"DuckDB refuses the query: {error}") from error
        except duckdb.Error as error:
            raise FleetError(f"DuckDB failed: {error}") from error
        return result(columns, rows)

    def _fetch(self, sql: str, values: Mapping[str, Value]) -> Answer:
        cursor = self._connection.execute(sql, values or None)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()

    def _interruptible(self, work: Callable[[], Answer]) -> Answer:
        """Does the work in another thread: DuckDB does not see ^C within a long operator, the main thread does."""
        outcome: list[Answer | BaseException] = []
        # An event, not Thread.join: one that ^C ends takes the thread for ended (Python up to 3.12).
        done = threading.Event()

        def run() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # It goes on in the main thread.
                outcome.append(error)
            finally:
                done.set()

        threading.Thread(target=run, daemon=True).start()
        try:
            while not done.wait(0.2):
                pass
        except KeyboardInterrupt:
            self._connection.interrupt()
            self._is_stuck = not done.wait(2)
            raise
        answer = outcome[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the session. One that does not heed an interrupt is left to the end of the process."""
        if not self._is_stuck:
            self._connection.close()


def _is_decoded(raw_service: str) -> bool:
    """Whether DuckDB reads the name from the path as we do: it is UTF-8, and none of Hive's words for NULL."""
    if raw_service in ("NULL", HIVE_NULL):
        return False
    try:
        unquote_to_bytes(raw_service).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
