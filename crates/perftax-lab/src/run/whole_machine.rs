//! What all CPUs do, whoever runs there: looked at for so long, again and again, by what the kernel says of itself.

use std::time::{Duration, Instant};

use perftax_doc::WorkloadProfile;
use perftax_doc::observation::Run;
use perftax_doc::steps::Setting;
use perftax_doc::tasks::Tasks;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::sampler::{Sampling, ring_pages_within_rights};
use perftax_pmu::sys::{OpenEvent, Target};
use perftax_pmu::{Error, Result};

use super::code::CodeLook;
use super::monitor::{check_running, too_much_stolen};
use super::survey::{Survey, profile, variation};
use super::tasks::{Begins, RING_PAGES, Seen};
use crate::system::steal_ns;

/// From one look at whether somebody interrupts to the next.
const LOOK: Duration = Duration::from_millis(20);
/// USER_HZ, fixed at 100 a second for user space (proc(5)).
const TICK_S: f64 = 0.01;

/// What `/proc/stat` and `/proc/vmstat` say (proc(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Ticks of each CPU by number: in user mode and in the kernel, interrupts with it.
    busy: Vec<(u32, [u64; 2])>,
    switches: u64,
    created: u64,
    faults: u64,
}

impl Reading {
    fn now() -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(Error::file(path));
        Ok(Self::of(&read("/proc/stat")?, &read("/proc/vmstat")?))
    }

    fn of(stat: &str, vmstat: &str) -> Self {
        let mut reading = Self::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next() else { continue };
            let numbers: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
            let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
            match name.strip_prefix("cpu").map(str::parse::<u32>) {
                // user nice system idle iowait irq softirq
                Some(Ok(cpu)) => reading.busy.push((cpu, [at(0) + at(1), at(2) + at(5) + at(6)])),
                _ if name == "ctxt" => reading.switches = at(0),
                _ if name == "processes" => reading.created = at(0),
                _ => {}
            }
        }
        let faults = vmstat.lines().find_map(|line| line.strip_prefix("pgfault "));
        reading.faults = faults.and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        reading
    }

    /// The run between two readings, and the CPU time of each of the CPUs that are there in both.
    fn until(&self, now: &Self, elapsed_s: f64, round: u32) -> Run {
        let before = |cpu: u32| self.busy.iter().find(|(other, _)| *other == cpu).map(|(_, ticks)| *ticks);
        let of_cpu = |(cpu, ticks): &(u32, [u64; 2])| {
            let before = before(*cpu)?;
            Some([0, 1].map(|mode| ticks[mode].saturating_sub(before[mode]) as f64 * TICK_S))
        };
        let by_cpu: Vec<[f64; 2]> = now.busy.iter().filter_map(of_cpu).collect();
        Run {
            elapsed_s,
            user_s: by_cpu.iter().map(|[user, _]| user).sum(),
            system_s: by_cpu.iter().map(|[_, system]| system).sum(),
            voluntary_switches: now.switches.saturating_sub(self.switches),
            minor_faults: now.faults.saturating_sub(self.faults),
            cpu_s_per_cpu: by_cpu.iter().map(|[user, system]| user + system).collect(),
            ..Run::nothing("off", round)
        }
    }
}

