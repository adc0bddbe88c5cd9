//! Flows whose packets have numbers: told in C's terms they mean what they mean in Rust, and the example sends under any controller.
#![expect(unsafe_code, reason = "the functions are C's; pointers are to what lives longer than the call")]

mod build;

use std::ffi::{CStr, CString};
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

use paceline_cc::{Env, Nanos, Pacing, Spec, Time};
use paceline_cc_c::flow::*;
use paceline_cc_c::paceline_cc_error;
use paceline_cc_c::structs::*;
use paceline_fixture::c::{compiler, lacks, lacks_compiler, succeeded};
use paceline_fixture::{free_port, until};
use paceline_transport::{FlowLimit, Numbered, NumberedAck, NumberedNews, SenderConfig};

use build::{compile, here};

fn says() -> String {
    // SAFETY: a C string that lives until the next failure.
    unsafe { CStr::from_ptr(paceline_cc_error()) }.to_str().unwrap().to_owned()
}

/// What a flow answers.
#[derive(Debug, PartialEq)]
struct Answers {
    window: u64,
    pacing: (u32, u64),
    due: u64,
    next_tick: u64,
    in_flight: u64,
    delivered: u64,
    srtt: u64,
    rto: u64,
}

fn answers_of(flow: &Numbered) -> Answers {
    let pacing = match flow.controller().pacing() {
        Pacing::Free => (0, 0),
        Pacing::Rate(rate) => (1, rate.as_bytes_per_sec()),
        Pacing::Gap(gap) => (2, gap.as_nanos()),
    };
    Answers {
        window: flow.window(),
        pacing,
        due: flow.due().as_nanos(),
        next_tick: flow.next_tick().as_nanos(),
        in_flight: flow.in_flight(),
        delivered: flow.bytes_delivered(),
        srtt: flow.rtt().smoothed().map_or(0, Nanos::as_nanos),
        rto: flow.rtt().rto(flow.config()).as_nanos(),
    }
}

#[test]
fn numbers_mean_what_they_mean_in_rust() {
    for spec in ["cubic", "copa", "bbr", "verus", "prague", "dctcp:start=chirp", "mdi"] {
        let env = paceline_env { mss: 1200, seed: 7, offers: 38, ..paceline_env::zero() };
        let (text, mut flow) = (CString::new(spec).unwrap(), null_mut());
        // SAFETY: all of it lives longer than the call.
        assert_eq!(unsafe { paceline_flow_new(text.as_ptr(), &raw const env, &raw mut flow) }, 0, "{}", says());
        let controller = spec.parse::<Spec>().unwrap().build(&Env::new(1200).with_seed(7));
        let mut own = Numbered::new(&SenderConfig::new(1200), controller);
        let answers = || {
            let mut state = paceline_state::zero();
            // SAFETY: both live longer than the call.
            assert_eq!(unsafe { paceline_flow_state(flow, &raw mut state) }, 0);
            Answers {
                window: state.window,
                pacing: (state.pacing, state.pace),
                due: state.due,
                next_tick: state.next_tick,
                in_flight: state.in_flight,
                delivered: state.delivered,
                srtt: state.srtt,
                rto: state.rto,
            }
        };
        let done = |code| assert_eq!(code, 0, "{}", says());
        let mut next = 0_u64;
        for step in 1..3000_u64 {
            let now = step * 500_000;
            let at = Time::from_nanos(now);
            own.tick(at);
            // SAFETY: the handle is alive here and below; all else lives longer than its call.
            unsafe {
                done(paceline_flow_tick(flow, now));
                while next < step * 3 && own.may_send(at, 1200) {
                    let limit =
                        [FlowLimit::Unknown, FlowLimit::Window, FlowLimit::Application][next as usize / 700 % 3];
                    own.sent(at, next, 1200, u64::MAX, limit).unwrap();
                    let limit = (next / 700 % 3) as u32;
                    done(paceline_flow_sent(flow, now, next, 1200, u64::MAX, limit, null_mut()));
                    next += 1;
                }
                // Half of a flight is acknowledged 20 ms later, one in 97 is lost, one in 50 is marked.
                let end = next.saturating_sub(own.in_flight() / 1200 / 2);
                let Some(first) = own.oldest().filter(|_| step.is_multiple_of(4)) else { continue };
                let lost: Vec<u64> = (first..end).filter(|number| number.is_multiple_of(97)).collect();
                let acked: Vec<u64> = (first..end).filter(|number| !number.is_multiple_of(97)).collect();
                let arrived = |number: &u64| paceline_arrived {
                    number: *number,
                    received_at: now - 1000,
                    flags: if number.is_multiple_of(50) { 12 } else { 8 },
                    reserved: 0,
                };
                let list: Vec<paceline_arrived> = acked.iter().map(arrived).collect();
                let sum = spec == "cubic" && step > 1000;
                let newest = acked.last().copied().unwrap_or_default();
                let news = paceline_news {
                    flags: u32::from(sum) | u32::from(spec == "copa") << 3,
                    rtt: 20_000_000 + step,
                    now,
                    acked: list.as_ptr(),
                    acked_count: list.len() as u32,
                    acked_size: 24,
                    lost: lost.as_ptr(),
                    lost_count: lost.len() as u32,
                    bytes: 1200 * acked.len() as u64,
                    newest,
                    ..paceline_news::zero()
                };
                done(paceline_flow_news(flow, &raw const news));
                let rtt = (spec == "copa").then(|| Nanos::from_nanos(20_000_000 + step));
                let said = NumberedNews::default().with_lost(&lost).with_rtt(rtt);
                if sum {
                    own.acked_bytes(at, 1200 * acked.len() as u64, newest, &said);
                } else {
                    let received_at = Some(Time::from_nanos(now - 1000));
                    let ack = |number: &u64| NumberedAck::new(*number, number.is_multiple_of(50), received_at);
                    own.acked(at, acked.iter().map(ack), &said);
                }
                match step {
                    400 => {
                        let all: Vec<u64> = (own.oldest().unwrap_or(next)..next).collect();
                        own.lost(at, &all, true);
                        done(paceline_flow_timeout(flow, now, all.as_ptr(), all.len() as u32));
                    }
                    404 => {
                        own.spurious(at);
                        done(paceline_flow_spurious(flow, now));
                    }
                    800 => {
                        own.run_dry(at);
                        done(paceline_flow_run_dry(flow, now));
                    }
                    1200 => {
                        own.set_mss(at, 1000);
                        done(paceline_flow_mss(flow, now, 1000));
                    }
                    1600 => {
                        let probe = [own.oldest().unwrap_or(0)];
                        own.discarded(&probe);
                        done(paceline_flow_discard(flow, probe.as_ptr(), 1));
                    }
                    _ => {}
                }
            }
            assert_eq!(answers(), answers_of(&own), "{spec} {step}");
        }
        assert!(own.bytes_delivered() > 100_000, "{spec}: {}", own.bytes_delivered());
        // SAFETY: as above; then it is not used again.
        unsafe {
            assert_eq!(paceline_flow_sent(flow, u64::MAX - 1, 0, 1200, 0, 0, null_mut()), -1);
            assert!(says().starts_with("number: 0 is not above"), "{}", says());
            assert_eq!(paceline_flow_news(flow, null()), -1);
            assert_eq!(paceline_flow_timeout(flow, 1, null(), 0), -4);
            paceline_flow_free(flow);
        }
    }
}

