from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import ask, real
from small import MINUTE, Row, identity, price_row, publish

from perftax_fleet import catalog
from perftax_fleet.compare import differences
from perftax_fleet.dataset import open_dataset
from perftax_fleet.duck import DuckEngine
from perftax_fleet.engine import Cell
from perftax_fleet.errors import UsageError
from perftax_fleet.generate import Planted

QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999, "p9999_ns": 0.9999}


@pytest.mark.parametrize("name", catalog.names())
def test_columns_are_as_the_header_says(engine: DuckEngine, name: str) -> None:
    query = catalog.load(name)
    assert query.title.endswith((".", "?"))
    assert engine.run(query.sql, query.bind({})).columns == query.columns
    assert set(query.shown) <= set(query.columns)
    assert sorted(catalog.placeholders(query.sql)) == sorted(p.name for p in query.parameters)


def test_quantiles_are_within_1_percent_of_the_raw_data(engine: DuckEngine, planted: Planted) -> None:
    rows = ask(engine, "latency")
    assert [row["service"] for row in rows] == ["app", "front", "store"]
    for row in rows:
        raw = np.sort(np.concatenate([ns for (service, _, _), ns in planted.raw.items() if service == row["service"]]))
        assert row["messages"] == len(raw)
        for column, q in QUANTILES.items():
            rank = int(np.ceil(len(raw) * q)) - 1
            assert real(row[column]) == pytest.approx(raw[rank], rel=0.01), (row["service"], column)


def test_the_slow_host_and_its_cause_are_found(engine: DuckEngine, planted: Planted) -> None:
    rows = [row for row in ask(engine, "slow_hosts", service="store") if row["is_slow"]]
    assert rows[0]["host"] == planted.slow_host
    assert (rows[0]["cause"], rows[0]["detail"]) == (planted.slow_host_cause, planted.slow_host_detail)
    others = ask(engine, "slow_hosts")
    # Whoever calls the slow host waits for it.
    assert {row["cause"] for row in others if row["is_slow"] and row["service"] != "store"} == {"blocked"}


def test_blame_by_host_names_the_slow_host(engine: DuckEngine, planted: Planted) -> None:
    row = ask(engine, "tail_blame", service="store", by="host")[0]
    assert (row["host"], row["cause"], row["detail"]) == (planted.slow_host, "preempted", "backup-agent")


def test_blame_adds_up_to_the_extra_latency(engine: DuckEngine) -> None:
    latency = engine.run("SELECT service, AVG(latency_ns) FROM messages WHERE is_slow = 1 GROUP BY service").rows
    usual = engine.run("""
        SELECT t.service, t.ns / c.n FROM
          (SELECT service, CAST(SUM(ns) AS DOUBLE) ns FROM causes WHERE message IS NULL GROUP BY service) t JOIN
          (SELECT service, SUM(n) n FROM (SELECT service, recording, minute_ns, MAX(messages) n FROM causes
           WHERE message IS NULL GROUP BY service, recording, minute_ns) GROUP BY service) c ON c.service = t.service
    """).rows
    means, usual_means = {r[0]: real(r[1]) for r in latency}, {r[0]: real(r[1]) for r in usual}
    rows = ask(engine, "tail_blame")
    for service, mean in means.items():
        extra = sum(real(row["extra_ns"]) for row in rows if row["service"] == service)
        assert extra == pytest.approx(mean - usual_means[service], rel=1e-9)
        assert sum(real(row["share"]) for row in rows if row["service"] == service) == pytest.approx(1)


def test_the_slow_kernel_and_its_cause_are_found(engine: DuckEngine, planted: Planted) -> None:
    row = ask(engine, "slow_by_kernel_cpu", service="store", by="kernel")[0]
    assert row["kernel"] == planted.slow_kernel
    assert (row["cause"], row["detail"]) == (planted.slow_kernel_cause, "RCU")
    assert real(row["ratio_low"]) > 1


def test_the_rollout_is_found_on_the_same_hosts(engine: DuckEngine, planted: Planted) -> None:
    _, before, after = planted.rollout
    rows = {row["what"]: row for row in ask(engine, "rollout", before=before, after=after)}
    p50, on_cpu = rows["p50"], rows["on CPU"]
    assert p50["compared"] == "same hosts"
    assert p50["hosts_before"] == 40
    assert real(p50["change_ns_low"]) > 0
    expected = real(on_cpu["before_ns"]) * (planted.rollout_factor - 1)
    assert real(on_cpu["change_ns_low"]) < expected < real(on_cpu["change_ns_high"])
    # What did not change is not said to have.
    assert real(rows["blocked"]["change_ns_low"]) < 0 < real(rows["blocked"]["change_ns_high"])


