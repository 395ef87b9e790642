"""How long each query takes as the fleet grows, in DuckDB and in Spark, and whether both give the same answers.

    python benchmark.py FOLDER --sizes 100 300 1000 3000 --messages-per-host 33333 --json raw.json

A query's time is that of the query on the data less that of the same query on an empty data set, in the same session.
CPU time of all processes of the engine is measured beside: on a machine that others use, elapsed time is theirs, too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from perftax_fleet import catalog
from perftax_fleet.compare import differences
from perftax_fleet.dataset import DataSet, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Engine, Result
from perftax_fleet.errors import FleetError
from perftax_fleet.generate import generate
from perftax_fleet.spark import SparkEngine

T = TypeVar("T")
Seconds = tuple[float, float]
"""Elapsed, and CPU."""
PARAMETERS: dict[str, dict[str, str]] = {"rollout": {"before": "a41", "after": "a42"}}


@dataclass
class Size:
    """What was measured at one size of the fleet. Times are in seconds, one entry (elapsed, CPU) a repetition."""

    hosts: int
    messages: int
    files: int
    bytes: int
    table_bytes: dict[str, int]
    generate_s: float
    check_s: float
    trusted_check_s: float
    load: list[float] = field(default_factory=list)
    view_s: dict[str, float] = field(default_factory=dict)
    times_s: dict[str, dict[str, list[Seconds]]] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)


def cpu_s() -> float:
    """CPU time of this process and all its descendants: Spark's driver and workers are among them."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has just ended.
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        # Its own time, and that of children that ended.
        ticks[pid] = sum(int(each) for each in fields[11:15])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what the work gives."""
    begin = time.perf_counter()
    outcome = work()
    return time.perf_counter() - begin, outcome


def run_all(engine: Engine, repetitions: int, say: str) -> tuple[dict[str, list[Seconds]], dict[str, Result]]:
    """Each query's times and its answer."""
    times: dict[str, list[Seconds]] = {}
    answers: dict[str, Result] = {}
    for name in catalog.names():
        query = catalog.load(name)
        values = query.bind(PARAMETERS.get(name, {}))
        for _ in range(repetitions):
            before = cpu_s()
            try:
                seconds, answers[name] = timed(lambda q=query, v=values: engine.run(q.sql, v))  # type: ignore[misc]
            except FleetError as error:
                # A query that fails is an outcome, too: the others go on.
                print(f"{say} {name} failed: {error}", file=sys.stderr, flush=True)
                break
            times.setdefault(name, []).append((seconds, cpu_s() - before))
        print(
            f"{say} {name}: {', '.join(f'{s:.2f} ({c:.2f} CPU)' for s, c in times.get(name, []))} s",
            file=sys.stderr,
            flush=True,
        )
    return times, answers


def prepare(folder: Path, hosts: int, per_host: int, compact: int) -> tuple[DataSet, Size]:
    """Generates a data set where it is not there, and checks it."""
    place = folder / f"{hosts}-{per_host}-{compact}"
    generate_s = 0.0
    if not (place / "planted.json").exists():
        generate_s, _ = timed(lambda: generate(place, hosts, hosts * per_host, 1, compact=compact))
    check_s, dataset = timed(lambda: open_dataset(place))
    if dataset.left_out:
        raise SystemExit(f"{place}: {dataset.left_out[0]}; remove the folder and run again")
    trusted_s, _ = timed(lambda: open_dataset(place, trust=True))
    tables: dict[str, int] = {}
    for file in dataset.files:
        tables[file.table] = tables.get(file.table, 0) + file.size
    size = Size(
        hosts, per_host // 2 * 2 * hosts, len(dataset.files), dataset.bytes, tables, generate_s, check_s, trusted_s
    )
    return dataset, size


