"""One page about a fleet: it opens offline, loads nothing, and says what was left out.

Every text comes from hosts that anybody may have named: all of it is escaped, and the page runs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from importlib.resources import files

from perftax_fleet import __version__, catalog
from perftax_fleet.catalog import Query
from perftax_fleet.dataset import DataSet
from perftax_fleet.engine import Cell, Engine, Result
from perftax_fleet.text import cell, grid, printable, summary
from perftax_fleet.units import number

Record = dict[str, Cell]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
MAX_NAMED = 50


@dataclass(frozen=True)
class Part:
    """A section: a query, how many rows of it (of each service, where it has any), the column that bars draw."""

    query: str
    heading: str
    caption: str
    rows: int
    parameters: Mapping[str, str]
    bar: str | None = None
    bad: Callable[[Record], bool] | None = None
    nothing: str = "Nothing is known of this."
    of_messages: bool = True
    """Left out where no messages were published."""


PARTS = (
    Part(
        "tail_blame",
        "Where slow messages’ extra time went",
        "Extra time of a slow message over the mean of the others: of each service, the largest. "
        "Intervals (95 %) take hosts as the unit.",
        8,
        {},
        bar="share",
    ),
    Part(
        "slow_hosts",
        "Slow hosts",
        "Marked: the lower end of the host’s 99.9 % quantile lies above its service’s. "
        "The cause is what its slow messages have more of.",
        8,
        {},
        bad=lambda record: record["is_slow"] == 1,
        nothing="No host published latencies.",
    ),
    Part("latency", "Latency", "Quantiles of all messages, from merged histograms.", 30, {}),
    Part(
        "slow_by_kernel_cpu",
        "By kernel",
        "Ratio: the hosts’ 99 % quantile by that of the service’s other hosts, with hosts as the unit.",
        20,
        {"by": "kernel"},
    ),
    Part(
        "outliers",
        "Machines whose prices depart",
        "Machines outside of what the others of their CPU predict (all machines of a group together: 95 %). "
        "Differs: settings that may explain it, because the others that have them depart, too.",
        30,
        {},
        nothing="Every machine’s prices are as the others’ predict.",
        of_messages=False,
    ),
    Part(
        "prices",
        "What a sample costs",
        "Time of a sample (alpha; the query has its other parts, too). Mean over machines with its 95 % interval; "
        "tau is the spread from machine to machine. Machines are the unit, not samples.",
        60,
        {"term": "alpha"},
        nothing="No host published prices.",
        of_messages=False,
    ),
    Part(
        "hops",
        "Between services",
        "Time on the way, queues included, as far as the hosts’ clocks tell: the interval holds both clocks’ errors.",
        30,
        {},
        nothing="No hop has both ends.",
    ),
)


def page(dataset: DataSet, engine: Engine) -> str:
    """The page as HTML."""
    lead, facts = _lead(engine)
    sections = [_section(part, engine) for part in PARTS if facts or not part.of_messages]
    if not facts:
        lead, facts = _lead_of_prices(engine)
    made_by = _html(f"perftax-fleet {__version__}, {engine.name} {engine.version}")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>perftax fleet</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
<p class="kind">perftax fleet</p>
<h1>{_html(dataset.folder)}</h1>
<p class="lead">{lead}</p>
<p class="caption">{facts}</p>
</header>
{_left_out(dataset)}
{"".join(sections)}
<footer>{_html(summary(dataset))} · {made_by} · {now}</footer>
</main>
</body>
</html>
"""


def _html(text: str) -> str:
    return escape(printable(text), quote=True)


def _lead(engine: Engine) -> tuple[str, str]:
    """The answer in a sentence: the largest extra, the slowest host. Then how much this is of.

    Empty without messages."""
    blame = catalog.load("tail_blame")
    top = max(
        engine.run(blame.sql, blame.bind({})).records(),
        key=lambda record: _float(record["extra_ns"]) * _float(record["slow_messages"]),
        default=None,
    )
    if top is None:
        return "", ""
    what = f"{top['cause']} ({top['detail']})" if top["detail"] else str(top["cause"])
    sentences = [
        f"Slow messages of {_html(str(top['service']))} lose most to <b>{_html(what)}</b>: "
        f"{_html(cell(blame, top, 'extra_ns'))} each, {_html(cell(blame, top, 'share'))} of their extra time."
    ]
    slow = catalog.load("slow_hosts")
    hosts = [r for r in engine.run(slow.sql, slow.bind({"top": "1"})).records() if r["is_slow"]]
    if hosts:
        worst = hosts[0]
        cause = f"{worst['cause']} ({worst['detail']})" if worst["detail"] else str(worst["cause"])
        sentences.append(
            f"The slowest host is <b>{_html(str(worst['host']))}</b>, {_float(worst['ratio']):.2f} times the "
            f"99.9 % quantile of {_html(str(worst['service']))}, by {_html(cause)}."
        )
    latency = catalog.load("latency")
    records = engine.run(latency.sql, latency.bind({})).records()
    messages = number(sum(int(_float(r["messages"])) for r in records), "count")
    hosts_n = number(sum(int(_float(r["hosts"])) for r in records), "count")
    return " ".join(sentences), f"{messages} messages of {len(records)} services on {hosts_n} hosts."


