# SPDX-License-Identifier: MIT OR Apache-2.0
"""front.py HOST PORT MESSAGES EACH SEED FILE: the first one of three services: it asks the app for each message, from two threads, and has EACH of each way delayed. FILE gets a line for each
delay: trace, who was slow, and by what."""

import random
import socket
import struct
import sys
import threading
import time

import perftax_tag

FRAME = struct.Struct("<QQQII")
# As in wire.h: who is slow, and by what.
WAYS = {
    1: ("front", "blocked"),
    2: ("front", "on CPU"),
    3: ("front", "network or queue"),
    4: ("app", "blocked"),
    5: ("app", "on CPU"),
    6: ("app", "network or queue"),
    7: ("store", "blocked"),
    8: ("store", "page fault"),
    9: ("store", "system call"),
}
THREADS = 2


def compute(us):
    # What the thread has run for: what others take of its CPU meanwhile is not the delay that is planted. A system call, so it is asked seldom.
    until = time.thread_time_ns() + us * 1000
    x = 1
    while time.thread_time_ns() < until:
        for _ in range(5000):
            x = x * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
    return x


def ask(app, trace, span, where, delay_us):
    high, low = trace
    message = perftax_tag.new_id()
    perftax_tag.begin(message)
    perftax_tag.name(message, "search")
    perftax_tag.identity(message, high << 64 | low, span)
    if where == 1:
        time.sleep(delay_us * 1e-6)
    elif where == 2:
        compute(delay_us)
    perftax_tag.send(message)
    app.sendall(FRAME.pack(high, low, span, where, delay_us))
    left = FRAME.size
    while left:
        left -= len(app.recv(left))
    perftax_tag.receive(message)
    perftax_tag.end(message)


def client(address, plan, seed):
    rng = random.Random(seed)
    app = socket.create_connection(address)
    app.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for where, delay_us, trace, span in plan:
        ask(app, trace, span, where, delay_us)
        # Requests come when they come.
        if rng.random() < 0.1:
            time.sleep(rng.expovariate(1 / 200e-6))


def main():
    host, port, messages, each, seed, path = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
    rng = random.Random(seed)
    # Neither the first ones nor the last ones: recording begins and ends there.
    margin = messages // 50
    slow = rng.sample(range(margin, messages - margin), each * len(WAYS))
    ways = {at: list(WAYS)[n % len(WAYS)] for n, at in enumerate(slow)}
    plans = [[] for _ in range(THREADS)]
    with open(path, "w") as truth:
        for at in range(messages):
            trace, span = (rng.getrandbits(64), rng.getrandbits(64)), rng.getrandbits(63) | 2
            where, delay_us = ways.get(at, 0), rng.randrange(30_000, 60_000)
            plans[at % THREADS].append((where, delay_us if where else 0, trace, span))
            if where:
                who, by = WAYS[where]
                truth.write(f"{trace[0]:016x}{trace[1]:016x},{who},{by},{delay_us}\n")
    threads = [threading.Thread(target=client, args=((host, port), plan, seed + n)) for n, plan in enumerate(plans)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
