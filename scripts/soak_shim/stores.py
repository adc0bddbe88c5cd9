"""Data bases and caches."""
import glob
import hashlib
import os
import shutil
import signal
import subprocess

from . import sessions
from .commands import LOAD
from .program import PORT, Server, program
from .stream import FAST, Sink

# Postgres' programs are in no PATH.
POSTGRES = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or ["/usr/lib/postgresql/15/bin"])[-1]


def over_loopback(session):
    """How a round puts files into a store, and asks for what was uploaded."""
    def load(work):
        connection = session("127.0.0.1", FAST, 300, port=PORT)
        for name, path in work.files():
            connection.up(name, path)

    def stored(_, name):
        sink = Sink()
        session("127.0.0.1", FAST, 300, port=PORT).down(name, sink)
        return sink.digest()
    return {"load": load, "stored": stored}


def redis(work, protocol):
    argv = ["redis-server", "--port", str(PORT), "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", work.tmp,
            "--rdbcompression", "no", "--client-output-buffer-limit", "replica", "0", "0", "0", "--repl-timeout", "1200",
            "--repl-diskless-sync-delay", "0"]
    return Server(argv, protocol, {"port": PORT}, user="nobody", **over_loopback(sessions.Redis))


@program("redis", "redis-server", "redis-server", largest=256 << 20, idle=1300)
def redis_clients(work):
    return redis(work, "redis")


@program("redis-replica", "redis-server", "redis-server", ways=("down",), keep=False, clients=4, files=1)
def redis_replica(work):
    """Each client is a server that copies everything."""
    return redis(work, "replica")


@program("memcached", "memcached", "memcached", largest=32 << 20, idle=1300)
def memcached(work):
    # Uploads all have to fit: nothing may be thrown out before it was compared.
    megabytes = 256 + 2 * work.volume // 1_000_000
    argv = ["memcached", "-l", "0.0.0.0", "-p", str(PORT), "-m", str(megabytes), "-I", "64m", "-M"]
    return Server(argv, "memcached", {"port": PORT}, user="nobody", **over_loopback(sessions.Memcached))


@program("beanstalkd", "beanstalkd", "beanstalkd", largest=64 << 20, idle=1300)
def beanstalkd(work):
    argv = ["beanstalkd", "-l", "0.0.0.0", "-p", str(PORT), "-z", str(64 << 20)]
    return Server(argv, "beanstalk", {"port": PORT}, user="nobody", **over_loopback(sessions.Beanstalk))


# Empty messages are not retained.
@program("mosquitto", "mosquitto mosquitto-clients", "mosquitto mosquitto_pub mosquitto_sub", keep=False, largest=64 << 20, files=3,
         idle=1300, returns=True)
def mosquitto(work):
    """Retained messages."""
    config = work.write("mosquitto.conf", f"listener {PORT} 0.0.0.0\nallow_anonymous true\npersistence false\nlog_type error\n")
    retained = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(PORT), "-r", "-q", "1"]

    def load(work):
        for name, path in work.files():
            work.run([*retained, "-t", name, "-f", path])

    def stored(_, name):
        return printed(["mosquitto_sub", "-h", "127.0.0.1", "-p", str(PORT), "-t", name, "-C", "1", "-N", "-q", "1"])
    return Server(["mosquitto", "-c", config], "mqtt", {"port": PORT}, user="nobody", load=load, stored=stored)


