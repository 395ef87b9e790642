"""Its clients: python3 load.py [SECONDS]."""
import http.client, sys, threading, time

def client(until):
    connection = http.client.HTTPConnection("127.0.0.1", 8080)
    while time.monotonic() < until:
        connection.request("GET", "/")
        connection.getresponse().read()
        time.sleep(0.002)

until = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 1e9)
threads = [threading.Thread(target=client, args=(until,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
