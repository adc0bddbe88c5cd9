# GET answers a file below SOAK_WWW, PUT with the SHA-256 of what came.
require 'digest'

# Puma gives up a client that takes nothing for 10 s, which slow ones here do.
Puma::Const.send(:remove_const, :WRITE_TIMEOUT)
Puma::Const::WRITE_TIMEOUT = 1200

# A file in pieces, each of which is written for itself.
Pieces = Struct.new(:path) do
  def each
    File.open(path, 'rb') do |file|
      while (piece = file.read(20_000))
        yield piece
      end
    end
  end
end

run lambda { |env|
  if env['REQUEST_METHOD'] == 'PUT'
    hash, block = Digest::SHA256.new, String.new
    hash.update(block) while env['rack.input'].read(65_536, block)
    return [200, { 'Content-Length' => '64' }, [hash.hexdigest]]
  end
  path = File.join(ENV['SOAK_WWW'], env['PATH_INFO'])
  [200, { 'Content-Length' => File.size(path).to_s }, Pieces.new(path)]
}