def test_a_moment_parts_as_revisions_do(engine: DuckEngine) -> None:
    query = catalog.load("rollout")
    first = engine.run("SELECT MIN(minute_ns) FROM histograms WHERE revision = 'a42'").rows[0][0]
    by_revision = engine.run(query.sql, query.bind({"before": "a41", "after": "a42"}))
    by_moment = engine.run(query.sql, query.bind({"service": "app", "moment_ns": str(first)}))
    assert by_moment.rows
    assert differences(by_revision, by_moment) == []


def test_the_outlier_and_pti_are_found(engine: DuckEngine, planted: Planted) -> None:
    rows = ask(engine, "outliers")
    assists = [row for row in rows if row["term"] == planted.outlier_term]
    assert [row["host"] for row in assists] == [planted.outlier_host]
    assert real(assists[0]["ratio"]) == pytest.approx(2, rel=0.15)
    assert assists[0]["differs"] == ""
    pti = [row for row in rows if row["event"] == "cpu-clock"]
    assert {row["kernel"] for row in pti} == {planted.pti_kernel}
    assert len(pti) == 6
    assert all("mitigations" in str(row["differs"]) for row in pti)


def test_the_slow_function_is_found(engine: DuckEngine, planted: Planted) -> None:
    service, function = planted.slow_function
    row = ask(engine, "functions", service=service, top="1")[0]
    assert row["function"] == function
    assert real(row["more_low"]) > 0.2


def test_hops_are_told_as_far_as_clocks_allow(engine: DuckEngine) -> None:
    rows = {(row["from_service"], row["to_service"]): row for row in ask(engine, "hops")}
    assert set(rows) == {("front", "app"), ("app", "front"), ("app", "store"), ("store", "app")}
    for row in rows.values():
        assert real(row["p50_ns_low"]) < 60_000 < real(row["p50_ns_high"])
        assert row["impossible"] == 0
        assert row["ambiguous"] == 0
        assert real(row["known"]) < real(row["hops"])


def hop(host: str, message: int, way: str, time_ns: int) -> Row:
    return {
        "host": host, "recording": f"r-{host}", "message": identity(message), "time_ns": time_ns, "trace": identity(7),
        "span": "00000000000000aa", "way": way,
    }  # fmt: skip


def clock(host: str, error: int | None) -> Row:
    return {
        "host": host, "recording": f"r-{host}", "boot": "b", "fingerprint": "f", "from_ns": 0, "to_ns": 1,
        "messages": 1, "slow_ns": 1, "lost": 0, "weakened": None, "clock_error_ns": error,
        "overhead_low": None, "overhead_high": None, "perftax": "0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "took", "verdict"),
    [
        (10, 100, "longer than the clocks' error"),
        (100, 100, "shorter than the clocks' error"),
        (10, -100, "a clock is wrong"),
        (None, 100, "clocks unknown"),
    ],
)
def test_a_hops_verdict(tmp_path: Path, error: int | None, took: int, verdict: str) -> None:
    publish(tmp_path, 1, "hops", [hop("a", 1, "sent", 1000)], service="a")
    publish(tmp_path, 2, "hops", [hop("b", 2, "received", 1000 + took)], service="b")
    publish(tmp_path, 3, "recordings", [clock("a", 5), clock("b", error)], service="b")
    row = ask(DuckEngine(open_dataset(tmp_path)), "hops")[0]
    assert row["verdict"] == verdict
    assert row["p50_ns"] == (None if error is None else took)
    assert row["p50_ns_high"] == (None if error is None else took + 5 + error)


def test_a_hop_that_fits_several_is_left_out(tmp_path: Path) -> None:
    publish(tmp_path, 1, "hops", [hop("a", 1, "sent", 1000), hop("a", 3, "sent", 1001)], service="a")
    publish(tmp_path, 2, "hops", [hop("b", 2, "received", 1100)], service="b")
    row = ask(DuckEngine(open_dataset(tmp_path)), "hops")[0]
    assert (row["hops"], row["ambiguous"]) == (0, 2)


