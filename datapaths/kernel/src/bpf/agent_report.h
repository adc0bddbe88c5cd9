/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the module "paceline" knows of its flows, the maps that it shares with the agent, and its reports. Included by agent.bpf.c
 * alone.
 */
#ifndef PACELINE_AGENT_REPORT_H
#define PACELINE_AGENT_REPORT_H

/* Flows at a time; the agent may change it before loading. */
#define SLOTS 16384
#define AF_INET6 10

/* What is known of a flow that has a slot. */
struct flow {
	u64 reported;
	u64 first_sent;
	u64 last_sent;
	/* When the kernel was last about to send, and what it had sent by then. */
	u64 called;
	u32 next;
	u32 generation;
	/* The agent that it was announced to; 0: none. */
	u32 agent;
	/* The turn of the answer when the agent fell silent: none before is applied. */
	u32 lapse_turn;
	u32 lapsed;
	u32 lost;
	u32 rtt;
	u32 rtt_least;
	u32 recoveries;
	u32 echoes;
	u32 timeouts;
	u32 undone;
	u32 user;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct answer);
} pl_answers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} pl_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} pl_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct flow);
} pl_flows SEC(".maps");

/* Slots that no flow has. The agent fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, SLOTS);
	__type(value, u32);
} pl_free SEC(".maps");

/* Slots that each user's flows have. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} pl_users SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} pl_ring SEC(".maps");

/* It was steered at its last event. */
#define STEERED 1
/* CUBIC's window is being reduced. */
#define GLIDING 2
/* The module switched pacing on. */
#define PACED 4

struct steered {
	struct cubic cubic;
	/* The slot, plus one; 0: none. */
	u32 slot;
	/* Of tcp_sock at the acknowledgement before. */
	u32 delivered;
	u32 lost;
	u32 una;
	/* Packets delivered since the reduction began. */
	u32 glided;
	u32 flags;
};

PRIVATE_STATE(struct steered)

static __always_inline struct control *control_of_agent(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&pl_control, &key);
}

/*
 * Whether a user may have one slot more, which is theirs then. Root may have all; and where there are more users than places to count
 * them, those that came last.
 */
static __always_inline int take_share(u32 user, const struct control *control)
{
	u32 none = 0, *slots;

	if (!user)
		return 1;
	slots = bpf_map_lookup_elem(&pl_users, &user);
	if (!slots) {
		bpf_map_update_elem(&pl_users, &user, &none, BPF_NOEXIST);
		slots = bpf_map_lookup_elem(&pl_users, &user);
	}
	if (!slots)
		return 1;
	if (*slots >= control->most)
		return 0;
	__sync_fetch_and_add(slots, 1);
	return 1;
}

static __always_inline void give_back_share(u32 user)
{
	u32 *slots = bpf_map_lookup_elem(&pl_users, &user);

	if (slots && *slots)
		__sync_fetch_and_sub(slots, 1);
}

static __always_inline struct counts *counts(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&pl_counts, &key);
}

#define count(what)                                            \
	do {                                                   \
		struct counts *all = counts();                 \
		if (all)                                       \
			__sync_fetch_and_add(&all->what, 1);   \
	} while (0)

static __always_inline struct flow *flow_of(struct sock *sk)
{
	u32 slot = private(sk)->slot - 1;

	return private(sk)->slot ? bpf_map_lookup_elem(&pl_flows, &slot) : 0;
}

