"""Servers of mail."""
import glob
import hashlib
import os

from .program import PORT, Server, program

# Of the environment, which its master cleans for its services.
KEPT = "TZ LD_PRELOAD PACELINE_MODE PACELINE_LOG"


# A mail of no bytes is refused.
@program("dovecot", "dovecot-imapd", "dovecot /usr/lib/dovecot/imap", files=3, little=False)
def dovecot(work):
    """IMAP: a mailbox for each file, with one mail. One process lets a client in, and hands its connection to another."""
    root = os.path.join(work.tmp, "mail")
    for name, path in work.files():
        for folder in ("cur", "new", "tmp"):
            work.run(["mkdir", "-p", f"{root}/.{name}/{folder}"], user="nobody")
        work.run(["cp", path, f"{root}/.{name}/cur/1:2,"], user="nobody")
    config = work.write("dovecot.conf", f"""
base_dir = {work.folder}/dovecot
state_dir = {work.folder}/dovecot-state
protocols = imap
listen = 0.0.0.0
ssl = no
disable_plaintext_auth = no
log_path = /dev/stderr
first_valid_uid = 1
mail_location = maildir:{root}
mail_max_userip_connections = 200
import_environment = {KEPT}
passdb {{
  driver = static
  args = nopassword=y
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={root}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {PORT}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service stats {{
  client_limit = 1000
}}
""")

    def stored(_, name):
        with open(next(iter(glob.glob(f"{root}/.{name}/[cn]*/*"))), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return Server(["dovecot", "-F", "-c", config], "imap", {"port": PORT}, stored=stored)
