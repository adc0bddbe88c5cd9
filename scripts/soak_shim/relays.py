"""Proxies before an HTTP server, and programs that are started for each connection."""
import signal

from .program import ORIGIN_PORT, PORT, Server, program


def proxy(work, argv, tls=False, socks=None, **more):
    work.origin()
    return Server(argv, "http", {"port": PORT, "tls": tls, "socks": socks}, **more)


def haproxy(work, bind, lines):
    config = work.write("haproxy.conf", f"""
global
  maxconn 1000
defaults
  timeout connect 20s
  timeout client 20m
  timeout server 20m
{lines}
frontend front
  bind 0.0.0.0:{PORT} {bind}
  default_backend back
backend back
  server origin 127.0.0.1:{ORIGIN_PORT}
""")
    # Ends when its last connection has.
    return {"argv": ["haproxy", "-db", "-f", config], "stop": signal.SIGUSR1, "user": "nobody"}


@program("haproxy-tcp", "haproxy", "haproxy", idle=400, little=False)
def haproxy_tcp(work):
    return proxy(work, **haproxy(work, "", "  mode tcp"))


@program("haproxy-splice", "haproxy", "haproxy")
def haproxy_splice(work):
    return proxy(work, **haproxy(work, "", "  mode http\n  option splice-request\n  option splice-response"))


@program("haproxy-tls", "haproxy openssl", "haproxy openssl")
def haproxy_tls(work):
    certificate, key = work.certificate()
    both = work.write("both.pem", open(certificate).read() + open(key).read())
    return proxy(work, **haproxy(work, f"ssl crt {both}", "  mode http"), tls=True)


@program("stunnel", "stunnel4 openssl", "stunnel4 openssl")
def stunnel(work):
    certificate, key = work.certificate()
    config = work.write("stunnel.conf", f"""
foreground = yes
pid =
debug = 4
[soak]
accept = 0.0.0.0:{PORT}
connect = 127.0.0.1:{ORIGIN_PORT}
cert = {certificate}
key = {key}
TIMEOUTbusy = 1200
TIMEOUTidle = 1200
""")
    return proxy(work, ["stunnel4", config], tls=True, user="nobody")


@program("squid", "squid", "squid")
def squid(work):
    config = work.write("squid.conf", f"""
http_port {PORT} accel defaultsite=soak no-vhost
cache_peer 127.0.0.1 parent {ORIGIN_PORT} 0 no-query originserver
http_access allow all
cache deny all
cache_mem 8 MB
access_log none
cache_log {work.tmp}/cache.log
pid_filename {work.tmp}/squid.pid
coredump_dir {work.tmp}
netdb_filename none
visible_hostname soak
pinger_enable off
max_filedescriptors 4096
read_timeout 20 minutes
write_timeout 20 minutes
request_timeout 20 minutes
client_idle_pconn_timeout 20 minutes
shutdown_lifetime 1 second
""")
    return proxy(work, ["squid", "-N", "-f", config])


@program("varnish", "varnish gcc libc6-dev", "varnishd cc")
def varnish(work):
    """The first to ask fills its cache, the others are answered from there."""
    options = {"send_timeout": 1200, "idle_send_timeout": 1200, "timeout_idle": 1200, "first_byte_timeout": 1200,
               "between_bytes_timeout": 1200}
    settings = [word for name, value in options.items() for word in ("-p", f"{name}={value}")]
    argv = ["varnishd", "-F", "-j", "none", "-n", f"{work.tmp}/varnish", "-a", f"0.0.0.0:{PORT}",
            "-b", f"127.0.0.1:{ORIGIN_PORT}", "-s", "malloc,512m", *settings]
    return proxy(work, argv)


@program("nghttpx", "nghttp2-proxy", "nghttpx", idle=400)
def nghttpx(work):
    names = ("frontend-read", "frontend-write", "frontend-keep-alive", "backend-read", "backend-write", "backend-keep-alive", "stream-read",
             "stream-write")
    argv = ["nghttpx", "--conf=/dev/null", f"--frontend=0.0.0.0,{PORT};no-tls", f"--backend=127.0.0.1,{ORIGIN_PORT}", "--workers=2",
            f"--errorlog-file={work.tmp}/errors", *(f"--{name}-timeout=1200" for name in names)]
    return proxy(work, argv, stop=signal.SIGQUIT, user="nobody")


@program("tinyproxy", "tinyproxy-bin", "tinyproxy", keep=False)
def tinyproxy(work):
    config = work.write("tinyproxy.conf", f"""
Port {PORT}
Listen 0.0.0.0
Timeout 1200
MaxClients 200
LogLevel Error
ReverseOnly Yes
ReversePath "/" "http://127.0.0.1:{ORIGIN_PORT}/"
""")
    return proxy(work, ["tinyproxy", "-d", "-c", config], user="nobody")


@program("dante", "dante-server", "danted", little=False)
def dante(work):
    """SOCKS5. Hands connections from process to process."""
    config = work.write("danted.conf", f"""
logoutput: stderr
internal: 0.0.0.0 port = {PORT}
external: 127.0.0.1
clientmethod: none
socksmethod: none
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}
socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}
""")
    return proxy(work, ["danted", "-f", config], socks=ORIGIN_PORT)


@program("hitch", "hitch openssl", "hitch openssl")
def hitch(work):
    certificate, key = work.certificate()
    both = work.write("both.pem", open(certificate).read() + open(key).read())
    config = work.write("hitch.conf", f"""
frontend = "[*]:{PORT}"
backend = "[127.0.0.1]:{ORIGIN_PORT}"
pem-file = "{both}"
workers = 2
daemon = off
""")
    return proxy(work, ["hitch", f"--config={config}"], tls=True, user="nobody")


def socat(work, options):
    handler = f"bash {work.source('line.sh')}{options}"
    # It would leave half a second after the shell's end, whatever it still has to pass on.
    argv = ["socat", "-t", "1200", f"TCP-LISTEN:{PORT},fork,reuseaddr,backlog=128", f"EXEC:{handler}"]
    return Server(argv, "line", {"port": PORT}, cwd=work.www, user="nobody")


@program("socat", "socat", "socat bash", keep=False)
def socat_relays(work):
    """A process of its own relays between each connection and a shell."""
    return socat(work, "")


@program("inetd", "socat", "socat bash", keep=False)
def socat_hands_over(work):
    """As inetd: bash and cat have the connection as their standard input and output."""
    return socat(work, ",nofork")
