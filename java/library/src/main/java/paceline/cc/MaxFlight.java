package paceline.cc;

/**
 * maxFS, the largest flight since the window last fell, and the bound that it puts on a window's growth
 * (draft-ietf-ccwg-ratelimited-increase; {@code core/cc/src/max_flight.rs}). Everything in packets.
 */
final class MaxFlight {
    /** maxFS. */
    double largest;
    private double present;

    MaxFlight(double window) {
        largest = window;
    }

    /** A flow begins anew, at this initial window. */
    void reset(double window) {
        largest = window;
        present = 0.0;
    }

    /** {@code inFlight} is in flight now under this window. */
    void update(double inFlight, double window) {
        present = inFlight;
        largest = Math.max(largest, counted(inFlight, window));
    }

    /** The window that an event leaves which found it at {@code before} and asks for {@code window}. */
    double bound(double before, double window, double limit) {
        if (window > before) {
            return Math.min(window, Math.max(limit, before));
        }
        if (window < before) {
            largest = counted(present, window);
        }
        return window;
    }

    /** The window is back where it was when maxFS was {@code before}. */
    void restore(double before) {
        largest = Math.max(largest, before);
    }

    /** Packets have another size: {@code scale} of them are what one was. */
    void scale(double scale) {
        largest *= scale;
        present *= scale;
    }

    /** A flight counts as the window where no further packet fits, and where it is larger. */
    private static double counted(double inFlight, double window) {
        return inFlight + 1.0 > window ? window : inFlight;
    }
}
