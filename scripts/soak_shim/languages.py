"""Web servers of languages, most of them around a small program of ours."""
import os
import signal

from .program import PORT, Server, program
from .web import http


@program("node", "nodejs", "node", idle=1300)
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


@program("uwsgi", "uwsgi-core uwsgi-plugin-python3", "uwsgi-core /usr/lib/uwsgi/plugins/python3_plugin.so", keep=False)
def uwsgi(work):
    argv = ["uwsgi-core", "--plugin", "python3", "--http-socket", f"0.0.0.0:{PORT}", "--wsgi-file", work.source("wsgi.py"), "--master",
            "--processes", "2", "--threads", "32", "--socket-timeout", "1200", "--listen", "100", "--die-on-term"]
    return http(work, argv, user="nobody", env=python_of(work))


@program("waitress", "python3-waitress", "/usr/lib/python3/dist-packages/waitress")
def waitress(work):
    argv = ["/usr/bin/python3", "-m", "waitress", f"--listen=0.0.0.0:{PORT}", "--threads=64", "--channel-timeout=1200", "wsgi:application"]
    return http(work, argv, stop=signal.SIGINT, user="nobody", env=python_of(work))


def python_of(work):
    return {"SOAK_WWW": work.www, "PYTHONPATH": work.source(""), "PYTHONDONTWRITEBYTECODE": "1"}


def uvicorn(work, loop):
    argv = ["/usr/bin/python3", "-m", "uvicorn", "--host", "0.0.0.0", "--port", str(PORT), "--loop", loop, "--log-level", "warning",
            "--timeout-keep-alive", "1200", "asgi:application"]
    return http(work, argv, user="nobody", env=python_of(work))


@program("uvicorn", "python3-uvicorn", "/usr/lib/python3/dist-packages/uvicorn", idle=1300)
def uvicorn_by_asyncio(work):
    return uvicorn(work, "asyncio")


@program("uvloop", "python3-uvicorn python3-uvloop", "/usr/lib/python3/dist-packages/uvicorn /usr/lib/python3/dist-packages/uvloop",
         idle=1300)
def uvicorn_by_uvloop(work):
    return uvicorn(work, "uvloop")


@program("hypercorn", "python3-hypercorn", "/usr/lib/python3/dist-packages/hypercorn", idle=1300)
def hypercorn(work):
    config = work.write("hypercorn.toml", "keep_alive_timeout = 1200\ngraceful_timeout = 60\n")
    argv = ["/usr/bin/python3", "-m", "hypercorn", "--config", config, "--bind", f"0.0.0.0:{PORT}", "asgi:application"]
    return http(work, argv, user="nobody", env=python_of(work))


@program("aiohttp", "python3-aiohttp", "/usr/lib/python3/dist-packages/aiohttp", idle=1300)
def aiohttp(work):
    return http(work, ["/usr/bin/python3", work.source("files.py"), work.www, str(PORT)], user="nobody", env=python_of(work))


@program("twisted", "python3-twisted", "twistd3", ways=("down",), keep=False, idle=1300)
def twisted(work):
    """Ends a connection on which nothing came for a minute, also while it answers."""
    return http(work, ["twistd3", "--nodaemon", "--pidfile=", "web", "--listen", f"tcp:{PORT}", "--path", work.www], user="nobody")


@program("starman", "starman", "starman", clients=16)
def starman(work):
    """A process for each client at a time."""
    argv = ["starman", "--listen", f"0.0.0.0:{PORT}", "--workers", "16", "--keepalive-timeout", "1200", "--read-timeout", "1200",
            work.source("app.psgi")]
    return http(work, argv, user="nobody", env={"SOAK_WWW": work.www})


@program("php", "php-cli", "php", keep=False, largest=64 << 20)
def php(work):
    settings = [word for setting in ("memory_limit=-1", "max_execution_time=0", f"sys_temp_dir={work.tmp}") for word in ("-d", setting)]
    argv = ["php", *settings, "-S", f"0.0.0.0:{PORT}", "-t", work.www, work.source("router.php")]
    return http(work, argv, stop=signal.SIGINT, user="nobody")


@program("webrick", "ruby ruby-webrick", "ruby /usr/share/rubygems-integration/all/gems/webrick-*")
def webrick(work):
    return http(work, ["ruby", work.source("webrick.rb"), work.www, str(PORT)], user="nobody")


@program("tomcat", "tomcat10-common default-jdk-headless", "java /usr/share/tomcat10/bin/bootstrap.jar", idle=1300, little=False)
def tomcat(work):
    """Non-blocking channels, and sendfile."""
    home, base = "/usr/share/tomcat10", os.path.join(work.tmp, "base")
    for folder in ("conf", "logs", "temp", "webapps", "work"):
        os.makedirs(os.path.join(base, folder))
        os.chmod(os.path.join(base, folder), 0o1777)
    work.write("tmp/base/conf/server.xml", f"""<Server port="-1"><Service name="soak">
<Connector port="{PORT}" protocol="org.apache.coyote.http11.Http11NioProtocol" connectionTimeout="1200000" maxKeepAliveRequests="-1"
  maxThreads="64" maxConnections="8000" maxSwallowSize="-1"/>
<Engine name="soak" defaultHost="localhost"><Host name="localhost" appBase="webapps"><Context path="" docBase="{work.www}"/></Host>
</Engine></Service></Server>""")
    work.write("tmp/base/conf/web.xml", """<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
<servlet><servlet-name>files</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
<init-param><param-name>readonly</param-name><param-value>false</param-value></init-param></servlet>
<servlet-mapping><servlet-name>files</servlet-name><url-pattern>/</url-pattern></servlet-mapping></web-app>""")
    argv = ["java", "-Xmx512m", f"-Dcatalina.home={home}", f"-Dcatalina.base={base}", f"-Djava.io.tmpdir={base}/temp", "-cp",
            f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar", "org.apache.catalina.startup.Bootstrap", "start"]
    return http(work, argv, user="nobody")


@program("jetty", "jetty9 default-jdk-headless", "java /usr/share/jetty9/start.jar", ways=("down",), idle=1300, little=False)
def jetty(work):
    home, base = "/usr/share/jetty9", os.path.join(work.tmp, "base")
    for folder in ("", "start.d", "webapps"):
        os.makedirs(os.path.join(base, folder), exist_ok=True)
        os.chmod(os.path.join(base, folder), 0o1777)
    work.write("tmp/base/start.ini", f"--module=http\n--module=deploy\njetty.http.port={PORT}\njetty.http.idleTimeout=1200000\n")
    work.write("tmp/base/webapps/files.xml", f"""<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN"
 "http://www.eclipse.org/jetty/configure_9_3.dtd"><Configure class="org.eclipse.jetty.server.handler.ContextHandler"><Set name="contextPath">/</Set><Set name="handler"><New class="org.eclipse.jetty.server.handler.ResourceHandler">
<Set name="resourceBase">{work.www}</Set></New></Set></Configure>""")
    argv = ["java", "-Xmx512m", f"-Djava.io.tmpdir={work.tmp}", "-jar", f"{home}/start.jar", f"jetty.home={home}", f"jetty.base={base}"]
    return http(work, argv, user="nobody", cwd=base)


@program("ctypes", "python3", "/usr/bin/python3", ways=("down",), keep=False)
def ctypes_close(work):
    """Closes by the C library's own name, which no preloaded library sees."""
    return http(work, ["/usr/bin/python3", work.source("handle.py"), work.www, str(PORT)], user="nobody")
