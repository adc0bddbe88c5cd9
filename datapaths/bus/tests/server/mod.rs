//! A NATS server of a test's own, on a port of the loopback that was free.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use paceline_bus::Address;

pub(crate) struct Server {
    pub(crate) port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// `None`, and a line that says so, where there is no NATS server.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    pub(crate) fn start_with(test: &str, options: &[&str]) -> Option<Self> {
        if Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: {test}: there is no nats-server");
            return None;
        }
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { port: 0, options, child: None };
        // Another may take the port meanwhile.
        for _ in 0..10 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if server.run() {
                return Some(server);
            }
        }
        panic!("no port for nats-server");
    }

    fn run(&mut self) -> bool {
        let mut command = Command::new("nats-server");
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string()]).args(&self.options);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    pub(crate) fn address(&self) -> Address {
        format!("nats://127.0.0.1:{}", self.port).parse().unwrap()
    }

    /// As by `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// On the same port.
    pub(crate) fn restart(&mut self) {
        assert!((0..10).any(|_| self.run()), "the port is still free");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
