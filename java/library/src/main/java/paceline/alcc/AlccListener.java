package paceline.alcc;

/** Is informed of a connection's progress. */
public interface AlccListener {
    /**
     * Bytes have moved. Called at most ten times a second and never while the connection is idle, by the thread that serves the
     * sockets: return soon.
     *
     * @param statistics of the connection
     */
    void progress(AlccStatistics statistics);
}
