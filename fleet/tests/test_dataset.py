from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from conftest import ask
from small import DAY, MINUTE, Row, histogram_row, identity, price_row, publish, publish_histogram

from perftax_fleet.dataset import HIVE_NULL, open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.errors import UsageError


def messages(folder: Path, *, trust: bool = False) -> tuple[int, list[str]]:
    """How many messages count, and why what was left out was."""
    dataset = open_dataset(folder, trust=trust)
    engine = DuckEngine(dataset)
    total = engine.run("SELECT COALESCE(SUM(messages), 0) FROM histograms").rows[0][0]
    engine.close()
    assert isinstance(total, int)
    return total, [str(each) for each in dataset.left_out]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (flip, "corrupt"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-7]), "truncated"),
    "missing": (lambda path: path.unlink(), "is missing"),
    "empty": (lambda path: path.write_bytes(b""), "has 0 bytes"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, damage: str) -> None:
    publish_histogram(tmp_path, 1, 10)
    path = publish_histogram(tmp_path, 2, 100)
    assert messages(tmp_path) == (110, [])
    harm, why = DAMAGES[damage]
    harm(path)
    total, left_out = messages(tmp_path)
    assert total == 10
    assert len(left_out) == 1
    assert path.name in left_out[0]
    assert why in left_out[0]


def test_trust_skips_the_hash_and_nothing_else(tmp_path: Path) -> None:
    path = publish_histogram(tmp_path, 1, 10)
    # Another name with the same bytes: only the hash can tell.
    other = path.with_name("0" * 64 + ".parquet")
    path.rename(other)
    marker = tmp_path / "publications" / f"{identity(1)}.json"
    marker.write_text(marker.read_text().replace(path.name, other.name))
    assert messages(tmp_path)[0] == 0
    assert messages(tmp_path, trust=True) == (10, [])
    other.write_bytes(other.read_bytes()[:-1])
    assert messages(tmp_path, trust=True)[0] == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "2"}', '{"schema": 2, "id": "x", "files": []}'])
def test_a_damaged_publication_is_named_and_left_out(tmp_path: Path, content: str) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 2, 100)
    (tmp_path / "publications" / f"{identity(2)}.json").write_text(content)
    total, left_out = messages(tmp_path)
    assert total == 10
    assert len(left_out) == 1
    assert identity(2) in left_out[0]


@pytest.mark.parametrize("path", ["../x.parquet", "/etc/passwd", "table=histograms/x.parquet"])
def test_a_path_out_of_the_data_set_is_left_out(tmp_path: Path, path: str) -> None:
    publish_histogram(tmp_path, 1, 10)
    marker = tmp_path / "publications" / f"{identity(1)}.json"
    document = json.loads(marker.read_text())
    document["files"].append({"path": path, "rows": 1, "bytes": 1})
    marker.write_text(json.dumps(document))
    total, left_out = messages(tmp_path)
    assert total == 10
    assert len(left_out) == 1
    assert path in left_out[0]


