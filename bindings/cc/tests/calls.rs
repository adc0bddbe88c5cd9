//! The rules of the calls: sizes, order, what is refused, and what a bug does; counters told in C's terms mean what they mean in Rust.
#![expect(unsafe_code, reason = "the functions are C's; pointers are to what lives longer than the call")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{from_mut, from_ref, null, null_mut};

use paceline_cc::fixed::Fixed;
use paceline_cc::registry::{CONTROLLERS, Definition, register};
use paceline_cc::{Ack, Controller, Env, Loss, Nanos, Nature, Pacing, Permit, Phase, Sent, Spec, Stamp, Time, Timeout};
use paceline_cc_c::controller::*;
use paceline_cc_c::counted::*;
use paceline_cc_c::structs::*;
use paceline_cc_c::{paceline_cc_error, paceline_cc_list};
use paceline_transport::{Counted, Counters, FlowLimit, Samples, SenderConfig};

const EINVAL: c_int = -1;
const EMISFIT: c_int = -2;
const E2BIG: c_int = -3;
const EORDER: c_int = -4;
const EPANIC: c_int = -5;

fn says() -> String {
    // SAFETY: a C string that lives until the next failure.
    unsafe { CStr::from_ptr(paceline_cc_error()) }.to_str().unwrap().to_owned()
}

/// A handle that is freed at its end.
struct Made(*mut paceline_cc_c::handle::Handle<Controlled>);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { paceline_cc_free(self.0) };
    }
}

fn made(spec: &str, env: Option<&paceline_env>) -> Result<Made, c_int> {
    let (spec, mut cc) = (CString::new(spec).unwrap(), null_mut());
    // SAFETY: all of it lives longer than the call.
    match unsafe { paceline_cc_new(spec.as_ptr(), env.map_or(null(), from_ref), &raw mut cc) } {
        0 => Ok(Made(cc)),
        code => {
            assert!(cc.is_null());
            Err(code)
        }
    }
}

fn permit(cc: &Made) -> (c_int, paceline_permit) {
    let mut permit = paceline_permit::zero();
    // SAFETY: both live longer than the call.
    let code = unsafe { paceline_cc_permit(cc.0, &raw mut permit) };
    (code, permit)
}

fn tick(cc: &Made, now: u64) -> c_int {
    // SAFETY: the handle is alive.
    unsafe { paceline_cc_tick(cc.0, now) }
}

fn leave(cc: &Made, sent: *const paceline_sent) -> c_int {
    // SAFETY: both live longer than the call.
    unsafe { paceline_cc_sent(cc.0, sent, null_mut()) }
}

#[test]
fn what_is_wrong_with_a_text_or_an_environment_is_said() {
    assert_eq!(made("rno", None).err(), Some(EINVAL));
    assert_eq!(says(), "spec: unknown controller 'rno'; did you mean reno?");
    assert_eq!(made("sprout", None).err(), Some(EMISFIT));
    assert_eq!(
        says(),
        "sprout needs of its host: receiver half; say so in paceline_env.offers where it has it, or take another controller"
    );
    let able = paceline_env { offers: 1, ..paceline_env::zero() };
    let sprout = made("sprout", Some(&able)).unwrap();
    let mut nature = paceline_nature::zero();
    // SAFETY: both live longer than the call.
    assert_eq!(unsafe { paceline_cc_nature(sprout.0, &raw mut nature) }, 0);
    assert_eq!((nature.receiver_half, nature.needs), (1, 1));
    assert!(nature.heartbeat > 0);
    assert_eq!(made("reno", Some(&paceline_env { flags: 6, ..paceline_env::zero() })).err(), Some(EINVAL));
    assert_eq!(says(), "paceline_env.flags: 0x6 has bits without a meaning; those of 0x1 have one");
    assert_eq!(made("reno", Some(&paceline_env { size: 0, ..paceline_env::zero() })).err(), Some(EINVAL));
    assert_eq!(says(), "paceline_env.size: 0 is not a size; set it to sizeof(struct paceline_env)");
    // A text of a peer reads no file, one of the user does.
    let model = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(model.path(), "1,0,0,1,1,0,0,1\n1\n").unwrap();
    let text = format!("mdi:model={}", model.path().display());
    assert_eq!(made(&text, None).err(), Some(EINVAL));
    let (text, mut cc) = (CString::new(text).unwrap(), null_mut());
    // SAFETY: all of it lives longer than the call.
    assert_eq!(unsafe { paceline_cc_new_local(text.as_ptr(), null(), &raw mut cc) }, 0, "{}", says());
    drop(Made(cc));
    // SAFETY: null is what is tried.
    unsafe {
        assert_eq!(paceline_cc_new(null(), null(), &raw mut cc), EINVAL);
        assert_eq!(paceline_cc_new(c"reno".as_ptr(), null(), null_mut()), EINVAL);
        assert_eq!(paceline_cc_tick(null_mut(), 0), EINVAL);
        paceline_cc_free(null_mut());
    }
}

