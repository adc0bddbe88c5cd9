/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libpacelineicn: named content by the calls of a socket, on Linux. A name certifies the bytes that it names, so that it does not matter
 * who serves them: every byte that is read has been verified.
 *
 *     int fd = paceline_icn_open(name, "10.0.0.1:4871,10.0.0.2:4871", 0, PACELINE_ICN_END);
 *     while ((count = paceline_icn_read(fd, buffer, sizeof(buffer))) > 0)
 *         ...
 *     paceline_icn_close(fd);
 *
 * Calls that fail return -1 with the reason in errno, and paceline_icn_error() says it in one line. All functions may be called
 * from any thread; none from a signal handler, and none in a child of fork(2) with a descriptor of its parent.
 */
#ifndef PACELINE_ICN_H
#define PACELINE_ICN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The last byte of a range that goes to the object's end. */
#define PACELINE_ICN_END UINT64_MAX

/*
 * Opens an object, or its bytes from `first` to `last`, both included; what is behind the object's end is left out. `sources` are
 * routers that may have it, as HOST:PORT with commas between, all of which are asked at once; or "resolver=HOST:PORT": those that this
 * says. Blocks until the manifest is there and verified, 30 s at most without an answer.
 *
 * Returns a descriptor that is readable (POLLIN) when bytes are there, or the end, or an error; for poll(2), select(2) and epoll(7).
 * fcntl(2) makes it non-blocking. Bytes come while the program reads; when it does not, nothing more is asked for.
 *
 * EINVAL: no name, no address, or a range that starts past the end. ENOENT: no source has it. ETIMEDOUT: none answers. ECONNREFUSED:
 * no program listens there. EBADMSG: the sources' copies are damaged. EMFILE, ENOMEM, ...: as of socket(2).
 */
int paceline_icn_open(const char *name, const char *sources, uint64_t first, uint64_t last);

/*
 * read(2): up to `len` bytes, in order, verified; 0 at the end. Besides its errors those of paceline_icn_open, when the fetch fails after
 * it began: what came before is read first. EAGAIN: nothing is there, and the descriptor is non-blocking.
 */
ssize_t paceline_icn_read(int fd, void *buf, size_t len);

/* What an object is. */
struct paceline_icn_stat {
	uint64_t length;       /* Bytes of the object, whatever the range */
	char media_type[208];  /* Such as video/mp4; empty where the publisher does not say */
	char name[64];         /* Of a signed name: the object that it stands for */
	uint64_t reserved[8];  /* 0 */
};

/* Fills in what an open object is. EBADF: no such descriptor. EFAULT: no place to fill in. */
int paceline_icn_stat(int fd, struct paceline_icn_stat *stat);

/* close(2): ends the fetch, whatever is left of it. EBADF: no such descriptor. */
int paceline_icn_close(int fd);

/*
 * One line that says what the last failure in this thread was about. Empty when there was none. Valid until the thread's next
 * call of this library.
 */
const char *paceline_icn_error(void);

#ifdef __cplusplus
}
#endif

#endif
