# SPDX-License-Identifier: MIT OR Apache-2.0
"""cpu_time.py FOLDER: the mean CPU time of a task, ns, by Spark's log of events there, without the first half, in which code is compiled.
cpu_time.py --compare WITHOUT WITH: of pairs, two without for each with."""

import json
import pathlib
import statistics
import sys


def mean_ns(folder):
    times = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            events = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
            times += [event["Task Metrics"]["Executor CPU Time"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
    return statistics.fmean(times[len(times) // 2 :])


if sys.argv[1] != "--compare":
    print(mean_ns(sys.argv[1]))
    sys.exit()
without, with_ = ([float(line) for line in open(path)] for path in sys.argv[2:])
print("\nCPU time of a task without, with, without recording, ms, as Spark says:")
lost, same = [], []
for i, recorded in enumerate(with_):
    before, after = without[2 * i : 2 * i + 2]
    print("  " + " ".join(f"{ns / 1e6:.3f}" for ns in (before, recorded, after)))
    lost.append(100 * (recorded / ((before + after) / 2) - 1))
    same.append(100 * (after / before - 1))
for what, all_ in (("more with recording", lost), ("A/A", same)):
    print(f"  {what}: {statistics.median(all_):.1f} % [{min(all_):.1f}, {max(all_):.1f}] (median, smallest and largest of {len(all_)})")
