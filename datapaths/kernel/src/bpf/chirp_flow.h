/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A flow of the controllers of chirp.bpf.c: its memory, the trains that leave and return, and the gaps between their packets.
 */
#ifndef PACELINE_CHIRP_FLOW_H
#define PACELINE_CHIRP_FLOW_H

#include "dctcp_socket.h"

#include "chirp_adaptive.h"
#include "chirp_load.h"

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
/* Shortest gap: none would start no timer. */
#define SHORTEST_GAP 1000
#define NANOS_PER_SEC 1000000000ull
/*
 * Differences of delays that the hosts may have made: this part of the first gap, a sixteenth of the average, and at most this.
 * Our choice: half of the error that the gaps of a busy machine have at the 90th percentile. Without it a chirp of five packets
 * finds up to a fifth too little.
 */
#define SLACK_PART 32
#define SLACK_MAX 16000ull
/* SO_MAX_PACING_RATE was not set. */
#define NO_RATE (~0ul)

enum generation { OURS, BRANCH };
enum policy { DCTCP, CUBIC };

/* The private area: what a receiver needs too. */
struct state {
	struct dctcp dctcp;
	__u8 generation;
	__u8 policy;
	/* The flow has been given its memory, or could not have it. */
	__u8 begun;
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
	/* Bursts still to be sent. */
	__u8 bursts;
	__u8 stage;
	/* The train `next` is planned. */
	__u8 planned;
	__u8 answered;
	__u8 disordered;
	/* The stage that the last loss ended; CHIRP_OVER where it ended none of these. */
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

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&chirp_flows, sk, 0, 0);
}

static __always_inline struct chirp_train *train_of(struct flow *f, __u32 number)
{
	return &f->trains[number & (TRAINS - 1)];
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

static __always_inline void need_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Begins the flow's memory at its first packet. */
static __always_inline struct flow *begin(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *f;

	if (private(sk)->begun)
		return 0;
	private(sk)->begun = 1;
	f = bpf_sk_storage_get(&chirp_flows, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f)
		return 0;
	f->generation = private(sk)->generation;
	f->snd_nxt = tp->snd_nxt;
	f->segs_out = tp->data_segs_out;
	f->delivered_ce = tp->delivered_ce;
	f->next = f->oldest = 0;
	f->bursts = ADAPTIVE_BURSTS;
	f->stage = CHIRP_CHIRPING;
	f->planned = f->answered = f->disordered = 0;
	f->lost = CHIRP_OVER;
	if (f->generation == OURS)
		adaptive_init(&f->ours);
	else
		load_init(&f->branch);
	gather(f, tp);
	if (f->generation == BRANCH)
		load_open(&f->branch);
	tp->snd_ssthresh = SSTHRESH_INFINITE;
	need_pacing(sk);
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
	/* A flow that has asked for a rate is paced on. */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == NO_RATE)
		sk->sk_pacing_status = SK_PACING_NONE;
}

static __always_inline int is_chirping(const struct flow *f)
{
	return f->stage == CHIRP_CHIRPING || f->stage == CHIRP_TRANSITION;
}

/* The loss that ended chirping was spurious: ours goes on where it was. */
static __always_inline void go_on(struct sock *sk, struct flow *f)
{
	f->stage = f->ours.stage = f->lost;
	f->bursts = f->ours.bursts = 0;
	f->lost = CHIRP_OVER;
	need_pacing(sk);
}

/* The flow sends again with nothing in flight. The timeout is Linux's (__tcp_set_rto). */
static __always_inline void restart(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 idle = chirp_less(tp->tcp_clock_cache, tp->tcp_wstamp_ns), rto = ((tp->srtt_us >> 3) + tp->rttvar_us) * 1000ull;
	__u64 window = adaptive_restarts(&f->ours, idle, rto, (__u64)f->window << CHIRP_SHIFT);

	if (!window)
		return;
	f->stage = CHIRP_RESUMING;
	tp->snd_cwnd = packets_of(window, CHIRP_SMALLEST_WINDOW);
	need_pacing(sk);
}

/* Takes in what has left since the last call. */
static __always_inline void count(struct flow *f, const struct tcp_sock *tp)
{
	__u32 bytes = tp->snd_nxt - f->snd_nxt, segs = tp->data_segs_out - f->segs_out, mss = tp->mss_cache, packets;
	struct chirp_train *train = train_of(f, f->next);

	if (!bytes) {
		/* Something was sent again. */
		if (segs) {
			f->disordered = 1;
			f->disorder = tp->snd_nxt;
		}
		f->segs_out = tp->data_segs_out;
		return;
	}
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

	/* With nothing in flight no acknowledgement comes that could make room. */
	if (!packets_in_flight(tp))
		f->oldest = f->next;
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
		train->onset.slack = chirp_min(train->plan.first / SLACK_PART, SLACK_MAX);
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
	if ((leaves && (!f->planned || !train->sent)) || !after(f->ack.una, train->start) || !mss)
		return NOTHING;
	whole = !leaves && !after(train->end, f->ack.una);
	if (whole)
		covered = train->plan.packets;
	else if (f->ack.una == f->snd_nxt)
		covered = train->sent;
	else
		covered = chirp_min((f->ack.una - train->start) / mss, train->sent);
	if (f->disordered && after(f->disorder, train->start))
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
	return f ? adaptive_after_ack(&f->ours, f->ack.acked, f->ack.rtt, f->window) : 0;
}

#endif
