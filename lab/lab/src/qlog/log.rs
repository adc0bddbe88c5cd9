//! The log of one flow, event by event.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use paceline_cc::observe::Event;
use paceline_cc::{Ack, Cause, Controller, Lost, Nanos, Pacing, Permit, Sent, Telemetry, Time};
use paceline_experiment::{Layer, Moment, Subject, When};
use paceline_files::{Draft, OutputError};
use paceline_transport::HEADER_BYTES;
use serde_json::{Value, json};

use super::own::{Chirps, Described, hop};
use super::words::{EXACT, Title, header, range, stream, whole};
use super::{QlogForm, Style};

/// Most lost packets of an episode that are named when it proves spurious (our choice).
const MOST_LOST: usize = 4096;

/// What the log last said of a sender, in its units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Metrics {
    window: u64,
    in_flight: u64,
    threshold: Option<u64>,
    smoothed_rtt: Option<Nanos>,
    latest_rtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    pacing_bps: Option<u64>,
    timeouts: u32,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// Until it is complete.
    file: Option<Draft>,
    failed: Option<io::Error>,
    style: Style,
    /// The scenario and the initial window, until they are written.
    first: Option<(Option<Value>, u64)>,
    /// The log is by the world's clock.
    moment: Moment,
    /// A controller above TCP says what window and state are.
    pub above: bool,
    mss: u32,
    sent: u64,
    acks: u64,
    /// Numbers of transmissions, by position and time, until their data is settled.
    numbers: BTreeMap<(u64, Time), u64>,
    largest_acked: Option<u64>,
    marks: u64,
    now: Metrics,
    said: Metrics,
    described: Described,
    chirps: Chirps,
    congestion: Option<&'static str>,
    /// Recovery ends when everything below this has been acknowledged.
    recover: Option<u64>,
    /// A timeout began the recovery.
    timed_out: bool,
    /// The application had nothing to send.
    app_limited: bool,
    next_position: u64,
    acked: Vec<u64>,
    /// Numbers of the packets that were lost in the last episode.
    lost: Vec<u64>,
}

impl Log {
    pub(super) fn open(path: &Path, title: &Title<'_>, style: Style, of: &Subject<'_>) -> io::Result<Self> {
        let mut file = Draft::regular(path).map_err(|OutputError { source, .. }| source)?;
        header(style.form, &mut file, title)?;
        let (mss, moment) = (of.env.mss, of.moment);
        let scenario = title.about.scenario.as_ref().filter(|_| style.form == QlogForm::Today);
        let scenario = scenario.map(|(name, run, seed)| {
            json!({ "name": name, "details": { "contestant": title.name, "run": run, "seed": whole(*seed) } })
        });
        let initial = of.spec.build(of.env).window().min(EXACT);
        let first = Some((scenario, initial));
        Ok(Self { moment, style, mss, first, file: Some(file), ..Self::default() })
    }

