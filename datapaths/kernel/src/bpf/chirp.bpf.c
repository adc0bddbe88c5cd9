// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Paced chirping from a kernel socket: a flow finds the free capacity by trains of ever closer packets, and then is DCTCP's, or
 * CUBIC's. Three controllers of one object: pl_chirp is ours (chirp_adaptive.h), pl_chirp_r the newest kernel branch of the
 * authors (chirp_load.h), both over DCTCP; pl_chirp_cubic is ours, and leaves the socket to the kernel's CUBIC.
 *
 * Source: Misund and Briscoe, "Paced Chirping" (2019); RFC 8257; Linux net/ipv4/tcp_output.c, tcp_dctcp.c.
 *
 * How a socket sends at a list of gaps. After each packet Linux waits its payload over sk_pacing_rate before the next
 * (tcp_update_skb_after_send), and asks min_tso_segs before it looks whether one may leave (tcp_write_xmit). So what
 * min_tso_segs writes there is the gap behind the packet about to leave, and a window of one packet more than is in flight
 * keeps it alone. The call comes also where no packet can leave yet: it decides the same again.
 *
 * - The kernel paces no packet before the eleventh. The two bursts of five are those ten; the second leaves with the first
 *   acknowledgement, because no timer can be had before. A flow that seems to fit the ten sends them at once.
 * - When a packet left and arrived is known by its RTT, in whole microseconds, of the newest packet of an acknowledgement.
 * - No cong_control: in every other stage than chirping, Linux's own reductions and recovery apply.
 * - Marks change DCTCP's alpha, and never the window while chirping; the state CWR, which a mark brings, does not stop chirps.
 *   Loss does, and the timer.
 * - Where acknowledgements are delayed or the device takes segments larger than a packet, chirps are coarse or ragged:
 *   `ip route ... quickack 1` at the receiver, `ip link set ... gso_max_segs 1` at the sender.
 */
#include "tcp.h"

#include <bpf/bpf_core_read.h>

#include "chirp_adaptive.h"
#include "chirp_load.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Chirps in flight at most: with 16 packets each, 1024 packets. A power of two. */
#define TRAINS 64
/* Trains that one acknowledgement may end; more wait for the next. */
#define TRAINS_AN_ACK 4
/* Packets at most of one acknowledgement that are looked at in turn; a chirp with more of them is too coarse anyway. */
#define LONGEST_SHARED 5
/* What of a flow the kernel does not pace. Linux tcp_update_skb_after_send. */
#define UNPACED 10
/* Segments at least in what the kernel gives a device at once. Linux sysctl tcp_min_tso_segs. */
#define TSO_SEGS 2
/* Linux TCP_INFINITE_SSTHRESH. */
#define SSTHRESH_INFINITE 0x7fffffff
/* Shortest gap: none would start no timer. */
#define SHORTEST_GAP 1000
#define NANOS_PER_SEC 1000000000ull

enum generation { OURS, BRANCH };
enum policy { DCTCP, CUBIC };

/* The private area: what a receiver needs too, and DCTCP. */
struct state {
	__u8 generation;
	__u8 policy;
	/* DCTCP's receiver (RFC 8257, section 3.2): the last packet was marked; up to where it had received before. */
	__u8 ce;
	__u32 prior_rcv_nxt;
	/* Alpha in parts of 1024; end of the window of data under observation, and the counters at its start. */
	__u32 alpha;
	__u32 window_end;
	__u32 delivered;
	__u32 delivered_ce;
};

PRIVATE_STATE(struct state)

/* An acknowledgement: when the newest packet that it delivers left, 0 where unknown, and the gap of deliveries of late. */
struct ack {
	__u64 now;
	__u64 sent;
	__u64 rtt;
	__u64 interval;
	__u32 acked;
	__u32 marked;
	__u32 una;
	__u32 mss;
};

