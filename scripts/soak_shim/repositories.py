"""Servers of repositories."""
import hashlib
import os

from .commands import committing
from .program import PORT, Server, program
from .stores import printed

USER = "nobody"


def folder_for(work):
    """A folder that the server's user owns, which is its home too."""
    folder = os.path.join(work.tmp, "repositories")
    work.run(["mkdir", folder], user=USER)
    return folder, {"HOME": folder, "HGRCPATH": "", "HGDEMANDIMPORT": "disable", "LC_ALL": "C.UTF-8"}


@program("git", "git", "git /usr/lib/git-core/git-daemon", keep=False)
def git_daemon(work):
    """A process for each connection."""
    root, env = folder_for(work)
    work.run(["git", "init", "-q", "--bare", f"{root}/up"], USER, env)
    for name, path in work.files():
        for words in [*committing(f"{root}/work-{name}", path, name), ["git", "clone", "-q", "--bare", f"{root}/work-{name}", f"{root}/{name}"]]:
            work.run(words, USER, env)

    def stored(work, name):
        git = ["git", "-C", f"{root}/up"]
        work.run([*git, "fsck", "--full", "--no-progress"], USER, env)
        return hashlib.sha256(work.run([*git, "show", f"{name}:{name}"], USER, env)).hexdigest()
    argv = ["git", "daemon", "--reuseaddr", f"--port={PORT}", f"--base-path={root}", "--export-all", "--enable=receive-pack",
            "--max-connections=100"]
    return Server(argv, "git", {"port": PORT}, user=USER, env=env, stored=stored)


@program("svn", "subversion", "svnserve svn svnadmin", keep=False)
def svnserve(work):
    """A thread for each connection."""
    root, env = folder_for(work)
    url = f"file://{root}/all"
    work.run(["svnadmin", "create", f"{root}/all"], USER, env)
    work.write("tmp/svnserve.conf", "[general]\nanon-access = write\n")
    work.run(["svn", "mkdir", "-q", "-m", "up", f"{url}/up"], USER, env)
    work.run(["svn", "import", "-q", "-m", "files", f"{work.www}/files", f"{url}/files"], USER, env)
    argv = ["svnserve", "--daemon", "--foreground", "--threads", "--root", f"{root}/all", "--listen-port", str(PORT),
            "--config-file", f"{work.tmp}/svnserve.conf"]
    return Server(argv, "svn", {"port": PORT}, user=USER, env=env, stored=lambda _, name: printed(["svn", "cat", f"{url}/up/{name}"]))


@program("hg", "mercurial", "hg", ways=("down",), keep=False)
def hg_serve(work):
    root, env = folder_for(work)
    paths = "[paths]\n"
    for name, path in work.files():
        hg = ["hg", "--cwd", f"{root}/{name}"]
        for words in (["hg", "init", f"{root}/{name}"], ["cp", path, f"{root}/{name}"], [*hg, "add", "-q", name],
                      [*hg, "commit", "-q", "-u", "soak", "-m", name]):
            work.run(words, USER, env)
        paths += f"{name} = {root}/{name}\n"
    config = work.write("hgweb.conf", paths)
    return Server(["hg", "serve", "-a", "0.0.0.0", "-p", str(PORT), "--web-conf", config], "hg", {"port": PORT}, user=USER, env=env)
