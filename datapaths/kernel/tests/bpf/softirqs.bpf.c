// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What one processor spends on softirqs (NET_TX, NET_RX, TASKLET, HRTIMER) and on interrupts while none of the given processes runs on
 * it, and how many packets each poll of its devices brings. For benchmarks (`examples/softirqs.rs`): what runs while one of them does is
 * in its own processor time.
 *
 * Source: Linux include/trace/events/irq.h, include/trace/events/napi.h, arch/x86/include/asm/trace/irq_vectors.h.
 */
#include "../../src/bpf/types.h"

#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual MIT/GPL";

enum { NET_TX = 2, NET_RX = 3, TASKLET = 6, HRTIMER = 8 };

/* Read by user space as 64-bit numbers in this order; times in nanoseconds. */
struct softirq_counts {
	__u64 softirq;
	__u64 softirqs;
	__u64 interrupt;
	__u64 interrupts;
	/* Polls that brought something, and packets of these. */
	__u64 polls;
	__u64 packets;
	/* When what runs now began; zero where it is not counted. */
	__u64 softirq_since;
	__u64 interrupt_since;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct softirq_counts);
} softirq_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} softirq_processor SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} softirq_processes SEC(".maps");

struct arguments {
	__u64 of[3];
};

/* The counts, where this is the processor. */
static __always_inline struct softirq_counts *counts_here(void)
{
	__u32 first = 0;
	__u32 *processor = bpf_map_lookup_elem(&softirq_processor, &first);

	if (!processor || *processor != bpf_get_smp_processor_id())
		return 0;
	return bpf_map_lookup_elem(&softirq_counts, &first);
}

/* The time, or zero where one of the processes runs. */
static __always_inline __u64 begin(void)
{
	__u32 process = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&softirq_processes, &process) ? 0 : bpf_ktime_get_ns();
}

static __always_inline int counted(__u64 vector)
{
	return vector == NET_TX || vector == NET_RX || vector == TASKLET || vector == HRTIMER;
}

SEC("raw_tracepoint/softirq_entry")
int softirq_entry(struct arguments *arguments)
{
	struct softirq_counts *counts = counts_here();

	if (counts && counted(arguments->of[0]))
		counts->softirq_since = begin();
	return 0;
}

SEC("raw_tracepoint/softirq_exit")
int softirq_exit(struct arguments *arguments)
{
	struct softirq_counts *counts = counts_here();

	if (!counts || !counted(arguments->of[0]) || !counts->softirq_since)
		return 0;
	counts->softirq += bpf_ktime_get_ns() - counts->softirq_since;
	counts->softirqs++;
	counts->softirq_since = 0;
	return 0;
}

SEC("raw_tracepoint/napi_poll")
int napi_poll(struct arguments *arguments)
{
	struct softirq_counts *counts = counts_here();
	int work = arguments->of[1];

	if (counts && work > 0) {
		counts->polls++;
		counts->packets += work;
	}
	return 0;
}

static __always_inline int interrupt_begins(void)
{
	struct softirq_counts *counts = counts_here();

	if (counts)
		counts->interrupt_since = begin();
	return 0;
}

static __always_inline int interrupt_ends(void)
{
	struct softirq_counts *counts = counts_here();

	if (counts && counts->interrupt_since) {
		counts->interrupt += bpf_ktime_get_ns() - counts->interrupt_since;
		counts->interrupts++;
		counts->interrupt_since = 0;
	}
	return 0;
}

#define INTERRUPT(name)                                                            \
	SEC("raw_tracepoint/" #name "_entry")                                      \
	int name##_entry(void *arguments) { return interrupt_begins(); }           \
	SEC("raw_tracepoint/" #name "_exit")                                       \
	int name##_exit(void *arguments) { return interrupt_ends(); }

/* Of x86 alone. */
INTERRUPT(local_timer)
INTERRUPT(call_function_single)
INTERRUPT(reschedule)