static __always_inline u8 state_of(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

static __always_inline u32 smoothed(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

static __always_inline int agent_lives(const struct control *control, u64 now)
{
	/* A sign of life later than the event is one as well. */
	return control->agent && (__s64)(now - control->alive) < (__s64)AGENT_SILENCE;
}

static __always_inline u32 episodes(const struct flow *flow)
{
	return flow->recoveries + flow->echoes + flow->timeouts;
}

/* The answer that counts now, if one does. */
static __always_inline struct answer *answer_to(struct sock *sk, struct flow *flow, struct control *control)
{
	u32 slot = private(sk)->slot - 1;
	struct answer *answer;

	answer = bpf_map_lookup_elem(&pl_answers, &slot);
	if (!answer || answer->generation != flow->generation || !answer->window || (answer->flags & ANSWER_DECLINED))
		return 0;
	if (!agent_lives(control, tcp_sk(sk)->tcp_mstamp)) {
		if (!flow->lapsed) {
			flow->lapsed = 1;
			flow->lapse_turn = answer->turn;
			count(lapses);
		}
		return 0;
	}
	if (flow->lapsed && answer->turn == flow->lapse_turn)
		return 0;
	flow->lapsed = 0;
	return answer;
}

/* What was sent since the kernel was last about to send left then. */
static __always_inline void note_departures(const struct tcp_sock *tp, struct flow *flow)
{
	if (tp->snd_nxt == flow->next)
		return;
	flow->next = tp->snd_nxt;
	if (!flow->first_sent)
		flow->first_sent = flow->called;
	flow->last_sent = flow->called;
}

static __noinline void fill(struct report *report, struct sock *sk, struct flow *flow, u8 kind, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 in_flight = packets_in_flight(tp);

	note_departures(tp, flow);
	report->at = tp->tcp_mstamp;
	report->first_sent = flow->first_sent;
	report->last_sent = flow->last_sent;
	report->slot = private(sk)->slot - 1;
	report->generation = flow->generation;
	report->kind = kind;
	report->state = state;
	report->backoff = inet_csk(sk)->icsk_retransmits;
	report->flags = 0;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		report->flags = REPORT_CWND_LIMITED;
	else if ((s32)(tp->write_seq - tp->snd_nxt) < (s32)tp->mss_cache && in_flight < tp->snd_cwnd &&
		 tp->lost_out <= tp->retrans_out)
		report->flags = REPORT_APP_LIMITED;
	report->mss = tp->mss_cache;
	report->una = tp->snd_una;
	report->next = tp->snd_nxt;
	report->written = tp->write_seq;
	report->highest = tp->rack.end_seq;
	report->sacked = tp->sacked_out;
	report->in_flight = in_flight;
	report->delivered = tp->delivered;
	report->marked = tp->delivered_ce;
	report->lost = tp->lost;
	report->resent = tp->total_retrans;
	report->recoveries = flow->recoveries;
	report->echoes = flow->echoes;
	report->timeouts = flow->timeouts;
	report->undone = flow->undone;
	report->rtt = flow->rtt;
	report->rtt_least = flow->rtt_least;
	report->srtt = smoothed(tp);
	report->window = tp->snd_cwnd;

	flow->reported = tp->tcp_mstamp;
	flow->lost = tp->lost;
	flow->first_sent = 0;
	flow->last_sent = 0;
	flow->rtt = 0;
	flow->rtt_least = 0;
}

/* The agent learns of the flow. */
static __noinline void announce(struct sock *sk, struct flow *flow, struct control *control, u8 state)
{
	struct sock_common *common = &sk->__sk_common;
	struct greeting *greeting;

	greeting = bpf_ringbuf_reserve(&pl_ring, sizeof(*greeting), 0);
	if (!greeting) {
		count(no_room);
		return;
	}
	if (!flow->rtt) {
		/* That of the handshake. */
		flow->rtt = smoothed(tcp_sk(sk));
		flow->rtt_least = flow->rtt;
	}
	fill(&greeting->report, sk, flow, REPORT_NEW, state);
	greeting->family = common->skc_family;
	greeting->local_port = common->skc_num;
	greeting->remote_port = bpf_ntohs(common->skc_dport);
	greeting->unused = 0;
	greeting->padding = 0;
	greeting->namespace = common->skc_net.net->ns.inum;
	__builtin_memset(greeting->local, 0, sizeof(greeting->local));
	__builtin_memset(greeting->remote, 0, sizeof(greeting->remote));
	if (common->skc_family == AF_INET6) {
		bpf_probe_read_kernel(greeting->local, 16, &common->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(greeting->remote, 16, &common->skc_v6_daddr);
	} else {
		__builtin_memcpy(greeting->local, &(u32){ common->skc_rcv_saddr }, 4);
		__builtin_memcpy(greeting->remote, &(u32){ common->skc_daddr }, 4);
	}
	flow->agent = control->agent;
	bpf_ringbuf_submit(greeting, 0);
}

/* Something happened. `urgent`: the agent is to know at once. */
static __noinline void report(struct sock *sk, struct flow *flow, struct control *control, u8 state, int urgent)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 slot = private(sk)->slot - 1;
	struct answer *answer;
	struct report *room;
	u32 interval = 0;

	if (!agent_lives(control, tp->tcp_mstamp))
		return;
	if (flow->agent != control->agent) {
		announce(sk, flow, control, state);
		return;
	}
	answer = bpf_map_lookup_elem(&pl_answers, &slot);
	if (answer && answer->generation == flow->generation) {
		if (answer->flags & ANSWER_DECLINED)
			return;
		interval = smaller(answer->interval, AGENT_INTERVAL_MAX);
	}
	/* With nothing outstanding no acknowledgement would bring the report of this one. */
	if (!urgent && tp->packets_out && tp->lost == flow->lost && tp->tcp_mstamp - flow->reported < interval)
		return;
	room = bpf_ringbuf_reserve(&pl_ring, sizeof(*room), 0);
	if (!room) {
		count(no_room);
		return;
	}
	fill(room, sk, flow, REPORT_STATE, state);
	bpf_ringbuf_submit(room, 0);
}

#endif
