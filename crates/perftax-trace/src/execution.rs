//! Whether slow messages had more work to do than the others, or did it more slowly.

use perftax_cost::bootstrap::{SEED, vector_bootstrap};
use perftax_doc::{BlamedExecution, CONFIDENCE};

use crate::blame::{Brief, REPLICATES, Usual, clusters};
use crate::cause::Cause;
use crate::executed::{Executed, ExecutedTotals, MeanExecution};

/// What slow messages executed beyond the others; none with fewer than two of either that are known.
pub fn blame_execution(slow: &[&Brief], usual: &Usual) -> Option<BlamedExecution> {
    let mean = usual.executed.mean().filter(|_| usual.executed.messages > 1)?;
    let totals = |briefs: &[&Brief]| {
        briefs.iter().fold(ExecutedTotals::default(), |mut all, brief| {
            all.add(&brief.executed, brief.shares.of(Cause::OnCpu));
            all
        })
    };
    let rows: Vec<ExecutedTotals> = clusters(slow).map(totals).filter(|row| row.messages > 0).collect();
    let messages = rows.iter().map(|row| row.messages).sum();
    let statistic = |sample: &[&ExecutedTotals]| {
        let mut all = ExecutedTotals::default();
        sample.iter().for_each(|row| all.join(row));
        let of_slow = all.mean().unwrap_or_default();
        let longer = of_slow.longer_than(&mean);
        vec![
            of_slow.instructions - mean.instructions,
            of_slow.cycles - mean.cycles,
            of_slow.on_cpu_ns - mean.on_cpu_ns,
            longer.more_work_ns,
            longer.slower_work_ns,
            longer.rest_ns,
        ]
    };
    let all = vector_bootstrap(&rows, statistic, REPLICATES, CONFIDENCE, SEED)?;
    Some(BlamedExecution {
        messages,
        unknown: slow.len() as u64 - messages,
        usual_instructions: mean.instructions,
        usual_cycles: mean.cycles,
        usual_on_cpu_ns: mean.on_cpu_ns,
        extra_instructions: all[0],
        extra_cycles: all[1],
        extra_on_cpu_ns: all[2],
        more_work_ns: all[3],
        slower_work_ns: all[4],
        rest_ns: all[5],
    })
}

impl Brief {
    /// What it executed, and how long it was on the CPU; none where that is not known.
    pub fn execution(&self) -> Option<MeanExecution> {
        let Executed { instructions, cycles } = self.executed.known()?.estimate;
        Some(MeanExecution {
            instructions: instructions as f64,
            cycles: cycles as f64,
            on_cpu_ns: self.shares.of(Cause::OnCpu) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::cause::Shares;
    use crate::executed::{ExecutedOfMessage, Longer};

    fn executed(instructions: u64, cycles: u64) -> Executed {
        Executed { instructions, cycles }
    }

    fn brief(id: u64, instructions: u64, cycles: u64, on_cpu_ns: u64) -> Brief {
        let mut shares = Shares::default();
        shares.add(Cause::OnCpu, on_cpu_ns);
        let mut all = ExecutedOfMessage::default();
        all.ran(on_cpu_ns);
        all.read(executed(instructions, cycles), on_cpu_ns, on_cpu_ns);
        Brief {
            id,
            begin_ns: id,
            latency_ns: on_cpu_ns,
            shares,
            details: Vec::new(),
            events: Vec::new(),
            stints: 1,
            executed: all,
        }
    }

    /// 1,000 instructions in 1,000 cycles of half a nanosecond are usual.
    fn usual() -> Usual {
        let mut usual = Usual::default();
        (0..100).for_each(|id| {
            let brief = brief(id, 1000, 1000, 500);
            usual.executed.add(&brief.executed, 500);
        });
        usual
    }

    #[test]
    fn more_work_is_told_from_slower_work() {
        // A third has four times the instructions, a third four times the cycles, a third is held by a hypervisor.
        let slow: Vec<Brief> = (0..90)
            .map(|i| match i % 3 {
                0 => brief(i, 4000 + i % 2, 4000 + i % 2, 2000),
                1 => brief(i, 1000, 4000, 2000),
                _ => brief(i, 1000, 1000, 2000),
            })
            .collect();
        let blamed = blame_execution(&slow.iter().collect::<Vec<_>>(), &usual()).unwrap();
        assert_eq!((blamed.messages, blamed.unknown), (90, 0));
        assert!(blamed.extra_instructions.contains(1000.2) && blamed.extra_cycles.contains(2000.2), "{blamed:?}");
        for part in [blamed.more_work_ns, blamed.slower_work_ns, blamed.rest_ns] {
            assert!(part.contains(500.0) && part.low > 300.0, "{blamed:?}");
        }
        let sum = blamed.more_work_ns.estimate + blamed.slower_work_ns.estimate + blamed.rest_ns.estimate;
        assert!((sum - blamed.extra_on_cpu_ns.estimate).abs() < 1e-6 && blamed.extra_on_cpu_ns.contains(1500.0));
        let one = slow[1].execution().unwrap().longer_than(&usual().executed.mean().unwrap());
        assert_eq!(one, Longer { more_work_ns: 0.0, slower_work_ns: 1500.0, rest_ns: 0.0 });
    }

    #[test]
    fn what_is_not_known_is_left_out_and_counted() {
        let mut slow: Vec<Brief> = (0..10).map(|i| brief(i, 2000, 2000, 1000)).collect();
        slow[3].executed.ran(1);
        assert!(!slow[3].executed.is_known() && slow[3].execution().is_none());
        let blamed = blame_execution(&slow.iter().collect::<Vec<_>>(), &usual()).unwrap();
        assert_eq!((blamed.messages, blamed.unknown), (9, 1));
        assert!(blame_execution(&slow.iter().collect::<Vec<_>>(), &Usual::default()).is_none());
    }
}