    /// What stands before the first event.
    fn begin(&mut self, now: Time) -> io::Result<()> {
        let Some((scenario, initial)) = self.first.take() else { return Ok(()) };
        if let Some(scenario) = scenario {
            let at = self.moment.in_world(now).as_millis_f64();
            writeln!(self.file()?, "\u{1e}{{\"time\":{at:.3},\"name\":\"simulation:scenario\",\"data\":{scenario}}}")?;
        }
        let (mss, name) = (self.mss, self.style.form.parameters_set());
        let file = self.event(now, name)?;
        writeln!(file, r#""timer_granularity":1,"initial_congestion_window":{initial},"max_datagram_size":{mss}}}}}"#)
    }

    /// What went wrong, and the file.
    pub(super) fn take(&mut self) -> (Option<io::Error>, Option<Draft>) {
        (self.failed.take(), self.file.take())
    }

    /// No transmission is remembered.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Writes what an event says; after a failure nothing.
    pub(super) fn see(&mut self, event: &Event<'_>, controller: &dyn Controller, layer: Layer) {
        if self.failed.is_none() {
            self.failed = self.write(event, controller, layer).err();
        }
    }

    /// A controller triggered changes of the path or of an application, at this time of the world.
    pub(super) fn mark(&mut self, at: Time, when: &When) {
        // Before 0.4 there was no such event.
        if self.failed.is_some() || self.style.form == QlogForm::V03 || self.first.is_some() {
            return;
        }
        let names: Vec<&str> = when.is.iter().map(|(name, _)| name.as_str()).collect();
        let data = json!({ "type": "when", "message": format!("{} by {}", when.number, names.join(", ")) });
        let at = at.as_millis_f64();
        let write = |file: &mut Draft| {
            writeln!(file, "\u{1e}{{\"time\":{at:.3},\"name\":\"simulation:marker\",\"data\":{data}}}")
        };
        self.failed = self.file().and_then(write).err();
    }

    /// Of packets on the path, and of the state of the controller that decides.
    fn write(&mut self, event: &Event<'_>, controller: &dyn Controller, layer: Layer) -> io::Result<()> {
        let now = event.now();
        self.begin(now)?;
        if layer == Layer::Packets {
            match event {
                Event::Sent(sent, _) => self.packet_sent(sent)?,
                Event::Acked(ack) => self.packet_received(ack)?,
                Event::Lost(loss) => {
                    if loss.new_episode {
                        self.lost.clear();
                    }
                    self.packets_lost(now, loss.packets, "reordering_threshold")?;
                }
                Event::Timeout(timeout) => {
                    self.lost.clear();
                    self.timed_out = true;
                    self.packets_lost(now, timeout.packets, "pto_expired")?;
                }
                Event::Cause { packets, .. } => self.causes(now, packets)?,
                Event::Mss { mss, .. } => self.datagram(now, *mss)?,
                _ => {}
            }
        }
        if (layer == Layer::Above) != self.above {
            return Ok(());
        }
        let mut why = None;
        match event {
            Event::Sent(sent, stamp) => {
                self.next_position = self.next_position.max(sent.seq + u64::from(sent.bytes));
                self.now.in_flight = sent.in_flight;
                self.app_limited &= sent.in_flight + u64::from(self.mss) <= self.now.window;
                if self.congestion.is_none() {
                    self.described.ask(controller);
                }
                if self.described.chirping && sent.bytes > 0 {
                    self.chirps.sent(now, stamp.tag, self.sent.saturating_sub(1));
                }
                return Ok(());
            }
            Event::Acked(ack) => self.learn(ack),
            Event::Lost(loss) => {
                self.now.in_flight = loss.in_flight;
                self.chirps_settled(loss.packets);
                if loss.new_episode {
                    self.recover = Some(self.next_position);
                    why = Some("loss");
                }
            }
            Event::Timeout(timeout) => {
                self.now.in_flight = timeout.in_flight;
                self.now.timeouts = timeout.count;
                self.recover = Some(self.next_position);
                self.chirps_settled(timeout.packets);
                why = Some("timeout");
            }
            Event::Spurious(_) => {
                self.recover = None;
                let packets = std::mem::take(&mut self.lost);
                self.own(now, "spurious", &json!({ "packets": packets }))?;
                why = Some("spurious");
            }
            Event::Restart(restart) => {
                let (idle, rto) = (restart.idle.as_millis_f64(), restart.rto.as_millis_f64());
                self.own(now, "restart", &json!({ "idle": idle, "rto": rto }))?;
            }
            Event::AppLimited { in_flight, .. } => {
                self.now.in_flight = *in_flight;
                self.app_limited = true;
            }
            Event::Telemetry(telemetry) => self.telemetry(telemetry)?,
            _ => {}
        }
        let Permit { window, pacing, threshold, .. } = controller.permit();
        self.now.window = window;
        self.now.threshold = Some(threshold).filter(|threshold| *threshold < u64::MAX);
        self.now.pacing_bps = match pacing {
            Pacing::Rate(rate) => Some((rate.as_mbps() * 1e6) as u64),
            // The rate of full packets at this gap.
            Pacing::Gap(gap) if gap > Nanos::ZERO => Some((f64::from(self.mss) * 8e9 / gap.as_nanos() as f64) as u64),
            Pacing::Gap(_) | Pacing::Free => None,
        };
        self.described.ask(controller);
        let changed = self.congestion_state(now, why)?;
        self.metrics(now)?;
        self.variables(now, changed)?;
        while let Some(chirp) = self.chirps.ended(self.described.chirping) {
            self.own(now, "chirp", &chirp)?;
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut Draft> {
        self.file.as_mut().ok_or_else(|| io::Error::other("an event after the end of the log"))
    }

    /// Starts an event; its data and two closing braces follow.
    fn event(&mut self, now: Time, name: &str) -> io::Result<&mut Draft> {
        let at = self.moment.in_world(now).as_millis_f64();
        let file = self.file()?;
        write!(file, "\u{1e}{{\"time\":{at:.3},\"name\":\"{name}\",\"data\":{{")?;
        Ok(file)
    }

    /// An event of our schema; the form before has telemetry alone.
    fn own(&mut self, now: Time, name: &str, data: &Value) -> io::Result<()> {
        if self.style.form == QlogForm::V03 && name != "telemetry" {
            return Ok(());
        }
        let at = self.moment.in_world(now).as_millis_f64();
        writeln!(self.file()?, "\u{1e}{{\"time\":{at:.3},\"name\":\"paceline:{name}\",\"data\":{data}}}")
    }

    fn packet_sent(&mut self, sent: &Sent) -> io::Result<()> {
        let Sent { now, seq, bytes, .. } = *sent;
        let (number, form) = (self.sent, self.style.form);
        self.sent += 1;
        let trigger = match (sent.retransmission && bytes > 0, self.timed_out) {
            (false, _) => "",
            (true, false) => r#""trigger":"retransmit_reordered","#,
            (true, true) => r#""trigger":"retransmit_timeout","#,
        };
        let wire = bytes + HEADER_BYTES;
        let file = self.event(now, form.packet_sent())?;
        write!(
            file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":{wire},"payload_length":{bytes}}},{trigger}"frames":[{{"#
        )?;
        if bytes == 0 {
            return writeln!(file, r#""frame_type":"ping"}}]}}}}"#);
        }
        stream(form, file, seq, bytes)?;
        writeln!(file, "}}]}}}}")?;
        self.numbers.insert((seq, now), number);
        Ok(())
    }

    /// The transmission of that moment; where it became known later, the first after it.
    fn number(&self, seq: u64, sent_at: Time) -> Option<u64> {
        self.numbers.range((seq, sent_at)..=(seq, Time::NEVER)).next().map(|(_, number)| *number)
    }

    fn packet_received(&mut self, ack: &Ack<'_>) -> io::Result<()> {
        self.acked.clear();
        for packet in ack.packets {
            self.acked.extend(self.number(packet.seq, packet.sent_at));
            while let Some((&at, _)) = self.numbers.range((packet.seq, Time::ZERO)..=(packet.seq, Time::NEVER)).next() {
                self.numbers.remove(&at);
            }
        }
        // Datagrams that were lost are not acknowledged.
        while self.numbers.first_key_value().is_some_and(|((seq, _), _)| *seq < ack.una) {
            self.numbers.pop_first();
        }
        self.acked.sort_unstable();
        self.largest_acked = self.largest_acked.max(self.acked.last().copied());
        self.marks += u64::from(ack.ce_packets);
        let Some(largest) = self.largest_acked.filter(|_| !self.acked.is_empty() || ack.ce_packets > 0) else {
            return Ok(());
        };
        let (number, form) = (self.acks, self.style.form);
        self.acks += 1;
        let (acked, marks) = (std::mem::take(&mut self.acked), self.marks);
        let file = self.event(ack.now, form.packet_received())?;
        write!(
            file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":{HEADER_BYTES}}},"frames":[{{"frame_type":"ack","acked_ranges":["#
        )?;
        if acked.is_empty() {
            range(form, file, largest, largest)?;
        }
        let mut comma = "";
        for run in acked.chunk_by(|a, b| a + 1 == *b) {
            write!(file, "{comma}")?;
            range(form, file, run[0], run[run.len() - 1])?;
            comma = ",";
        }
        write!(file, "]")?;
        if marks > 0 {
            write!(file, r#","ce":{marks}"#)?;
        }
        writeln!(file, "}}]}}}}")?;
        self.acked = acked;
        Ok(())
    }

    fn packets_lost(&mut self, now: Time, packets: &[Lost], trigger: &str) -> io::Result<()> {
        let name = self.style.form.packet_lost();
        for lost in packets {
            let Some(number) = self.number(lost.seq, lost.sent_at) else { continue };
            if self.lost.len() < MOST_LOST {
                self.lost.push(number);
            }
            let file = self.event(now, name)?;
            write!(file, r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"trigger":"{trigger}""#)?;
            if lost.cause != Cause::Unknown {
                write!(file, r#","paceline_cause":"{}""#, lost.cause.name())?;
            }
            writeln!(file, "}}}}")?;
        }
        Ok(())
    }

    /// Why packets were lost that were declared so before: an event for each cause.
    fn causes(&mut self, now: Time, packets: &[Lost]) -> io::Result<()> {
        let mut rest = packets.to_vec();
        while let Some(Lost { cause, .. }) = rest.first().copied() {
            let of: Vec<u64> = rest
                .iter()
                .filter(|lost| lost.cause == cause)
                .filter_map(|lost| self.number(lost.seq, lost.sent_at))
                .collect();
            rest.retain(|lost| lost.cause != cause);
            if !of.is_empty() {
                self.own(now, "cause", &json!({ "packets": of, "cause": cause.name() }))?;
            }
        }
        Ok(())
    }

    fn datagram(&mut self, now: Time, mss: u32) -> io::Result<()> {
        self.mss = mss;
        let name = self.style.form.parameters_set();
        writeln!(self.event(now, name)?, r#""timer_granularity":1,"max_datagram_size":{mss}}}}}"#)
    }

    fn telemetry(&mut self, telemetry: &Telemetry<'_>) -> io::Result<()> {
        let hops: Vec<Value> = telemetry.hops.iter().map(hop).collect();
        let fresh_for = telemetry.fresh_for.as_millis_f64();
        let data = json!({ "verdict": telemetry.verdict.name(), "fresh_for": fresh_for, "hops": hops });
        self.own(telemetry.now, "telemetry", &data)
    }

    fn chirps_settled(&mut self, lost: &[Lost]) {
        for lost in lost {
            self.chirps.settled(lost.tag, lost.sent_at, true);
        }
    }

    fn learn(&mut self, ack: &Ack<'_>) {
        self.now.in_flight = ack.in_flight;
        self.now.latest_rtt = ack.rtt.or(self.now.latest_rtt);
        self.now.smoothed_rtt = (ack.srtt > Nanos::ZERO).then_some(ack.srtt);
        self.now.min_rtt = (ack.min_rtt < Nanos::MAX).then_some(ack.min_rtt);
        if !ack.packets.is_empty() {
            self.now.timeouts = 0;
        }
        if self.recover.is_some_and(|recover| ack.una >= recover) {
            (self.recover, self.timed_out) = (None, false);
        }
        for packet in ack.packets {
            self.chirps.settled(packet.tag, packet.sent_at, false);
        }
    }

    /// Whether it has changed.
    fn congestion_state(&mut self, now: Time, why: Option<&'static str>) -> io::Result<bool> {
        let state = match (self.described.state, self.recover) {
            (Some(own), _) => own,
            (None, Some(_)) => "recovery",
            (None, None) if self.app_limited => "application_limited",
            (None, None) if self.described.starting => "slow_start",
            (None, None) => "congestion_avoidance",
        };
        if self.congestion == Some(state) {
            return Ok(false);
        }
        let old = self.congestion.replace(state);
        let form = self.style.form;
        let file = self.event(now, form.congestion_state_updated())?;
        if let Some(old) = old {
            write!(file, r#""old":"{old}","#)?;
        }
        write!(file, r#""new":"{state}""#)?;
        if let Some(why) = why.filter(|_| form == QlogForm::Today) {
            write!(file, r#","paceline_trigger":"{why}""#)?;
        }
        writeln!(file, "}}}}")?;
        Ok(true)
    }

    fn variables(&mut self, now: Time, state_changed: bool) -> io::Result<()> {
        let at = self.moment.in_world(now).as_millis_f64();
        let Some(file) = self.file.as_mut().filter(|_| self.style.form == QlogForm::Today) else { return Ok(()) };
        let Some(variables) = self.described.changed(now, self.style.variables, state_changed) else { return Ok(()) };
        write!(file, "\u{1e}{{\"time\":{at:.3},\"name\":\"paceline:variables\",\"data\":{{")?;
        let mut comma = "";
        for (name, value) in variables {
            write!(file, "{comma}")?;
            serde_json::to_writer(&mut *file, name)?;
            // A millionth is enough, and a whole number has no point.
            let rounded = if value.abs() < 1e9 { (value * 1e6).round() / 1e6 } else { *value };
            write!(file, ":{rounded}")?;
            comma = ",";
        }
        writeln!(file, "}}}}")
    }

    fn metrics(&mut self, now: Time) -> io::Result<()> {
        let new = self.now;
        let old = std::mem::replace(&mut self.said, new);
        if old == new {
            return Ok(());
        }
        let name = self.style.form.metrics_updated();
        let file = self.event(now, name)?;
        let mut comma = "";
        for (name, new, old) in [
            // Larger numbers lose digits in JSON readers (RFC 8259 section 6).
            ("congestion_window", Some(new.window.min(EXACT)), Some(old.window.min(EXACT))),
            ("bytes_in_flight", Some(new.in_flight), Some(old.in_flight)),
            ("ssthresh", new.threshold.map(|bytes| bytes.min(EXACT)), old.threshold.map(|bytes| bytes.min(EXACT))),
            ("pacing_rate", new.pacing_bps, old.pacing_bps),
            ("pto_count", Some(u64::from(new.timeouts)), Some(u64::from(old.timeouts))),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(file, r#"{comma}"{name}":{value}"#)?;
                comma = ",";
            }
        }
        for (name, new, old) in [
            ("smoothed_rtt", new.smoothed_rtt, old.smoothed_rtt),
            ("latest_rtt", new.latest_rtt, old.latest_rtt),
            ("min_rtt", new.min_rtt, old.min_rtt),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(file, r#"{comma}"{name}":{:.3}"#, value.as_millis_f64())?;
                comma = ",";
            }
        }
        writeln!(file, "}}}}")
    }
}
