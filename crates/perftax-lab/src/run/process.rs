//! What a process does that runs already: it is looked at for so long, again and again, and goes on undisturbed.
//!
//! Meant is what `perf record -p` follows: its threads, and what they create from then on. Processes that it has created before are none of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use perftax_doc::WorkloadProfile;
use perftax_doc::observation::Run;
use perftax_doc::steps::Setting;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::process::{command_line, file_of, has_ended, refusal, threads};
use perftax_pmu::sys::process_cpu_ns;
use perftax_pmu::{Error, Result};

use super::monitor::{TASK_CLOCK, too_much_stolen};
use super::survey::{Survey, profile, variation};
use super::tasks::{Look, look_at_threads};
use crate::system::steal_ns;

/// From one look at whether it is there to the next.
const LOOK: Duration = Duration::from_millis(20);

/// What `/proc/PID/stat` says of time and faults (proc_pid_stat(5)), and the threads' files of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// CPU time by the scheduler's clock, ns.
    own_ns: u64,
    /// The same in clock ticks, by mode, which the kernel rounds down.
    user: u64,
    system: u64,
    minor_faults: u64,
    major_faults: u64,
    /// Voluntary and involuntary ones, by thread.
    switches: BTreeMap<i32, [u64; 2]>,
}

impl Reading {
    /// None where the process is gone.
    fn of(pid: u32) -> Option<Self> {
        let own_ns = process_cpu_ns(pid)?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may have blanks and brackets of its own.
        let fields: Vec<u64> = stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Field 3 is the first behind the name.
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let mut reading = Self {
            own_ns,
            user: field(14),
            system: field(15),
            minor_faults: field(10),
            major_faults: field(12),
            ..Self::default()
        };
        for tid in threads(pid) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
            let switches = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| named(&status, name));
            reading.switches.insert(tid, switches);
        }
        Some(reading)
    }

    /// The run between two readings. Threads that have ended meanwhile take their switches with them.
    fn until(&self, now: &Self, elapsed_s: f64, round: u32) -> Run {
        let ticks = |of: fn(&Self) -> u64| of(now).saturating_sub(of(self)) as f64;
        let cpu_s = now.own_ns.saturating_sub(self.own_ns) as f64 * 1e-9;
        let (user, system) = (ticks(|reading| reading.user), ticks(|reading| reading.system));
        let user_s = if user + system > 0.0 { cpu_s * user / (user + system) } else { cpu_s };
        let more = |of: fn(&Self) -> u64| of(now).saturating_sub(of(self));
        Run {
            elapsed_s,
            user_s,
            system_s: cpu_s - user_s,
            voluntary_switches: self.switches_until(now, 0),
            involuntary_switches: self.switches_until(now, 1),
            minor_faults: more(|reading| reading.minor_faults),
            major_faults: more(|reading| reading.major_faults),
            ..Run::nothing("off", round)
        }
    }
}

impl Reading {
    /// Switches of a kind of the threads that are there now, since the first reading or since they were created.
    fn switches_until(&self, now: &Self, kind: usize) -> u64 {
        let before = |tid: &i32| self.switches.get(tid).map_or(0, |switches| switches[kind]);
        now.switches.iter().map(|(tid, switches)| switches[kind].saturating_sub(before(tid))).sum()
    }
}