/* A flow that sends. */
struct flow {
	union {
		struct chirp_adaptive ours;
		struct chirp_load branch;
	};
	__u64 marked_at;
	/* Up to where what has left is counted, in bytes and in segments. */
	__u32 snd_nxt;
	__u32 segs_out;
	/* Numbers of the train that leaves or is planned, and of the oldest in flight. */
	__u32 next;
	__u32 oldest;
	/* Packets were missing while this was the next byte: trains begun before show nothing. */
	__u32 disorder;
	__u32 delivered_ce;
	/* Window of the transition, and the last of the policy. */
	__u32 window;
	/* Before a reduction, for undo. */
	__u32 window_before;
	/* Bursts still to be sent. */
	__u8 bursts;
	__u8 stage;
	/* The train `next` is planned. */
	__u8 planned;
	__u8 answered;
	__u8 disordered;
	/* Loss ended chirping. */
	__u8 lost;
	__u8 generation;
	struct ack ack;
	struct chirp_train trains[TRAINS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} chirp_flows SEC(".maps");

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&chirp_flows, sk, 0, 0);
}

static __always_inline struct chirp_train *train_of(struct flow *f, __u32 number)
{
	return &f->trains[number & (TRAINS - 1)];
}

static __always_inline int is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* A window in parts of CHIRP_ONE as packets, at least `least`. */
static __always_inline __u32 packets_of(__u64 window, __u32 least)
{
	return chirp_max(chirp_min(window >> CHIRP_SHIFT, 1u << 30), least);
}

static __always_inline void gather(struct flow *f, const struct tcp_sock *tp)
{
	__u64 srtt = (__u64)tp->srtt_us * 1000 / 8, min_rtt = (__u64)tp->rtt_min.s[0].v * 1000;
	__u32 in_flight = packets_in_flight(tp);

	/* Before the first sample it is the largest number. */
	if (!tp->srtt_us)
		min_rtt = 0;
	if (f->generation == OURS) {
		f->ours.srtt = srtt;
		f->ours.min_rtt = min_rtt;
		f->ours.in_flight = in_flight;
	} else {
		f->branch.srtt = srtt;
		f->branch.min_rtt = min_rtt;
		f->branch.in_flight = in_flight;
	}
}

/* Begins the flow's memory at its first packet. */
static __always_inline struct flow *begin(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = bpf_sk_storage_get(&chirp_flows, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!f)
		return 0;
	f->generation = private(sk)->generation;
	f->snd_nxt = tp->snd_nxt;
	f->segs_out = tp->data_segs_out;
	f->delivered_ce = tp->delivered_ce;
	f->next = f->oldest = 0;
	f->bursts = ADAPTIVE_BURSTS;
	f->stage = CHIRP_CHIRPING;
	f->planned = f->answered = f->disordered = f->lost = 0;
	if (f->generation == OURS)
		adaptive_init(&f->ours);
	else
		load_init(&f->branch);
	gather(f, tp);
	if (f->generation == BRANCH)
		load_open(&f->branch);
	tp->snd_ssthresh = SSTHRESH_INFINITE;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	return f;
}

