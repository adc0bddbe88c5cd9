package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class ControllersTest {
    private static String error(String spec) {
        return assertThrows(SpecException.class, () -> Controllers.create(spec, new Env())).getMessage();
    }

    @Test
    void everyOneBuildsFromItsDefaults() {
        assertEquals(Arrays.asList("reno", "cubic", "bbr", "copa", "mdi"), Controllers.names());
        for (String name : Controllers.names()) {
            assertEquals(14480, Controllers.create(name, new Env()).window(), name);
        }
    }

    @Test
    void errorsAreThoseOfRust() {
        assertEquals("unknown controller 'rno'; did you mean reno?", error("rno"));
        assertEquals("unknown controller 'westwood'; known are reno, cubic, bbr, copa, mdi", error("westwood"));
        assertEquals("controller 'copa' has no parameter 'dleta'; did you mean delta?", error("copa:dleta=3"));
        assertEquals("controller 'copa': delta=nan is not a number from 0.001 to 10", error("copa:delta=nan"));
        assertEquals("controller 'copa': delta=1f is not a number from 0.001 to 10", error("copa:delta=1f"));
        assertEquals("controller 'copa': mode=fast is not one of auto, default, competitive", error("copa:mode=fast"));
        assertEquals("controller 'copa': parameter 'delta' is given twice; keep one", error("copa:delta=1,delta=2"));
        assertEquals("controller 'bbr': 'fast' is not of the form key=value", error("bbr:fast"));
        assertEquals("controller 'bbr': probe_rtt=0 is not a number from 0.1 to 1000000", error("bbr:probe_rtt=0"));
        assertTrue(error("cubic:ssthresh=9").startsWith("controller 'cubic': ssthresh does not apply to start=hystart"));
        assertTrue(error("copa:" + new String(new char[99]).replace('\0', 'x')).contains("xxx…' is not of the form"));
    }

    @Test
    void aModelIsGivenByItsUserAlone() {
        assertTrue(error("mdi:model=own.csv").endsWith(
                "model=own.csv is not one of verus, copa, sprout, or a file of this machine that its user names"));
        ModelSource source = name -> "1,0,0,1,1,0,0,1\n0.5\n";
        String sum = assertThrows(SpecException.class, () -> Controllers.create("mdi:model=own.csv", new Env(), source))
                .getMessage();
        assertEquals(
                "controller 'mdi': model=own.csv: line 2, column 1: the block that begins here sums to 0.5, "
                        + "and must sum to 1 or be all 0; normalise it, or train it again",
                sum);
        ModelSource missing = name -> {
            throw new IOException("no such file");
        };
        assertEquals(
                "controller 'mdi': model=own.csv: no such file",
                assertThrows(SpecException.class, () -> Controllers.create("mdi:model=own.csv", new Env(), missing))
                        .getMessage());
        assertEquals(14480, Controllers.create("mdi:model=copa,up=3", new Env()).window());
    }
}
