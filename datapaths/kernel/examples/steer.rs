//! Steers every flow that selects `paceline` by one controller, until the end of the standard input. At each line of it, and at its
//! end, prints what that has cost since the line before: `... steer copa < /dev/tty`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "copa".to_owned());
    let spec: paceline_cc::Spec = name.parse()?;
    paceline_cc::datapath::TCP_AGENT.carries(&spec)?;
    // Then the kernel adds up what each program takes (kernel.bpf_stats_enabled).
    let _ = std::fs::write("/proc/sys/kernel/bpf_stats_enabled", "1");
    let agent = paceline_kernel::KernelAgent::start(move |_| Some(spec.clone()))?;
    println!("{name} steers what selects {}", paceline_kernel::AGENT.name);
    let mut lines = std::io::stdin().lines();
    loop {
        let start = (std::time::Instant::now(), of_thread(), of_programs());
        let more = lines.next().is_some();
        let span = start.0.elapsed().as_nanos() as f64;
        let share = |nanos: u64| 100.0 * nanos as f64 / span;
        let (thread, programs) = (share(of_thread() - start.1), share(of_programs().saturating_sub(start.2)));
        println!("{:.1} s: the agent's thread {thread:.2} %, the module {programs:.2} % of a core", span / 1e9);
        println!("{:?}", agent.figures());
        if !more {
            break;
        }
    }
    let _ = std::fs::write("/proc/sys/kernel/bpf_stats_enabled", "0");
    Ok(())
}

/// Nanoseconds that the agent's thread has run.
#[cfg(target_os = "linux")]
fn of_thread() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let agent = tasks.map(|task| task.path()).find(|task| read(task.join("comm")).trim() == "paceline-agent");
    agent.and_then(|task| read(task.join("schedstat")).split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Nanoseconds that programs of the module have run.
#[cfg(target_os = "linux")]
fn of_programs() -> u64 {
    let programs = libbpf_rs::query::ProgInfoIter::default();
    let ours = programs.filter(|program| program.name.as_encoded_bytes().starts_with(b"agent_"));
    ours.map(|program| program.run_time_ns).sum()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
