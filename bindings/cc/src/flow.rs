//! `paceline_flow`: a controller, its measurements and the packets on their way, for a transport whose packets have numbers.

use std::ffi::{c_char, c_int, c_void};

use paceline_cc::{Env, Nanos, Time};
use paceline_transport::{Numbered, NumberedAck, NumberedNews, PaceStyle, SenderConfig};

use crate::controller::{Report, build, describe, parse};
use crate::events::limit;
use crate::handle::{Clock, Handle, event, free, make, question};
use crate::outcome::Failure;
use crate::passing::{List, bytes, flags, numbers, read, reserved, write};
use crate::structs::{paceline_arrived, paceline_env, paceline_news, paceline_state};

const ARRIVED_CE: u32 = 4;
const ARRIVED_AT: u32 = 8;

const NEWS_SUM: u32 = 1;
const NEWS_PERSISTENT: u32 = 2;
const NEWS_IN_FLIGHT: u32 = 4;
const NEWS_RTT: u32 = 8;

/// Room for the lists of an acknowledgement: more than a window of most, so that an allocation in the middle of a flow is rare.
const ROOM: usize = 1024;

/// A flow of numbers, and room for the lists of an acknowledgement.
pub struct NumberedFlow {
    flow: Numbered,
    acked: Vec<NumberedAck>,
}

impl paceline_arrived {
    #[inline]
    fn ack(&self) -> Result<NumberedAck, Failure> {
        let given = flags(self.flags, ARRIVED_CE | ARRIVED_AT, "paceline_arrived.flags")?;
        reserved(self.reserved, "paceline_arrived.reserved")?;
        Ok(NumberedAck::new(
            self.number,
            given & ARRIVED_CE != 0,
            (given & ARRIVED_AT != 0).then(|| Time::from_nanos(self.received_at)),
        ))
    }
}

/// Makes a flow; see `paceline_cc.h`.
///
/// # Safety
/// `spec` is null or a C string, `env` null or as the header says, `flow` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_new(
    spec: *const c_char,
    env: *const paceline_env,
    flow: *mut *mut Handle<NumberedFlow>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        make(flow, || {
            let (controller, Env { mss, paced, .. }) = build(&parse(spec)?, env)?;
            let pace = if paced { PaceStyle::Linux } else { PaceStyle::Off };
            let mut config = SenderConfig::new(mss);
            config.pace = pace;
            Ok(NumberedFlow { flow: Numbered::new(&config, controller), acked: Vec::with_capacity(ROOM) })
        })
    }
}

/// Frees it; see `paceline_cc.h`.
///
/// # Safety
/// `flow` is null or was made here, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_free(flow: *mut Handle<NumberedFlow>) {
    // SAFETY: the caller's promise.
    unsafe { free(flow) };
}

/// A packet left; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `note` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_sent(
    flow: *mut Handle<NumberedFlow>,
    now: u64,
    number: u64,
    bytes: u32,
    unsent: u64,
    limited_by: u32,
    note: *mut u64,
) -> c_int {
    let inform = |flow: &mut NumberedFlow, clock: &mut Clock| {
        let (now, limit) = (clock.at(now)?, limit(limited_by, "limit")?);
        let given = flow.flow.sent(now, number, bytes, unsent, limit).ok_or_else(|| {
            Failure::invalid(format!(
                "number: {number} is not above those before it; numbers go up, and none is used twice"
            ))
        })?;
        clock.advance(now);
        if !note.is_null() {
            // SAFETY: the caller's promise.
            unsafe { note.write(given) };
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { event(flow, inform) }
}

/// An acknowledgement came; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `news` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_news(flow: *mut Handle<NumberedFlow>, news: *const paceline_news) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(flow, |NumberedFlow { flow, acked }, clock| {
            let news = read(news)?;
            let given =
                flags(news.flags, NEWS_SUM | NEWS_PERSISTENT | NEWS_IN_FLIGHT | NEWS_RTT, "paceline_news.flags")?;
            let now = clock.at(news.now)?;
            List { first: news.acked, count: news.acked_count, stride: news.acked_size }
                .read_into(acked, paceline_arrived::ack)?;
            let mut said = NumberedNews::default()
                .with_lost(numbers(news.lost, news.lost_count, "paceline_news.lost")?)
                .with_ce_packets(news.ce_packets)
                .with_in_flight((given & NEWS_IN_FLIGHT != 0).then_some(news.in_flight))
                .with_rtt((given & NEWS_RTT != 0).then(|| Nanos::from_nanos(news.rtt)));
            said.persistent = given & NEWS_PERSISTENT != 0;
            clock.advance(now);
            if given & NEWS_SUM != 0 {
                flow.acked_bytes(now, news.bytes, news.newest, &said);
            } else {
                flow.acked(now, acked.iter().copied(), &said);
            }
            Ok(())
        })
    }
}

