//! Events as guests see them: the fields of `core/cc/src/controller.rs` by the same names. Instants and spans are nanoseconds, sizes
//! bytes, rates bytes per second; what is unknown is nothing.

/// Gives each of these to the macro `$value` of a binding, `NAME of STRUCT, FIELD: TYPE = READ, ...`, which makes of it what its language
/// has. The binding calls `paceline_cc` `cc`.
#[macro_export]
macro_rules! guest_values {
    ($value:ident) => {
        $value!(
            /// What a controller is given once, when it is made.
            Env of cc::Env,
            /// Payload bytes of a full packet.
            mss: u32 = |env| env.mss,
            /// Seeds the controller's own generator, where it needs one.
            seed: u64 = |env| env.seed,
            /// Whether the datapath paces what the controller does not.
            paced: bool = |env| env.paced,
        );

        $value!(
            /// A packet has just left.
            Sent of cc::Sent,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |sent| sent.now.as_nanos(),
            /// Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it.
            seq: u64 = |sent| sent.seq,
            /// Payload bytes.
            bytes: u32 = |sent| sent.bytes,
            /// Bytes in flight, this packet included.
            in_flight: u64 = |sent| sent.in_flight,
            /// Whether the payload was sent before.
            retransmission: bool = |sent| sent.retransmission,
            /// Whether the application had less to send than the window allows.
            app_limited: bool = |sent| sent.app_limited,
            /// Bytes that the application has handed over and that have not been sent.
            unsent: u64 = |sent| sent.unsent,
        );

        $value!(
            /// The flow sends again after a silence with nothing in flight.
            Restart of cc::Restart,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |restart| restart.now.as_nanos(),
            /// Time since the last packet left, ns.
            idle: u64 = |restart| restart.idle.as_nanos(),
            /// The retransmission timeout at present, ns, without back-off.
            rto: u64 = |restart| restart.rto.as_nanos(),
        );

        $value!(
            /// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation).
            RateSample of cc::RateSample,
            /// Bytes delivered over the interval.
            delivered: u64 = |rate| rate.delivered,
            /// Length of the interval, ns; never zero.
            interval: u64 = |rate| rate.interval.as_nanos(),
            /// Delivered bytes of the flow when the sampled packet was sent: a round trip ends when this passes the count at its start.
            prior_delivered: u64 = |rate| rate.prior_delivered,
            /// Whether the application limited the flow when the sampled packet was sent.
            app_limited: bool = |rate| rate.app_limited,
            /// Whether the sampled packet was sent again.
            retransmission: bool = |rate| rate.retransmission,
            /// Delivered bytes over the interval, bytes per second.
            bytes_per_s: u64 = |rate| rate.rate().as_bytes_per_sec(),
        );

        $value!(
            /// Packets were declared lost, not by a timeout.
            Loss of cc::Loss<'_>,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |loss| loss.now.as_nanos(),
            /// The packets, in the order of sending; never empty.
            packets: Vec<Lost> = |loss| loss.packets.iter().map(Lost::from).collect(),
            /// Payload bytes of the packets.
            bytes: u64 = |loss| loss.bytes,
            /// Bytes in flight before.
            prior_in_flight: u64 = |loss| loss.prior_in_flight,
            /// Bytes in flight now.
            in_flight: u64 = |loss| loss.in_flight,
            /// Whether this is the first loss of an episode: a reduction is due once per episode.
            new_episode: bool = |loss| loss.new_episode,
        );

        $value!(
            /// The retransmission timer fired.
            Timeout of cc::Timeout<'_>,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |timeout| timeout.now.as_nanos(),
            /// The packets that it declares lost, in the order of sending, as far as the datapath knows them.
            packets: Vec<Lost> = |timeout| timeout.packets.iter().map(Lost::from).collect(),
            /// Bytes in flight before.
            prior_in_flight: u64 = |timeout| timeout.prior_in_flight,
            /// Bytes still thought to be in flight (RFC 8985 section 6.3).
            in_flight: u64 = |timeout| timeout.in_flight,
            /// How many times in a row, from 1.
            count: u32 = |timeout| timeout.count,
        );

        $value!(
            /// What the hops of the path reported in-band.
            Telemetry of cc::Telemetry<'_>,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |telemetry| telemetry.now.as_nanos(),
            /// Why packets were lost lately, as the receiver sees it: ``unknown`` where none was, else as in :class:`Lost`.
            verdict: &'static str = |telemetry| telemetry.verdict.name(),
            /// For how long from now on the report may be relied upon, ns.
            fresh_for: u64 = |telemetry| telemetry.fresh_for.as_nanos(),
            /// The hops in the direction of data.
            hops: Vec<Hop> = |telemetry| telemetry.hops.iter().map(Hop::from).collect(),
        );

        $value!(
            /// One hop's report. What it did not report is None, which is not zero.
            Hop of cc::Hop,
            /// Its node's number, unique on the path.
            id: u32 = |hop| hop.id,
            /// When the packet came, ns of the hop's own clock: only differences mean anything.
            arrived_at: Option<u64> = |hop| hop.arrived_at.map(cc::Time::as_nanos),
            /// How long the packet stayed, ns.
            delay: Option<u64> = |hop| hop.delay.map(cc::Nanos::as_nanos),
            /// Bytes waiting as the packet left.
            queue_bytes: Option<u64> = |hop| hop.queue_bytes,
            /// Packets for which its queue had room.
            room_packets: Option<u32> = |hop| hop.room_packets,
            /// Packets that its queue holds when it is full.
            limit_packets: Option<u32> = |hop| hop.limit_packets,
            /// Capacity of the link at present, bytes per second.
            capacity: Option<u64> = |hop| hop.capacity.map(cc::Rate::as_bytes_per_sec),
            /// Rate at which traffic arrives, bytes per second.
            arrival: Option<u64> = |hop| hop.arrival.map(cc::Rate::as_bytes_per_sec),
            /// Flows seen lately.
            flows: Option<u32> = |hop| hop.flows,
            /// Packets that its queue has dropped, modulo 2^32: only differences mean anything.
            drops: Option<u32> = |hop| hop.drops,
            /// Radio signal, dBm, where the hop is a radio.
            signal_dbm: Option<f32> = |hop| hop.signal_dbm,
            /// Share of frames that the radio had to send again, 0 to 1.
            radio_retry_share: Option<f32> = |hop| hop.radio_retry_share,
        );

        $value!(
            /// A packet that was declared lost.
            Lost of cc::Lost,
            /// Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it.
            seq: u64 = |lost| lost.seq,
            /// Payload bytes.
            bytes: u32 = |lost| lost.bytes,
            /// When it was last sent, ns of the datapath's clock.
            sent_at: u64 = |lost| lost.sent_at.as_nanos(),
            /// What ``on_sent`` answered for this packet.
            tag: u64 = |lost| lost.tag,
            /// Why, where the path has said so: ``unknown``, ``congestion``, ``aqm``, ``policer``, ``medium`` or ``handover``.
            cause: &'static str = |lost| lost.cause.name(),
        );

        $value!(
            /// A packet that was delivered.
            Acked of cc::Acked,
            /// Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it.
            seq: u64 = |acked| acked.seq,
            /// Payload bytes.
            bytes: u32 = |acked| acked.bytes,
            /// When it was last sent, ns of the datapath's clock.
            sent_at: u64 = |acked| acked.sent_at.as_nanos(),
            /// What ``on_sent`` answered for this packet.
            tag: u64 = |acked| acked.tag,
            /// Whether it was sent more than once, so that its RTT is ambiguous.
            retransmitted: bool = |acked| acked.retransmitted,
            /// Whether the application limited the flow when it was sent.
            app_limited: bool = |acked| acked.app_limited,
            /// Whether it carried a CE mark.
            ce: bool = |acked| acked.ce,
            /// The receiver's clock at its arrival, ns, where the feedback has it: only differences mean anything.
            received_at: Option<u64> = |acked| acked.received_at.map(cc::Time::as_nanos),
        );

        $value!(
            /// An acknowledgement delivered something, or brought marks.
            Ack of cc::Ack<'_>,
            /// When it happened, ns of the datapath's clock.
            now: u64 = |ack| ack.now.as_nanos(),
            /// Packets newly delivered, in the order of sending; empty where it brought marks alone.
            packets: Vec<Acked> = |ack| ack.packets.iter().map(Acked::from).collect(),
            /// Payload bytes newly delivered.
            bytes: u64 = |ack| ack.bytes,
            /// RTT of the newest of the packets that was sent once, ns; above 0, or None.
            rtt: Option<u64> = |ack| ack.rtt.and_then($crate::guest::known).map(cc::Nanos::as_nanos),
            /// Smoothed RTT (RFC 6298), ns; zero before the first sample.
            srtt: u64 = |ack| ack.srtt.as_nanos(),
            /// Smallest RTT since the flow began, ns; above 0, and None before the first sample.
            min_rtt: Option<u64> = |ack| $crate::guest::known(ack.min_rtt).map(cc::Nanos::as_nanos),
            /// A delivery-rate sample, where a valid one could be made.
            rate: Option<RateSample> = |ack| ack.rate.as_ref().map(RateSample::from),
            /// Bytes in flight before.
            prior_in_flight: u64 = |ack| ack.prior_in_flight,
            /// Bytes in flight now.
            in_flight: u64 = |ack| ack.in_flight,
            /// Bytes found lost by this acknowledgement; ``on_loss`` has had them.
            lost_bytes: u64 = |ack| ack.lost_bytes,
            /// Newly delivered bytes that carried a CE mark.
            ce_bytes: u64 = |ack| ack.ce_bytes,
            /// Packets behind ``ce_bytes``.
            ce_packets: u32 = |ack| ack.ce_packets,
            /// Whether this is the first congestion echo of its round trip.
            echo: bool = |ack| ack.echo,
            /// Payload bytes delivered since the flow began, these included.
            delivered: u64 = |ack| ack.delivered,
            /// Everything below this position has been delivered.
            una: u64 = |ack| ack.una,
            /// Position of the next new byte to send.
            next: u64 = |ack| ack.next,
            /// Where loss recovery stands afterwards: ``open``, ``cwr``, ``recovery`` or ``loss``.
            phase: &'static str = |ack| ack.phase.name(),
            /// Whether the window, not the application, limited the flow when the newest of the packets was sent: windows grow only then (RFC 9438 section 4.2).
            window_limited: bool = |ack| ack.window_limited,
        );
    };
}
