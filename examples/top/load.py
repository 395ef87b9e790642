"""Requests of a redis server whose service takes as long as planted, and how long they took as their client saw it.

    load.py PORT SECONDS LATENCIES            planted: DEBUG SLEEP of 20 to 300 ms, one after the other on one connection
    load.py PORT SECONDS LATENCIES --rate N   GET and SET, N a second
    load.py PORT SECONDS LATENCIES --wait N   planted: BLPOP of nothing for 20 to 300 ms, over and over on each of N connections

LATENCIES gets one number a line, ns.
"""

import random
import selectors
import socket
import sys
import time


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def more(self):
        some = self.socket.recv(65536)
        if not some:
            raise SystemExit("redis has closed the connection")
        return some

    def ask(self, *words):
        """One request; its latency in ns. All answers asked for here are short, and end with the line that they begin with or the one after it."""
        question = command(*words)
        began = time.monotonic_ns()
        self.socket.sendall(question)
        answer = self.more()
        while not answer.endswith(b"\r\n") or answer.startswith(b"$") and not answer.startswith(b"$-1") and answer.count(b"\r\n") < 2:
            answer += self.more()
        took = time.monotonic_ns() - began
        if answer.startswith(b"-"):
            raise SystemExit(f"redis: {answer.decode().strip()}")
        return took


def seconds_to_wait(chance):
    """Most some tens of ms, few many: 20 ms and what an exponential distribution adds, 300 at most; the way there and back, some 0.2 ms, is little of it."""
    return min(0.02 + chance.expovariate(1 / 0.03), 0.3)


def wait(port, until, out, connections):
    """Requests that wait in the server for nothing, on many connections at once."""
    chance, ready = random.Random(1), selectors.DefaultSelector()

    def ask(client):
        question = command("BLPOP", "nothing", f"{seconds_to_wait(chance):.6f}")
        client.began = time.monotonic_ns()
        client.socket.sendall(question)

    for _ in range(connections):
        client = Client(port)
        ready.register(client.socket, selectors.EVENT_READ, client)
        ask(client)
    while time.monotonic() < until:
        for key, _ in ready.select(1.0):
            client = key.data
            answer = client.more()
            took = time.monotonic_ns() - client.began
            if answer != b"*-1\r\n":
                raise SystemExit(f"redis: {answer.decode().strip()}")
            print(took, file=out)
            ask(client)


def main():
    port, seconds, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    way = sys.argv[4] if len(sys.argv) > 5 else None
    rate = float(sys.argv[5]) if way == "--rate" else None
    if way == "--wait":
        with open(path, "w") as out:
            return wait(port, time.monotonic() + seconds, out, int(sys.argv[5]))
    client, chance, until = Client(port), random.Random(1), time.monotonic() + seconds
    due = time.monotonic()
    with open(path, "w") as out:
        while time.monotonic() < until:
            if rate is None:
                took = client.ask("DEBUG", "SLEEP", f"{seconds_to_wait(chance):.6f}")
            else:
                key = f"key:{chance.randrange(1000)}"
                took = client.ask("SET", key, "x" * 100) if chance.random() < 0.1 else client.ask("GET", key)
                due += 1 / rate
                time.sleep(max(0.0, due - time.monotonic()))
            print(took, file=out)


main()
