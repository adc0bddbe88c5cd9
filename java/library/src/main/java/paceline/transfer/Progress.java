package paceline.transfer;

import paceline.alcc.AlccStatistics;

/** Is informed of a transfer's progress. */
public interface Progress {
    /**
     * Bytes have moved: called about ten times a second, by the thread that runs the transfer or by that of the sockets.
     *
     * @param done bytes that the other end has, those of earlier attempts included
     * @param total bytes of the whole; -1 when it has no end
     * @param statistics of the connection
     */
    void progress(long done, long total, AlccStatistics statistics);
}
