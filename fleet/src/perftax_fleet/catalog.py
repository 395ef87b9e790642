"""The queries that come with the package: SQL text, what each answers, its parameters and columns.

A query's header is read, not repeated: lines `-- param NAME TYPE [= DEFAULT]: …`,
`-- column NAME [(UNIT)]: …`, and `-- text COLUMN…` for what a terminal has room for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from perftax_fleet.errors import UsageError

Value = str | int | float | None

_PARAM = re.compile(r"-- param (\w+) (text|int|double)(?: = (\S+))?: (.+)")
_COLUMN = re.compile(r"-- column (\w+)(?: \(([^)]+)\))?: (.+)")
# Strings, quoted names, comments and casts hold no placeholders.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """A named placeholder. Without a default (`required`) it has to be given; `null` stands for no limit."""

    name: str
    kind: str
    default: str | None
    about: str

    @property
    def required(self) -> bool:
        return self.default is None

    def parse(self, text: str) -> Value:
        """The value that the text stands for. Raises `UsageError`."""
        if text == "null":
            return None
        try:
            return {"text": str, "int": int, "double": float}[self.kind](text)  # type: ignore[no-any-return]
        except ValueError:
            raise UsageError(f"--param {self.name}={text}: needed is {self.kind} ({self.about})") from None


@dataclass(frozen=True)
class Query:
    """One query: `title` says what it answers, `units` the unit of each column that has one."""

    name: str
    title: str
    sql: str
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]
    units: Mapping[str, str]
    shown: tuple[str, ...] = ()
    """Columns of the text form; all of them where empty."""

    def bind(self, given: Mapping[str, str]) -> dict[str, Value]:
        """A value for each parameter, from texts `k=v`. Raises `UsageError` for names and values that do not fit."""
        names = [p.name for p in self.parameters]
        for name in given:
            if name not in names:
                known = ", ".join(names) or "none"
                raise UsageError(f"--param {name}: {self.name} has no such parameter; it has: {known}")
        values: dict[str, Value] = {}
        for parameter in self.parameters:
            text = given.get(parameter.name, parameter.default)
            if text is None:
                raise UsageError(f"{self.name} needs --param {parameter.name}=…: {parameter.about}")
            values[parameter.name] = parameter.parse(text)
        return values


def names() -> list[str]:
    """All queries by name."""
    return sorted(
        f.name.removesuffix(".sql") for f in files(__package__).joinpath("queries").iterdir() if f.name.endswith(".sql")
    )


def load(name: str) -> Query:
    """The query of that name. Raises `UsageError`."""
    if name not in names():
        raise UsageError(f"query {name!r} is unknown; known are: {', '.join(names())}")
    return parse(name, files(__package__).joinpath("queries", f"{name}.sql").read_text(encoding="utf-8"))


def parse(name: str, sql: str) -> Query:
    """Reads a query's header."""
    title = ""
    shown: tuple[str, ...] = ()
    parameters: list[Parameter] = []
    columns: list[str] = []
    units: dict[str, str] = {}
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        if found := _PARAM.match(line):
            parameters.append(Parameter(*found.groups()))
        elif found := _COLUMN.match(line):
            columns.append(found[1])
            if found[2]:
                units[found[1]] = found[2]
        elif line.startswith("-- text "):
            shown = tuple(line.split()[2:])
        elif not title:
            title = line.removeprefix("--").strip()
    return Query(name, title, sql, tuple(parameters), tuple(columns), units, shown)


def placeholders(sql: str) -> list[str]:
    """Names of the placeholders `:name`, each once."""
    return list(dict.fromkeys(found[1] for found in _TOKEN.finditer(sql) if found[1]))


def with_dollars(sql: str, known: Iterable[str]) -> str:
    """The same text with `$name` for `:name`, as DuckDB binds it."""
    wanted = set(known)
    return _TOKEN.sub(lambda found: f"${found[1]}" if found[1] in wanted else found[0], sql)