def _lead_of_prices(engine: Engine) -> tuple[str, str]:
    """The same where no messages were published: whose prices depart."""
    outliers = catalog.load("outliers")
    hosts = sorted({str(r["host"]) for r in engine.run(outliers.sql, outliers.bind({})).records()})
    named = ", ".join(f"<b>{_html(host)}</b>" for host in hosts[:MAX_NAMED])
    more = f" and {len(hosts) - MAX_NAMED:,} more" if len(hosts) > MAX_NAMED else ""
    prices = "SELECT COUNT(DISTINCT fingerprint) AS machines, COUNT(DISTINCT host) AS hosts FROM prices"
    (of,) = engine.run(prices, {}).records()
    if not of["hosts"]:
        return "Neither messages nor prices were published.", ""
    nobody = "No machine’s price departs from what the others’ predict."
    verdict = f"Prices depart on {named}{more}." if hosts else nobody
    machines, n = (number(int(_float(of[name])), "count") for name in ("machines", "hosts"))
    return verdict, f"Prices of {machines} machines, published as {n} hosts; no messages."


def _float(value: Cell) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _left_out(dataset: DataSet) -> str:
    items = [f"<li>{_html(str(each))}</li>" for each in dataset.left_out[:MAX_NAMED]]
    if len(dataset.left_out) > MAX_NAMED:
        items.append(
            f"<li>and {len(dataset.left_out) - MAX_NAMED:,} more: <code>perftax-fleet check</code> names all</li>"
        )
    items += [f"<li>{_html(each)}</li>" for each in dataset.warnings]
    if not dataset.publications:
        items.append("<li>The data set holds no publication that counts.</li>")
    if not items:
        return ""
    n = len(dataset.left_out)
    return (
        f'<section class="warnings"><h2>Left out: {n:,} files or publications</h2>'
        f"<p>What stands here is in no number below.</p><ul>{''.join(items)}</ul></section>"
    )


def _section(part: Part, engine: Engine) -> str:
    query = catalog.load(part.query)
    result = engine.run(query.sql, query.bind(part.parameters))
    body = _table(part, query, result) if result.rows else f"<p>{_html(part.nothing)}</p>"
    more = len(result.rows) - len(_first(part, result).rows)
    rest = (
        f'<p class="caption">and {more:,} more rows: <code>perftax-fleet query {part.query}</code></p>'
        if more > 0
        else ""
    )
    return (
        f'<section><h2>{_html(part.heading)}</h2><p class="caption">{_html(part.caption)}</p>{body}{rest}</section>\n'
    )


def _first(part: Part, result: Result) -> Result:
    """The first rows of each service."""
    index = result.columns.index("service") if "service" in result.columns else None
    seen: dict[Cell, int] = {}
    kept = []
    for row in result.rows:
        service = row[index] if index is not None else None
        seen[service] = seen.get(service, 0) + 1
        if seen[service] <= part.rows:
            kept.append(row)
    return Result(result.columns, tuple(kept))


def _table(part: Part, query: Query, result: Result) -> str:
    result = _first(part, result)
    # What a parameter says is the same in each row.
    query = replace(query, shown=tuple(name for name in query.shown if name not in part.parameters))
    columns = grid(query, result, len(result.rows))
    records = result.records()
    names = [c for c in query.shown if any(record[c] is not None for record in records)]
    head = "".join(
        f"<th{_class('number' if n else '')}>{_html(h)}</th>"
        for h, n in zip(columns.headings, columns.numeric, strict=True)
    )
    rows: list[str] = []
    for record, texts in zip(records, columns.rows, strict=True):
        cells = [
            _cell(heading, text, is_number, _float(record[name]) if name == part.bar else None)
            for name, heading, text, is_number in zip(names, columns.headings, texts, columns.numeric, strict=True)
        ]
        rows.append(f"<tr{_class('bad' if part.bad and part.bad(record) else '')}>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _cell(heading: str, text: str, is_number: bool, bar: float | None) -> str:
    kind = "number" if is_number else "wrap" if len(text) > 18 else ""
    size = ""
    if bar is not None:
        kind += " bar"
        size = f' style="background-size: {100 * min(max(bar, 0.0), 1.0):.1f}% 70%"'
    return f'<td{_class(kind.strip())}{size} data-name="{_html(heading)}">{_html(text)}</td>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