/// Ends with the test.
struct Served(std::process::Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the example over loopback and says what it printed.
fn transfer(
    program: &std::path::Path,
    wrap: &[&str],
    variables: &[(&str, &str)],
    spec: &str,
    count: u64,
) -> (String, String) {
    let port = free_port().to_string();
    let _peer = Served(Command::new(program).args(["serve", &port]).stdin(Stdio::null()).spawn().unwrap());
    until("the peer listens", || {
        let at: u16 = port.parse().unwrap();
        std::net::UdpSocket::bind(("0.0.0.0", at)).is_err()
    });
    let mut sender = match wrap {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    sender.args(["send", &port, spec, &count.to_string()]).envs(variables.iter().copied());
    let output = sender.output().unwrap();
    succeeded(&output);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn the_example_sends_under_any_controller() {
    if lacks_compiler("the_example_sends") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile("examples/udp.c", &here("include"), folder.path());
    for spec in ["copa", "bbr", "cubic", "fixed:window=20"] {
        let (said, _) = transfer(&program, &[], &[], spec, 3000);
        assert!(said.starts_with(&format!("{spec}: 3000 datagrams, ")), "{said}");
    }
    let refused = Command::new(&program).args(["send", "9", "rno", "1"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(said, "paceline: spec: unknown controller 'rno'; did you mean reno?\n");
}

/// In the steady state nothing is allocated: neither by the example nor by the library.
#[test]
fn the_example_allocates_nothing_in_the_steady_state() {
    if lacks_compiler("the_example_allocates_nothing") || cfg!(not(target_env = "gnu")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile("examples/udp.c", &here("include"), folder.path());
    let counter = folder.path().join("count.so");
    let mut compile = Command::new(compiler());
    compile
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&counter)
        .arg(here("tests/native/count.c"));
    succeeded(&compile.output().unwrap());
    let count = |after| {
        let variables = [("LD_PRELOAD", counter.to_str().unwrap()), ("AFTER", after)];
        let (_, said) = transfer(&program, &[], &variables, "fixed:window=64", 6000);
        let (late, all) = said.trim().strip_prefix("allocations: ").unwrap().split_once(" late, ").unwrap();
        (late.parse::<u64>().unwrap(), all.strip_suffix(" in all").unwrap().parse::<u64>().unwrap())
    };
    let (late, all) = count("2000");
    assert_eq!(late, 0);
    assert!(all > 3, "the count counts: {all}");
}

#[test]
fn the_example_is_clean_under_valgrind() {
    let test = "the_example_is_clean_under_valgrind";
    if lacks_compiler(test) || lacks(test, "valgrind", "valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile("examples/udp.c", &here("include"), folder.path());
    let wrap = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
    let (said, _) = transfer(&program, &wrap, &[], "copa", 300);
    assert!(said.starts_with("copa: 300 datagrams, "), "{said}");
}
