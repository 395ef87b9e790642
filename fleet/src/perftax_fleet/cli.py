"""The command `perftax-fleet`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from perftax_fleet import __version__, catalog, remote, text
from perftax_fleet.catalog import Query
from perftax_fleet.dataset import DataSet, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Engine
from perftax_fleet.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_LEFT_OUT, FleetError, UsageError
from perftax_fleet.generate import generate
from perftax_fleet.page import page
from perftax_fleet.publish import write_atomically
from perftax_fleet.spark import SparkEngine

_EXAMPLES = """examples:
  perftax-fleet generate DIR --hosts 100 --messages 1000000 --seed 1
  perftax-fleet page DIR -o fleet.html
  perftax-fleet query tail_blame DIR
  perftax-fleet query rollout DIR --param before=a41 --param after=a42
  perftax-fleet sql DIR 'SELECT service, COUNT(*) FROM messages GROUP BY service ORDER BY service'
"""


def run() -> None:
    """The command as a process. After ^C it ends at once: threads of an engine may not heed it."""
    code = main()
    if code == EXIT_INTERRUPTED:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except FleetError as error:
        print(f"perftax-fleet: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # `… | head` is no failure. What Python flushes at its end goes nowhere.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"perftax-fleet: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_FAILURE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perftax-fleet", description="Queries over what many hosts published with perftax.", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"perftax-fleet {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    query = _command(commands, "query", "run a query that comes with perftax-fleet", _query)
    query.add_argument("name", metavar="NAME", help=", ".join(catalog.names()))
    _of_dataset(query)
    _of_engine(query)
    query.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter; `null`: no limit")
    query.add_argument("--format", choices=("text", "csv", "json"), default="text")

    sql = _command(commands, "sql", "run SQL over the tables of a data set", _sql)
    _of_dataset(sql)
    sql.add_argument("statement", metavar="SQL")
    _of_engine(sql)
    sql.add_argument("--format", choices=("text", "csv", "json"), default="text")

    check = _command(commands, "check", "check every file of a data set", _check)
    _of_dataset(check)

    html = _command(commands, "page", "write one page about the fleet", _page)
    _of_dataset(html)
    _of_engine(html)
    html.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")

    made = _command(commands, "generate", "write the data set of a made-up fleet, to try queries on", _generate)
    made.add_argument("folder", type=Path, metavar="DIR")
    made.add_argument("--hosts", type=int, default=100, metavar="N")
    made.add_argument("--messages", type=int, default=1_000_000, metavar="M", help="of all hosts together")
    made.add_argument("--seed", type=int, default=1, metavar="S")
    made.add_argument("--compact", type=int, default=0, metavar="N", help="that many hosts share a publication")
    return parser


def _command(commands: object, name: str, about: str, run: object) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)  # type: ignore[attr-defined]
    parser.set_defaults(run=run)
    return parser


def _of_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="the folder that hosts publish to, or s3://BUCKET/PATH")
    parser.add_argument("--trust", action="store_true", help="do not hash files; sizes and footers are still checked")
    parser.add_argument("--strict", action="store_true", help="exit code 3 where anything was left out")
    parser.add_argument("--since", type=_day, metavar="DATE", help="only from that day on (of messages, not of hosts)")
    parser.add_argument("--until", type=_day, metavar="DATE", help="only up to that day, included")


def _of_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    parser.add_argument("--master", metavar="M", help="Spark's master, e.g. spark://HOST:7077, local-cluster[2,1,1024]")


def _day(value: str) -> date:
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r}: needed is a date like 2026-11-29") from None


def _open(options: argparse.Namespace) -> DataSet:
    address: str = options.dataset
    folder = remote.fetch(address, *remote.open_store(address)) if remote.is_remote(address) else Path(address)
    dataset = open_dataset(folder, trust=options.trust, name=address).between(options.since, options.until)
    for line in text.warnings(dataset):
        print(f"perftax-fleet: {line}", file=sys.stderr)
    return dataset


def _engine(options: argparse.Namespace, dataset: DataSet) -> Engine:
    if options.engine == "spark":
        return SparkEngine(dataset, options.master)
    if options.master:
        raise UsageError(f"--master {options.master}: is of Spark; add --engine spark")
    return DuckEngine(dataset)


def _code(options: argparse.Namespace, dataset: DataSet) -> int:
    return EXIT_LEFT_OUT if options.strict and dataset.left_out else 0


def _given(words: Sequence[str]) -> dict[str, str]:
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--param {word}: needed is NAME=VALUE")
        given[name] = value
    return given


def _query(options: argparse.Namespace) -> int:
    query = catalog.load(options.name)
    values = query.bind(_given(options.param))
    if query.name == "rollout" and values["moment_ns"] is None and None in (values["before"], values["after"]):
        raise UsageError("rollout needs --param before=REVISION and --param after=REVISION, or --param moment_ns=TIME")
    return _answer(options, query, values)


def _sql(options: argparse.Namespace) -> int:
    return _answer(options, Query("sql", "", options.statement, (), (), {}), {})


def _answer(options: argparse.Namespace, query: Query, values: dict[str, catalog.Value]) -> int:
    dataset = _open(options)
    engine = _engine(options, dataset)
    try:
        result = engine.run(query.sql, values)
    finally:
        engine.close()
    if options.format == "csv":
        # Python translates line ends on text streams; CSV has its own.
        sys.stdout.write(text.as_csv(result).replace("\r\n", "\n"))
        print(f"perftax-fleet: {text.summary(dataset)}", file=sys.stderr)
    elif options.format == "json":
        sys.stdout.write(text.as_json(query, result, dataset, {"parameters": values, "engine": engine.name}))
    else:
        sys.stdout.write(text.as_text(query, result, dataset, _width()))
    return _code(options, dataset)


def _width() -> int:
    """A terminal's width; without a terminal nothing is cut: two CPUs' names may differ in their middle."""
    return shutil.get_terminal_size((text.WIDTH, 24)).columns if sys.stdout.isatty() else sys.maxsize


def _check(options: argparse.Namespace) -> int:
    dataset = _open(options)
    for each in dataset.left_out:
        print(text.printable(str(each)))
    print(text.summary(dataset))
    return _code(options, dataset)


def _page(options: argparse.Namespace) -> int:
    dataset = _open(options)
    engine = _engine(options, dataset)
    try:
        content = page(dataset, engine)
    finally:
        engine.close()
    write_atomically(options.output, content.encode())
    print(f"{options.output}: {text.summary(dataset)}")
    return _code(options, dataset)


def _generate(options: argparse.Namespace) -> int:
    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} of {options.hosts:,} hosts", end="", file=sys.stderr)

    planted = generate(
        options.folder, options.hosts, options.messages, options.seed, compact=options.compact, progress=say
    )
    print(f"{options.folder}: {planted.hosts:,} hosts, {planted.messages:,} messages; planted.json says what to find")
    print(f"next   perftax-fleet page {options.folder} -o fleet.html")
    return 0


if __name__ == "__main__":
    run()