/// A number behind a name at the beginning of a line; 0 where there is none.
fn named(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Looks at a process `runs` times for so long with nothing open, and once with counters and what tells of new tasks. `between` is called before each.
///
/// # Errors
/// Where it does not run, ends meanwhile, or may not be looked at.
pub fn survey_process(
    pid: u32,
    time: Duration,
    survey: &Survey,
    mut between: impl FnMut(u32) -> Result<()>,
) -> Result<WorkloadProfile> {
    check_process(pid)?;
    between(0)?;
    let Survey { cpus, events, task_clock, dummy, .. } = survey;
    let look = Look { cpus, task_clock, dummy, events, code: survey.code.as_ref() };
    let mut own_s = 0.0;
    let (seen, counts) = look_at_threads(pid, &look, || {
        let before_ns = process_cpu_ns(pid);
        wait(pid, time, time)?;
        own_s =
            before_ns.zip(process_cpu_ns(pid)).map_or(0.0, |(before_ns, now_ns)| now_ns.saturating_sub(before_ns) as f64 * 1e-9);
        Ok(())
    })?;
    let by_cpu: Vec<f64> = counts.get(TASK_CLOCK).into_iter().flatten().map(|ns| *ns as f64 * 1e-9).collect();
    // What the processes used that it created in that look: its own clock does not know of them.
    let created_s = if seen.tasks.processes > 0 { (by_cpu.iter().sum::<f64>() - own_s).max(0.0) } else { 0.0 };
    let counts = counts.into_iter().map(|(name, by_cpu)| (name, by_cpu.iter().sum())).collect();
    let counted = Run { cpu_s_per_cpu: by_cpu, counts, ..Run::nothing("counting", 0) };
    let mut runs = Vec::new();
    for round in 0..survey.runs {
        between(round + 1)?;
        let (began, steal_before) = (Instant::now(), steal_ns(None)?);
        let before = Reading::of(pid).ok_or_else(|| ended(pid, began.elapsed(), time))?;
        wait(pid, time, time)?;
        let now = Reading::of(pid).ok_or_else(|| ended(pid, began.elapsed(), time))?;
        let mut run = before.until(&now, began.elapsed().as_secs_f64(), round);
        run.user_s += created_s;
        run.max_rss_bytes = resident_bytes(pid);
        run.steal_s = steal_ns(None)?.saturating_sub(steal_before) as f64 * 1e-9;
        run.discarded = too_much_stolen(&run, run.elapsed_s);
        runs.push(run);
    }
    if runs.iter().all(|run| run.user_s + run.system_s == 0.0) {
        return Err(Error::Discarded {
            why: format!(
                "process {pid} used no CPU time in {} looks of {:.1} s at it: there is nothing to sample",
                runs.len(),
                time.as_secs_f64()
            ),
            remedy: format!("look while it has work to do, or longer: {} 60s", Setting::For),
        });
    }
    let threads = threads(pid).len();
    let cpu_s: Vec<f64> = WorkloadProfile::measured(&runs).into_iter().map(|run| run.user_s + run.system_s).collect();
    let mut profile = profile(command_line(pid), seen, &counted, runs);
    // Looks are equally long whatever it does in them.
    profile.variation = variation(&cpu_s);
    profile.pid = Some(pid);
    profile.threads += u32::try_from(threads.saturating_sub(1)).unwrap_or(u32::MAX);
    Ok(profile)
}

/// Whether a process can be looked at: it runs, and is a process, and whose it is.
///
/// # Errors
/// Where one of that is not so.
pub fn check_process(pid: u32) -> Result<()> {
    let wrong = |needed: String| Err(Error::Argument { argument: Setting::Process.name(), value: pid.to_string(), needed });
    if has_ended(pid) {
        return wrong("the number of a process that runs".into());
    }
    let group = named(&std::fs::read_to_string(file_of(pid, "status")).unwrap_or_default(), "Tgid:");
    if group != u64::from(pid) && group != 0 {
        return wrong(format!("a process's number: that is one of the threads of process {group}"));
    }
    refusal(pid).map_or(Ok(()), Err)
}

fn wait(pid: u32, left: Duration, whole: Duration) -> Result<()> {
    let until = Instant::now() + left;
    loop {
        check_interrupted()?;
        let now = Instant::now();
        if now >= until {
            return Ok(());
        }
        if has_ended(pid) {
            return Err(ended(pid, whole - (until - now), whole));
        }
        std::thread::sleep(LOOK.min(until - now));
    }
}

fn ended(pid: u32, after: Duration, of: Duration) -> Error {
    Error::Discarded {
        why: format!("process {pid} ended {:.1} s into a look of {:.1} s at it", after.as_secs_f64(), of.as_secs_f64()),
        remedy: format!("shorter looks with {}; or give its command instead, and it is run as often as needed", Setting::For),
    }
}

/// The largest resident set of its life, bytes; 0 where that is not told.
fn resident_bytes(pid: u32) -> u64 {
    named(&std::fs::read_to_string(file_of(pid, "status")).unwrap_or_default(), "VmHWM:") * 1024
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn what_a_process_did_is_the_difference_of_two_readings() {
        let pid = std::process::id();
        let before = Reading::of(pid).unwrap();
        let began = Instant::now();
        let mut sum = 0u64;
        while process_cpu_ns(pid).unwrap() - before.own_ns < 200_000_000 {
            sum = sum.wrapping_mul(3).wrapping_add(1);
        }
        std::hint::black_box(sum);
        std::thread::sleep(Duration::from_millis(2));
        let run = before.until(&Reading::of(pid).unwrap(), began.elapsed().as_secs_f64(), 0);
        // Other tests' threads are part of this process.
        assert!(run.user_s + run.system_s >= 0.2, "{run:?}");
        assert!(run.voluntary_switches > 0, "{run:?}");
    }

    #[test]
    fn a_thread_that_ends_takes_only_its_own_switches_with_it() {
        let reading = |switches: &[(i32, u64)]| Reading {
            switches: switches.iter().map(|(tid, voluntary)| (*tid, [*voluntary, 0])).collect(),
            ..Reading::default()
        };
        let before = reading(&[(1, 10), (2, 1_000_000)]);
        let run = before.until(&reading(&[(1, 17), (3, 5)]), 1.0, 0);
        assert_eq!((run.voluntary_switches, run.involuntary_switches), (12, 0));
    }

    #[test]
    fn names_of_lines_are_whole() {
        let status = "VmHWM:\t  123 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(named(status, "voluntary_ctxt_switches:"), 7);
        assert_eq!(named(status, "nonvoluntary_ctxt_switches:"), 9);
        assert_eq!((named(status, "VmHWM:"), named(status, "VmRSS:")), (123, 0));
    }
}
