"""origin.py FOLDER PORT: what is behind proxies. GET answers a file below the folder, PUT with the SHA-256 of what came."""
import hashlib
import http.server
import os
import shutil
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = sys.argv[1] + self.path
        try:
            file = open(path, "rb")
        except OSError:
            return self.send_error(404)
        with file:
            self.send_response(200)
            self.send_header("Content-Length", str(os.path.getsize(path)))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile, 1 << 16)

    def do_PUT(self):
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left and (block := self.rfile.read(min(left, 1 << 16))):
            digest.update(block)
            left -= len(block)
        self.send_response(200 if left == 0 else 400)
        self.send_header("Content-Length", "64")
        self.end_headers()
        self.wfile.write(digest.hexdigest().encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