#[test]
fn a_smaller_structure_lacks_what_is_not_known() {
    let env = paceline_env { size: 8, mss: 1200, seed: 9, ..paceline_env::zero() };
    let cc = made("reno", Some(&env)).unwrap();
    assert_eq!(permit(&cc).1.window, 12_000);
    // No more than its size is filled in.
    let mut small = paceline_permit { size: 16, next_tick: 7, pace: 7, ..paceline_permit::zero() };
    // SAFETY: both live longer than the call.
    assert_eq!(unsafe { paceline_cc_permit(cc.0, &raw mut small) }, 0);
    assert_eq!((small.size, small.window, small.next_tick, small.pace), (16, 12_000, 7, 7));
}

#[test]
fn a_larger_structure_says_nothing_that_is_not_known() {
    #[repr(C)]
    struct Larger<T>(T, [u64; 2]);
    let cc = made("reno", None).unwrap();
    let size = size_of::<Larger<paceline_sent>>() as u32;
    let mut sent = Larger(paceline_sent { size, bytes: 1448, in_flight: 1448, ..paceline_sent::zero() }, [0; 2]);
    assert_eq!(leave(&cc, from_ref(&sent).cast()), 0);
    sent.1[1] = 1;
    assert_eq!(leave(&cc, from_ref(&sent).cast()), E2BIG);
    assert!(says().starts_with("paceline_sent: it says what this library does not know;"), "{}", says());
    // What the caller has more than the library is filled with zeros.
    let mut permit = Larger(paceline_permit { size: 64, ..paceline_permit::zero() }, [5; 2]);
    // SAFETY: both live longer than the call.
    assert_eq!(unsafe { paceline_cc_permit(cc.0, from_mut(&mut permit).cast()) }, 0);
    assert_eq!((permit.0.size, permit.0.window, permit.1), (64, 14_480, [0; 2]));
    // Elements of a list, likewise.
    let mut packets = [Larger(paceline_acked { bytes: 1448, ..ACKED }, [0; 2]), Larger(ACKED, [0; 2])];
    let packet_size = size_of_val(&packets[0]) as u32;
    let ack = |packets: &[Larger<paceline_acked>; 2]| {
        let packets = from_ref(packets).cast();
        let ack = paceline_ack { now: 1, packets, packet_count: 2, packet_size, ..paceline_ack::zero() };
        // SAFETY: all of it lives longer than the call.
        unsafe { paceline_cc_ack(cc.0, &raw const ack) }
    };
    assert_eq!(ack(&packets), 0);
    packets[1].1[0] = 1;
    assert_eq!(ack(&packets), E2BIG);
}

const ACKED: paceline_acked = paceline_acked { seq: 0, sent_at: 0, tag: 0, received_at: 0, bytes: 0, flags: 0 };

