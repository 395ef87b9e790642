"""How long each query takes as the fleet grows, in DuckDB and in Spark, and whether both give the same answers.

    python benchmark.py FOLDER --sizes 100 300 1000 3000 --messages-per-host 33333 --json raw.json
    python benchmark.py --show raw.json          # the tables of an earlier run

What grows with the fleet is a query's time less that of the same query on the base: few hosts with few messages,
where every table has rows and every query an answer. Of empty tables Spark cuts the plan away, and with it the prices
of the stages that every other data set pays. A session's first rounds over all data sets compile, and are not counted;
the base is measured again before each size, so that what still drifts meets both.
CPU time of all processes of the engine is measured beside: on a machine that others use, elapsed time is theirs, too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from perftax_fleet import catalog
from perftax_fleet.compare import differences
from perftax_fleet.dataset import DataSet, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Engine, Result
from perftax_fleet.errors import FleetError
from perftax_fleet.generate import generate
from perftax_fleet.schema import TABLES
from perftax_fleet.spark import SparkEngine

T = TypeVar("T")
Seconds = tuple[float, float]
"""Elapsed, and CPU."""
PARAMETERS: dict[str, dict[str, str]] = {"rollout": {"before": "a41", "after": "a42"}}
BASE_HOSTS, BASE_MESSAGES = 15, 400
"""So many hosts that each query has an answer; messages of each host."""
ENGINES = ("duckdb", "spark")
KINDS = ("elapsed", "CPU")
JUDGED = 10
"""A query's exponent counts where its time at the largest size is this many times the base's."""


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


def run_all(engine: Engine, names: Sequence[str], say: str) -> tuple[dict[str, Seconds], dict[str, Result]]:
    """Each query's time and its answer. One that fails has none, and the others go on: it is an outcome, too."""
    times: dict[str, Seconds] = {}
    answers: dict[str, Result] = {}
    for name in names:
        query = catalog.load(name)
        values = query.bind(PARAMETERS.get(name, {}))
        before = cpu_s()
        try:
            seconds, answers[name] = timed(lambda q=query, v=values: engine.run(q.sql, v))  # type: ignore[misc]
        except FleetError as error:
            print(f"{say} {name} failed: {error}", file=sys.stderr, flush=True)
            continue
        times[name] = (seconds, cpu_s() - before)
    told = ", ".join(f"{name} {s:.2f} ({c:.2f} CPU)" for name, (s, c) in times.items())
    print(f"{say}: {told}", file=sys.stderr, flush=True)
    return times, answers


def keep(size: Size, engine: str, times: Mapping[str, Seconds]) -> None:
    """Adds a round's times."""
    for name, seconds in times.items():
        size.times_s.setdefault(engine, {}).setdefault(name, []).append(seconds)


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
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--messages-per-host", type=int, default=33_333)
    parser.add_argument("--compact", type=int, default=0)
    parser.add_argument("--queries", nargs="+", default=catalog.names())
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds over all sizes that are not counted")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds over all sizes that are")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--json", type=Path, help="raw observations, written anew after each size")
    parser.add_argument("--show", type=Path, metavar="JSON", help="measure nothing: print the tables of an earlier run")
    options = parser.parse_args()
    if options.show:
        sys.stdout.write(tables(json.loads(options.show.read_text())))
        return 0
    if not options.folder or not options.json:
        parser.error("needed are FOLDER and --json FILE, or --show JSON")
    base = prepare(options.folder, BASE_HOSTS, BASE_MESSAGES, options.compact)
    if lacking := set(TABLES) - set(base[1].table_bytes):
        raise SystemExit(f"the base has no rows in {', '.join(sorted(lacking))}")
    prepared = [prepare(options.folder, hosts, options.messages_per_host, options.compact) for hosts in options.sizes]
    document: dict[str, Any] = {"master": options.master, "compact": options.compact, "versions": {}}
    answers = _measure_duck([base, *prepared], options.queries, options.warm_ups, options.repetitions)
    document["versions"]["duckdb"] = DuckEngine.version
    document["spark_start_s"], spark = timed(lambda: SparkEngine(base[0], options.master))
    document["versions"]["spark"] = spark.version
    for number in range(-options.warm_ups, options.repetitions):
        for dataset, size in prepared:
            # The base again before each size; a small size twice, because little of its time is not the base's.
            twice = size.hosts * 20 <= prepared[-1][1].hosts
            for some, what in (base, *[(dataset, size)] * (2 if twice else 1)):
                what.load.append(os.getloadavg()[0])
                what.view_s["spark"], _ = timed(lambda d=some: spark.use(d))  # type: ignore[misc]
                say = f"spark round {number if number >= 0 else 'of warming up'}, {what.hosts} hosts"
                times, theirs = run_all(spark, options.queries, say)
                if number < 0:
                    continue
                keep(what, "spark", times)
                for name, answer in theirs.items():
                    found = differences(answers[what.hosts][name], answer)
                    what.equal[name] = what.equal.get(name, True) and not found
                    if found:
                        print(f"{what.hosts} {name} differs: {found[:3]}", file=sys.stderr)
            document |= {"base": asdict(base[1]), "sizes": [asdict(each) for _, each in prepared]}
            options.json.write_text(json.dumps(document, indent=1))
    spark.close()
    sys.stdout.write(tables(document))
    return 0


