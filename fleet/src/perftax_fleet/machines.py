"""The generated fleet's machines: what each is, and what a sample costs there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from math import exp

import numpy as np

SERVICES = ("front", "app", "store")
CPUS = (
    ("Intel(R) Xeon(R) Gold 6338", "0xd0003d1"),
    ("AMD EPYC 7763 64-Core Processor", "0xa0011d5"),
    ("Intel(R) Xeon(R) Platinum 8488C", "0x2b000603"),
)
USUAL_KERNEL, CLOUD_KERNEL, SLOW_KERNEL, PTI_KERNEL = "6.1.0-28-amd64", "6.6.58-cloud", "6.12.9", "5.10.0-33-amd64"
USUAL_MITIGATIONS = "PTI off | retbleed: Enhanced IBRS | spectre_v2: Enhanced / Automatic IBRS"
PTI_MITIGATIONS = "PTI on | retbleed: Enhanced IBRS | spectre_v2: Retpolines"
# mechanism, event, term, ns on the first CPU, factor under PTI
PRICES = (
    ("software", "cpu-clock", "alpha", 2100.0, 1.35),
    ("pebs", "cycles:pp", "alpha", 640.0, 1.2),
    ("pebs", "cycles:pp", "assist", 230.0, 1.0),
    ("tracepoint", "sched:sched_switch", "alpha", 310.0, 1.0),
)


@dataclass(frozen=True)
class Machine:
    """One host. `clock_error_ns` is None where nobody keeps its clock right; its clock is wrong by `offset_ns`."""

    index: int
    host: str
    service: str
    cpu: str
    microcode: str
    kernel: str
    mitigations: str
    virtualisation: str
    cpus: int
    clock_error_ns: int | None
    offset_ns: int
    price_factor: float
    is_slow: bool
    is_outlier: bool

    @property
    def fingerprint(self) -> str:
        """Hash over what changes a sample's cost. Machines of the same make have the same one."""
        parts = (self.cpu, self.microcode, self.kernel, self.mitigations, self.virtualisation)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def identity(self) -> dict[str, str]:
        """The columns that hosts and prices share."""
        return {
            "fingerprint": self.fingerprint,
            "cpu": self.cpu,
            "microcode": self.microcode,
            "kernel": self.kernel,
            "mitigations": self.mitigations,
            "virtualisation": self.virtualisation,
        }

    def prices(self, rng: np.random.Generator) -> list[dict[str, object]]:
        """One calibration: each price with its 95 % interval."""
        rows: list[dict[str, object]] = []
        for mechanism, event, term, base, pti in PRICES:
            truth = base * (1.0, 1.15, 0.85)[[cpu for cpu, _ in CPUS].index(self.cpu)] * self.price_factor
            truth *= pti if self.kernel == PTI_KERNEL else 1.0
            truth *= 2.0 if self.is_outlier and term == "assist" else 1.0
            value = truth * exp(rng.normal(0, 0.01)) * (1 + rng.normal(0, 0.02))
            half = 1.96 * 0.02 * value * rng.uniform(0.8, 1.25)
            rows.append({
                "source": "calibrate", "mechanism": mechanism, "event": event, "term": term, "unit": "ns",
                "value": value, "low": value - half, "high": value + half, "confidence": 0.95,
            })  # fmt: skip
        return rows


@cache
def slow_host(hosts: int) -> int:
    """Index of the host that is slow: one of `store`, in the middle, with a usual kernel."""
    candidates = [i for i in range(hosts) if i % 3 == 2 and (i * 7) % 20 < 15]
    return min(candidates, key=lambda i: abs(i - hosts // 2)) if candidates else -1


@cache
def outlier_host(hosts: int) -> int:
    """Index of the host whose PEBS assist costs twice as much: a usual one, and not the slow one."""
    slow = slow_host(hosts)
    candidates = [i for i in range(hosts) if (i * 7) % 20 < 9 and i != slow]
    return candidates[len(candidates) // 3] if candidates else -1


def machine(index: int, hosts: int, seed: int) -> Machine:
    """The host of that index; the same for the same seed, however many messages there are."""
    rng = np.random.default_rng([seed, 1, index])
    # By index, so that each kernel and CPU has its share in small fleets, too. Cells of three hosts share a CPU.
    draw = (index * 7) % 20
    kernel = USUAL_KERNEL if draw < 9 else CLOUD_KERNEL if draw < 15 else SLOW_KERNEL if draw < 19 else PTI_KERNEL
    cpu, microcode = CPUS[(index // 3) % 3]
    is_kept_right = index % 5 != 4
    error = int(rng.integers(5_000, 80_000)) if is_kept_right else None
    reach = error if error is not None else 5_000_000
    return Machine(
        index=index,
        host=f"{SERVICES[index % 3]}-{index:05d}",
        service=SERVICES[index % 3],
        cpu=cpu,
        microcode=microcode,
        kernel=kernel,
        mitigations=PTI_MITIGATIONS if kernel == PTI_KERNEL else USUAL_MITIGATIONS,
        virtualisation="kvm" if index % 10 < 7 else "none",
        cpus=(8, 16, 32)[index % 3],
        clock_error_ns=error,
        offset_ns=int(rng.integers(-reach, reach + 1)),
        price_factor=exp(rng.normal(0, 0.03)),
        is_slow=index == slow_host(hosts),
        is_outlier=index == outlier_host(hosts),
    )