@program("bind", "bind9 bind9-dnsutils", "named dig", ways=("down",), keep=False, largest=4 << 20, little=False)
def bind(work):
    """Zones of one record a line, which are transferred as a whole."""
    zones = ""
    for name, path in work.files():
        with open(path) as lines:
            rows = "".join(f'l{number:08} TXT "{line.rstrip()}"\n' for number, line in enumerate(lines))
        zone = work.write(f"tmp/{name}.zone", f"$TTL 60\n@ SOA ns nobody 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\n{rows}")
        zones += f'zone "{name}" {{ type primary; file "{zone}"; check-names ignore; }};\n'
    config = work.write("named.conf", f"""
options {{
  directory "{work.tmp}"; pid-file none; session-keyfile "{work.tmp}/session.key"; listen-on port {PORT} {{ any; }}; listen-on-v6 {{ none; }};
  allow-transfer {{ any; }}; recursion no; notify no; dnssec-validation no; tcp-clients 300; transfers-out 300; managed-keys-directory "{work.tmp}";
  max-transfer-timeout 60; max-transfer-idle-out 60; tcp-idle-timeout 1200;
}};
controls {{ }};
{zones}""")
    return Server(["named", "-f", "-g", "-n", "2", "-c", config], "axfr", {"port": PORT}, user="nobody")


@program("mariadb", "mariadb-server", "mariadbd mariadb", keep=False)
def mariadb(work):
    """Rows of one line each."""
    data = os.path.join(work.tmp, "data")
    os.mkdir(data, 0o700)
    shutil.chown(data, "mysql", "mysql")
    settings = {"datadir": data, "port": PORT, "bind-address": "0.0.0.0", "socket": f"{work.tmp}/socket", "max-connections": 200,
                "pid-file": f"{work.tmp}/pid", "innodb-flush-log-at-trx-commit": 0, "net-write-timeout": 1200, "local-infile": 1,
                "net-read-timeout": 1200, "tmpdir": work.tmp}
    argv = ["mariadbd", "--no-defaults", "--skip-grant-tables", *(f"--{name}={value}" for name, value in settings.items())]
    client = ["mariadb", "--no-defaults", "--batch", "--raw", "--skip-column-names", "--quick", "--local-infile=1"]
    local = [*client, f"--socket={work.tmp}/socket"]

    def load(work):
        work.run_when_ready([*local, "--execute", "CREATE DATABASE soak"])
        for name, path in work.files():
            work.run([*local, "soak", "--execute", LOAD.format(name=name, path=path)])

    def stored(_, name):
        return printed([*local, "soak", "--execute", f"SELECT line FROM {name}"])
    return Server(argv, "mariadb", {"port": PORT, "client": client}, user="mysql", load=load, stored=stored)


def printed(argv):
    """SHA-256 of what a command prints."""
    return hashlib.sha256(subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout).hexdigest()


@program("postgresql", "postgresql", f"{POSTGRES}/postgres {POSTGRES}/psql", keep=False)
def postgresql(work):
    data = os.path.join(work.tmp, "data")
    os.mkdir(data, 0o700)
    shutil.chown(data, "postgres", "postgres")
    work.run([f"{POSTGRES}/initdb", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C",
              "--username", "postgres", "-D", data], user="postgres")
    work.write("tmp/data/pg_hba.conf", "local all all trust\nhost all all 0.0.0.0/0 trust\n")
    os.chmod(os.path.join(data, "pg_hba.conf"), 0o644)
    settings = {"listen_addresses": "*", "port": PORT, "unix_socket_directories": work.tmp, "max_connections": 200,
                "fsync": "off", "synchronous_commit": "off", "max_wal_size": "8GB",
                # A scan would begin where another one is, and give the rows in another order.
                "synchronize_seqscans": "off"}
    argv = [f"{POSTGRES}/postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())]
    psql = [f"{POSTGRES}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]
    local = [*psql, "-h", work.tmp, "-p", str(PORT)]

    def load(work):
        work.run_when_ready([*local, "-c", "SELECT 1"])
        for name, path in work.files():
            work.run([*local, "-c", f"CREATE TABLE {name} (line text)", "-c", f"COPY {name} FROM '{path}'"])

    def stored(_, name):
        return printed([*local, "-c", f"COPY {name} TO STDOUT"])
    return Server(argv, "psql", {"port": PORT, "psql": psql}, signal.SIGINT, "postgres", load=load, stored=stored)
