//! `paceline int`.

use crate::lab::{Lab, refusal};

#[cfg(not(feature = "ebpf"))]
#[test]
fn a_build_without_ebpf_says_how_to_get_one() {
    let lab = Lab::new();
    for args in [
        &["source", "--interface", "lo"][..],
        &["transit", "--interface", "lo"],
        &["sink", "--interface", "lo"],
        &["agent"],
        &["watch"],
        &["path"],
        &["key", "sta2", "--role", "sink"],
    ] {
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

#[test]
fn options_of_nodes_are_read_in_every_build() {
    let lab = Lab::new();
    for role in ["source", "transit", "sink"] {
        let help = lab.run(&["int", role, "--help"]);
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success() && text.contains("--interface <NAME>"), "{text}");
        assert!(refusal(&lab.run(&["int", role])).contains("--interface"));
        for clock in ["sun", ""] {
            assert!(refusal(&lab.run(&["int", role, "--interface", "lo", "--clock", clock])).contains("--clock"));
        }
    }
    // What is right gets further: to an interface that is not there, or a build without eBPF.
    for (role, option) in [
        ("source", "--addresses=::1,fd77::/16"),
        ("source", "--profile=word"),
        ("transit", "--limit=60p"),
        ("transit", "--limit=90000"),
        ("transit", "--rate=20Mbit/s"),
    ] {
        let bus = format!("--bus=local:{}", lab.path("bus").display());
        let args = ["int", role, "--interface", "nosuch0", option, &bus];
        let said = refusal(&lab.run(&args[..args.len() - usize::from(role == "source")]));
        assert!(!said.contains(option.split('=').next().unwrap()), "{said}");
    }
    for (role, option, wrong) in [
        ("source", "--ports", "65536"),
        ("source", "--addresses", "fd77::/129"),
        ("source", "--profile", "fat"),
        ("transit", "--limit", "-1"),
        ("transit", "--rate", "fast"),
        ("source", "--ports", "5201,http"),
        ("source", "--addresses", "10.0.0.0/8"),
        ("source", "--hops", "-1"),
        ("transit", "--limit", "many"),
        ("transit", "--node", "AP1"),
        ("sink", "--max-age", "soon"),
    ] {
        let said = refusal(&lab.run(&["int", role, "--interface", "lo", &format!("{option}={wrong}")]));
        assert!(said.contains(option) && said.contains(wrong.split(',').next_back().unwrap()), "{said}");
    }
}

#[test]
fn a_bus_without_telemetry_is_no_option_of_a_module() {
    let lab = Lab::new();
    for bus in [["--bus", "local"], ["--keys", "keys"], ["--as", "sta1"], ["--domain", "lab"], ["--max-age", "1s"]] {
        for (before, after) in [(&["load", "none"][..], &[][..]), (&["run", "none"], &["--", "true"])] {
            let said = refusal(&lab.run(&[&["kernel"], before, &bus, after].concat()));
            assert!(said.contains("required") && said.contains("--telemetry"), "{said}");
        }
    }
}

#[cfg(feature = "ebpf")]
mod nodes {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// The roles that need a bus have one of their own.
    fn role(lab: &Lab, name: &str, interface: &str) -> Vec<String> {
        let mut args = ["int", name, "--interface", interface].map(str::to_owned).to_vec();
        if name != "source" {
            args.extend(["--bus".to_owned(), format!("local:{}", lab.path("bus").display())]);
        }
        args
    }

    const ROLES: [&str; 3] = ["source", "transit", "sink"];

    #[test]
    fn an_interface_that_is_not_there_is_refused_in_a_line() {
        let lab = Lab::new();
        for name in ROLES {
            let args = role(&lab, name, "nosuch0");
            let said = refusal(&lab.run(&args.iter().map(String::as_str).collect::<Vec<_>>()));
            assert_eq!(said, "nosuch0: there is no such interface here; see ip link");
        }
    }

    fn skip(test: &str, reason: &str) {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    }

    #[test]
    fn who_is_not_root_is_refused_in_a_line() {
        let test = "who_is_not_root_is_refused_in_a_line";
        let elsewhere = || {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net", "--"]);
            command
        };
        if !elsewhere().arg("true").output().is_ok_and(|done| done.status.success()) {
            return skip(test, "no user namespaces, or no unshare");
        }
        let lab = Lab::new();
        for name in ROLES {
            let args = role(&lab, name, "lo");
            let said = refusal(&elsewhere().arg(env!("CARGO_BIN_EXE_paceline")).args(&args).output().unwrap());
            if said.starts_with("the kernel has no BTF") {
                return skip(test, &said);
            }
            assert!(said.starts_with("telemetry is for root alone"), "{name}: {said}");
        }
    }

    #[test]
    fn what_ends_a_service_ends_a_role_with_its_counters() {
        let test = "what_ends_a_service_ends_a_role_with_its_counters";
        let lab = Lab::new();
        for (name, counter) in ROLES.into_iter().zip(["inserted", "written", "taken"]) {
            for signal in ["TERM", "INT"] {
                // Its own lo: other tests have theirs.
                let mut command = Command::new("unshare");
                command.args(["--net", "--", env!("CARGO_BIN_EXE_paceline")]).args(role(&lab, name, "lo"));
                let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
                let mut output = BufReader::new(child.stdout.take().unwrap());
                let mut began = String::new();
                output.read_line(&mut began).unwrap();
                if began.is_empty() {
                    let mut said = String::new();
                    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                    child.wait().unwrap();
                    let lacks = ["telemetry is for root alone", "the kernel has no BTF", "unshare: "];
                    assert!(lacks.iter().any(|lack| said.contains(lack)), "{name}: {said}");
                    return skip(test, said.trim());
                }
                assert!(began.contains("until this command ends"), "{began}");
                let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
                assert!(kill.success());
                let mut rest = String::new();
                output.read_to_string(&mut rest).unwrap();
                assert_eq!(child.wait().unwrap().code(), Some(0), "{name}");
                assert!(rest.lines().any(|line| line == format!("{counter} 0")), "{name}: {rest}");
            }
        }
    }
}

#[cfg(feature = "ebpf")]
mod bus {
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
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
        assert!(watch(&["--bus", "kafka://a"]).starts_with("--bus: it is not a bus; give local"));
        let said = watch(&["--bus", "nats://127.0.0.1:1"]);
        assert!(said.starts_with("nats://127.0.0.1:1: messages between machines need keys"), "{said}");
        let told = lab.run(&["int", "watch", "--once", "--bus", "nats://user:secret@127.0.0.1:1"]);
        let lines = String::from_utf8(told.stderr).unwrap();
        assert!(
            told.status.code() == Some(2) && lines.contains("PACELINE_BUS") && !lines.contains("secret"),
            "{lines}"
        );
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
        agent.args(["int", "agent", "--bus", &bus, "--as", "sta1", "--metrics", &metrics.to_string(), "--json"]);
        let mut agent = Running(agent.stdout(Stdio::piped()).spawn().unwrap());
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
        // What watches goes on without a collector, and says so in one line; one that is there has all numbers at the end.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let absent =
            lab.run(&["int", "watch", "--bus", &bus, "--ends", "--once", "--otlp", &format!("http://{closed}")]);
        let lines = String::from_utf8(absent.stderr).unwrap();
        assert_eq!((absent.status.code(), lines.lines().count()), (Some(0), 1), "{lines}");
        assert!(lines.contains("nothing else waits for it"), "{lines}");
        assert!(String::from_utf8(absent.stdout).unwrap().contains("sta1"));
        let collector = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}", collector.local_addr().unwrap());
        let collecting = std::thread::spawn(move || {
            let mut sent = String::new();
            while !sent.contains("paceline_int_end_up_seconds") {
                let (mut stream, _) = collector.accept().unwrap();
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while !request.ends_with(b"}]}]}") {
                    let count = stream.read(&mut piece).unwrap();
                    assert!(count > 0, "the request ends early");
                    request.extend_from_slice(&piece[..count]);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
                sent = String::from_utf8(request).unwrap();
            }
            sent
        });
        let watched = lab.run(&["int", "watch", "--bus", &bus, "--once", "--otlp", &at]);
        assert_eq!((watched.status.code(), watched.stderr.as_slice()), (Some(0), &b""[..]));
        let sent = collecting.join().unwrap();
        assert!(sent.contains(r#"{"key":"host","value":{"stringValue":"sta1"}}"#), "{sent}");
        assert!(refusal(&lab.run(&["int", "watch", "--otlp", "https://a"])).starts_with("--otlp: it does not begin"));
        let path = lab.run(&["int", "path", "--bus", &bus]);
        assert!(path.status.success() && path.stdout.starts_with(b"no path is reported: "));
        let table = lab.run(&["int", "watch", "--bus", &bus, "--once"]);
        assert!(String::from_utf8(table.stdout).unwrap().starts_with("no reports: "));
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(metrics).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("paceline_build_info{"), "{answer}");
        assert!(ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405"));
        // Counters each second.
        let mut line = String::new();
        BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let counters: Value = serde_json::from_str(&line).unwrap();
        // Sources of other tests on this machine may have flows.
        assert!(counters["flows"].is_u64());
        assert_eq!(counters["taken"], 0);
    }

    #[test]
    fn a_key_is_described() {
        let lab = Lab::new();
        let output = lab.run(&["int", "key", "sta2", "--role", "sink", "--role", "hop", "--keys", "keys", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((said["publisher"].as_str(), said["roles"][1].as_str()), (Some("sta2"), Some("hop")));
        assert!(lab.path(said["file"].as_str().unwrap()).exists(), "{said}");
    }
}
