# SPDX-License-Identifier: MIT OR Apache-2.0
"""planted.py threads|asyncio EACH SEED FILE HOG: messages of some tens of microseconds, and so many of each way that are delayed by 0.2 to 2 ms, by

    spin      computing
    faults    touching pages that are not there yet
    preempt   another process, which is woken for it and has a real-time priority on the same CPU
    block     waiting: in a system call (threads), for a timer of the loop (asyncio)
    gc        a collection, over so many objects that it takes that long

FILE gets a line for each delay: the message, the way, nanoseconds asked for, nanoseconds that the message took, and those of them that the delay took.
"""

import asyncio
import gc
import mmap
import os
import queue
import random
import struct
import subprocess
import sys
import threading
import time

import perftax_tag

WAYS = ["spin", "faults", "preempt", "block", "gc"]
ORDINARY = 8
PAGE = 4096


def work(steps):
    x = 1
    for _ in range(steps):
        x = x * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
    return x


def spin_for(ns):
    until = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < until:
        work(20)


class Delays:
    def __init__(self, hog):
        self.hog = subprocess.Popen([hog], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pages = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.pages.madvise(mmap.MADV_NOHUGEPAGE)
        self.at = 0
        gc.collect()
        gc.freeze()
        self.objects = []

    def prepare(self, way, ns):
        if way == "gc":
            # Some tens of nanoseconds an object.
            self.objects = [[] for _ in range(ns // 15)]

    def touch_new_pages(self, ns):
        until = time.perf_counter_ns() + ns
        while time.perf_counter_ns() < until:
            self.pages[self.at : self.at + 64 * PAGE : PAGE] = bytes(64)
            self.at += 64 * PAGE

    def be_preempted(self, ns):
        self.hog.stdin.write(struct.pack("Q", ns))
        self.hog.stdout.read(1)

    def delay(self, way, ns):
        if way == "spin":
            spin_for(ns)
        elif way == "faults":
            self.touch_new_pages(ns)
        elif way == "preempt":
            self.be_preempted(ns)
        elif way == "block":
            time.sleep(ns * 1e-9)
        elif way == "gc":
            gc.collect()


def timed(function, *arguments):
    start = time.perf_counter_ns()
    function(*arguments)
    return time.perf_counter_ns() - start


def plan(each, seed):
    chosen = random.Random(seed)
    delayed = [(way, int(200_000 * 10 ** chosen.random())) for way in WAYS for _ in range(each)]
    chosen.shuffle(delayed)
    for way, ns in delayed:
        for _ in range(ORDINARY):
            yield None, 0
        yield way, ns


def in_threads(delays, plan, lines):
    """A worker handles what another thread hands to it."""
    waiting, done = queue.SimpleQueue(), queue.SimpleQueue()

    def worker():
        while (job := waiting.get()) is not None:
            id, way, ns = job
            perftax_tag.switch(id)
            work(200)
            own = timed(delays.delay, way, ns)
            perftax_tag.end(id)
            done.put(own)

    thread = threading.Thread(target=worker)
    thread.start()
    for way, ns in plan:
        delays.prepare(way, ns)
        id = perftax_tag.new_id()
        start = time.perf_counter_ns()
        perftax_tag.begin(id)
        perftax_tag.switch(0)
        waiting.put((id, way, ns))
        own = done.get()
        if way:
            lines.append((id, way, ns, time.perf_counter_ns() - start, own))
    waiting.put(None)
    thread.join()


async def in_tasks(delays, plan, lines):
    """Several tasks at once; each works before and after it lets others go on."""
    perftax_tag.follow()

    async def handle(way, ns):
        start = time.perf_counter_ns()
        with perftax_tag.message(name=f"task {way}") as id:
            work(100)
            await asyncio.sleep(0)
            began = time.perf_counter_ns()
            if way == "block":
                await asyncio.sleep(ns * 1e-9)
            else:
                delays.delay(way, ns)
            own = time.perf_counter_ns() - began
            work(100)
        if way:
            lines.append((id, way, ns, time.perf_counter_ns() - start, own))

    for way, ns in plan:
        delays.prepare(way, ns)
        # Beside one that waits another one works, so that the loop is not idle.
        await asyncio.gather(asyncio.create_task(handle(way, ns)), asyncio.create_task(handle(None, 0)))


def main():
    how, each, seed, file, hog = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    os.sched_setaffinity(0, {0})
    gc.disable()
    delays, lines = Delays(hog), []
    if how == "threads":
        in_threads(delays, plan(each, seed), lines)
    else:
        asyncio.run(in_tasks(delays, plan(each, seed), lines))
    with open(file, "w") as out:
        out.writelines(",".join(map(str, line)) + "\n" for line in lines)


main()
