"""aiohttp's files of a folder; PUT answers with the SHA-256 of what came."""
import hashlib
import sys

from aiohttp import web


async def put(request):
    digest = hashlib.sha256()
    async for block in request.content.iter_chunked(65536):
        digest.update(block)
    return web.Response(text=digest.hexdigest())


application = web.Application(client_max_size=1 << 40)
application.router.add_put("/up/{name}", put)
application.router.add_static("/", sys.argv[1])
web.run_app(application, host="0.0.0.0", port=int(sys.argv[2]), print=None, keepalive_timeout=1200)
