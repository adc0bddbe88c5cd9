package paceline.cc;

/** Takes a controller's own variables, for logs and plots: {@link Controller#describe}. */
public interface Variables {
    /**
     * One variable.
     *
     * @param name its name, which stays the same from version to version; the unit is in the name unless it is a plain
     *     number or packets
     * @param value its value, always finite
     */
    void take(String name, double value);
}
