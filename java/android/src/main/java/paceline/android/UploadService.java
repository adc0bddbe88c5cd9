package paceline.android;

import android.app.job.JobInfo;
import android.app.job.JobParameters;
import android.app.job.JobScheduler;
import android.app.job.JobService;
import android.content.ComponentName;
import android.content.Context;
import android.content.Intent;
import android.os.PersistableBundle;
import java.io.File;
import java.util.HashMap;
import java.util.Map;
import paceline.alcc.AlccStatistics;

/**
 * An example: uploads in the background that survive a change of network and a restart of the application. The system starts a
 * job when there is a network, stops it when the network goes, and starts it again after a back-off; the upload goes on where it
 * was. Progress is broadcast inside the application.
 *
 * <p>In the manifest: {@code <service android:name="paceline.android.UploadService"
 * android:permission="android.permission.BIND_JOB_SERVICE"/>} and the permission {@code INTERNET}.
 */
public class UploadService extends JobService {
    /** Broadcast as bytes move, and at the end; with the extras below. */
    public static final String PROGRESS = "paceline.android.PROGRESS";
    /** Extra, long: bytes that the server has. */
    public static final String DONE = "done";
    /** Extra, long: bytes of the file. */
    public static final String TOTAL = "total";
    /** Extra, long: median RTT in nanoseconds. */
    public static final String RTT = "rtt";
    /** Extra, string: DONE, AGAIN or FAILED once the attempt has ended. */
    public static final String OUTCOME = "outcome";
    /** Extra, string: why, in one line. */
    public static final String WHY = "why";

    /** First wait after a failed attempt; it doubles, up to five hours (JobInfo). 10 s is the least that the system takes. */
    private static final long BACK_OFF_MILLIS = 10_000;

    private final Map<Integer, UploadTask> tasks = new HashMap<>();

    /**
     * Asks the system for an upload.
     *
     * @param context of the application
     * @param id of the job; the same number replaces an earlier job
     * @param file to be uploaded; it has to stay until the end
     * @param host of the server
     * @param port of the server
     * @param token null for none
     * @param tls whether the server speaks TLS
     * @param unmetered whether to wait for a network that costs nothing
     */
    public static void schedule(Context context, int id, File file, String host, int port, String token, boolean tls,
            boolean unmetered) {
        PersistableBundle extras = new PersistableBundle();
        extras.putString("file", file.getPath());
        extras.putString("host", host);
        extras.putInt("port", port);
        extras.putString("token", token);
        extras.putInt("tls", tls ? 1 : 0);
        JobInfo job = new JobInfo.Builder(id, new ComponentName(context, UploadService.class))
                .setRequiredNetworkType(unmetered ? JobInfo.NETWORK_TYPE_UNMETERED : JobInfo.NETWORK_TYPE_ANY)
                .setBackoffCriteria(BACK_OFF_MILLIS, JobInfo.BACKOFF_POLICY_EXPONENTIAL)
                .setExtras(extras)
                .build();
        ((JobScheduler) context.getSystemService(Context.JOB_SCHEDULER_SERVICE)).schedule(job);
    }

    @Override
    public boolean onStartJob(final JobParameters job) {
        PersistableBundle extras = job.getExtras();
        UploadTask task = new UploadTask(new File(extras.getString("file")), extras.getString("host"), extras.getInt("port"),
                extras.getString("token"), "copa", extras.getInt("tls") != 0, new Report(job));
        tasks.put(job.getJobId(), task);
        new Thread(task, "upload " + job.getJobId()).start();
        return true;
    }

    /** The network is gone, or the system needs the phone for something else. */
    @Override
    public boolean onStopJob(JobParameters job) {
        UploadTask task = tasks.remove(job.getJobId());
        if (task != null) {
            task.stop();
        }
        // Again, when there is a network.
        return true;
    }

    @Override
    public void onDestroy() {
        for (UploadTask task : tasks.values()) {
            task.stop();
        }
        tasks.clear();
        super.onDestroy();
    }

    /** Informs the application and the system. */
    private final class Report implements UploadTask.Listener {
        private final JobParameters job;

        Report(JobParameters job) {
            this.job = job;
        }

        private Intent intent() {
            return new Intent(PROGRESS).setPackage(getPackageName()).putExtra("job", job.getJobId());
        }

        @Override
        public void progress(long done, long total, AlccStatistics now) {
            sendBroadcast(intent().putExtra(DONE, done).putExtra(TOTAL, total).putExtra(RTT, now.rttMedian));
        }

        @Override
        public void ended(UploadTask.Outcome outcome, String why) {
            sendBroadcast(intent().putExtra(OUTCOME, outcome.name()).putExtra(WHY, why));
            jobFinished(job, outcome == UploadTask.Outcome.AGAIN);
        }
    }
}
