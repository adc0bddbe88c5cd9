"""GET answers a file below SOAK_WWW by the server's own way to send files, PUT with the SHA-256 of what came."""
import hashlib
import os


def application(environ, start_response):
    if environ["REQUEST_METHOD"] == "PUT":
        digest = hashlib.sha256()
        while block := environ["wsgi.input"].read(65_536):
            digest.update(block)
        start_response("200 OK", [("Content-Length", "64")])
        return [digest.hexdigest().encode()]
    path = os.environ["SOAK_WWW"] + environ["PATH_INFO"]
    start_response("200 OK", [("Content-Length", str(os.path.getsize(path)))])
    return environ["wsgi.file_wrapper"](open(path, "rb"))
