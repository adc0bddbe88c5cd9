/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libalcc: a congestion controller of the application's choice above ordinary TCP sockets, on Linux. Neither the peer nor
 * the kernel changes, and no byte is added to the wire.
 *
 *     alcc_options("cc=copa");              // or the environment: PACELINE_CC=copa
 *     int fd = alcc_accept(listener, NULL, NULL);
 *     alcc_send(fd, data, length, 0);
 *     alcc_close(fd);
 *
 * Each call has the signature of the system call whose name it carries, and its errors: -1, and the reason in errno. What
 * differs is said at each. A descriptor is the TCP socket's own: read from it, ask and set its options as always. What is
 * written to it goes through this library: bytes given to write(2) would overtake those in the queue,
 * and where that is found, the connection is reset.
 *
 * The library takes a connection on at the first alcc_send (or alcc_sendmsg, alcc_writable, alcc_stats), so that a child
 * process may serve a connection that its parent accepted. A descriptor that did not come from alcc_accept or alcc_connect, or
 * is not a TCP socket, is left to the system call.
 *
 * All functions may be called from any thread; none from a signal handler.
 */
#ifndef ALCC_H
#define ALCC_H

#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets the options of all connections of this process, before the first of them: NAME=VALUE with blanks between, such as
 * "cc=verus mode=queue queue=4MB linger=5s". A name is that of an environment variable in lower case without PACELINE_;
 * what the text does not name comes from the environment, else it has its default (see alcc(3)). NULL: the environment
 * alone, as without this call.
 *
 * EINVAL: a name or value is wrong; alcc_error() says which. EBUSY: a connection has been taken on already.
 */
int alcc_options(const char *options);

/*
 * One line that says what the last failure in this thread was about, where errno alone does not: which option is wrong, why
 * a connection was not taken on. Empty when there was none. Valid until the thread's next call of this library.
 */
const char *alcc_error(void);

/*
 * accept(2) and accept4(2). Nothing is accepted when the library cannot do its part. Besides the errors of accept: EINVAL (the
 * options are wrong; see alcc_error), EAGAIN and ENOMEM (no thread could be started), EMFILE.
 */
int alcc_accept(int fd, struct sockaddr *addr, socklen_t *addrlen);
int alcc_accept4(int fd, struct sockaddr *addr, socklen_t *addrlen, int flags);

/*
 * connect(2). A non-blocking socket gives EINPROGRESS as always: wait until poll(2) says POLLOUT, then ask SO_ERROR. Besides
 * the errors of connect: those of alcc_accept.
 */
int alcc_connect(int fd, const struct sockaddr *addr, socklen_t addrlen);

/*
 * send(2) and sendmsg(2), into the connection's queue, from which the controller hands on to TCP.
 *
 * Blocking: returns when all is in the queue, or after the time of SO_SNDTIMEO. Non-blocking (O_NONBLOCK or MSG_DONTWAIT):
 * takes what there is room for; EAGAIN when the queue is full. A failed connection shows here: ECONNRESET, ETIMEDOUT and
 * the like once, then EPIPE, with SIGPIPE unless MSG_NOSIGNAL is given. EINTR when a signal came before a byte was taken.
 *
 * MSG_MORE, MSG_EOR, MSG_DONTROUTE and MSG_CONFIRM have no effect. EOPNOTSUPP: MSG_OOB, MSG_ZEROCOPY, MSG_FASTOPEN, control
 * messages. The first call on a connection may also give: EINVAL (a controller of the lower TCP that the kernel does
 * not have; see alcc_error), EMFILE, ENOMEM.
 */
ssize_t alcc_send(int fd, const void *buf, size_t len, int flags);
ssize_t alcc_sendmsg(int fd, const struct msghdr *msg, int flags);

/*
 * setsockopt(2). Needed for SO_LINGER alone: while a connection's queue holds bytes, the socket itself has one of zero, so that
 * the connection is reset if the process is killed and its peer does not take a part for the whole. An SO_LINGER that is set
 * by setsockopt(2) before counts too; one of zero that is set by it meanwhile cannot be distinguished from the library's.
 */
int alcc_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

/* shutdown(2). SHUT_WR and SHUT_RDWR end the stream behind what is queued. */
int alcc_shutdown(int fd, int how);

