from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small import histogram_row, publish, publish_histogram

from perftax_fleet import catalog, text
from perftax_fleet.cli import main
from perftax_fleet.compare import differences
from perftax_fleet.dataset import open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.generate import Planted, generate
from perftax_fleet.units import estimate, number

ODD = "</style><script>alert('x')</script>\n\x1b[31m\"é"


def test_text_is_at_most_110_columns_wide(
    fleet_folder: tuple[Path, Planted], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftax_fleet.cli._width", lambda: text.WIDTH)
    folder = str(fleet_folder[0])
    for name in ("tail_blame", "slow_hosts", "slow_by_kernel_cpu", "prices", "outliers", "hops", "functions", "audits"):
        assert main(["query", name, folder, "--trust"]) == 0
        out = capsys.readouterr().out
        assert "files left out: 0" in out
        assert max(map(len, out.splitlines()[1:])) <= text.WIDTH, name


def test_csv_and_json_hold_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(tmp_path, 1, "histograms", [histogram_row(3)], service=ODD)
    assert main(["query", "latency", str(tmp_path), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["query", "latency", str(tmp_path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert rows[0]["service"] == document["rows"][0]["service"] == ODD
    assert document["files_left_out"] == 0


def test_what_is_left_out_is_said_and_strict_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish_histogram(tmp_path, 1, 10)
    path = publish_histogram(tmp_path, 2, 100)
    path.unlink()
    assert main(["query", "latency", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "files left out: 1" in said.out
    assert path.name in said.err
    assert main(["query", "latency", str(tmp_path), "--strict"]) == 3
    assert main(["check", str(tmp_path), "--strict"]) == 3
    assert path.name in capsys.readouterr().out


def test_an_empty_data_set_is_said_to_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "publications").mkdir()
    assert main(["query", "tail_blame", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "no rows" in said.out
    assert "holds no publication" in said.err
    assert main(["page", str(tmp_path), "-o", str(tmp_path / "x.html")]) == 0
    assert "holds no publication" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["query", "latency", "/nowhere"], "/nowhere: not a folder"),
        (["query", "latncy", "DATA"], "known are"),
        (["query", "latency", "DATA", "--param", "service"], "NAME=VALUE"),
        (["query", "latency", "DATA", "--param", "x=1"], "no such parameter"),
        (["query", "latency", "DATA", "--master", "local"], "--engine spark"),
        (["sql", "DATA", "SELEC 1"], "refuses the query"),
        (["sql", "DATA", "SELECT nothing FROM messages"], "refuses the query"),
        (["query", "rollout", "DATA"], "before"),
        (["query", "latency", "gs://x/y"], "s3://"),
        (["generate", "NEW", "--hosts", "0"], "--hosts 0"),
    ],
)
def test_bad_input_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    publish_histogram(tmp_path / "data", 1, 10)
    places = {"DATA": str(tmp_path / "data"), "NEW": str(tmp_path / "new")}
    assert main([places.get(word, word) for word in arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_data_set_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish_histogram(tmp_path, 1, 10)
    assert main(["generate", str(tmp_path), "--hosts", "1", "--messages", "1000"]) == 2
    assert "holds a data set already" in capsys.readouterr().err


def test_hostile_text_is_harmless_on_the_page_and_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    publish(data, 1, "histograms", [histogram_row(5, host=ODD)], service=ODD)
    publish_histogram(data, 2, 10).unlink()
    (data / "publications" / "<script>.json").write_text("{")
    output = tmp_path / "fleet.html"
    assert main(["page", str(data), "-o", str(output)]) == 0
    html = output.read_text()
    assert "<script" not in html
    assert html.count("</style>") == 1
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html
    assert "Left out: 2" in html
    assert "\x1b" not in capsys.readouterr().err
    assert main(["query", "slow_hosts", str(data)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_page_loads_nothing(fleet_folder: tuple[Path, Planted], tmp_path: Path) -> None:
    output = tmp_path / "fleet.html"
    assert main(["page", str(fleet_folder[0]), "-o", str(output), "--trust"]) == 0
    html = output.read_text()
    assert not re.search(r"https?://|\bsrc=|<link|@import|url\(", html)
    planted = fleet_folder[1]
    assert planted.slow_host
    assert planted.slow_host in html
    assert planted.outlier_host
    assert planted.outlier_host in html
    assert "PTI on" in html


def test_generating_is_deterministic_and_compaction_changes_no_answer(tmp_path: Path) -> None:
    for name in ("a", "b"):
        generate(tmp_path / name, 6, 6000, seed=3)
    listings = [sorted(str(p.relative_to(tmp_path / n)) for p in (tmp_path / n).rglob("*")) for n in ("a", "b")]
    assert listings[0] == listings[1]
    generate(tmp_path / "c", 6, 6000, seed=3, compact=6)
    query = catalog.load("tail_blame")
    each, compacted = (DuckEngine(open_dataset(tmp_path / name)).run(query.sql, query.bind({})) for name in ("a", "c"))
    assert len(each.rows) > 20
    assert differences(each, compacted) == []


def test_an_interrupt_ends_with_130_and_no_trace(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    # A query that would take ages; the interrupt comes from within, once it runs. A parent may have handed down that
    # SIGINT is ignored.
    code = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from perftax_fleet import cli, duck
start = duck.DuckEngine._fetch
def fetch(self, sql, values):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return start(self, sql, values)
duck.DuckEngine._fetch = fetch
cli.run()
"""
    endless = "SELECT COUNT(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = 1"
    command = [sys.executable, "-c", code, "sql", str(tmp_path), endless]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert ended.returncode == 128 + signal.SIGINT
    assert ended.stdout == b""
    assert b"Traceback" not in ended.stderr


def test_numbers_are_scaled() -> None:
    assert number(17_234, "ns") == "17.2 µs"
    assert number(12_345, "count") == "12,345"
    assert number(0.058, "share") == "5.8 %"
    assert number(0.00001, "share") == "<0.01 %"
    assert number(None, "ns") == "unknown"
    assert estimate(17_200, 16_500, 17_900, "ns") == "17.2 µs ± 0.7"
    assert estimate(0.008, 0.007, 0.010, "share") == "0.80 % [0.70, 1.00]"
    assert estimate(-0.0001, -0.0141, 0.0139, "share") == "0.0 % ± 1.4"
    assert estimate(1.0, 0.96, 1.04, "number") == "1.00 ± 0.04"


def price_row(host: str, cpu: str, value: float, mitigations: str = "PTI off") -> dict[str, object]:
    """A calibration of one machine."""
    return {
        "host": host, "recording": host, "fingerprint": f"{cpu} {mitigations}", "cpu": cpu, "microcode": "",
        "kernel": "6.1", "mitigations": mitigations, "virtualisation": "none", "time_ns": 1_795_910_400_000_000_000,
        "source": "calibrate", "mechanism": "pebs", "event": "cycles:pp", "term": "alpha", "unit": "ns",
        "value": value, "low": value - 1, "high": value + 1, "confidence": 0.95,
    }  # fmt: skip


def test_a_fleet_of_prices_alone_says_who_departs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, output = tmp_path / "data", tmp_path / "fleet.html"
    names = ["Intel(R) Xeon(R) Gold 6338 CPU of the one kind", "Intel(R) Xeon(R) Gold 6338 CPU of another kind"]
    rows = [price_row(f"h{i}", names[0], 230 + i % 3) for i in range(9)]
    rows += [
        price_row("rack-10", names[0], 460),
        price_row("pti", names[0], 240, "PTI on"),
        price_row("x", names[1], 200),
    ]
    for at, row in enumerate(rows):
        publish(data, at, "prices", [row], service="-")
    assert main(["page", str(data), "-o", str(output)]) == 0
    html = output.read_text()
    assert "Prices depart on <b>rack-10</b>" in html
    assert "Prices of 3 machines, published as 12 hosts; no messages." in html
    assert "Slow hosts" not in html
    capsys.readouterr()
    # What is not on a terminal is whole: what two names differ by is not cut out.
    assert main(["query", "prices", str(data)]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in names)
    assert main(["query", "outliers", str(data)]) == 0
    assert "rack-10" in capsys.readouterr().out
