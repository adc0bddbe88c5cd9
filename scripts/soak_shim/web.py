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
daemon off; user www-data; worker_processes 2; pid {work.tmp}/pid; events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile {sendfile}; tcp_nopush on; {bodies}
  client_max_body_size 0; keepalive_timeout 20m; keepalive_requests 100000;
  send_timeout 20m; client_body_timeout 20m; client_header_timeout 20m;
  server {{ listen {PORT} {listen}; root {work.www}; location /up/ {{ dav_methods PUT; }} }}
}}
""")
    return ["nginx", "-c", config, "-e", f"{work.tmp}/errors"]


@program("nginx", "nginx-light", "nginx")
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


@program("lighttpd", "lighttpd lighttpd-mod-webdav", "lighttpd /usr/lib/lighttpd/mod_webdav.so")
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


@program("node", "nodejs", "node")
def node(work):
    return http(work, ["node", work.source("http.js"), work.www, str(PORT)], user="nobody")


@program("java-http", "default-jdk-headless", "java javac")
def java_http(work):
    return http(work, ["java", "-Xmx512m", work.source("Http.java"), work.www, str(PORT)], user="nobody")


@program("java-transfer", "default-jdk-headless", "java javac", keep=False)
def java_transfer(work):
    """Non-blocking channels, and transferTo (sendfile)."""
    argv = ["java", "-Xmx512m", work.source("Transfer.java"), work.www, str(PORT)]
    return Server(argv, "line", {"port": PORT}, user="nobody")


@program("erlang", "erlang-base erlang-inets", "erl /usr/lib/erlang/lib/inets-*", ways=("down",))
def erlang(work):
    start = (f'ok = inets:start(), {{ok, _}} = inets:start(httpd, [{{port, {PORT}}}, {{bind_address, {{0,0,0,0}}}}, '
             f'{{server_name, "soak"}}, {{server_root, "{work.tmp}"}}, {{document_root, "{work.www}"}}, '
             f'{{modules, [mod_get, mod_head]}}, {{keep_alive_timeout, 1200}}]).')
    return http(work, ["erl", "-noshell", "-noinput", "-eval", start], user="nobody", env={"HOME": work.tmp})


@program("puma", "puma", "puma")
def puma(work):
    argv = ["puma", "-q", "-b", f"tcp://0.0.0.0:{PORT}", "-t", "64:64", work.source("config.ru")]
    return http(work, argv, user="nobody", cwd=work.tmp, env={"SOAK_WWW": work.www})


@program("gunicorn", "gunicorn", "gunicorn")
def gunicorn(work):
    argv = ["gunicorn", "--bind", f"0.0.0.0:{PORT}", "--workers", "2", "--threads", "32", "--timeout", "1200",
            "--keep-alive", "1200", "--chdir", work.source(""), "wsgi:application"]
    return http(work, argv, user="nobody", env={"SOAK_WWW": work.www, "PYTHONDONTWRITEBYTECODE": "1"})


@program("python", "python3", "/usr/bin/python3", ways=("down",), keep=False)
def python(work):
    argv = ["/usr/bin/python3", "-m", "http.server", "--bind", "0.0.0.0", "--directory", work.www, str(PORT)]
    return http(work, argv, stop=signal.SIGINT, user="nobody")


@program("busybox", "busybox", "busybox", ways=("down",), keep=False)
def busybox(work):
    return http(work, ["busybox", "httpd", "-f", "-p", str(PORT), "-h", work.www], user="nobody")


@program("openssl", "openssl", "openssl", ways=("down",), keep=False, clients=8)
def openssl(work):
    """One client after the other."""
    certificate, key = work.certificate()
    argv = ["openssl", "s_server", "-WWW", "-quiet", "-accept", str(PORT), "-cert", certificate, "-key", key]
    return http(work, argv, tls=True, cwd=work.www)
