//! The deadline of a case: a watcher ends the process with the case's description when one takes too long.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Processor time of this process: a thousand times what a case takes, however busy the machine is.
const CASE_CPU_SECONDS: u64 = 30;
/// For a case that waits and takes no processor time.
const CASE_SECONDS: u64 = 300;

static NOW: Mutex<Option<Begun>> = Mutex::new(None);

struct Begun {
    at: Instant,
    cpu_at: Duration,
    about: String,
}

/// Starts to watch.
pub fn start() {
    std::thread::spawn(|| loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = NOW.lock().expect("no holder panics");
        let Some(begun) = now.as_ref() else { continue };
        let (seconds, cpu_seconds) = (begun.at.elapsed().as_secs(), (cpu_time() - begun.cpu_at).as_secs());
        if seconds > CASE_SECONDS || cpu_seconds > CASE_CPU_SECONDS {
            // The tests' own output is lost when the process aborts.
            let said = format!("{}: not done after {seconds} s, {cpu_seconds} s of them at work\n", begun.about);
            std::io::stderr().write_all(said.as_bytes()).expect("the standard error is open");
            std::process::abort();
        }
    });
}

/// This begins now, and what was before has ended.
pub fn begin(about: String) {
    *NOW.lock().expect("no holder panics") = Some(Begun { at: Instant::now(), cpu_at: cpu_time(), about });
}

/// Of all threads, by the 12th and 13th number behind the name in /proc/self/stat, in hundredths of a second. Where
/// that file is not there, only the time on the clock counts.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * numbers.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>())
}