/*
 * close(2). The descriptor is free at once; what is queued leaves in the background, for as long as the peer takes it. When
 * that has taken nothing for the time of the option linger (60 s), the rest is dropped and the connection is reset. With
 * SO_LINGER it is as with a socket: waits for the time given, and a time of 0 resets the connection and drops what is
 * queued. The end of the process by exit(3) waits for what is left in the background.
 */
int alcc_close(int fd);

/*
 * A descriptor that is ready for writing (POLLOUT) while the connection's queue has room: it stops when the queue is full
 * and is ready again when a quarter of it is free. For a set of poll(2), select(2) or epoll(7) in the connection's place;
 * the connection's own descriptor says nothing about the queue. Belongs to the library, valid until alcc_close; neither
 * read nor write nor close it. For a descriptor that is left to the system call, it is that descriptor.
 *
 * A connection that is in the care of the library may show POLLERR, because TCP's acknowledgements come by its error
 * queue. It means something only together with POLLHUP; alcc_poll takes it away.
 *
 * ENOTCONN: the connection is not established yet.
 */
int alcc_writable(int fd);

/*
 * poll(2), where POLLOUT of a connection means room in its queue.
 */
int alcc_poll(struct pollfd *fds, nfds_t nfds, int timeout);

/* What limits a connection. */
enum alcc_limit {
	ALCC_LIMIT_NOTHING = 0,
	ALCC_LIMIT_APPLICATION = 1, /* nothing more is written */
	ALCC_LIMIT_WINDOW = 2,      /* the controller's window is full */
	ALCC_LIMIT_PACING = 3,      /* its next sending time has not come */
	ALCC_LIMIT_LAYER_BELOW = 4  /* TCP takes no more */
};

/* How bytes reach TCP. */
enum alcc_mode {
	ALCC_MODE_QUEUE = 1,  /* through the queue, in chunks */
	ALCC_MODE_INLINE = 2, /* written to the kernel, whose pacing rate is set */
	ALCC_MODE_FRAMED = 3  /* through the queue, in frames that the library at the other end acknowledges */
};

/* Where acknowledgements come from. */
enum alcc_acks {
	ALCC_ACKS_STAMPS = 1, /* the socket's error queue */
	ALCC_ACKS_INFO = 2,   /* TCP_INFO */
	ALCC_ACKS_FRAMES = 3  /* the library at the other end */
};

/* State and counters of a connection. Times are in microseconds, 0: not known yet. */
struct alcc_stats {
	uint64_t age_us;        /* Time since it was taken on */
	uint64_t rate;          /* Delivery rate: the newest sample; bytes per second */
	uint64_t rtt_us;        /* The newest round-trip time of the network, without the time in TCP's own buffer where timestamps show it */
	uint64_t srtt_us;       /* Smoothed round-trip time */
	uint64_t min_rtt_us;    /* Smallest round-trip time; the newest less this is queueing */
	uint64_t below_us;      /* How long the newest acknowledged chunk waited in TCP's buffer before it left */
	uint64_t window;        /* The controller's window; bytes */
	uint64_t lower_window;  /* TCP's own window; bytes */
	uint64_t in_flight;     /* Passed to TCP and not yet acknowledged; bytes */
	uint64_t queued;        /* Written by the application and not yet passed to TCP (not in mode inline); bytes */
	uint64_t written;       /* Written by the application; bytes */
	uint64_t delivered;     /* Acknowledged since it was taken on; bytes */
	uint64_t chunks;        /* Chunks passed to TCP */
	uint64_t limited_below; /* Chunks for which TCP was the limit: it held back earlier ones, or had refused this one */
	uint64_t stamps_lost;   /* Chunks whose acknowledgement was seen in TCP_INFO because the kernel dropped the timestamp */
	uint64_t marked;        /* Samples of the round-trip time that cover a retransmission and were kept from the controller */
	uint64_t retransmits;   /* Segments that TCP sent again */
	uint64_t timeouts;      /* Timeouts of TCP */
	int32_t limited_by;     /* enum alcc_limit */
	int32_t mode;           /* enum alcc_mode */
	int32_t acks;           /* enum alcc_acks */
	int32_t reserved_word;  /* 0 */
	char controller[64];    /* NAME:KEY=VALUE, cut at 63 bytes */
	uint64_t reserved[8];   /* 0 */
};

/*
 * Fills in the state and counters of a connection. ENOTCONN: it is not established yet. EINVAL: it is left to the system
 * call. EBADF: no such descriptor. EFAULT: no place to fill in.
 */
int alcc_stats(int fd, struct alcc_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
