//! `paceline_cc`: a controller and nothing else.

use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};

use paceline_cc::mdi::text::MAX_TEXT;
use paceline_cc::{Acked, Controller, Env, Hop, Lost, Nanos, Permit, Recovery, Restart, Spec, Time};

use crate::events::needs;
use crate::handle::{Handle, event, free, make, question};
use crate::outcome::Failure;
use crate::passing::{List, Name, bytes, read, text, write};
use crate::structs::{
    paceline_ack, paceline_acked, paceline_env, paceline_hop, paceline_loss, paceline_lost, paceline_nature,
    paceline_permit, paceline_sent, paceline_stamp, paceline_telemetry, paceline_timeout,
};

/// A function of C that is given a name and a number.
pub(crate) type Report = Option<unsafe extern "C" fn(*mut c_void, *const c_char, f64)>;

/// A controller, and room for the lists of its events.
pub struct Controlled {
    controller: Box<dyn Controller>,
    /// Who shapes recovery, as the flow starts.
    start: Recovery,
    needs: u32,
    mss: u32,
    acked: Vec<Acked>,
    lost: Vec<Lost>,
    hops: Vec<Hop>,
}

/// What `spec` and `env` of a call make.
///
/// # Safety
/// `env` is null or as [`read`] wants it.
pub(crate) unsafe fn build(spec: &Spec, env: *const paceline_env) -> Result<(Box<dyn Controller>, Env), Failure> {
    let given = if env.is_null() {
        paceline_env { seed: Env::default().seed, ..paceline_env::zero() }
    } else {
        // SAFETY: the caller's promise.
        unsafe { read(env)? }
    };
    let env = given.env()?;
    given.fits(spec)?;
    Ok((spec.build(&env), env))
}

/// A controller by its text.
///
/// # Safety
/// `spec` is null or a C string.
pub(crate) unsafe fn parse(spec: *const c_char) -> Result<Spec, Failure> {
    // SAFETY: the caller's promise.
    unsafe { text(spec, "spec")? }.parse().map_err(|error| Failure::invalid(format!("spec: {error}")))
}

/// The text of a model, at most as long as one may be.
fn model(file: &str) -> io::Result<String> {
    io::read_to_string(File::open(file)?.take(MAX_TEXT as u64 + 1))
}

/// Informs a controller of packets.
///
/// # Safety
/// As of [`List::read_into`].
unsafe fn losses(list: &List<paceline_lost>, to: &mut Vec<Lost>) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { list.read_into(to, paceline_lost::packet) }
}

impl Controlled {
    /// # Safety
    /// As of [`build`].
    unsafe fn new(spec: &Spec, env: *const paceline_env) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let (controller, Env { mss, .. }) = unsafe { build(spec, env)? };
        let start = controller.permit().recovery;
        let (acked, lost, hops) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { controller, start, needs: needs(spec), mss, acked, lost, hops })
    }
}

/// Makes a controller; see `paceline_cc.h`.
///
/// # Safety
/// `spec` is null or a C string, `env` null or as the header says, `cc` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_new(
    spec: *const c_char,
    env: *const paceline_env,
    cc: *mut *mut Handle<Controlled>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(cc, || Controlled::new(&parse(spec)?, env)) }
}

/// The same, and files may be named; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_new_local(
    spec: *const c_char,
    env: *const paceline_env,
    cc: *mut *mut Handle<Controlled>,
) -> c_int {
    let local = |spec: &str| Spec::read(spec, model).map_err(|error| Failure::invalid(format!("spec: {error}")));
    // SAFETY: the caller's promise.
    unsafe { make(cc, || Controlled::new(&local(text(spec, "spec")?)?, env)) }
}

/// Frees it; see `paceline_cc.h`.
///
/// # Safety
/// `cc` is null or was made here, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_free(cc: *mut Handle<Controlled>) {
    // SAFETY: the caller's promise.
    unsafe { free(cc) };
}

/// What it is; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `nature` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_nature(cc: *const Handle<Controlled>, nature: *mut paceline_nature) -> c_int {
    let answer = |cc: &Controlled| {
        let found = paceline_nature::of(&cc.controller.nature(), cc.start, cc.needs);
        // SAFETY: the caller's promise.
        unsafe { write(nature, &found) }
    };
    // SAFETY: the caller's promise.
    unsafe { question(cc, answer, |_| Ok(())) }
}

/// A packet left; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `sent` is null or as the header says, `stamp` null or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_sent(
    cc: *mut Handle<Controlled>,
    sent: *const paceline_sent,
    stamp: *mut paceline_stamp,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let sent = read(sent)?;
            let sent = sent.event(clock.at(sent.now)?)?;
            clock.advance(sent.now);
            let given = cc.controller.on_sent(&sent);
            if !stamp.is_null() {
                stamp.write(paceline_stamp { tag: given.tag, note: given.note });
            }
            Ok(())
        })
    }
}

/// Something was delivered or marked; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `ack` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_ack(cc: *mut Handle<Controlled>, ack: *const paceline_ack) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let ack = read(ack)?;
            let now = clock.at(ack.now)?;
            ack.list().read_into(&mut cc.acked, paceline_acked::packet)?;
            let ack = ack.event(now, &cc.acked)?;
            clock.advance(now);
            cc.controller.on_ack(&ack);
            Ok(())
        })
    }
}

