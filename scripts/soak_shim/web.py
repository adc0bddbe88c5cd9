"""Web servers."""
import signal

from .program import PORT, Server, program


def http(work, argv, **more):
    """A server with the files below /files/ and, where it has uploads, those below /up/."""
    tls = more.pop("tls", False)
    return Server(argv, "http", {"port": PORT, "tls": tls}, **more)


def nginx(work, listen, sendfile):
    bodies = "".join(f"{name}_temp_path {work.tmp}/{name};" for name in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = work.write("nginx.conf", f"""
daemon off; user www-data; worker_processes 2; pid {work.tmp}/pid; events {{ worker_connections 2048; }}
http {{
  access_log off; sendfile {sendfile}; tcp_nopush on; {bodies}
  client_max_body_size 0; keepalive_timeout 20m; keepalive_requests 100000;
  send_timeout 20m; client_body_timeout 20m; client_header_timeout 20m;
  server {{ listen {PORT} {listen}; root {work.www}; location /up/ {{ dav_methods PUT; }} }}
}}
""")
    return ["nginx", "-c", config, "-e", f"{work.tmp}/errors"]


@program("nginx", "nginx-light", "nginx", idle=1300)
def nginx_plain(work):
    return http(work, nginx(work, "", "on"), stop=signal.SIGQUIT)


@program("nginx-tls", "nginx-light openssl", "nginx openssl")
def nginx_tls(work):
    certificate, key = work.certificate()
    listen = f"ssl; ssl_certificate {certificate}; ssl_certificate_key {key}"
    return http(work, nginx(work, listen, "off"), tls=True, stop=signal.SIGQUIT)


def apache(work, modules, lines):
    load = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in
                   ("mpm_event", "authz_core", "dav", "dav_fs", *modules))
    config = work.write("apache.conf", f"""{load}
Listen {PORT}
ServerName soak
User www-data
Group www-data
PidFile {work.tmp}/pid
ErrorLog {work.tmp}/errors
DocumentRoot {work.www}
DavLockDB {work.tmp}/locks
DefaultRuntimeDir {work.tmp}
EnableSendfile on
Timeout 1200
KeepAliveTimeout 1200
MaxKeepAliveRequests 0
LimitRequestBody 0
{lines}
<Directory {work.www}>
  Require all granted
</Directory>
<Directory {work.www}/up>
  Dav On
</Directory>
""")
    return ["apache2", "-d", work.folder, "-f", config, "-DFOREGROUND"]


@program("apache", "apache2", "apache2")
def apache_plain(work):
    return http(work, apache(work, (), ""), stop=signal.SIGWINCH)


@program("apache-tls", "apache2 openssl", "apache2 openssl")
def apache_tls(work):
    certificate, key = work.certificate()
    lines = f"SSLEngine on\nSSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}"
    return http(work, apache(work, ("ssl",), lines), tls=True, stop=signal.SIGWINCH)


@program("lighttpd", "lighttpd lighttpd-mod-webdav", "lighttpd /usr/lib/lighttpd/mod_webdav.so", idle=1300)
def lighttpd(work):
    config = work.write("lighttpd.conf", f"""
server.port = {PORT}
server.document-root = "{work.www}"
server.username = "www-data"
server.groupname = "www-data"
server.errorlog = "{work.tmp}/errors"
server.upload-dirs = ( "{work.tmp}" )
server.modules = ( "mod_webdav" )
server.max-keep-alive-requests = 100000
server.max-keep-alive-idle = 1200
server.max-read-idle = 1200
server.max-write-idle = 1200
server.max-request-size = 0
$HTTP["url"] =~ "^/up/" {{ webdav.activate = "enable" }}
""")
    return http(work, ["lighttpd", "-D", "-f", config], stop=signal.SIGINT)


@program("busybox", "busybox", "busybox", ways=("down",), keep=False)
def busybox(work):
    return http(work, ["busybox", "httpd", "-f", "-p", str(PORT), "-h", work.www], user="nobody")


@program("openssl", "openssl", "openssl", ways=("down",), keep=False, clients=8)
def openssl(work):
    """One client after the other."""
    certificate, key = work.certificate()
    argv = ["openssl", "s_server", "-WWW", "-quiet", "-accept", str(PORT), "-cert", certificate, "-key", key]
    return http(work, argv, tls=True, cwd=work.www)


def h2o(work, listen):
    config = work.write("h2o.conf", f"""
listen:
  port: {PORT}
{listen}
num-threads: 2
max-connections: 4096
http1-request-timeout: 1200
http2-idle-timeout: 1200
http2-graceful-shutdown-timeout: 1200
temp-buffer-path: {work.tmp}
hosts:
  default:
    paths:
      "/":
        file.dir: {work.www}
""")
    return ["h2o", "-c", config]


@program("h2o", "h2o", "h2o", ways=("down",), idle=1300)
def h2o_plain(work):
    return http(work, h2o(work, ""), user="nobody")


@program("h2o-http2", "h2o openssl curl", "h2o openssl curl", ways=("down",), keep=False)
def h2o_over_http2(work):
    certificate, key = work.certificate()
    listen = f"  ssl:\n    certificate-file: {certificate}\n    key-file: {key}"
    options = {"port": PORT, "scheme": "https", "words": ["--http2", "--insecure"]}
    return Server(h2o(work, listen), "curl", options, user="nobody")


@program("nghttpd", "nghttp2-server curl", "nghttpd curl", ways=("down",), keep=False)
def nghttpd(work):
    """HTTP/2 without TLS."""
    argv = ["nghttpd", "--no-tls", "--address=0.0.0.0", f"--htdocs={work.www}", str(PORT)]
    return Server(argv, "curl", {"port": PORT, "scheme": "http", "words": ["--http2-prior-knowledge"]}, user="nobody")


@program("mini-httpd", "mini-httpd", "mini_httpd", ways=("down",), keep=False)
def mini_httpd(work):
    """A process for each connection."""
    return http(work, ["mini_httpd", "-D", "-p", str(PORT), "-d", work.www], user="nobody")


@program("webfs", "webfs", "webfsd", ways=("down",), keep=False, idle=1300)
def webfs(work):
    """Waits by select, for as many clients as its limit of descriptors lets in."""
    return http(work, ["webfsd", "-F", "-4", "-p", str(PORT), "-r", work.www, "-c", "4000", "-t", "1200"], user="nobody")
