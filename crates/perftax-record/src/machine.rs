//! What a look at the whole machine tells: how busy its CPUs are, and how often they switch (`/proc/stat`; proc(5)).

/// For how much of the time whoever wanted a CPU found none free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    /// At most: that of the CPU that idled most.
    pub most: f64,
    /// If CPUs were busy each for itself.
    pub about: f64,
}

/// Looks at the machine from time to time.
#[derive(Debug, Default)]
pub struct MachineLook {
    before: Option<Stat>,
    switches: u64,
    /// What the CPUs that are watched had worked by the last look, in ticks; none while nobody looked.
    worked: Option<u64>,
    /// How busy it was of late; none while nobody knows.
    pub busy: Option<Busy>,
}

/// Ticks of a CPU, of 10 ms as a rule, over which it is known how busy it was.
const ENOUGH_TICKS: u64 = 8;

impl MachineLook {
    /// Context switches of all CPUs since the last look; none where the machine does not tell.
    pub fn look(&mut self, cpus: &[u32]) -> Option<u64> {
        let now = Stat::parse(&std::fs::read_to_string("/proc/stat").ok()?, cpus)?;
        let switches = now.switches.saturating_sub(std::mem::replace(&mut self.switches, now.switches));
        match &self.before {
            None => {
                self.before = Some(now);
                return None;
            }
            Some(before) if now.ticks_since(before) >= ENOUGH_TICKS => {
                self.busy = now.since(before).or(self.busy);
                self.before = Some(now);
            }
            Some(_) => {}
        }
        Some(switches)
    }
}

/// What `/proc/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stat {
    /// Of each CPU that may be used: all of its time, and what of it was idle, in ticks.
    cpus: Vec<(u64, u64)>,
    switches: u64,
}

impl MachineLook {
    /// CPU time that was used on these CPUs since this was last asked, ns; 0 the first time.
    pub fn worked_ns(&mut self, cpus: &[u32]) -> u64 {
        /// USER_HZ (proc(5)): a hundred a second on every architecture that perf events are on.
        const TICK_NS: u64 = 10_000_000;
        let stat = std::fs::read_to_string("/proc/stat").ok().and_then(|text| Stat::parse(&text, cpus));
        let Some(worked) = stat.map(|stat| stat.cpus.iter().map(|(all, idle)| all - idle).sum::<u64>()) else { return 0 };
        let before = self.worked.replace(worked).unwrap_or(worked);
        worked.saturating_sub(before) * TICK_NS
    }
}

impl Stat {
    fn parse(text: &str, wanted: &[u32]) -> Option<Self> {
        let mut stat = Self::default();
        for line in text.lines() {
            let mut fields = line.split_whitespace();
            match fields.next()? {
                "ctxt" => stat.switches = fields.next()?.parse().ok()?,
                cpu if cpu.starts_with("cpu") && cpu.len() > 3 => {
                    if !wanted.contains(&cpu[3..].parse().ok()?) {
                        continue;
                    }
                    // user, nice, system, idle, waiting for a disk; guests are in user already.
                    let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
                    stat.cpus.push((ticks.iter().sum(), ticks.get(3)? + ticks.get(4)?));
                }
                _ => {}
            }
        }
        (!stat.cpus.is_empty()).then_some(stat)
    }

    fn since(&self, before: &Self) -> Option<Busy> {
        let (mut most, mut about) = (1.0_f64, 1.0_f64);
        for ((all, idle), (all_before, idle_before)) in self.cpus.iter().zip(&before.cpus) {
            let (all, idle) = (all.checked_sub(*all_before)?, idle.saturating_sub(*idle_before));
            if all == 0 {
                return None;
            }
            let busy = 1.0 - (idle as f64 / all as f64).clamp(0.0, 1.0);
            most = most.min(busy);
            about *= busy;
        }
        Some(Busy { most, about })
    }

    /// The fewest that passed on any of them.
    fn ticks_since(&self, before: &Self) -> u64 {
        let passed = self.cpus.iter().zip(&before.cpus).map(|((all, _), (before, _))| all.saturating_sub(*before));
        passed.min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    const BEFORE: &str = "cpu  10 0 10 180 0 0 0 0 0 0\ncpu0 5 0 5 90 0 0 0 0 0 0\ncpu1 5 0 5 90 0 0 0 0 0 0\nctxt 1000\n";

    #[test]
    fn a_cpu_that_idles_leaves_room() {
        let before = Stat::parse(BEFORE, &[0, 1]).unwrap();
        let after = Stat::parse("cpu0 95 0 15 90 0 0 0 0 0 0\ncpu1 45 0 15 120 10 0 0 0 0 0\nctxt 1700\n", &[0, 1]).unwrap();
        let busy = after.since(&before).unwrap();
        assert!((busy.most - 5.0 / 9.0).abs() < 1e-9 && (busy.about - 5.0 / 9.0).abs() < 1e-9, "{busy:?}");
        assert_eq!((after.switches - before.switches, after.ticks_since(&before)), (700, 90));
        // On the other CPU alone there is none.
        let one = |text: &str| Stat::parse(text, &[0]).unwrap();
        let busy = one("cpu0 95 0 15 90 0 0 0 0 0 0\nctxt 1700\n").since(&one(BEFORE)).unwrap();
        assert_eq!((busy.most, busy.about), (1.0, 1.0));
    }

    #[test]
    fn this_machine_tells() {
        let cpus = perftax_pmu::guard::allowed_cpus().unwrap();
        let mut look = MachineLook::default();
        assert_eq!((look.look(&cpus), look.busy), (None, None));
        let began = std::time::Instant::now();
        while look.busy.is_none() && began.elapsed() < std::time::Duration::from_secs(30) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(look.look(&cpus).is_some_and(|switches| switches > 0), "we slept ourselves");
        }
        let busy = look.busy.unwrap();
        assert!((0.0..=1.0).contains(&busy.most) && busy.about <= busy.most + 1e-9, "{busy:?}");
    }
}