/// Packets were lost; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `loss` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_loss(cc: *mut Handle<Controlled>, loss: *const paceline_loss) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let loss = read(loss)?;
            let now = clock.at(loss.now)?;
            losses(&loss.list(), &mut cc.lost)?;
            let loss = loss.event(now, &cc.lost)?;
            clock.advance(now);
            cc.controller.on_loss(&loss);
            Ok(())
        })
    }
}

/// The timer fired; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `timeout` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_timeout(cc: *mut Handle<Controlled>, timeout: *const paceline_timeout) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let timeout = read(timeout)?;
            let now = clock.at(timeout.now)?;
            losses(&timeout.list(), &mut cc.lost)?;
            clock.advance(now);
            cc.controller.on_timeout(&timeout.event(now, &cc.lost));
            Ok(())
        })
    }
}

/// Why packets were lost; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `packets` is null or `count` elements, `stride` bytes apart.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_cause(
    cc: *mut Handle<Controlled>,
    now: u64,
    packets: *const paceline_lost,
    count: u32,
    stride: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let now = clock.at(now)?;
            losses(&List { first: packets, count, stride }, &mut cc.lost)?;
            clock.advance(now);
            cc.controller.on_cause(now, &cc.lost);
            Ok(())
        })
    }
}

/// The hops reported; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `telemetry` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_telemetry(
    cc: *mut Handle<Controlled>,
    telemetry: *const paceline_telemetry,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let telemetry = read(telemetry)?;
            let now = clock.at(telemetry.now)?;
            telemetry.list().read_into(&mut cc.hops, paceline_hop::hop)?;
            let telemetry = telemetry.event(now, &cc.hops)?;
            clock.advance(now);
            cc.controller.on_telemetry(&telemetry);
            Ok(())
        })
    }
}

/// An event that is a moment and numbers.
///
/// # Safety
/// As of [`event`].
unsafe fn moment(
    cc: *mut Handle<Controlled>,
    now: u64,
    inform: impl FnOnce(&mut Controlled, Time) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        event(cc, |cc, clock| {
            let now = clock.at(now)?;
            clock.advance(now);
            inform(cc, now)
        })
    }
}

/// It sends again after a silence; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_restart(cc: *mut Handle<Controlled>, now: u64, idle: u64, rto: u64) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        cc.controller.on_restart(&Restart::new(now, Nanos::from_nanos(idle), Nanos::from_nanos(rto)));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// A loss was spurious; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_spurious(cc: *mut Handle<Controlled>, now: u64) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        cc.controller.on_spurious(now);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// There is nothing to send; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_app_limited(cc: *mut Handle<Controlled>, now: u64, in_flight: u64) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        cc.controller.on_app_limited(now, in_flight);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// Full packets have another size; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_mss(cc: *mut Handle<Controlled>, now: u64, mss: u32) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        if mss == 0 {
            return Err(Failure::invalid("mss: full packets have at least 1 byte; give their size"));
        }
        cc.mss = mss;
        cc.controller.on_mss(now, mss);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// Another flow measured an RTT; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_shared_rtt(cc: *mut Handle<Controlled>, now: u64, min: u64) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        cc.controller.on_shared_rtt(now, Nanos::from_nanos(min));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// The receiver half reported; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `len` bytes are at `blob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_feedback(
    cc: *mut Handle<Controlled>,
    now: u64,
    blob: *const c_void,
    len: usize,
) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        // SAFETY: the caller's promise.
        let blob = unsafe { bytes(blob, len)? };
        cc.controller.on_feedback(now, blob).map_err(|bad| Failure::invalid(bad.to_string()))
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// Its clock; see `paceline_cc.h`.
///
/// # Safety
/// `cc` is null or was made by [`paceline_cc_new`], and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_tick(cc: *mut Handle<Controlled>, now: u64) -> c_int {
    let inform = |cc: &mut Controlled, now| {
        cc.controller.on_tick(now);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { moment(cc, now, inform) }
}

/// What it permits; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `permit` is null or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_permit(cc: *const Handle<Controlled>, permit: *mut paceline_permit) -> c_int {
    // SAFETY: the caller's promise.
    let tell = |found: Permit| unsafe { write(permit, &found.into()) };
    let least = |cc: &Controlled| tell(Permit::up_to(2 * u64::from(cc.mss)));
    // SAFETY: the caller's promise.
    unsafe { question(cc, |cc| tell(cc.controller.permit()), least) }
}

/// Its variables; see `paceline_cc.h`.
///
/// # Safety
/// As of [`paceline_cc_tick`]; `report` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_cc_describe(
    cc: *const Handle<Controlled>,
    report: Report,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { question(cc, |cc| describe(cc.controller.as_ref(), report, context), |_| Ok(())) }
}

/// Reports a controller's variables.
///
/// # Safety
/// `report` may be called with `context`.
pub(crate) unsafe fn describe(
    controller: &dyn Controller,
    report: Report,
    context: *mut c_void,
) -> Result<(), Failure> {
    let report = report.ok_or_else(|| Failure::invalid("report: there is no function to call"))?;
    // SAFETY: the caller's promise; the name outlives the call.
    controller.describe(&mut |name, value| unsafe { report(context, Name::<64>::of(name).as_ptr(), value) });
    Ok(())
}
