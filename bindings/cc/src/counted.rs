//! `paceline_counted`: a controller for a TCP that is known by its counters.

use std::ffi::{c_char, c_int, c_void};

use paceline_cc::{Env, Nanos, Pacing, Time};
use paceline_transport::{Counted, Counters, Samples, SenderConfig};

use crate::controller::{Report, build, describe, parse};
use crate::events::{limit, phase};
use crate::handle::{Handle, event, free, make, question};
use crate::outcome::Failure;
use crate::passing::{flags, read, write};
use crate::state::FOLLOWS;
use crate::structs::{paceline_counters, paceline_env, paceline_state};

const RTT: u32 = 1;
const SRTT: u32 = 2;
const DEPARTURES: u32 = 4;

/// Most packets that one report may add (our choice: what a flow of 100 Gbit/s sends in a second, and more is a counter that ran
/// backwards).
const MOST_PACKETS: u64 = 1 << 24;

/// A flow of counters.
pub struct CountedFlow {
    flow: Counted,
    config: SenderConfig,
}

impl paceline_counters {
    /// `mss`: of a full packet, where the report does not say it.
    fn counters(&self, mss: u32) -> Result<Counters, Failure> {
        let given = flags(self.flags, RTT | SRTT | DEPARTURES, "paceline_counters.flags")?;
        let has = |flag| given & flag != 0;
        if self.next < self.una {
            let (next, una) = (self.next, self.una);
            let text =
                format!("paceline_counters.next: {next} is below una, {una}; positions of 32 bits are unwrapped first");
            return Err(Failure::invalid(text));
        }
        let newest = Nanos::from_nanos(self.rtt_newest);
        // Where there is one sample, it is the smallest.
        let least = if self.rtt_least == 0 { newest } else { Nanos::from_nanos(self.rtt_least) };
        let departures = (Time::from_nanos(self.first_departure), Time::from_nanos(self.last_departure));
        let mut counters = Counters::start(if self.mss == 0 { mss } else { self.mss });
        counters.at = Time::from_nanos(self.at);
        counters.una = self.una;
        counters.next = self.next;
        counters.highest = self.highest.max(self.una);
        counters.ahead = self.ahead;
        counters.in_flight = self.in_flight;
        counters.unsent = self.unsent;
        counters.lost = self.lost;
        counters.resent = self.resent;
        counters.marked = self.marked;
        counters.recoveries = self.recoveries;
        counters.echoes = self.echoes;
        counters.timeouts = self.timeouts;
        counters.backoff = self.backoff;
        counters.undone = self.undone;
        counters.rtt = has(RTT).then_some(Samples { newest, least });
        counters.srtt = has(SRTT).then(|| Nanos::from_nanos(self.srtt));
        counters.departures = has(DEPARTURES).then_some(departures);
        counters.phase = phase(self.phase, "paceline_counters.phase")?;
        counters.limit = limit(self.limit, "paceline_counters.limit")?;
        Ok(counters)
    }
}

/// Refuses what [`Counted::report`] would ignore, and what would take for ever.
fn follows(now: &Counters, seen: &Counters) -> Result<(), Failure> {
    for (member, before, after) in [
        ("una", seen.una, now.una),
        ("next", seen.next, now.next),
        ("lost", seen.lost, now.lost),
        ("resent", seen.resent, now.resent),
        ("marked", seen.marked, now.marked),
    ] {
        if after < before {
            return Err(Failure::invalid(format!(
                "paceline_counters.{member}: {after} comes after {before}; counters count from the flow's start and do not go down"
            )));
        }
    }
    let sent = (now.next - seen.next) / u64::from(now.mss.max(1));
    let again = now.resent - seen.resent;
    if sent.max(again) > MOST_PACKETS {
        return Err(Failure::invalid(format!(
            "paceline_counters: {} packets were sent since the last report, over {MOST_PACKETS}; unwrap positions of 32 bits",
            sent.max(again)
        )));
    }
    Ok(())
}

/// Steers a flow that is known by its counters; see `paceline_cc.h`.
///
/// # Safety
/// `spec` is null or a C string, `env` and `now` null or as the header says, `flow` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_new(
    spec: *const c_char,
    env: *const paceline_env,
    now: *const paceline_counters,
    flow: *mut *mut Handle<CountedFlow>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        make(flow, || {
            let (controller, Env { mss, .. }) = build(&parse(spec)?, env)?;
            let now = if now.is_null() { Counters::start(mss) } else { read(now)?.counters(mss)? };
            let mut before = now;
            before.next = now.una;
            follows(&now, &before)?;
            let config = SenderConfig::new(now.mss);
            Ok(CountedFlow { flow: Counted::new(&config, controller, &now), config })
        })
    }
}

/// Frees it; see `paceline_cc.h`.
///
/// # Safety
/// `flow` is null or was made here, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_free(flow: *mut Handle<CountedFlow>) {
    // SAFETY: the caller's promise.
    unsafe { free(flow) };
}

/// A report; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_counted_tick`]; `now` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_report(
    flow: *mut Handle<CountedFlow>,
    now: *const paceline_counters,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(flow, |CountedFlow { flow, config }, clock| {
            let now = read(now)?.counters(flow.last().mss)?;
            let at = clock.at(now.at.as_nanos())?;
            follows(&now, flow.last())?;
            clock.advance(at);
            config.mss = now.mss;
            flow.report(&now);
            Ok(())
        })
    }
}

/// Its clock; see `paceline_cc.h`.
///
/// # Safety
/// `flow` is null or was made by [`paceline_counted_new`], and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_tick(flow: *mut Handle<CountedFlow>, now: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(flow, |CountedFlow { flow, .. }, clock| {
            let now = clock.at(now)?;
            clock.advance(now);
            flow.tick(now);
            Ok(())
        })
    }
}

/// Where it stands; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_counted_tick`]; `state` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_state(flow: *const Handle<CountedFlow>, state: *mut paceline_state) -> c_int {
    let answer = |CountedFlow { flow, config }: &CountedFlow| {
        // A TCP is given a rate, also for a gap.
        let pacing = flow.pacing().map_or(Pacing::Free, Pacing::Rate);
        let mut permit = flow.controller().permit();
        permit.pacing = pacing;
        let last = flow.last();
        let mut found = paceline_state {
            in_flight: (u64::from(last.in_flight) * u64::from(last.mss)).min(last.next - last.una),
            delivered: flow.bytes_delivered(),
            ..paceline_state::of(permit, flow.rtt(), config)
        };
        found.flags |= if flow.follows() { FOLLOWS } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { write(state, &found) }
    };
    // SAFETY: the caller's promise.
    let least = |flow: &CountedFlow| unsafe { write(state, &paceline_state::least(flow.config.mss)) };
    // SAFETY: the caller's promise.
    unsafe { question(flow, answer, least) }
}

/// Its controller's variables; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_counted_tick`]; `report` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_counted_describe(
    flow: *const Handle<CountedFlow>,
    report: Report,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { question(flow, |counted| describe(counted.flow.controller(), report, context), |_| Ok(())) }
}