def _measure_duck(
    prepared: Sequence[tuple[DataSet, Size]], names: Sequence[str], warm_ups: int, repetitions: int
) -> dict[int, dict[str, Result]]:
    """DuckDB's times, and the answers by size, which are Spark's to match."""
    answers = {}
    for dataset, size in prepared:
        size.view_s["duckdb"], engine = timed(lambda d=dataset: DuckEngine(d))  # type: ignore[misc]
        for number in range(-warm_ups, repetitions):
            times, answers[size.hosts] = run_all(engine, names, f"duckdb {size.hosts} hosts")
            if number >= 0:
                keep(size, "duckdb", times)
        engine.close()
    return answers


Times = list[list[float]]
"""Of each query that is summed: its repetitions."""


def total(times: Times) -> float:
    """The sum of the queries' medians."""
    return sum(statistics.median(each) for each in times)


def exponent(sizes: Sequence[int], net: Sequence[float]) -> float:
    """Slope of log time on log size by least squares; NaN where a time is not positive."""
    if len(sizes) < 3 or not all(s > 0 for s in net):
        return math.nan
    return statistics.linear_regression([math.log(s) for s in sizes], [math.log(s) for s in net]).slope


def line(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Fixed part and slope of time = fixed + slope * size, by least squares of relative deviations."""
    if not all(s > 0 for s in seconds):
        return math.nan, math.nan
    weights = [1 / s**2 for s in seconds]
    mean_x = sum(w * x for w, x in zip(weights, sizes, strict=True)) / sum(weights)
    mean_y = sum(w * y for w, y in zip(weights, seconds, strict=True)) / sum(weights)
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(weights, sizes, strict=True))
    both = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in zip(weights, sizes, seconds, strict=True))
    slope = both / spread if spread else math.nan
    return mean_y - slope * mean_x, slope


@dataclass(frozen=True)
class Growth:
    """How a time grows with the hosts. An interval (95 %) is of the middle of resampled repetitions."""

    exponent: float
    exponent_ends: tuple[float, float]
    fixed_s: float
    fixed_ends: tuple[float, float]
    slope_s: float


def growth(sizes: Sequence[int], base: Times, times: Sequence[Times], resamples: int = 2000) -> Growth:
    """The exponent of the times less the base, and the line through the times themselves, which knows of no base."""

    def fit(some_base: Times, some: Sequence[Times]) -> tuple[float, float, float]:
        seconds = [total(each) for each in some]
        net = [each - total(some_base) for each in seconds]
        return (exponent(sizes, net), *line(sizes, seconds))

    chance = random.Random(1)

    def again(each: Times) -> Times:
        return [chance.choices(repetitions, k=len(repetitions)) for repetitions in each]

    fits = [fit(again(base), [again(each) for each in times]) for _ in range(resamples)]
    power, fixed, slope = fit(base, times)
    return Growth(power, _ends([f[0] for f in fits]), fixed, _ends([f[1] for f in fits]), slope)


def _ends(values: list[float]) -> tuple[float, float]:
    """The middle 95 %; no ends where some resample has no value."""
    if any(math.isnan(value) for value in values):
        return math.nan, math.nan
    ordered = sorted(values)
    return ordered[len(ordered) * 25 // 1000], ordered[len(ordered) * 975 // 1000 - 1]


def tables(document: Mapping[str, Any]) -> str:
    """The outcome as Markdown."""
    base, sizes = document["base"], document["sizes"]
    hosts = [int(s["hosts"]) for s in sizes]
    lines = []
    for engine, kind in ((engine, kind) for engine in ENGINES for kind in (0, 1)):
        lines.append(f"\n### {engine}: seconds ({KINDS[kind]})\n")
        lines.append(
            f"| query | base | {' | '.join(f'{h:,} hosts' for h in hosts)} | largest / base "
            "| exponent, less the base | fixed part of a line | slope, ms a host |"
        )
        lines.append("|---|" + "---:|" * (len(hosts) + 5))
        names = [n for n in base["times_s"][engine] if all(n in s["times_s"].get(engine, {}) for s in sizes)]
        groups = [(name, [name]) for name in names] + [("all", names)]
        for label, some in groups:
            of_base, of_sizes = (
                [[[seconds[kind] for seconds in s["times_s"][engine][name]] for name in some] for s in each]
                for each in ([base], sizes)
            )
            lines.append(_line(label, hosts, of_base[0], of_sizes))
    lines.append("\n### Raw observations: elapsed/CPU seconds of each repetition\n\n```")
    for engine in ENGINES:
        for size in (base, *sizes):
            for name, times in size["times_s"].get(engine, {}).items():
                told = ", ".join(f"{s:.3f}/{c:.2f}" for s, c in times)
                lines.append(f"{engine}, {size['hosts']} hosts, {name}: {told}")
    return "\n".join(lines) + "\n```\n"


def _line(label: str, hosts: Sequence[int], base: Times, times: Sequence[Times]) -> str:
    """A row: medians, and how they grow."""
    found = growth(hosts, base, times)
    nothing, seconds = total(base), [total(each) for each in times]
    ratio = seconds[-1] / nothing if nothing else math.inf
    cells = [f"{s:.2f}" for s in (nothing, *seconds)]
    power = _told(found.exponent, found.exponent_ends)
    cells += [f"{ratio:.1f}", f"**{power}**" if ratio >= JUDGED else power]
    cells += [_told(found.fixed_s, found.fixed_ends), f"{found.slope_s * 1e3:.3f}"]
    return f"| {label} | {' | '.join(cells)} |"


def _told(value: float, ends: tuple[float, float]) -> str:
    """A value and its interval; a dash for none."""
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if math.isnan(ends[0]) else f"{value:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


if __name__ == "__main__":
    sys.exit(main())
