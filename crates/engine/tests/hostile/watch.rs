//! The deadline of a case. If a case takes too long, a watchdog prints the description of the case and aborts the
//! process.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Maximum CPU time of a case in seconds: a thousand times what a case usually takes, however busy the machine is.
const CASE_CPU_SECONDS: u64 = 30;
/// Maximum wall time of a case in seconds, for a case that blocks without using CPU time.
const CASE_SECONDS: u64 = 300;

static NOW: Mutex<Option<Begun>> = Mutex::new(None);

struct Begun {
    at: Instant,
    cpu_at: Duration,
    about: String,
}

/// Starts the watchdog thread.
pub fn start() {
    std::thread::spawn(|| loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = NOW.lock().expect("no holder panics");
        let Some(begun) = now.as_ref() else { continue };
        let (seconds, cpu_seconds) = (begun.at.elapsed().as_secs(), (cpu_time() - begun.cpu_at).as_secs());
        if seconds > CASE_SECONDS || cpu_seconds > CASE_CPU_SECONDS {
            // Write directly to the standard error: output that the test harness captures is lost when the process
            // aborts.
            let said = format!("{}: not done after {seconds} s ({cpu_seconds} s of CPU time)\n", begun.about);
            std::io::stderr().write_all(said.as_bytes()).expect("the standard error is open");
            std::process::abort();
        }
    });
}

/// Marks the start of a case and the end of the previous case.
pub fn begin(about: String) {
    *NOW.lock().expect("no holder panics") = Some(Begun { at: Instant::now(), cpu_at: cpu_time(), about });
}

/// Returns the CPU time of all threads, from fields 14 and 15 of /proc/self/stat, which are in hundredths of a second.
/// If that file does not exist, returns 0, so that only the wall time counts.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * numbers.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>())
}
