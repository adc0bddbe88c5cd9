# webrick.rb FOLDER PORT: GET answers a file below it, PUT with the SHA-256 of what came.
require 'digest'
require 'webrick'

class Upload < WEBrick::HTTPServlet::AbstractServlet
  def do_PUT(request, response)
    hash = Digest::SHA256.new
    request.body { |block| hash.update(block) }
    response.body = hash.hexdigest
  end
end

folder, port = ARGV
server = WEBrick::HTTPServer.new(Port: Integer(port), BindAddress: '0.0.0.0', DocumentRoot: folder, AccessLog: [], RequestTimeout: 1200)
server.mount('/up', Upload)
trap('TERM') { server.shutdown }
server.start
