# SPDX-License-Identifier: MIT OR Apache-2.0
"""load.py SECONDS CLIENTS: asks the service one request after the other from so many clients; prints requests a second, and a line a slow kind of request."""

import http.client
import sys
import threading
import time

seconds, clients = float(sys.argv[1]), int(sys.argv[2])
counts = [0] * clients
until = time.monotonic() + seconds


def ask(client):
    connection = http.client.HTTPConnection("127.0.0.1", 8107)
    item = client
    while time.monotonic() < until:
        connection.request("GET", f"/cart/{item}")
        connection.getresponse().read()
        counts[client] += 1
        item += clients


threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(counts) / seconds:.1f}")
