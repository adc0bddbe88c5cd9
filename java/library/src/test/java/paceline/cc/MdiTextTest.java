package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class MdiTextTest {
    private static final String HEADER = "2,0,5,5,1,0,0,1\n";

    private static String error(String text) {
        return assertThrows(IllegalArgumentException.class, () -> MdiText.read(text)).getMessage();
    }

    @Test
    void settingsStandInComments() {
        String settings = "# made by hand\r\n# epoch_ms: 7\n# rtt_ms: 0.5\n# delay: level\n#up:3\n# down: 0.5\n";
        MdiTable table = MdiText.read(settings + HEADER + "0,0\r\n0.25, 0.75");
        assertEquals(7 * Units.MILLISECOND, table.epoch);
        assertEquals(500_000, table.rtt);
        assertTrue(table.level);
        assertEquals(3.0, table.up);
        assertEquals(0.5, table.down);
        // The empty block is answered by the other state's.
        Pcg64 random = new Pcg64(1);
        int fives = 0;
        for (int draw = 0; draw < 10_000; draw++) {
            fives += table.draw(0, 0, random) == 5.0 ? 1 : 0;
        }
        assertEquals(0.75, fives / 10_000.0, 0.02);
    }

    @Test
    void whatIsNoModelIsNamedWithLineAndColumn() {
        assertEquals(
                "line 1, column 1: the text ends before its header NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep; is it a model, "
                        + "and whole?",
                error(""));
        assertEquals(
                "line 1, column 1: 'x' is not a whole number; a model begins with NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep",
                error("x"));
        assertEquals(
                "line 2, column 1: epoch_ms is '0' and must be a whole number from 1 to 1000",
                error("# a\n# epoch_ms: 0\n" + HEADER));
        assertEquals(
                "line 1, column 1: rtt_ms is '0' and must be from 0.1 to 60000", error("# rtt_ms: 0\n" + HEADER));
        assertEquals(
                "line 1, column 1: the header counts 3 values, and its bounds and step give 2; correct one of them",
                error("3,0,5,5,1,0,0,1\n"));
        assertEquals(
                "line 1, column 6: no axis goes from 1 to 0 by 1; give min <= max, a step of 1 or more that divides max - "
                        + "min, all within 1000000",
                error("2,0,5,5,1,1,0,1\n"));
        assertEquals("line 2, column 2: '1.5' is not a number from 0 to 1", error(HEADER + "0,1.5\n0,0\n"));
        assertEquals("line 3, column 1: the row has 1 numbers instead of 2", error(HEADER + "0,1\n0\n"));
        assertEquals(
                "line 3, column 1: the text ends before row 2 of 2; is it a model, and whole?", error(HEADER + "0,1\n"));
        assertEquals(
                "line 5, column 1: there is more text behind the last of 2 rows", error(HEADER + "0,1\n1,0\n\n0,1\n"));
        assertEquals(
                "line 1, column 1: 1000 delay moves times 1001 window moves are more than 1024 states; take larger steps",
                error("1001,0,1000,1,1000,1,1000,1\n"));
    }
}
