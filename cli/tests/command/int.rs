//! `paceline int`.

use crate::lab::{Lab, refusal};

#[cfg(not(feature = "ebpf"))]
#[test]
fn a_build_without_ebpf_says_how_to_get_one() {
    let lab = Lab::new();
    for args in [&["agent"][..], &["watch"], &["key", "sta2", "--role", "sink"], &["sink", "--interface", "lo"]] {
        let said = refusal(&lab.run(&[&["int"], args].concat()));
        assert!(said.starts_with("int: ") && said.contains("--features ebpf"), "{said}");
    }
}

#[test]
fn a_key_has_a_role() {
    let lab = Lab::new();
    for args in [&["key", "sta2"][..], &["key", "sta2", "--role", "king"], &["key"]] {
        let said = refusal(&lab.run(&[&["int"], args].concat()));
        assert!(said.contains("--role"), "{said}");
    }
}

#[cfg(feature = "ebpf")]
mod bus {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_no_bus_is_refused_in_a_line() {
        let lab = Lab::new();
        fs::create_dir(lab.path("keys")).unwrap();
        let watch = |args: &[&str]| refusal(&lab.run(&[&["int", "watch", "--once"], args].concat()));
        assert!(watch(&["--bus", "kafka://a"]).starts_with("--bus kafka://a: it is not a bus; give local"));
        let said = watch(&["--bus", "nats://user:secret@127.0.0.1:1"]);
        assert!(said.starts_with("nats://127.0.0.1:1: messages between machines need keys"), "{said}");
        assert!(watch(&["--keys", "keys"]).contains("there is no key in it"));
        assert!(watch(&["--keys", "none"]).starts_with("none: No such file"));
        let made = lab.run(&["int", "key", "sta2", "--role", "sink", "--role", "hop", "--keys", "keys"]);
        assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
        let text = fs::read_to_string(lab.path("keys/sta2.key")).unwrap();
        assert!(text.starts_with("sink,hop ") && text.len() == 74, "{text}");
        let again = refusal(&lab.run(&["int", "key", "sta2", "--role", "sink", "--keys", "keys"]));
        assert!(again.starts_with("keys/sta2.key: the key exists"), "{again}");
        fs::set_permissions(lab.path("keys/sta2.key"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(watch(&["--keys", "keys"]).starts_with("keys/sta2.key: others can read or replace it"));
        fs::create_dir(lab.path("bus")).unwrap();
        fs::set_permissions(lab.path("bus"), fs::Permissions::from_mode(0o777)).unwrap();
        let open = format!("local:{}", lab.path("bus").display());
        assert!(watch(&["--bus", &open]).contains("others can write to this folder"));
    }

    #[test]
    fn a_module_takes_reports_in_by_the_same_options() {
        let lab = Lab::new();
        let load = |args: &[&str]| refusal(&lab.run(&[&["kernel", "load", "none", "--telemetry"], args].concat()));
        let known = load(&["--bus", "local", "--as", "sta1", "--max-age", "500ms", "--domain", "lab"]);
        assert!(known.starts_with("unknown module or controller 'none'"), "{known}");
        assert!(load(&["--max-age", "soon"]).contains("--max-age"));
    }

    /// Ends with the test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn an_agent_is_seen_by_who_watches() {
        let lab = Lab::new();
        let bus = format!("local:{}", lab.path("bus").display());
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_paceline"));
        agent.args(["int", "agent", "--bus", &bus, "--as", "sta1", "--metrics", &metrics.to_string()]);
        let _agent = Running(agent.stdout(Stdio::null()).spawn().unwrap());
        let began = Instant::now();
        let ends = loop {
            let output = lab.run(&["int", "watch", "--bus", &bus, "--ends", "--once", "--json"]);
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            if !output.stdout.is_empty() {
                break String::from_utf8(output.stdout).unwrap();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "the agent does not show up");
        };
        let end: Value = serde_json::from_str(ends.trim_end()).unwrap();
        assert_eq!((end["role"].as_str(), end["name"].as_str()), (Some("agent"), Some("sta1")));
        assert_eq!(end["health"]["refused"], 0);
        let table = lab.run(&["int", "watch", "--bus", &bus, "--once"]);
        assert!(String::from_utf8(table.stdout).unwrap().starts_with("no reports: "));
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(metrics).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("# EOF\n"), "{answer}");
        assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}
