// node http.js FOLDER PORT: GET answers a file below it, PUT with the SHA-256 of what came.
const crypto = require('crypto'), fs = require('fs'), http = require('http'), path = require('path');
const [folder, port] = process.argv.slice(2);
const server = http.createServer((request, response) => {
  if (request.method === 'PUT') {
    const hash = crypto.createHash('sha256');
    request.on('data', (block) => hash.update(block)).on('end', () => response.end(hash.digest('hex')));
    return;
  }
  const file = path.join(folder, request.url);
  response.setHeader('Content-Length', fs.statSync(file).size);
  fs.createReadStream(file).pipe(response);
});
server.requestTimeout = server.headersTimeout = 0;
server.keepAliveTimeout = 1200e3;
server.listen(Number(port), '0.0.0.0');
