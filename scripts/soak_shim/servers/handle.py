"""handle.py FOLDER PORT: GET answers a file below the folder; the connection is closed by the C library's own `close`, as ctypes finds it."""
import ctypes
import socket
import sys
import threading

libc = ctypes.CDLL("libc.so.6")


def serve(connection):
    request = b""
    while b"\r\n\r\n" not in request:
        block = connection.recv(65_536)
        if not block:
            break
        request += block
    else:
        with open(sys.argv[1] + request.split()[1].decode(), "rb") as file:
            body = file.read()
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except OSError:
            pass  # The client went.
    libc.close(connection.detach())


with socket.create_server(("0.0.0.0", int(sys.argv[2])), backlog=128) as listener:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
