"""A server: most requests are quick; every fiftieth sorts a long list."""
import http.server, random

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served = 0

    def do_GET(self):
        Handler.served += 1
        count = 200_000 if Handler.served % 50 == 0 else 200
        answer = str(sum(sorted(random.random() for _ in range(count)))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