/// Looks at all CPUs so often, so long each, and once with counters of events open on each. `between` is called before each look.
///
/// # Errors
/// Where an event may not be counted on CPUs, or nothing ran at all.
pub fn survey_machine(time: Duration, survey: &Survey, mut between: impl FnMut(u32) -> Result<()>) -> Result<WorkloadProfile> {
    between(0)?;
    let mut counters = Vec::new();
    for event in &survey.events {
        let open = |&cpu: &u32| OpenEvent::open(event, &Sampling::COUNTING, Target::Cpu(cpu), None);
        counters.push((event, survey.cpus.iter().map(open).collect::<Result<Vec<_>>>()?));
    }
    let targets: Vec<Target> = survey.cpus.iter().map(|&cpu| Target::Cpu(cpu)).collect();
    let ring_pages = ring_pages_within_rights(RING_PAGES, targets.len());
    let code = survey.code.as_ref().map(|clock| CodeLook::begin(clock, &targets, Begins::Now, ring_pages)).transpose()?;
    let (before, began) = (Reading::now()?, Instant::now());
    counters.iter().flat_map(|(_, by_cpu)| by_cpu).try_for_each(OpenEvent::enable)?;
    wait(time)?;
    counters.iter().flat_map(|(_, by_cpu)| by_cpu).try_for_each(OpenEvent::disable)?;
    let now = Reading::now()?;
    let code = code.map(CodeLook::finish).transpose()?.flatten();
    let mut counted = before.until(&now, began.elapsed().as_secs_f64(), 0);
    for (event, by_cpu) in counters {
        let readings = by_cpu.iter().map(OpenEvent::read).collect::<Result<Vec<_>>>()?;
        check_running(event, &readings)?;
        counted.counts.insert(event.name.clone(), readings.iter().map(|reading| reading.value).sum());
    }
    let tasks = Tasks { processes: now.created.saturating_sub(before.created), ..Tasks::default() };
    let mut runs = Vec::new();
    for round in 0..survey.runs {
        between(round + 1)?;
        let (before, began, steal_before) = (Reading::now()?, Instant::now(), steal_ns(None)?);
        wait(time)?;
        let mut run = before.until(&Reading::now()?, began.elapsed().as_secs_f64(), round);
        run.steal_s = steal_ns(None)?.saturating_sub(steal_before) as f64 * 1e-9;
        run.discarded = too_much_stolen(&run, run.elapsed_s);
        runs.push(run);
    }
    if runs.iter().all(|run| run.user_s + run.system_s == 0.0) {
        return Err(Error::Discarded {
            why: format!(
                "nothing ran on any CPU in {} looks of {:.1} s: there is nothing to sample",
                runs.len(),
                time.as_secs_f64()
            ),
            remedy: format!("look while there is work to do, or longer: {} 60s", Setting::For),
        });
    }
    let cpu_s: Vec<f64> = WorkloadProfile::measured(&runs).into_iter().map(|run| run.user_s + run.system_s).collect();
    let mut profile = profile(WorkloadProfile::all_cpus(), Seen { tasks, code }, &counted, runs);
    profile.variation = variation(&cpu_s);
    // Of whole CPUs nobody knows how many threads there are, but that there is one on each at the most.
    profile.threads = survey.cpus.len() as u32;
    Ok(profile)
}

fn wait(time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    loop {
        check_interrupted()?;
        let now = Instant::now();
        if now >= until {
            return Ok(());
        }
        std::thread::sleep(LOOK.min(until - now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  30 0 10 900 5 1 1 0 0 0\ncpu0 10 0 5 400 5 1 0 0 0 0\ncpu1 20 0 5 500 0 0 1 0 0 0\nintr 5 1\nctxt 1000\nprocesses 50\n";
    const NOW: &str = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 60 10 25 400 5 3 2 0 0 0\ncpu1 20 0 5 700 0 0 1 0 0 0\ncpu2 9 9 9 9 9 9 9\nctxt 1700\nprocesses 53\n";

    #[test]
    fn what_all_cpus_did_is_read() {
        let (before, now) = (Reading::of(BEFORE, "pgfault 10\n"), Reading::of(NOW, "nr_free 1\npgfault 25\npgmajfault 1\n"));
        let run = before.until(&now, 2.0, 1);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(run.user_s, 0.6) && close(run.system_s, 0.24), "{run:?}");
        // A CPU that came meanwhile is none of it.
        assert_eq!(run.cpu_s_per_cpu.len(), 2);
        assert!(close(run.cpu_s_per_cpu[0], 0.84) && close(run.cpu_s_per_cpu[1], 0.0));
        assert_eq!((run.voluntary_switches, run.minor_faults, now.created - before.created), (700, 15, 3));
    }
}