def main() -> int:
    """Measures, and writes the raw observations."""
    parser = argparse.ArgumentParser(description="Time queries as the fleet grows.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--messages-per-host", type=int, default=33_333)
    parser.add_argument("--compact", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    prepared = [prepare(options.folder, hosts, options.messages_per_host, options.compact) for hosts in options.sizes]
    empty_folder = options.folder / "empty"
    (empty_folder / "publications").mkdir(parents=True, exist_ok=True)
    empty = open_dataset(empty_folder)

    answers: dict[int, dict[str, Result]] = {}
    empty_s: dict[str, dict[str, list[Seconds]]] = {}
    duck = DuckEngine(empty)
    empty_s["duckdb"], _ = run_all(duck, options.repetitions, "duckdb empty")
    duck.close()
    for dataset, size in prepared:
        size.view_s["duckdb"], engine = timed(lambda d=dataset: DuckEngine(d))  # type: ignore[misc]
        size.times_s["duckdb"], answers[size.hosts] = run_all(engine, options.repetitions, f"duckdb {size.hosts}")
        engine.close()

    start_s, spark = timed(lambda: SparkEngine(empty, options.master))
    # The first queries of a session load classes and compile: they run on the smallest data set, and are not counted.
    spark.use(prepared[0][0])
    for _ in range(2):
        run_all(spark, 1, "spark warm-up")
    spark.use(empty)
    empty_s["spark"], _ = run_all(spark, options.repetitions, "spark empty")
    for dataset, size in prepared:
        size.load.append(os.getloadavg()[0])
        size.view_s["spark"], _ = timed(lambda d=dataset: spark.use(d))  # type: ignore[misc]
        size.times_s["spark"], theirs = run_all(spark, options.repetitions, f"spark {size.hosts}")
        size.load.append(os.getloadavg()[0])
        for name, answer in theirs.items():
            found = differences(answers[size.hosts][name], answer)
            size.equal[name] = not found
            if found:
                print(f"{size.hosts} {name} differs: {found[:3]}", file=sys.stderr)
        document = {
            "versions": {"duckdb": duck.version, "spark": spark.version},
            "master": options.master,
            "compact": options.compact,
            "spark_start_s": start_s,
            "empty_s": empty_s,
            "sizes": [asdict(each) for _, each in prepared],
        }
        options.json.write_text(json.dumps(document, indent=1))
    spark.close()
    sys.stdout.write(tables(document))
    return 0


T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}


def exponent(sizes: list[int], seconds: list[float]) -> tuple[float, float] | None:
    """Slope of log time on log size by least squares, and its half-width at 95 %; None where a time is not positive."""
    if len(sizes) < 3 or not all(s > 0 for s in seconds):
        return None
    x, y = [math.log(s) for s in sizes], [math.log(s) for s in seconds]
    slope, intercept = statistics.linear_regression(x, y)
    df = len(x) - 2
    squares = sum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.mean(x)) ** 2 for a in x)
    t = T_975.get(df, 1.96 + 2.6 / df)
    return slope, t * math.sqrt(squares / df / spread)


def tables(document: dict[str, object]) -> str:
    """The outcome as Markdown."""
    sizes: list[dict[str, object]] = document["sizes"]  # type: ignore[assignment]
    empty: dict[str, dict[str, list[Seconds]]] = document["empty_s"]  # type: ignore[assignment]
    lines = []
    hosts: list[int] = [int(str(s["hosts"])) for s in sizes]
    for engine, kind in (("duckdb", 0), ("duckdb", 1), ("spark", 0), ("spark", 1)):
        name_of = ("elapsed", "CPU")[kind]
        lines.append(f"\n### {engine}: seconds ({name_of}), less the empty data set's\n")
        lines.append("| query | empty | " + " | ".join(f"{h:,} hosts" for h in hosts) + " | exponent |")
        lines.append("|---|" + "---:|" * (len(hosts) + 2))
        sums: dict[int, float] = dict.fromkeys(hosts, 0.0)
        for name, bases in empty[engine].items():
            base = [seconds[kind] for seconds in bases]
            times: list[list[float]] = [
                [seconds[kind] for seconds in s["times_s"][engine].get(name, [])]  # type: ignore[index]
                for s in sizes
            ]
            nothing = statistics.median(base)
            points = [(h, t - nothing) for h, each in zip(hosts, times, strict=True) for t in each]
            net = [statistics.median(t) - nothing if t else None for t in times]
            for h, seconds in zip(hosts, net, strict=True):
                sums[h] += seconds if seconds is not None else math.nan
            lines.append(_line(name, nothing, net, points))
        everything = sum(statistics.median(s[kind] for s in bases) for bases in empty[engine].values())
        lines.append(_line("all", everything, [*sums.values()], [*sums.items()]))
    return "\n".join(lines) + "\n"


def _line(name: str, empty: float, net: Sequence[float | None], points: list[tuple[int, float]]) -> str:
    """A row. Every repetition is a point of the fit; of sums there is one for each size."""
    fit = exponent([h for h, _ in points], [s for _, s in points])
    told = f"{fit[0]:.2f} ± {fit[1]:.2f}" if fit else "–"
    cells = ["failed" if s is None or math.isnan(s) else f"{s:.2f}" for s in net]
    return f"| {name} | {empty:.2f} | {' | '.join(cells)} | {told} |"


if __name__ == "__main__":
    sys.exit(main())
