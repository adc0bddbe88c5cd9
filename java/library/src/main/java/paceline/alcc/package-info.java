/**
 * A congestion controller above TCP: a socket that hands TCP no more than the controller permits, and so keeps the delay low.
 *
 * <p>{@link paceline.alcc.AlccSocket} is used like {@link java.net.Socket}; {@link paceline.alcc.AlccChannel} is for NIO. The
 * peer has to speak the same frames (docs/design/alcc-wire.md), since an application on Android cannot see the acknowledgements
 * of TCP itself: {@code paceline alcc serve} does. One thread serves all sockets of a process, and sleeps while they are idle.
 */
package paceline.alcc;