#[test]
fn what_cannot_be_is_refused_and_not_reported() {
    let cc = made("cubic", None).unwrap();
    let before = permit(&cc).1;
    let sent = paceline_sent { now: 50, bytes: 1448, ..paceline_sent::zero() };
    assert_eq!(leave(&cc, &raw const sent), 0);
    assert_eq!(tick(&cc, 49), EORDER);
    assert_eq!(says(), "now: 49 comes after 50; time does not run backwards, report events in their order");
    assert_eq!(tick(&cc, u64::MAX), EINVAL);
    assert_eq!(tick(&cc, 50), 0);
    for (wrong, what) in [
        (paceline_sent { flags: 4, ..sent }, "paceline_sent.flags: 0x4 has bits"),
        (paceline_sent { reserved: 4, ..sent }, "paceline_sent.reserved: it is 4; set it to 0"),
    ] {
        assert_eq!(leave(&cc, &raw const wrong), EINVAL);
        assert!(says().starts_with(what), "{}", says());
    }
    let ack = paceline_ack { now: 60, ..paceline_ack::zero() };
    for (wrong, what) in [
        (paceline_ack { phase: 4, ..ack }, "paceline_ack.phase: 4 is not a phase"),
        (paceline_ack { flags: 2, ..ack }, "paceline_ack.rate_interval: an interval is never 0"),
        (paceline_ack { packet_count: 1, packet_size: 40, ..ack }, "paceline_acked: there is no list of 1"),
        (paceline_ack { packet_count: 1, packets: from_ref(&ACKED), ..ack }, "paceline_acked: 0 bytes are not"),
    ] {
        // SAFETY: all of it lives longer than the call.
        assert_eq!(unsafe { paceline_cc_ack(cc.0, &raw const wrong) }, EINVAL);
        assert!(says().starts_with(what), "{}", says());
    }
    let loss = paceline_loss { now: 60, ..paceline_loss::zero() };
    // SAFETY: all of it lives longer than the call.
    assert_eq!(unsafe { paceline_cc_loss(cc.0, &raw const loss) }, EINVAL);
    // SAFETY: the handle is alive.
    assert_eq!(unsafe { paceline_cc_mss(cc.0, 60, 0) }, EINVAL);
    assert_eq!((permit(&cc).1.window, permit(&cc).1.threshold), (before.window, before.threshold));
}

/// Has a bug.
struct Broken(Fixed);

