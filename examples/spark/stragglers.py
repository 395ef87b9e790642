# SPDX-License-Identifier: MIT OR Apache-2.0
"""stragglers.py REPORT CSV BUSY TASKS: what the report says of each task that was planted, and of those that the neighbour met; prints the stage's number to stdout, all else to stderr."""

import csv
import json
import re
import sys
from collections import Counter, defaultdict

report, tasks = json.load(open(sys.argv[1])), int(sys.argv[4])
busy = [tuple(map(int, line.split())) for line in open(sys.argv[3])]
times = {}
for row in csv.DictReader(open(sys.argv[2])):
    if row["latency_ns"]:
        times[int(row["id"])] = (int(row["begin_ns"]), int(row["begin_ns"]) + int(row["latency_ns"]), row["parent"])

WAYS = ["a collection", "a disk", "more work"]
NEIGHBOUR, OTHERS = "a neighbour", "no plant"
# Of a task the neighbour had the CPUs for so long at least, and for most of it.
MET_NS = 300_000_000


def met_ns(message):
    begin, end, _ = times[message["id"]]
    return sum(max(0, min(end, to) - max(begin, start)) for start, to in busy)


def said_of(message):
    why, which = message["cause"], message.get("which")
    if message.get("woken_by", {}).get("thread"):
        why += ", ended by " + re.sub(r" \(\d+\)$", "", message["woken_by"]["thread"])
    elif which:
        why += ": " + re.sub(r" \(\d+\)$", "", which)
    elif message.get("function"):
        why += ": " + message["function"]["name"]
    return why


said, stage = defaultdict(Counter), None
for message in report["slowest"]:
    found = re.fullmatch(r"task of stage_(\d+), partition (\d+)", message.get("label") or "")
    if not found or found[1] != "0" or message["id"] not in times:
        continue
    partition, stage = int(found[2]), times[message["id"]][2]
    met = met_ns(message)
    is_planted = partition % 100 == 50
    if is_planted and met >= 50_000_000:
        # Two causes at once: nobody's truth.
        continue
    if is_planted:
        said[WAYS[partition // 100 % 3]][said_of(message)] += 1
    elif met >= MET_NS and 2 * met >= message["latency_ns"]:
        said[NEIGHBOUR][said_of(message)] += 1
    elif message["latency_ns"] >= 100_000_000:
        said[OTHERS][said_of(message)] += 1
print(f"\n{len(busy)} times that the neighbour was busy; of {tasks} tasks of stage_0 what the report says of each:", file=sys.stderr)
for way in WAYS + [NEIGHBOUR, OTHERS]:
    print(f"  {way:13}", ", ".join(f"{why} ({count})" for why, count in said[way].most_common()), file=sys.stderr)
print(stage)