def test_a_wrong_number_of_rows_is_left_out(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    marker = tmp_path / "publications" / f"{identity(1)}.json"
    marker.write_text(marker.read_text().replace('"rows": 1', '"rows": 2'))
    total, left_out = messages(tmp_path)
    assert total == 0
    assert "1 rows" in left_out[0]


def test_only_listed_files_count(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 2, 100)
    (tmp_path / "publications" / f"{identity(2)}.json").unlink()
    assert messages(tmp_path) == (10, [])


def test_a_publication_counts_once(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 1, 10)
    assert messages(tmp_path) == (10, [])


def test_a_file_that_two_publications_list_counts_once(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 2, 10)
    assert messages(tmp_path) == (10, [])


def test_what_a_compaction_replaced_does_not_count(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 2, 20)
    publish_histogram(tmp_path, 3, 30, replaces=[1, 2])
    assert messages(tmp_path) == (30, [])
    assert open_dataset(tmp_path).replaced == 2
    # Published again later, and replaced all the same.
    publish_histogram(tmp_path, 1, 10)
    assert messages(tmp_path) == (30, [])
    # A compaction of the compaction.
    publish_histogram(tmp_path, 4, 31, replaces=[3])
    assert messages(tmp_path) == (31, [])


def test_publications_that_replace_each_other_are_warned_of(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10, replaces=[2])
    publish_histogram(tmp_path, 2, 20, replaces=[1])
    assert len(open_dataset(tmp_path).warnings) == 1


def test_version_1_reads_with_nulls(tmp_path: Path) -> None:
    row = histogram_row(7)
    publish(tmp_path, 1, "histograms", [row], version=1)
    publish(tmp_path, 2, "histograms", [{**row, "messages": 5}])
    engine = DuckEngine(open_dataset(tmp_path))
    rows = engine.run("SELECT revision, SUM(messages) AS n FROM histograms GROUP BY revision ORDER BY n").rows
    assert rows == (("v1", 5), (None, 7))


def test_a_newer_version_is_left_out_and_named(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    publish_histogram(tmp_path, 2, 100, replaces=[1])
    marker = tmp_path / "publications" / f"{identity(2)}.json"
    marker.write_text(marker.read_text().replace('"schema": 2', '"schema": 3'))
    total, left_out = messages(tmp_path)
    # What cannot be read does not replace what can.
    assert total == 10
    assert "schema 3 is newer than 2" in left_out[0]


def test_a_file_without_a_column_is_left_out(tmp_path: Path) -> None:
    publish(tmp_path, 1, "histograms", [histogram_row(7)], version=1)
    marker = tmp_path / "publications" / f"{identity(1)}.json"
    marker.write_text(marker.read_text().replace('"schema": 1', '"schema": 2'))
    total, left_out = messages(tmp_path)
    assert total == 0
    assert "lacks the column revision" in left_out[0]


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("a/é", "a/é"),
        (b"x\xffy", "x\\xffy"),
        (b"x\xfey", "x\\xfey"),
        ("it's", "it's"),
        ("17", "17"),
        ("NULL", "NULL"),
        ("null", "null"),
        (HIVE_NULL, HIVE_NULL),
    ],
)
def test_services_with_odd_bytes_keep_their_names(tmp_path: Path, service: str | bytes, name: str) -> None:
    publish(tmp_path, 1, "histograms", [histogram_row()], service=service)
    engine = DuckEngine(open_dataset(tmp_path))
    assert engine.run("SELECT service, date, messages FROM histograms").rows == ((name, DAY, 1),)


def test_days_are_chosen_but_not_of_hosts(tmp_path: Path) -> None:
    publish_histogram(tmp_path, 1, 10)
    host: Row = {
        "host": "h", "recording": "r", "time_ns": MINUTE, "fingerprint": "f", "cpu": "c", "microcode": "",
        "kernel": "k", "mitigations": "", "virtualisation": "none", "cpus": 2,
    }  # fmt: skip
    publish(tmp_path, 2, "hosts", [host], service="-")
    today = date.fromisoformat(DAY)
    dataset = open_dataset(tmp_path)
    assert len(dataset.between(today, today).files) == 2
    assert [f.table for f in dataset.between(today + timedelta(1), None).files] == ["hosts"]


def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="publications"):
        open_dataset(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        open_dataset(tmp_path / "none")


def test_numbers_near_the_largest_do_not_overflow(tmp_path: Path) -> None:
    most = 2**63 - 1
    rows = [histogram_row(most, host=f"h{i}", low=most - 10, high=most) for i in range(3)]
    publish(tmp_path, 1, "histograms", rows)
    engine = DuckEngine(open_dataset(tmp_path))
    assert ask(engine, "latency")[0]["messages"] == 3 * most
    assert len(ask(engine, "slow_hosts")) == 3


def test_prices_of_text_with_quotes_and_line_ends(tmp_path: Path) -> None:
    odd = "a'b\"c\n<script>alert(1)</script>; DROP TABLE prices; é\\n"
    publish(tmp_path, 1, "prices", [price_row("h", 10.0, 1.0, event=odd)], service="-")
    engine = DuckEngine(open_dataset(tmp_path))
    assert [row["event"] for row in ask(engine, "prices", event=odd)] == [odd]
    assert ask(engine, "prices", event="' OR 1=1 --") == []
