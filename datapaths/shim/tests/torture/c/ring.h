// As much of io_uring(7) as one operation at a time takes, without liburing.
#include <linux/io_uring.h>

struct ring {
    int fd;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
    struct io_uring_params layout;
    long (*call)(long, long, long, long, long, long, long);
};

static struct ring ring_new(long (*call)(long, long, long, long, long, long, long)) {
    struct ring ring = {.call = call};
    ring.fd = call(SYS_io_uring_setup, 4, (long)&ring.layout, 0, 0, 0, 0);
    if (ring.fd < 0) skip("the kernel permits no io_uring");
    const struct io_uring_params *layout = &ring.layout;
    size_t submissions = layout->sq_off.array + layout->sq_entries * sizeof(unsigned);
    size_t completions = layout->cq_off.cqes + layout->cq_entries * sizeof(struct io_uring_cqe);
    int shared = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    ring.submissions = mmap(NULL, submissions, shared, flags, ring.fd, IORING_OFF_SQ_RING);
    ring.completions = mmap(NULL, completions, shared, flags, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, layout->sq_entries * sizeof *ring.entries, shared, flags, ring.fd, IORING_OFF_SQES);
    if (ring.submissions == MAP_FAILED || ring.completions == MAP_FAILED || (void *)ring.entries == MAP_FAILED) fail("io_uring's mmap");
    return ring;
}

// Does it and waits: the result, or the negative error.
static int ring_do(struct ring *ring, struct io_uring_sqe entry) {
    unsigned *tail = (unsigned *)(ring->submissions + ring->layout.sq_off.tail);
    unsigned index = *tail & *(unsigned *)(ring->submissions + ring->layout.sq_off.ring_mask);
    ring->entries[index] = entry;
    ((unsigned *)(ring->submissions + ring->layout.sq_off.array))[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    long entered = ring->call(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
    if (entered < 0) return entered;
    unsigned *head = (unsigned *)(ring->completions + ring->layout.cq_off.head);
    unsigned done = *head & *(unsigned *)(ring->completions + ring->layout.cq_off.ring_mask);
    int result = ((struct io_uring_cqe *)(ring->completions + ring->layout.cq_off.cqes))[done].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static int ring_write(struct ring *ring, int fd, const void *bytes, unsigned count) {
    return ring_do(ring, (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)bytes, .len = count});
}
