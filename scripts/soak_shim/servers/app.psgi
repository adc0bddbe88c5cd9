# GET answers a file below SOAK_WWW, PUT with the SHA-256 of what came.
use strict;
use warnings;
use Digest::SHA;

sub {
    my $env = shift;
    if ($env->{REQUEST_METHOD} eq 'PUT') {
        my ($digest, $block) = (Digest::SHA->new(256), '');
        $digest->add($block) while $env->{'psgi.input'}->read($block, 65536);
        return [200, ['Content-Length' => 64], [$digest->hexdigest]];
    }
    my $path = $ENV{SOAK_WWW} . $env->{PATH_INFO};
    open my $file, '<:raw', $path or return [404, [], []];
    return [200, ['Content-Length' => -s $path], $file];
};