/* Chirping is over: no train is read any more, and nothing is paced but by a queueing discipline. */
static __always_inline void end(struct sock *sk, struct flow *f, enum chirp_stage stage)
{
	f->stage = stage;
	if (f->generation == OURS)
		f->ours.stage = stage;
	f->oldest = f->next;
	f->planned = 0;
	if (sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* Takes in what has left since the last call. */
static __always_inline void count(struct flow *f, const struct tcp_sock *tp)
{
	__u32 bytes = tp->snd_nxt - f->snd_nxt, segs = tp->data_segs_out - f->segs_out, mss = tp->mss_cache, packets;
	struct chirp_train *train = train_of(f, f->next);

	if (!bytes && !segs)
		return;
	if (f->planned) {
		if (!train->sent) {
			train->start = f->snd_nxt;
			f->bursts -= f->bursts > 0;
			if (f->generation == OURS)
				f->ours.bursts = f->bursts;
			else
				f->branch.next++;
		}
		packets = mss ? (bytes + mss - 1) / mss : 0;
		/* A short packet, a packet sent again, or several of a chirp at once. */
		if (bytes != packets * mss || segs != packets || (packets != 1 && train->kind != CHIRP_OF_NO_GAPS))
			train->spoilt = 1;
		train->sent += packets;
		if (train->sent >= train->plan.packets) {
			train->end = tp->snd_nxt;
			f->planned = 0;
			f->next++;
		}
	}
	f->snd_nxt = tp->snd_nxt;
	f->segs_out = tp->data_segs_out;
}

/* Plans the next train, or answers that it has to wait. */
static __always_inline int plan(struct flow *f, const struct tcp_sock *tp)
{
	struct chirp_train *train = train_of(f, f->next);
	__u32 unsent = tp->write_seq - tp->snd_nxt, mss = tp->mss_cache, left, full, size;

	if (!mss || f->next - f->oldest >= TRAINS)
		return 0;
	full = unsent / mss;
	left = (unsent + mss - 1) / mss;
	if (f->bursts) {
		/*
		 * The second leaves with the first answer. What is left may be all, or the first piece of more: then it is one packet
		 * of full size.
		 */
		if (f->bursts < ADAPTIVE_BURSTS && packets_in_flight(tp) && !f->answered &&
		    (left > CHIRP_BURST || unsent == mss))
			return 0;
		chirp_train_begin(train, CHIRP_OF_NO_GAPS, CHIRP_BURST);
		return 1;
	}
	if (f->generation == OURS) {
		if (adaptive_holds(&f->ours))
			return 0;
		size = adaptive_size(&f->ours);
		adaptive_place(&f->ours, train, full < size ? chirp_min(left, size - 1) : size);
	} else {
		if (load_holds(&f->branch))
			return 0;
		size = load_size(&f->branch);
		if (full < size)
			chirp_train_begin(train, CHIRP_OF_THE_REST, left);
		else
			load_place(&f->branch, train);
	}
	return 1;
}

/* The gap behind the packet about to leave. */
static __always_inline __u64 gap_behind(const struct tcp_sock *tp, const struct flow *f, const struct chirp_train *train)
{
	int last = train->sent + 1 >= train->plan.packets;

	if (train->kind == CHIRP_OF_GAPS && !last) {
		__u64 gap = chirp_gap(&train->plan, train->sent);

		/*
		 * The kernel takes off a gap by how much its first packet left later than planned, at most half of it. That keeps
		 * a chirp's length; but the first packet of one was held and is not late.
		 */
		return train->sent ? gap : gap + chirp_min(chirp_less(tp->tcp_clock_cache, tp->tcp_wstamp_ns), gap);
	}
	if (train->kind == CHIRP_OF_NO_GAPS && !last)
		return SHORTEST_GAP;
	if (f->generation == OURS)
		return adaptive_guard(&f->ours, train);
	return train->kind == CHIRP_OF_GAPS ? load_guard(&f->branch, &train->plan) : f->branch.gap;
}

static __always_inline void pace(struct sock *sk, __u64 gap)
{
	__u64 rate = tcp_sk(sk)->mss_cache * NANOS_PER_SEC / chirp_max(gap, SHORTEST_GAP);


	sk->sk_pacing_rate = chirp_min(chirp_max(rate, 1), sk->sk_max_pacing_rate);
}

/* The next packet of a train. */
static __always_inline void chirp_on(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 in_flight = packets_in_flight(tp), room = 1;
	struct chirp_train *train = train_of(f, f->next);

	tp->snd_ssthresh = SSTHRESH_INFINITE;
	if (!f->planned || !train->sent)
		f->planned = plan(f, tp);
	if (!f->planned) {
		tp->snd_cwnd = chirp_max(in_flight, 1);
		return;
	}
	pace(sk, gap_behind(tp, f, train));
	if (train->kind == CHIRP_OF_NO_GAPS && tp->data_segs_out < UNPACED) {
		/* All of it at once, by single packets; the pace is that behind the last. */
		room = chirp_less(train->plan.packets, train->sent);
		pace(sk, chirp_max(f->generation == OURS ? adaptive_centre(&f->ours) : f->branch.gap, NANOS_PER_SEC >> 10));
	}
	tp->snd_cwnd = in_flight + room;
}

SEC("struct_ops")
__u32 BPF_PROG(chirp_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	__u64 idle;

	if (!f)
		f = begin(sk);
	if (!f)
		return TSO_SEGS;
	count(f, tp);
	gather(f, tp);
	if (f->stage == CHIRP_OVER && f->generation == OURS && !tp->packets_out) {
		idle = chirp_less(tp->tcp_clock_cache, tp->tcp_wstamp_ns);
		if (adaptive_restarts(&f->ours, idle, (__u64)f->window << CHIRP_SHIFT)) {
			f->stage = CHIRP_CHIRPING;
			f->lost = 0;
			if (sk->sk_pacing_status == SK_PACING_NONE)
				sk->sk_pacing_status = SK_PACING_NEEDED;
		}
	}
	if (f->stage == CHIRP_CHIRPING) {
		chirp_on(sk, f);
		return 1;
	}
	if (f->stage == CHIRP_TRANSITION) {
		tp->snd_ssthresh = SSTHRESH_INFINITE;
		tp->snd_cwnd = chirp_max(chirp_min(packets_in_flight(tp) + 1, f->window), 1);
		pace(sk, f->ours.pace);
		return 1;
	}
	return TSO_SEGS;
}

/* What the acknowledgement shows of this train, of which it covers all packets before `covered`. */
static __always_inline void sample(struct flow *f, struct chirp_train *train, __u32 covered)
{
	const struct ack *ack = &f->ack;
	__u32 before = train->acked, step = covered - before, at, last;
	__u64 since;

	if (f->generation == OURS) {
		/* Once some shared an acknowledgement, a lone one may have waited. */
		if (f->ours.shared == 1 || ack->acked > 1)
			chirp_train_push(train, covered - 1, ack->sent, ack->now);
		return;
	}
	/* Those that share it count as delayed as the newest, and as sent evenly since the packet before. */
	train->coarse += step > 1 ? step : 0;
	since = chirp_less(ack->sent, train->sent_at) / chirp_max(step, 1);
	for (at = 0; at < LONGEST_SHARED && before + at < covered; at++) {
		last = before + at + 1 == covered;
		load_acked(&f->branch, train, before + at, last ? ack->sent : train->sent_at + since,
			   last ? ack->now : train->arrived_at + since, 0);
	}
}

enum collected { NOTHING, TRAIN_BACK, CHIRP_BACK };

/*
 * What the acknowledgement shows of the oldest train in flight, and what that train has shown if all of it is back. A function of
 * its own for the verifier, so that it looks at it once.
 */
__attribute__((noinline)) int chirp_collect(struct flow *f)
{
	__u32 covered, mss, leaves;
	struct chirp_train *train;
	int whole, newest;

	if (!f)
		return NOTHING;
	train = train_of(f, f->oldest);
	leaves = f->oldest == f->next;
	mss = f->ack.mss;
	if ((leaves && (!f->planned || !train->sent)) || !is_before(train->start, f->ack.una) || !mss)
		return NOTHING;
	whole = !leaves && !is_before(f->ack.una, train->end);
	covered = whole ? train->plan.packets : chirp_min((f->ack.una - train->start) / mss, train->sent);
	if (f->disordered && is_before(train->start, f->disorder))
		train->spoilt = 1;
	if (covered > train->acked) {
		newest = !whole || f->ack.una == train->end;
		if (newest)
			train->marked += f->ack.marked;
		if (newest && f->ack.sent && (f->generation == OURS || train->kind == CHIRP_OF_GAPS))
			sample(f, train, covered);
		train->acked = covered;
	}
	if (leaves) {
		/* A burst of which the application had no more. */
		if (train->kind != CHIRP_OF_NO_GAPS || covered < train->sent)
			return NOTHING;
		train->plan.packets = train->sent;
		f->planned = 0;
		f->next++;
	} else if (!whole) {
		return NOTHING;
	}
	f->oldest++;
	if (f->generation == OURS) {
		adaptive_returned(&f->ours, train);
		return TRAIN_BACK;
	}
	if (train->kind != CHIRP_OF_GAPS)
		return TRAIN_BACK;
	load_returned(&f->branch, train, f->ack.interval);
	return CHIRP_BACK;
}

/* Trains that the acknowledgement covers. Answers whether a chirp was among them. */
static __always_inline int collect(struct flow *f)
{
	int at, what, chirps = 0;

	for (at = 0; at < TRAINS_AN_ACK; at++) {
		what = chirp_collect(f);
		if (what == NOTHING)
			break;
		chirps |= what == CHIRP_BACK;
	}
	return chirps;
}

/* As adaptive_after_ack, and a function of its own for the same reason. */
__attribute__((noinline)) __u64 chirp_after_ack(struct flow *f)
{
	return f ? adaptive_after_ack(&f->ours, f->ack.acked, f->ack.rtt) : 0;
}

/* DCTCP's share of marked packets (RFC 8257, section 3.3), in Linux's integers (dctcp_update_alpha). */
static __always_inline void observe_marks(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *s = private(sk);
	__u32 acked, marked, alpha = s->alpha;

	if (is_before(tp->snd_una, s->window_end))
		return;
	acked = tp->delivered - s->delivered;
	marked = tp->delivered_ce - s->delivered_ce;
	alpha -= alpha >> 4 ? alpha >> 4 : alpha;
	alpha += ((__u64)marked << 6) / chirp_max(acked, 1);
	s->alpha = chirp_min(alpha, 1024);
	s->delivered = tp->delivered;
	s->delivered_ce = tp->delivered_ce;
	s->window_end = tp->snd_nxt;
}

/* An acknowledgement has arrived; losses are not marked yet. */
SEC("struct_ops")
void BPF_PROG(chirp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	__u32 window, slow;
	__u64 found;

	observe_marks(sk);
	if (!f)
		return;
	count(f, tp);
	gather(f, tp);
	f->ack.now = tp->tcp_mstamp * 1000;
	f->ack.rtt = sample->rtt_us > 0 ? sample->rtt_us * 1000ull : 0;
	f->ack.sent = f->ack.rtt ? f->ack.now - f->ack.rtt : 0;
	f->ack.interval = tp->rate_delivered ? tp->rate_interval_us * 1000ull / tp->rate_delivered : 0;
	f->ack.acked = sample->pkts_acked;
	f->ack.marked = tp->delivered_ce - f->delivered_ce;
	f->ack.una = tp->snd_una;
	f->ack.mss = tp->mss_cache;
	f->delivered_ce = tp->delivered_ce;
	f->answered |= f->ack.acked > 0;
	if (tp->sacked_out) {
		f->disordered = 1;
		f->disorder = tp->snd_nxt;
	} else if (!is_before(tp->snd_una, f->disorder)) {
		f->disordered = 0;
	}
	if (f->generation == OURS) {
		if (f->ack.marked) {
			f->marked_at = f->ack.now;
			f->ours.marks = 1;
		}
		if (f->stage == CHIRP_CHIRPING) {
			adaptive_shared(&f->ours, f->ack.acked);
			adaptive_marked(&f->ours, f->ack.marked);
			collect(f);
		}
		found = chirp_after_ack(f);
		if (!found)
			return;
		window = packets_of(found, CHIRP_SMALLEST_WINDOW);
		if (f->ours.stage == CHIRP_TRANSITION) {
			f->stage = CHIRP_TRANSITION;
			f->oldest = f->next;
			f->planned = 0;
			f->window = window;
			return;
		}
		slow = f->ours.stage == CHIRP_SLOW;
	} else {
		if (f->stage != CHIRP_CHIRPING)
			return;
		load_clock(&f->branch, f->ack.now, f->ack.acked);
		if (!collect(f))
			return;
		window = load_end(&f->branch);
		if (!window)
			return;
		slow = f->branch.slow;
	}
	end(sk, f, slow ? CHIRP_SLOW : CHIRP_OVER);
	tp->snd_cwnd = window;
	tp->snd_ssthresh = slow ? SSTHRESH_INFINITE : window;
}

/* The kernel grows the window: outside of recovery and of the round trip after a mark. */
SEC("struct_ops")
void BPF_PROG(chirp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	__u64 unmarked;

	if (f && (f->stage == CHIRP_CHIRPING || f->stage == CHIRP_TRANSITION))
		return;
	if (f && private(sk)->policy == CUBIC) {
		char cubic[] = "cubic";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic));
		return;
	}
	tcp_reno_cong_avoid(sk, ack, acked);
	if (!f)
		return;
	f->window = tp->snd_cwnd;
	unmarked = tp->tcp_mstamp * 1000 - f->marked_at;
	if (f->stage == CHIRP_OVER && f->generation == OURS && f->ours.marks &&
	    BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) &&
	    adaptive_resumes(&f->ours, unmarked, (__u64)tp->snd_cwnd << CHIRP_SHIFT)) {
		f->marked_at = tp->tcp_mstamp * 1000;
		f->stage = CHIRP_CHIRPING;
		f->lost = 0;
		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
	}
}

