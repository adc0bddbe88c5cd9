package paceline.android;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import android.app.Application;
import android.app.job.JobInfo;
import android.app.job.JobParameters;
import android.app.job.JobScheduler;
import android.content.Context;
import android.content.Intent;
import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.List;
import java.util.Random;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.Shadows;
import org.robolectric.annotation.Config;
import org.robolectric.shadow.api.Shadow;
import org.robolectric.shadows.ShadowJobService;
import org.robolectric.util.ReflectionHelpers;
import paceline.transfer.TestServer;

/** The service on Android's own classes of the lowest level and of 34. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = {21, 34}, manifest = Config.NONE)
public class UploadServiceTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private final Application application = RuntimeEnvironment.getApplication();
    private final byte[] bytes = new byte[1_000_000];
    private TestServer server;
    private UploadService service;
    private ShadowJobService shadow;
    private JobParameters job;

    @Before
    public void start() throws Exception {
        new Random(1).nextBytes(bytes);
        File file = folder.newFile("photo.jpg");
        try (OutputStream out = new FileOutputStream(file)) {
            out.write(bytes);
        }
        server = new TestServer();
        UploadService.schedule(application, 7, file, "127.0.0.1", server.address().getPort(), null, false, false);
        JobScheduler scheduler = (JobScheduler) application.getSystemService(Context.JOB_SCHEDULER_SERVICE);
        List<JobInfo> jobs = scheduler.getAllPendingJobs();
        assertEquals(1, jobs.size());
        assertEquals(UploadService.class.getName(), jobs.get(0).getService().getClassName());
        service = Robolectric.buildService(UploadService.class).create().get();
        shadow = Shadow.extract(service);
        job = Shadow.newInstanceOf(JobParameters.class);
        ReflectionHelpers.setField(job, "jobId", 7);
        ReflectionHelpers.setField(job, "extras", jobs.get(0).getExtras());
    }

    @After
    public void stop() throws Exception {
        service.onDestroy();
        server.close();
    }

    private void awaitFinished() throws Exception {
        for (int i = 0; i < 6000 && !shadow.getIsJobFinished(); i++) {
            Thread.sleep(10);
        }
        assertTrue(shadow.getIsJobFinished());
    }

    @Test
    public void aFileIsUploadedAndProgressIsBroadcast() throws Exception {
        assertTrue(service.onStartJob(job));
        awaitFinished();
        assertFalse(shadow.getIsRescheduleNeeded());
        assertArrayEquals(bytes, server.files.get("photo.jpg"));
        List<Intent> said = Shadows.shadowOf(application).getBroadcastIntents();
        assertEquals("DONE", said.get(said.size() - 1).getStringExtra(UploadService.OUTCOME));
        assertEquals(bytes.length, said.get(said.size() - 2).getLongExtra(UploadService.DONE, 0));
    }

    @Test
    public void afterAFailureOfTheNetworkItIsTriedAgainAndGoesOn() throws Exception {
        server.killAfter = 500_000;
        service.onStartJob(job);
        awaitFinished();
        assertTrue(shadow.getIsRescheduleNeeded());
        assertEquals(1, server.parts.size());
        server.killAfter = Integer.MAX_VALUE;
        ReflectionHelpers.setField(shadow, "isJobFinished", false);
        service.onStartJob(job);
        awaitFinished();
        assertFalse(shadow.getIsRescheduleNeeded());
        assertArrayEquals(bytes, server.files.get("photo.jpg"));
        assertEquals(2, server.sessions.get());
    }

    @Test
    public void whenTheSystemStopsItItPausesAndGoesOn() throws Exception {
        server.pauseAt = 300_000;
        service.onStartJob(job);
        for (int i = 0; i < 3000 && !server.isPaused; i++) {
            Thread.sleep(10);
        }
        assertTrue("again, when there is a network", service.onStopJob(job));
        server.pauseAt = Integer.MAX_VALUE;
        for (int i = 0; i < 3000 && server.parts.isEmpty(); i++) {
            Thread.sleep(10);
        }
        assertFalse(shadow.getIsJobFinished());
        service.onStartJob(job);
        awaitFinished();
        assertArrayEquals(bytes, server.files.get("photo.jpg"));
    }

    @Test
    public void whatTheServerRefusesIsNotTriedAgain() throws Exception {
        server.secret = new byte[32];
        service.onStartJob(job);
        awaitFinished();
        assertFalse(shadow.getIsRescheduleNeeded());
    }
}