/// An event that is a moment and numbers.
///
/// # Safety
/// As of [`event`].
unsafe fn moment(
    flow: *mut Handle<NumberedFlow>,
    now: u64,
    inform: impl FnOnce(&mut Numbered, Time) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(flow, |NumberedFlow { flow, .. }, clock| {
            let now = clock.at(now)?;
            clock.advance(now);
            inform(flow, now)
        })
    }
}

/// The timer fired; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `count` numbers are at `lost`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_timeout(
    flow: *mut Handle<NumberedFlow>,
    now: u64,
    lost: *const u64,
    count: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        moment(flow, now, |flow, now| {
            flow.lost(now, numbers(lost, count, "lost")?, true);
            Ok(())
        })
    }
}

/// A loss was spurious; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_spurious(flow: *mut Handle<NumberedFlow>, now: u64) -> c_int {
    let inform = |flow: &mut Numbered, now| {
        flow.spurious(now);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(flow, now, inform) }
}

/// Packets mean nothing any more; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `count` numbers are at `packets`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_discard(
    flow: *mut Handle<NumberedFlow>,
    packets: *const u64,
    count: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(flow, |NumberedFlow { flow, .. }, _| {
            flow.discarded(numbers(packets, count, "packets")?);
            Ok(())
        })
    }
}

/// There is nothing to send; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_run_dry(flow: *mut Handle<NumberedFlow>, now: u64) -> c_int {
    let inform = |flow: &mut Numbered, now| {
        flow.run_dry(now);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(flow, now, inform) }
}

/// Full packets have another size; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_mss(flow: *mut Handle<NumberedFlow>, now: u64, mss: u32) -> c_int {
    let inform = |flow: &mut Numbered, now| {
        if mss == 0 {
            return Err(Failure::invalid("mss: full packets have at least 1 byte; give their size"));
        }
        flow.set_mss(now, mss);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(flow, now, inform) }
}

/// The receiver half reported; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `len` bytes are at `blob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_feedback(
    flow: *mut Handle<NumberedFlow>,
    now: u64,
    blob: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        moment(flow, now, |flow, now| {
            flow.feedback(now, bytes(blob, len)?).map_err(|bad| Failure::invalid(bad.to_string()))
        })
    }
}

/// Its clock; see `paceline_cc.h`.
///
/// # Safety
/// `flow` is null or was made by [`paceline_flow_new`], and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_tick(flow: *mut Handle<NumberedFlow>, now: u64) -> c_int {
    let inform = |flow: &mut Numbered, now| {
        flow.tick(now);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(flow, now, inform) }
}

/// Where it stands; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `state` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_state(flow: *const Handle<NumberedFlow>, state: *mut paceline_state) -> c_int {
    let answer = |NumberedFlow { flow, .. }: &NumberedFlow| {
        let found = paceline_state {
            due: flow.due().as_nanos(),
            in_flight: flow.in_flight(),
            delivered: flow.bytes_delivered(),
            ..paceline_state::of(flow.controller().permit(), flow.rtt(), flow.config())
        };
        // SAFETY: the caller's promise.
        unsafe { write(state, &found) }
    };
    // SAFETY: the caller's promise.
    let least = |flow: &NumberedFlow| unsafe { write(state, &paceline_state::least(flow.flow.config().mss)) };
    // SAFETY: the caller's promise.
    unsafe { question(flow, answer, least) }
}

/// Its controller's variables; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_flow_tick`]; `report` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_flow_describe(
    flow: *const Handle<NumberedFlow>,
    report: Report,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { question(flow, |flow| describe(flow.flow.controller(), report, context), |_| Ok(())) }
}