/* A mark, a loss or the timer asks for a smaller window. */
SEC("struct_ops")
__u32 BPF_PROG(chirp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	__u32 window = tp->snd_cwnd;

	/* What the load vouches for. The window itself is one packet more than is in flight. */
	if (f && f->stage == CHIRP_CHIRPING)
		window = f->generation == OURS ? packets_of(f->ours.load, CHIRP_SMALLEST_WINDOW) : load_found(&f->branch);
	else if (f && f->stage == CHIRP_TRANSITION)
		window = f->window;
	if (f)
		f->window_before = window;
	/* A loss halves (RFC 8257, section 3.5); set_state() corrects it where it was a mark. */
	return chirp_max(window - window / 2, CHIRP_SMALLEST_WINDOW);
}

SEC("struct_ops")
void BPF_PROG(chirp_set_state, struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);
	int chirping = f && (f->stage == CHIRP_CHIRPING || f->stage == CHIRP_TRANSITION);
	__u32 window = tp->snd_cwnd;

	if (state == TCP_CA_CWR) {
		if (chirping)
			tp->snd_ssthresh = SSTHRESH_INFINITE;
		else
			tp->snd_ssthresh = chirp_max(window - ((__u64)window * private(sk)->alpha >> 11),
						     CHIRP_SMALLEST_WINDOW);
		return;
	}
	if (chirping && (state == TCP_CA_RECOVERY || state == TCP_CA_LOSS)) {
		f->lost = 1;
		end(sk, f, CHIRP_OVER);
	}
}

