"""GET answers a file below SOAK_WWW in pieces, PUT with the SHA-256 of what came."""
import hashlib
import os


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])  # As ASGI has it for what is not supported.
    if scope["method"] == "PUT":
        digest, more = hashlib.sha256(), True
        while more:
            message = await receive()
            digest.update(message.get("body", b""))
            more = message.get("more_body", False)
        await start(send, 64)
        return await send({"type": "http.response.body", "body": digest.hexdigest().encode()})
    path = os.environ["SOAK_WWW"] + scope["path"]
    await start(send, os.path.getsize(path))
    with open(path, "rb") as file:
        while block := file.read(100_000):
            await send({"type": "http.response.body", "body": block, "more_body": True})
    return await send({"type": "http.response.body"})


async def start(send, count):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(count).encode())]})
