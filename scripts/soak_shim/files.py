"""File servers other than web servers."""
import os
import shutil
import signal

from .program import PORT, Server, program


@program("rsync", "rsync", "rsync", keep=False)
def rsync(work):
    config = work.write("rsyncd.conf", f"""
uid = nobody
gid = nogroup
use chroot = no
max connections = 0
log file = {work.tmp}/rsync.log
pid file = {work.tmp}/rsync.pid
[files]
path = {work.www}/files
[up]
path = {work.www}/up
read only = no
""")
    argv = ["rsync", "--daemon", "--no-detach", f"--config={config}", "--port", str(PORT)]
    return Server(argv, "rsync", {"port": PORT})


def proftpd(work, lines):
    config = work.write("proftpd.conf", f"""
ServerName soak
ServerType standalone
DefaultAddress 0.0.0.0
SocketBindTight on
Port {PORT}
UseIPv6 off
UseReverseDNS off
User nobody
Group nogroup
PidFile {work.folder}/proftpd.pid
ScoreboardFile {work.folder}/scoreboard
SystemLog {work.folder}/proftpd.log
TransferLog none
WtmpLog off
DelayEngine off
RequireValidShell off
UseFtpUsers off
MaxInstances none
TimeoutIdle 1200
TimeoutNoTransfer 1200
TimeoutStalled 1200
{lines}
<Anonymous {work.www}>
  User nobody
  Group nogroup
  UserAlias anonymous nobody
  <Directory up>
    <Limit STOR>
      AllowAll
    </Limit>
  </Directory>
</Anonymous>
""")
    return ["proftpd", "--nodaemon", "--config", config]


@program("proftpd", "proftpd-core", "proftpd", excludes="vsftpd")
def proftpd_as_it_is(work):
    """Keeps some of root's capabilities when a client has logged in."""
    return Server(proftpd(work, ""), "ftp", {"port": PORT})


@program("proftpd-plain", "proftpd-core", "proftpd", excludes="vsftpd")
def proftpd_without_capabilities(work):
    return Server(proftpd(work, "CapabilitiesEngine off"), "ftp", {"port": PORT})


@program("pyftpdlib", "python3-pyftpdlib", "/usr/lib/python3/dist-packages/pyftpdlib")
def pyftpdlib(work):
    argv = ["/usr/bin/python3", "-m", "pyftpdlib", "-i", "0.0.0.0", "-p", str(PORT), "-d", work.www, "-w"]
    return Server(argv, "ftp", {"port": PORT}, signal.SIGINT, "nobody")


def vsftpd(work, lines):
    empty = os.path.join(work.folder, "empty")
    os.mkdir(empty, 0o555)
    config = work.write("vsftpd.conf", f"""listen=YES
listen_port={PORT}
background=NO
anonymous_enable=YES
no_anon_password=YES
anon_root={work.www}
anon_upload_enable=YES
anon_umask=022
write_enable=YES
local_enable=NO
xferlog_enable=NO
secure_chroot_dir={empty}
max_clients=0
idle_session_timeout=1200
data_connection_timeout=1200
connect_from_port_20=NO
{lines}
""")
    return ["vsftpd", config]


@program("vsftpd", "vsftpd", "vsftpd")
def vsftpd_of_a_user(work):
    argv = vsftpd(work, "run_as_launching_user=YES")
    shutil.chown(argv[1], "nobody")
    return Server(argv, "ftp", {"port": PORT}, user="nobody")


@program("vsftpd-root", "vsftpd", "vsftpd")
def vsftpd_of_root(work):
    lines = "seccomp_sandbox=NO\nnopriv_user=nobody"
    return Server(vsftpd(work, lines), "ftp", {"port": PORT})


@program("pure-ftpd", "pure-ftpd openssl", "pure-ftpd pure-pw openssl", excludes="vsftpd")
def pure_ftpd(work):
    """With a user of its own: it takes anonymous ones only where the system has a user ftp. pure-pw's own hashes cost seconds a login."""
    table = os.path.join(work.folder, "users.pdb")
    hashed = work.run(["openssl", "passwd", "-1", "soak"]).decode().strip()
    users = work.write("users", f"soak:{hashed}:65534:65534::{work.www}/./::::::::::::\n")
    work.run(["pure-pw", "mkdb", table, "-f", users])
    argv = ["pure-ftpd", "-4", "-H", "-S", f"0.0.0.0,{PORT}", "-l", f"puredb:{table}", "-c", "200", "-C", "200", "-I", "1200", "-u", "1"]
    return Server(argv, "ftp", {"port": PORT, "user": "soak"})


@program("sshd", "openssh-server openssh-client", "/usr/sbin/sshd ssh scp ssh-keygen", keep=False)
def sshd(work):
    """By turns `cat` over ssh, and scp."""
    host, user = (os.path.join(work.folder, name) for name in ("host_key", "user_key"))
    for key in (host, user):
        work.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "soak", "-f", key])
    authorized = os.path.join(work.folder, "authorized_keys")
    shutil.copy(f"{user}.pub", authorized)
    config = work.write("sshd_config", f"""
Port {PORT}
ListenAddress 0.0.0.0
HostKey {host}
AuthorizedKeysFile {authorized}
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PidFile none
MaxStartups 500
LoginGraceTime 1200
Subsystem sftp internal-sftp
""")
    options = {"port": PORT, "key": user, "www": work.www}
    return Server(["/usr/sbin/sshd", "-D", "-e", "-f", config], "ssh", options)