/* The last repair was needless. */
SEC("struct_ops")
__u32 BPF_PROG(chirp_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f = flow_of(sk);

	if (!f)
		return chirp_max(tp->snd_cwnd, tp->prior_cwnd);
	if (f->lost && f->generation == OURS && f->ours.gap) {
		f->lost = 0;
		f->stage = f->ours.stage = CHIRP_CHIRPING;
		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
	}
	return chirp_max(tp->snd_cwnd, f->window_before);
}

/* DCTCP's receiver (RFC 8257, section 3.2): each change from marked to not marked is acknowledged at once. */
SEC("struct_ops")
void BPF_PROG(chirp_cwnd_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *s = private(sk);
	__u8 ce = event == CA_EVENT_ECN_IS_CE;

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	if (s->ce != ce) {
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (s->ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, s->prior_rcv_nxt);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	s->prior_rcv_nxt = tp->rcv_nxt;
	s->ce = ce;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

static __always_inline void init(struct sock *sk, enum generation generation, enum policy policy)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct state fresh = {
		.generation = generation,
		.policy = policy,
		.prior_rcv_nxt = tp->rcv_nxt,
		.window_end = tp->snd_nxt,
		.delivered = tp->delivered,
		.delivered_ce = tp->delivered_ce,
	};

	*private(sk) = fresh;
	bpf_sk_storage_delete(&chirp_flows, sk);
}

SEC("struct_ops")
void BPF_PROG(chirp_init, struct sock *sk)
{
	init(sk, OURS, DCTCP);
}

SEC("struct_ops")
void BPF_PROG(chirp_branch_init, struct sock *sk)
{
	init(sk, BRANCH, DCTCP);
}

SEC("struct_ops")
void BPF_PROG(chirp_cubic_init, struct sock *sk)
{
	init(sk, OURS, CUBIC);
}

/* The connection ends, or another controller follows. */
SEC("struct_ops")
void BPF_PROG(chirp_release, struct sock *sk)
{
	struct flow *f = flow_of(sk);
	__u32 window = tcp_sk(sk)->snd_cwnd;

	if (!f)
		return;
	if (f->stage == CHIRP_CHIRPING || f->stage == CHIRP_TRANSITION)
		end(sk, f, CHIRP_OVER);
	tcp_sk(sk)->snd_cwnd = chirp_max(window, CHIRP_INITIAL);
}

#define CHIRP_OPS(its_name, its_init)                          \
	SEC(".struct_ops.link")                                \
	struct tcp_congestion_ops its_name = {                 \
		.ssthresh = (void *)chirp_ssthresh,            \
		.cong_avoid = (void *)chirp_cong_avoid,        \
		.set_state = (void *)chirp_set_state,          \
		.cwnd_event = (void *)chirp_cwnd_event,        \
		.pkts_acked = (void *)chirp_pkts_acked,        \
		.min_tso_segs = (void *)chirp_min_tso_segs,    \
		.undo_cwnd = (void *)chirp_undo_cwnd,          \
		.init = (void *)its_init,                      \
		.release = (void *)chirp_release,              \
		.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN, \
		.name = #its_name,                             \
	}

CHIRP_OPS(pl_chirp, chirp_init);
CHIRP_OPS(pl_chirp_r, chirp_branch_init);
CHIRP_OPS(pl_chirp_cubic, chirp_cubic_init);