impl Controller for Broken {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        self.0.on_sent(sent)
    }
    fn on_ack(&mut self, _: &Ack<'_>) {}
    fn on_loss(&mut self, _: &Loss<'_>) {}
    fn on_timeout(&mut self, _: &Timeout<'_>) {}
    fn on_tick(&mut self, now: Time) {
        panic!("a bug at {}", now.as_nanos());
    }
    fn nature(&self) -> Nature {
        self.0.nature()
    }
    fn permit(&self) -> Permit {
        self.0.permit()
    }
    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.0.describe(report);
    }
}

#[test]
fn a_panic_stays_inside_and_poisons_the_handle() {
    register(Definition::new("broken", |_, env: &Env| Box::new(Broken(Fixed::new(env, 30.0, None))))).unwrap();
    let env = paceline_env { mss: 1000, ..paceline_env::zero() };
    let cc = made("broken", Some(&env)).unwrap();
    assert_eq!(permit(&cc).1.window, 30_000);
    assert_eq!(tick(&cc, 3), EPANIC);
    assert_eq!(says(), "the library has a bug (a bug at 3); free the handle, and report the call");
    let sent = paceline_sent { now: 5, ..paceline_sent::zero() };
    assert_eq!(leave(&cc, &raw const sent), EPANIC);
    let (code, permit) = permit(&cc);
    assert_eq!((code, permit.window, permit.next_tick), (EPANIC, 2000, u64::MAX));
}

unsafe extern "C" fn note(context: *mut c_void, name: *const c_char, value: f64) {
    // SAFETY: the context is the list of the caller, the name a C string.
    let (noted, name) = unsafe { (&mut *context.cast::<Vec<(String, f64)>>(), CStr::from_ptr(name)) };
    noted.push((name.to_str().unwrap().to_owned(), value));
}

#[test]
fn variables_come_with_their_names() {
    for entry in CONTROLLERS {
        let cc = made(entry.name, Some(&paceline_env { seed: 1, offers: 63, ..paceline_env::zero() })).unwrap();
        let mut noted: Vec<(String, f64)> = Vec::new();
        // SAFETY: the list lives longer than the call.
        assert_eq!(unsafe { paceline_cc_describe(cc.0, Some(note), from_mut(&mut noted).cast()) }, 0);
        let mut own = Vec::new();
        entry.name.parse::<Spec>().unwrap().build(&Env::default()).describe(&mut |name, value| {
            own.push((name.to_owned(), value));
        });
        let bits = |list: &[(String, f64)]| -> Vec<(String, u64)> {
            list.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
        };
        assert_eq!(bits(&noted), bits(&own), "{}", entry.name);
    }
}

unsafe extern "C" fn count(context: *mut c_void, name: *const c_char, summary: *const c_char) {
    // SAFETY: the context is the caller's list, the others C strings.
    let (names, name, summary) =
        unsafe { (&mut *context.cast::<Vec<String>>(), CStr::from_ptr(name), CStr::from_ptr(summary)) };
    assert!(!summary.is_empty());
    names.push(name.to_str().unwrap().to_owned());
}

#[test]
fn every_controller_is_listed() {
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the list lives longer than the call.
    assert_eq!(unsafe { paceline_cc_list(Some(count), from_mut(&mut names).cast()) }, 0);
    assert!(CONTROLLERS.iter().all(|entry| names.iter().any(|name| name == entry.name)));
    // SAFETY: null is what is tried.
    assert_eq!(unsafe { paceline_cc_list(None, null_mut()) }, EINVAL);
}

/// The same counters in C's terms.
fn counters_of(now: &Counters) -> paceline_counters {
    let Samples { newest, least } = now.rtt.unwrap_or(Samples { newest: Nanos::ZERO, least: Nanos::ZERO });
    let (first, last) = now.departures.unwrap_or_default();
    let phase = match now.phase {
        Phase::Open => 0,
        Phase::Cwr => 1,
        Phase::Recovery => 2,
        Phase::Loss => 3,
    };
    paceline_counters {
        size: size_of::<paceline_counters>() as u32,
        flags: u32::from(now.rtt.is_some())
            | u32::from(now.srtt.is_some()) << 1
            | u32::from(now.departures.is_some()) << 2,
        at: now.at.as_nanos(),
        una: now.una,
        next: now.next,
        highest: now.highest,
        unsent: now.unsent,
        lost: now.lost,
        resent: now.resent,
        marked: now.marked,
        recoveries: now.recoveries,
        echoes: now.echoes,
        timeouts: now.timeouts,
        undone: now.undone,
        rtt_newest: newest.as_nanos(),
        rtt_least: least.as_nanos(),
        srtt: now.srtt.unwrap_or(Nanos::ZERO).as_nanos(),
        first_departure: first.as_nanos(),
        last_departure: last.as_nanos(),
        mss: now.mss,
        ahead: now.ahead,
        in_flight: now.in_flight,
        backoff: now.backoff,
        phase,
        limit: match now.limit {
            FlowLimit::Unknown => 0,
            FlowLimit::Window => 1,
            FlowLimit::Application => 2,
        },
    }
}

/// A flow with a loss in every 50th report, a mark in every 40th, a timeout, and an application that pauses.
fn step(now: &mut Counters, count: u64) {
    const MSS: u64 = 1448;
    let before = now.at;
    now.at = before + Nanos::from_millis(1);
    now.next += 4 * MSS;
    now.highest = now.next.saturating_sub(100 * MSS);
    let hole = count >= 50 && count % 50 < 25;
    if count >= 50 && count.is_multiple_of(50) {
        now.lost += 1;
        now.recoveries += 1;
    }
    now.resent += u64::from(count >= 50 && count % 50 == 1);
    if !hole {
        now.una = now.highest;
    }
    now.phase = if hole { Phase::Recovery } else { Phase::Open };
    if count.is_multiple_of(40) {
        now.marked += 1;
        now.echoes += 1;
    }
    if count == 333 {
        (now.timeouts, now.backoff, now.phase) = (1, 1, Phase::Loss);
    }
    now.undone += u64::from(count == 370);
    let packets = (now.highest - now.una) / MSS;
    now.ahead = packets.saturating_sub(1) as u32;
    now.in_flight = ((now.next - now.una) / MSS) as u32 - now.ahead;
    let rtt = Nanos::from_micros(25_000 + count % 7 * 100);
    now.rtt =
        (!count.is_multiple_of(11)).then_some(Samples { newest: rtt, least: rtt - Nanos::from_micros(count % 3) });
    now.srtt = (count > 20).then_some(rtt);
    now.departures = (!count.is_multiple_of(13)).then_some((before, now.at));
    now.limit = if count % 200 > 190 { FlowLimit::Application } else { FlowLimit::Window };
}

#[test]
fn counters_mean_what_they_mean_in_rust() {
    for spec in ["cubic:ecn=on", "copa", "bbr", "verus", "prague", "mdi"] {
        let mut now = Counters::start(1448);
        now.unsent = u64::MAX / 2;
        let controller = spec.parse::<Spec>().unwrap().build(&Env::default());
        let mut own = Counted::new(&SenderConfig::default(), controller, &now);
        let env = paceline_env { seed: Env::default().seed, offers: 36, ..paceline_env::zero() };
        let (text, mut flow) = (CString::new(spec).unwrap(), null_mut());
        let start = counters_of(&now);
        // SAFETY: all of it lives longer than the call.
        let code = unsafe { paceline_counted_new(text.as_ptr(), &raw const env, &raw const start, &raw mut flow) };
        assert_eq!(code, 0, "{}", says());
        for count in 1..2000 {
            step(&mut now, count);
            let told = counters_of(&now);
            // SAFETY: all of it lives longer than the call.
            assert_eq!(unsafe { paceline_counted_report(flow, &raw const told) }, 0, "{}", says());
            own.report(&now);
            if own.next_tick() <= now.at {
                own.tick(now.at);
                // SAFETY: the handle is alive.
                assert_eq!(unsafe { paceline_counted_tick(flow, now.at.as_nanos()) }, 0);
            }
            let mut state = paceline_state::zero();
            // SAFETY: both live longer than the call.
            assert_eq!(unsafe { paceline_counted_state(flow, &raw mut state) }, 0);
            let (pacing, pace) = own.pacing().map_or((0, 0), |rate| (1, rate.as_bytes_per_sec()));
            assert_eq!(
                (state.window, state.pacing, state.pace, state.next_tick, state.delivered),
                (own.window(), pacing, pace, own.next_tick().as_nanos(), own.bytes_delivered()),
                "{spec} {count}"
            );
            assert_eq!(state.srtt, own.rtt().smoothed().map_or(0, Nanos::as_nanos));
            assert_eq!(state.flags & 16 != 0, own.follows(), "{spec} {count}");
            assert_eq!(state.recovery == 0, own.glides(), "{spec} {count}");
            assert!(!matches!(own.controller().pacing(), Pacing::Gap(_)));
        }
        assert!(own.window() >= 1448);
        // A counter that ran backwards, and one that jumped.
        let told = counters_of(&now);
        let later = told.at + 1;
        for (wrong, code, what) in [
            (paceline_counters { lost: 0, at: later, ..told }, EINVAL, "paceline_counters.lost: 0 comes after"),
            (paceline_counters { una: told.next + 1, at: later, ..told }, EINVAL, "paceline_counters.next:"),
            (paceline_counters { next: 1 << 60, at: later, ..told }, EINVAL, "paceline_counters: 7"),
            (paceline_counters { limit: 3, at: later, ..told }, EINVAL, "paceline_counters.limit: 3 is not a limit"),
            (paceline_counters { at: 1, ..told }, EORDER, "now: 1 comes after"),
        ] {
            // SAFETY: both live longer than the call.
            assert_eq!(unsafe { paceline_counted_report(flow, &raw const wrong) }, code);
            assert!(says().starts_with(what), "{}", says());
        }
        // SAFETY: it is not used again.
        unsafe { paceline_counted_free(flow) };
    }
}
