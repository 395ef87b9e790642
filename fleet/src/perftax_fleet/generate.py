"""Generates the data set of a fleet with planted truths, to try queries on and to test them.

Histograms hold every message; messages are whole where they are slow or chosen by their trace id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perftax_fleet import __version__, buckets
from perftax_fleet.errors import UsageError
from perftax_fleet.machines import (
    PTI_KERNEL,
    SLOW_KERNEL,
    USUAL_KERNEL,
    Machine,
    machine,
    outlier_host,
    slow_host,
)
from perftax_fleet.publish import NO_SERVICE, Publisher, write_atomically
from perftax_fleet.traffic import MINUTE_NS, NEW_REVISION_FACTOR, Bytes, Ints, Traffic, cell, total

DAYS = ("2026-11-27", "2026-11-28")
_DAY_NS = (1_795_773_600_000_000_000, 1_795_860_000_000_000_000)  # 10:00 UTC of each
_FUNCTIONS = {
    "front": ("parse_request", "match_route", "regex_match", "write_response"),
    "app": ("serialize_json", "apply_rules", "decode_token", "malloc"),
    "store": ("btree_search", "page_read", "crc32c", "lz4_decompress"),
}


@dataclass(frozen=True)
class Planted:
    """What was planted, and so has to be found. `raw` holds every latency by service and host, where asked for."""

    seed: int
    hosts: int
    messages: int
    slow_host: str | None
    slow_host_cause: str = "preempted"
    slow_host_detail: str = "backup-agent"
    slow_kernel: str = SLOW_KERNEL
    slow_kernel_cause: str = "softirq"
    rollout: tuple[str, str, str] = ("app", "a41", "a42")
    rollout_cause: str = "on CPU"
    rollout_factor: float = NEW_REVISION_FACTOR
    outlier_host: str | None = None
    outlier_term: str = "assist"
    pti_kernel: str = PTI_KERNEL
    usual_kernel: str = USUAL_KERNEL
    slow_function: tuple[str, str] = ("front", "regex_backtrack")
    raw: dict[tuple[str, str, int], Ints] = field(default_factory=dict, repr=False)


def generate(
    folder: Path,
    hosts: int,
    messages: int,
    seed: int,
    *,
    compact: int = 0,
    keep_raw: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Planted:
    """Writes a data set of `hosts` hosts with about `messages` messages in all, the same for the same seed.

    Each host publishes two recordings, a day apart. `compact` writes what a compaction would leave: that many hosts
    share a publication. Raises `UsageError` for numbers that cannot be, or a folder that already holds a data set.
    """
    each = messages // (2 * hosts) if hosts > 0 else 0
    if hosts < 1 or each < 100:
        raise UsageError(f"--hosts {hosts} --messages {messages}: needed are 1 host, and 200 messages for each host")
    if (folder / "publications").exists():
        raise UsageError(f"{folder}: holds a data set already; give another folder, or remove this one")
    raw: dict[tuple[str, str, int], Ints] = {}
    # A cell's three hosts are generated together. Compacted publications hold whole cells.
    together = -(-compact // 3) * 3 if compact else 3
    for first in range(0, hosts, together):
        chunk = range(first, min(first + together, hosts))
        for day in range(2):
            publisher = Publisher(folder)
            replaces = []
            for start in range(chunk.start, chunk.stop, 3):
                machines = [machine(i, hosts, seed) for i in range(start, min(start + 3, chunk.stop))]
                rng = np.random.default_rng([seed, 2, start, day])
                traffic, trace = cell(machines, day, _DAY_NS[day], each, rng)
                for one in traffic:
                    name = hashlib.sha256(f"{seed}/{one.machine.index}/{day}".encode()).hexdigest()[:32]
                    _Recording(one, trace, name, day, rng).add_to(publisher)
                    replaces.append(name)
                    if keep_raw:
                        raw[one.machine.service, one.machine.host, day] = one.latency_ns
                    if not compact:
                        publisher.publish(name, one.machine.host, _DAY_NS[day] + 10 * MINUTE_NS)
            if compact:
                name = hashlib.sha256("".join(replaces).encode()).hexdigest()[:32]
                publisher.publish(name, "compaction", _DAY_NS[day] + 60 * MINUTE_NS, replaces)
        if progress:
            progress(chunk.stop)
    slow, outlier = slow_host(hosts), outlier_host(hosts)
    planted = Planted(
        seed=seed,
        hosts=hosts,
        messages=each * 2 * hosts,
        slow_host=machine(slow, hosts, seed).host if slow >= 0 else None,
        outlier_host=machine(outlier, hosts, seed).host if outlier >= 0 else None,
        raw=raw,
    )
    without_raw = {key: value for key, value in asdict(planted).items() if key != "raw"}
    write_atomically(folder / "planted.json", json.dumps(without_raw, indent=1).encode())
    return planted


def hex_texts(ids: Bytes) -> pa.Array:
    """Each row of bytes as hexadecimal text."""
    n, width = ids.shape
    offsets = np.arange(n + 1, dtype=np.int32) * (2 * width)
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(ids.tobytes().hex().encode()))


@lru_cache(maxsize=1024)
def _scalar(text: str) -> pa.Scalar:
    # pyarrow looks for pandas whenever it converts a value: kept, because each table needs several.
    return pa.scalar(text, pa.string())


def _same(text: str | None, n: int) -> pa.Array:
    return pa.nulls(n, pa.string()) if text is None else pa.repeat(_scalar(text), n)


class _Recording:
    """One host's recording as rows of each table."""

    def __init__(self, traffic: Traffic, trace: Bytes, name: str, day: int, rng: np.random.Generator) -> None:
        self._traffic, self._name, self._day, self._rng = traffic, name, day, rng
        self._machine: Machine = traffic.machine
        self._latency = traffic.latency_ns
        self._minute = traffic.begin_ns // MINUTE_NS * MINUTE_NS
        n = len(self._latency)
        self._slow_ns = int(np.partition(self._latency, n * 99 // 100)[n * 99 // 100])
        self._is_slow = self._latency >= self._slow_ns
        self._is_sampled = trace[:, -1] & 63 == 0
        self._kept: npt.NDArray[np.intp] = np.flatnonzero(self._is_slow | self._is_sampled)
        self._trace = trace[self._kept]
        digest = hashlib.sha256(name.encode()).digest()[:8]
        ids = np.empty((len(self._kept), 16), np.uint8)
        ids[:, :8] = np.frombuffer(digest, np.uint8)
        ids[:, 8:] = self._kept.astype(">i8").view(np.uint8).reshape(-1, 8)
        self._message = hex_texts(ids)
        self._number = hex_texts(ids[:, 8:])

    def add_to(self, publisher: Publisher) -> None:
        """Adds all tables' rows."""
        day, service = DAYS[self._day], self._machine.service
        publisher.add("messages", day, service, self._messages())
        publisher.add("causes", day, service, self._causes())
        publisher.add("histograms", day, service, self._histograms())
        if self._traffic.calls:
            publisher.add("hops", day, service, self._hops())
        publisher.add("profiles", day, service, self._profiles())
        publisher.add("recordings", day, service, [self._recording()])
        time_ns = _DAY_NS[self._day]
        about = {"host": self._machine.host, "recording": self._name, "time_ns": time_ns, **self._machine.identity()}
        publisher.add("hosts", day, NO_SERVICE, [{**about, "cpus": self._machine.cpus}])
        publisher.add("prices", day, NO_SERVICE, [{**about, **price} for price in self._machine.prices(self._rng)])
        publisher.add("audits", day, NO_SERVICE, [{**about, **finding} for finding in self._audits()])

    def _table(self, n: int, **columns: pa.Array | Ints) -> pa.Table:
        same = {"host": _same(self._machine.host, n), "recording": _same(self._name, n)}
        return pa.table({**same, "revision": _same(self._traffic.revision, n), **columns})

    def _messages(self) -> pa.Table:
        kept = self._kept
        label = "GET /cart" if self._machine.service == "front" else None
        return self._table(
            len(kept),
            message=self._message,
            minute_ns=self._minute[kept],
            begin_ns=self._traffic.begin_ns[kept],
            latency_ns=self._latency[kept],
            number=self._number,
            label=_same(label, len(kept)),
            trace=hex_texts(self._trace),
            span=hex_texts(self._traffic.span[kept]),
            is_slow=self._is_slow[kept].astype(np.int64),
            is_sampled=self._is_sampled[kept].astype(np.int64),
        )

    def _causes(self) -> pa.Table:
        kept, parts = self._kept, []
        for part in self._traffic.parts:
            some = np.flatnonzero(part.ns[kept])
            parts.append(self._table(
                len(some),
                minute_ns=self._minute[kept][some],
                message=self._message.take(pa.array(some)),
                cause=_same(part.cause, len(some)),
                detail=_same(part.detail, len(some)),
                ns=part.ns[kept][some],
                messages=np.ones(len(some), np.int64),
            ))  # fmt: skip
        usual = np.flatnonzero(~self._is_slow)
        minutes, index = np.unique(self._minute[usual], return_inverse=True)
        count = np.bincount(index, minlength=len(minutes))
        for cause in dict.fromkeys(part.cause for part in self._traffic.parts):
            ns = total([part for part in self._traffic.parts if part.cause == cause])[usual]
            # Sums of a minute stay far below 2**53, so that doubles hold them exactly.
            summed = np.bincount(index, weights=ns, minlength=len(minutes)).astype(np.int64)
            parts.append(self._table(
                len(minutes),
                minute_ns=minutes,
                message=_same(None, len(minutes)),
                cause=_same(cause, len(minutes)),
                detail=_same(None, len(minutes)),
                ns=summed,
                messages=count.astype(np.int64),
            ))  # fmt: skip
        return pa.concat_tables(parts)

    def _histograms(self) -> pa.Table:
        parts = []
        for minute in np.unique(self._minute):
            low, high, count = buckets.histogram(self._latency[self._minute == minute])
            same = np.full(len(low), minute)
            parts.append(self._table(len(low), minute_ns=same, low_ns=low, high_ns=high, messages=count))
        return pa.concat_tables(parts)

    def _hops(self) -> pa.Table:
        kept, n = self._kept, len(self._kept)
        trace = hex_texts(self._trace)
        return pa.concat_tables([
            self._table(
                n, message=self._message, time_ns=call.time_ns[kept], trace=trace, span=hex_texts(call.span[kept]),
                way=_same(call.way, n),
            )
            for call in self._traffic.calls
        ])  # fmt: skip

    def _profiles(self) -> list[dict[str, object]]:
        names = _FUNCTIONS[self._machine.service]
        rows = []
        for minute in np.unique(self._minute).tolist():
            for is_slow in (0, 1):
                weights = dict(zip(names, (4.0, 3.0, 2.0, 1.0), strict=True))
                if self._traffic.revision == "a42":
                    weights["serialize_json"] += 3.0
                if is_slow and self._machine.service == "front":
                    weights["regex_backtrack"] = 6.0
                if is_slow and self._machine.kernel == SLOW_KERNEL:
                    weights["rcu_do_batch"] = 4.0
                share = np.array(list(weights.values())) / sum(weights.values())
                counts = self._rng.multinomial(40 if is_slow else 400, share)
                for function, samples in zip(weights, counts.tolist(), strict=True):
                    cause = "softirq" if function == "rcu_do_batch" else "on CPU"
                    rows.append({
                        "host": self._machine.host, "recording": self._name, "minute_ns": minute,
                        "revision": self._traffic.revision, "is_slow": is_slow, "cause": cause, "function": function,
                        "samples": samples, "ns": samples * 1_000_000,
                    })  # fmt: skip
        return [row for row in rows if row["samples"]]

    def _recording(self) -> dict[str, object]:
        overhead = float(self._rng.uniform(0.004, 0.009))
        return {
            "host": self._machine.host, "recording": self._name, "revision": self._traffic.revision,
            "boot": hashlib.sha256(self._machine.host.encode()).hexdigest()[:32],
            "fingerprint": self._machine.fingerprint, "from_ns": int(self._traffic.begin_ns[0]),
            "to_ns": int((self._traffic.begin_ns + self._latency).max()), "messages": len(self._latency),
            "slow_ns": self._slow_ns, "lost": 0, "weakened": None, "clock_error_ns": self._machine.clock_error_ns,
            "overhead_low": overhead * 0.8, "overhead_high": overhead * 1.25, "perftax": __version__,
        }  # fmt: skip

    def _audits(self) -> list[dict[str, object]]:
        bias = float(self._rng.normal(0.01, 0.004))
        row = {"mechanism": "software", "event": "cpu-clock", "unit": "share"}
        missing: dict[str, object] = {"value": None, "low": None, "high": None}
        return [
            {**row, "finding": "samples against expected", "value": bias, "low": bias - 0.004, "high": bias + 0.004},
            {**row, "finding": "precise addresses", **missing},
        ]
