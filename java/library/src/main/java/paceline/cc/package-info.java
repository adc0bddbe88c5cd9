/**
 * Congestion controllers as pure state machines: the caller brings the events, the clock and the random seed, and asks how
 * many bytes may be in flight and when the next packet may leave. No clock, no thread, no socket, no file.
 *
 * <p>Times are {@code long} nanoseconds since an origin that the caller picks, sizes {@code long} bytes, rates {@code long}
 * bytes/s; {@link java.lang.Long#MAX_VALUE} stands for never or without end. The Rust crate {@code paceline-cc} has the same
 * controllers, and both give the same answers to the same events.
 */
package paceline.cc;
