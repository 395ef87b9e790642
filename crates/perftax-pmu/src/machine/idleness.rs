//! Which CPU to measure on: one that nobody else is on.

use std::time::Duration;

use super::{Root, cpu_list};

/// For how long CPUs are looked at: ten ticks of `/proc/stat` at the least that kernels count with (`USER_HZ`, 100).
const LOOK: Duration = Duration::from_millis(100);

/// Of the last CPU's time in that interval, how much less busy another must have been to be taken instead: two ticks are chance.
const CLEARLY_TICKS: u64 = 3;

/// Ticks that each CPU has been busy for, by anything but idling: `/proc/stat` (proc_stat(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Busy(Vec<(u32, u64)>);

impl Busy {
    /// As of now; empty where the kernel does not tell (a container's own `/proc/stat` may have other CPUs).
    pub fn read(root: &Root) -> Self {
        Self::of(&root.proc("stat").unwrap_or_default())
    }

    fn of(stat: &str) -> Self {
        let cpu = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            let number = words.next()?.parse().ok()?;
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            // user nice system (idle iowait) irq softirq steal; what follows is part of the first two.
            let busy = |index: &usize| ticks.get(*index).copied();
            Some((number, [0, 1, 2, 5, 6, 7].iter().filter_map(busy).sum()))
        };
        Self(stat.lines().filter(|line| !line.starts_with("cpu ")).filter_map(cpu).collect())
    }

    /// How long a CPU was busy since an earlier look, ticks.
    fn since(&self, earlier: &Self, cpu: u32) -> Option<u64> {
        let of = |busy: &Self| busy.0.iter().find(|(number, _)| *number == cpu).map(|(_, ticks)| *ticks);
        Some(of(self)?.saturating_sub(of(earlier)?))
    }

    /// The last of these CPUs, since the first takes most device interrupts, unless another was clearly less busy between the two looks.
    pub fn quietest(&self, earlier: &Self, cpus: &[u32]) -> Option<u32> {
        let last = *cpus.last()?;
        let Some(its) = self.since(earlier, last) else { return Some(last) };
        let others = cpus.iter().rev().filter_map(|cpu| Some((self.since(earlier, *cpu)?, *cpu)));
        let (least, quietest) = others.min_by_key(|(ticks, _)| *ticks)?;
        Some(if least + CLEARLY_TICKS <= its { quietest } else { last })
    }
}

/// The CPU among these (ascending) to measure on: of the performance cores' kind where there are such, else of the last one's kind; there the last one unless
/// another is clearly less busy. Looks for a tenth of a second where there is a choice.
pub fn measuring_cpu(root: &Root, cpus: &[u32]) -> Option<u32> {
    let alike = alike(root, cpus);
    if alike.len() < 2 {
        return cpus.last().copied();
    }
    let earlier = Busy::read(root);
    std::thread::sleep(LOOK);
    Busy::read(root).quietest(&earlier, &alike)
}

/// Those that are like the last, or on hybrid processors like the last performance core, whose PMU is the one that `core_pmu` gives: which PMU is theirs, what
/// they can do (`cpu_capacity`), how fast they may run. A price is of a kind of core, and must not change with who else is on the machine.
fn alike(root: &Root, cpus: &[u32]) -> Vec<u32> {
    let lists = ["cpu_core", "cpu_atom", "cpu_lowpower"]
        .map(|pmu| cpu_list(&root.sys(&format!("devices/{pmu}/cpus")).unwrap_or_default()));
    let kind = |cpu: u32| {
        let file = |name: &str| root.sys(&format!("devices/system/cpu/cpu{cpu}/{name}"));
        let listed = lists.each_ref().map(|list| list.contains(&cpu));
        (listed, file("cpu_capacity"), file("cpufreq/cpuinfo_max_freq"))
    };
    let performance = cpus.iter().rev().find(|cpu| lists[0].contains(cpu));
    let Some(last) = performance.or(cpus.last()).map(|cpu| kind(*cpu)) else { return Vec::new() };
    cpus.iter().copied().filter(|cpu| kind(*cpu) == last).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    const EARLIER: &str = "cpu  300 0 0 900 0 0 0 0 0 0\ncpu0 100 5 20 300 7 1 2 3 0 0\ncpu1 100 0 0 300 0 0 0 0 0 0\ncpu2 100 0 0 300 0 0 0 0 0 0\nintr 1\n";

    fn later(busy: [u64; 3]) -> Busy {
        let [a, b, c] = busy;
        // Waiting for a disk is idling.
        Busy::of(&format!(
            "cpu  1 0 0 1 0 0 0 0 0 0\ncpu0 {} 5 20 300 99 1 2 3 0 0\ncpu1 100 0 0 300 0 0 0 {b} 0 0\ncpu2 {} 0 0 300 0 0 0 0 0 0\n",
            100 + a,
            100 + c
        ))
    }

    #[test]
    fn whoever_is_idle_is_taken_and_the_last_one_where_all_are() {
        let earlier = Busy::of(EARLIER);
        assert_eq!(earlier.0, [(0, 131), (1, 100), (2, 100)]);
        let taken = |busy| later(busy).quietest(&earlier, &[0, 1, 2]).unwrap();
        assert_eq!(taken([0, 0, 0]), 2);
        assert_eq!(taken([0, 0, 2]), 2, "two ticks are chance");
        assert_eq!(taken([0, 0, 10]), 1, "the later one of two that idle");
        assert_eq!(taken([0, 10, 10]), 0, "time that was stolen is not idle");
        assert_eq!(taken([10, 10, 10]), 2);
        assert_eq!(later([0, 0, 10]).quietest(&earlier, &[2]), Some(2), "what may not be used is not taken");
        assert_eq!(Busy::default().quietest(&Busy::default(), &[0, 1]), Some(1), "where nothing is told");
        assert_eq!(Busy::default().quietest(&Busy::default(), &[]), None);
    }

    #[test]
    fn a_price_is_of_one_kind_of_core() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let root = Root::at(folder.path());
        assert_eq!(alike(&root, &[0, 1, 2]), [0, 1, 2], "where nothing is told");
        write("sys/devices/cpu_core/cpus", "0-1\n");
        write("sys/devices/cpu_atom/cpus", "2-3\n");
        assert_eq!(alike(&root, &[0, 1, 2, 3]), [0, 1], "the kind whose events are the machine's");
        assert_eq!(alike(&root, &[2, 3]), [2, 3], "what may not be used is not taken");
        write("sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_max_freq", "2000000\n");
        assert_eq!(alike(&root, &[2, 3]), [3]);
        assert_eq!((measuring_cpu(&root, &[2, 3]), measuring_cpu(&root, &[0, 1, 2, 3])), (Some(3), Some(1)));
    }
}