def pooled(values: list[float], errors: list[float]) -> tuple[float, float]:
    """DerSimonian and Laird by the book: mean and tau."""
    y, v = np.array(values), np.array(errors) ** 2
    w = 1 / v
    q = float((w * (y - (w * y).sum() / w.sum()) ** 2).sum())
    tau2 = max(0.0, (q - (len(y) - 1)) / float(w.sum() - (w**2).sum() / w.sum()))
    w = 1 / (v + tau2)
    return float((w * y).sum() / w.sum()), tau2**0.5


def prices_of(folder: Path, rows: list[Row], query: str = "prices") -> list[dict[str, Cell]]:
    publish(folder, 1, "prices", rows, service="-")
    return ask(DuckEngine(open_dataset(folder)), query)


def test_prices_are_pooled_by_machines(tmp_path: Path) -> None:
    values, halves = [100.0, 110.0, 130.0, 95.0], [4.0, 5.0, 6.0, 3.0]
    rows = [price_row(f"h{i}", v, h) for i, (v, h) in enumerate(zip(values, halves, strict=True))]
    found = prices_of(tmp_path, rows)[0]
    mean, tau = pooled(values, [h / 1.959964 for h in halves])
    assert real(found["price"]) == pytest.approx(mean, rel=1e-3)
    assert real(found["tau"]) == pytest.approx(tau, rel=1e-3)
    assert found["machines"] == 4


def test_many_days_of_one_machine_weigh_as_one_machine(tmp_path: Path) -> None:
    rows = [price_row("h0", 200.0, 4.0, time_ns=MINUTE + day) for day in range(100)]
    rows += [price_row(f"h{i}", 100.0 + i, 4.0) for i in range(1, 4)]
    found = prices_of(tmp_path, rows)[0]
    assert (found["machines"], found["measured"]) == (4, 103)
    # Of pooled samples the mean would be near 197.
    assert real(found["price"]) == pytest.approx((200 + 101 + 102 + 103) / 4, rel=0.01)
    assert real(found["price_high"]) - real(found["price_low"]) > 50


def test_a_calibration_that_is_published_twice_counts_once(tmp_path: Path) -> None:
    row = price_row("h0", 100.0, 4.0)
    publish(tmp_path, 2, "prices", [{**row, "recording": "other"}], service="-")
    found = prices_of(tmp_path, [row])[0]
    assert found["measured"] == 1
    assert real(found["price_high"]) == pytest.approx(104, rel=1e-4)


def test_a_price_without_an_interval_is_left_out_and_counted(tmp_path: Path) -> None:
    found = prices_of(tmp_path, [price_row("h0", 100.0, 4.0), price_row("h1", 500.0, 0.0)])[0]
    assert (found["price"], found["machines"], found["no_interval"], found["tau"]) == (100.0, 1, 1, None)
    assert real(found["price_high"]) == pytest.approx(104, rel=1e-4)


def test_alike_machines_give_no_outlier(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [price_row(f"h{i:03}", float(rng.normal(100, 3)), 2.0) for i in range(200)]
    assert prices_of(tmp_path, rows, "outliers") == []


def test_student_t_is_right_to_two_percent_from_three_machines_on(tmp_path: Path) -> None:
    # Of machines with equal prices and errors, the half-width is t times the error by the square root of the machines.
    quantiles = {3: 4.3027, 4: 3.1824, 6: 2.5706, 11: 2.2281, 31: 2.0423}
    for n, t in quantiles.items():
        folder = tmp_path / str(n)
        found = prices_of(folder, [price_row(f"h{i}", 100.0, 1.959964) for i in range(n)])[0]
        assert (real(found["price_high"]) - 100) * n**0.5 == pytest.approx(t, rel=0.045 if n == 3 else 0.02)


def test_parameters_are_checked() -> None:
    with pytest.raises(UsageError, match="no such parameter"):
        catalog.load("latency").bind({"servce": "x"})
    with pytest.raises(UsageError, match="needed is int"):
        catalog.load("slow_hosts").bind({"top": "many"})
    with pytest.raises(UsageError, match="known are"):
        catalog.load("nothing")


def test_placeholders_in_strings_and_comments_are_none() -> None:
    sql = "SELECT ':a', x::INT, \":b\" -- :c\n, :d /* :e */ FROM t WHERE 'it''s :f' = :g"
    assert catalog.placeholders(sql) == ["d", "g"]
    assert catalog.with_dollars(":a ':a' :b", ["a"]) == "$a ':a' :b"
