"""The generated fleet's messages: front calls app, app calls store, each with causes that add up to its latency."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perftax_fleet.machines import SLOW_KERNEL, Machine

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

NEW_REVISION_FACTOR = 1.12  # on CPU, of app: what the planted rollout costs
REVISIONS = {"front": ("f7", "f7"), "app": ("a41", "a42"), "store": ("s3", "s3")}
MINUTES = 5
MINUTE_NS = 60_000_000_000
_ON_CPU_NS = {"front": 180_000, "app": 420_000, "store": 260_000}
# cause, detail, share of messages, mean of an exponential, least: the same everywhere
_USUAL = (
    ("page fault", None, 0.02, 30_000, 500),
    ("system call", "futex", 0.04, 25_000, 300),
    ("irq", "nvme0q1", 0.02, 8_000, 500),
    ("softirq", "NET_RX", 0.03, 40_000, 800),
    ("vector", "local timer", 0.05, 4_000, 500),
    ("steal", None, 0.004, 700_000, 5_000),
    ("preempted", "kworker/2:1", 0.008, 350_000, 5_000),
    ("runnable", None, 0.012, 250_000, 2_000),
)
_DISK = {"front": 0.0, "app": 0.003, "store": 0.02}


@dataclass
class Part:
    """Time of one cause and detail, for each message."""

    cause: str
    detail: str | None
    ns: Ints


@dataclass
class Call:
    """One end of a hop: when, the span's bytes, and which way."""

    time_ns: Ints
    span: Bytes
    way: str


@dataclass
class Traffic:
    """One recording of one host: all its messages."""

    machine: Machine
    revision: str
    begin_ns: Ints
    parts: list[Part]
    span: Bytes
    calls: list[Call] = field(default_factory=list)

    @property
    def latency_ns(self) -> Ints:
        return total(self.parts)


def total(parts: list[Part]) -> Ints:
    """Each message's time over all parts."""
    return np.asarray(np.sum([part.ns for part in parts], axis=0), dtype=np.int64)


def _sometimes(rng: np.random.Generator, n: int, share: float, mean: float, least: int) -> Ints:
    """Times that only some messages have."""
    ns = np.zeros(n, np.int64)
    chosen = rng.integers(0, n, rng.binomial(n, share))
    ns[chosen] = least + rng.exponential(mean, len(chosen)).astype(np.int64)
    return ns


def _own(rng: np.random.Generator, n: int, machine: Machine, day: int) -> list[Part]:
    """What a host's messages do by themselves, without what they call."""
    service = machine.service
    on_cpu = rng.lognormal(np.log(_ON_CPU_NS[service]), 0.28, n)
    if service == "app" and day == 1:
        on_cpu *= NEW_REVISION_FACTOR
    if service == "front":
        # A few messages match an expensive pattern: function regex_backtrack.
        on_cpu += _sometimes(rng, n, 0.006, 900_000, 300_000)
    parts = [Part("on CPU", None, on_cpu.astype(np.int64))]
    parts += [
        Part(cause, detail, _sometimes(rng, n, share, mean, least)) for cause, detail, share, mean, least in _USUAL
    ]
    if _DISK[service]:
        parts.append(Part("blocked", "jbd2/nvme0n1-8", _sometimes(rng, n, _DISK[service], 900_000, 20_000)))
    if machine.kernel == SLOW_KERNEL:
        parts.append(Part("softirq", "RCU", _sometimes(rng, n, 0.03, 600_000, 50_000)))
    if machine.is_slow:
        parts.append(Part("preempted", "backup-agent", _sometimes(rng, n, 0.04, 3_000_000, 2_000_000)))
    parts.append(Part("unattended", None, rng.integers(0, 900, n)))
    return parts


def _network(rng: np.random.Generator, n: int) -> Ints:
    return np.asarray(rng.lognormal(np.log(60_000), 0.6, n), dtype=np.int64)


def _ids(rng: np.random.Generator, n: int, digits: int) -> Bytes:
    return np.frombuffer(rng.bytes(n * digits // 2), np.uint8).reshape(n, digits // 2)


def cell(
    machines: list[Machine], day: int, start_ns: int, n: int, rng: np.random.Generator
) -> tuple[list[Traffic], Bytes]:
    """One day's messages of hosts that call each other in a row, and the trace ids that they share.

    Each message of `front` calls one of `app`, which calls one of `store`. Times are by each host's own clock.
    """
    trace = _ids(rng, n, 32)
    own = [_own(rng, n, machine, day) for machine in machines]
    spans = [_ids(rng, n, 16) for _ in machines]
    out = [_network(rng, n) for _ in machines[1:]]
    back = [_network(rng, n) for _ in machines[1:]]
    # From the callee upwards: a caller waits for what it calls, and for the network both ways.
    for i in range(len(machines) - 2, -1, -1):
        waited = total(own[i + 1]) + out[i] + back[i]
        own[i].append(Part("blocked", machines[i + 1].service, waited))
    begin = start_ns + np.sort(rng.integers(0, MINUTES * MINUTE_NS, n))
    traffic = []
    for i, machine in enumerate(machines):
        revision = REVISIONS[machine.service][day]
        traffic.append(Traffic(machine, revision, begin + machine.offset_ns, own[i], spans[i]))
        if i:
            latency = traffic[i].latency_ns
            traffic[i].calls.append(Call(begin + machine.offset_ns, spans[i], "received"))
            traffic[i].calls.append(Call(begin + latency + machine.offset_ns, spans[i], "sent"))
        if i + 1 < len(machines):
            sent = begin + own[i][0].ns // 2
            waited = own[i][-1].ns
            traffic[i].calls.append(Call(sent + machine.offset_ns, spans[i + 1], "sent"))
            traffic[i].calls.append(Call(sent + waited + machine.offset_ns, spans[i + 1], "received"))
            begin = sent + out[i]
    return traffic, trace
