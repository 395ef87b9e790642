//! Is what the kernel does for a program told apart from what the program does?

use perftax_cost::document::AuditRow;
use perftax_pmu::Result;

use super::{Experiment, Setting, Taking, or_impossible};
use crate::calibrate::single_event;
use crate::stimulus::{PageFaults, Sites};

/// Faults of user mode and of the kernel's, each sampled in either mode.
pub struct Mode;

/// Page faults of a run.
const FAULTS: usize = 20_000;
/// The period, events.
const PERIOD: u64 = 101;

impl Experiment for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn question(&self) -> &'static str {
        "is what the kernel does for a program told apart from what the program does?"
    }

    fn method(&self) -> &'static str {
        "pages touched by the program, and pages that the kernel fills for it (read of /dev/zero), each sampled in user and in kernel mode: all \
         samples in one of them and none in the other"
    }

    fn figures(&self) -> &'static str {
        "the study's execution mode (prose alone; without a positive control there)"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        for (by, sites, is_kernel) in [("the program", Sites::One, false), ("the kernel", Sites::Kernel, true)] {
            for (mode, of_kernel) in [("u", false), ("k", true)] {
                let case = format!("page-faults:{mode} every {PERIOD}, touched by {by}");
                let expected = if is_kernel == of_kernel { FAULTS as u64 / PERIOD } else { 0 };
                let row = touched(setting, &case, mode, sites, expected);
                rows.extend(or_impossible(&case, row.map(|row| vec![row]))?);
            }
        }
        Ok(rows)
    }
}

fn touched(setting: &Setting, case: &str, mode: &str, sites: Sites, expected: u64) -> Result<AuditRow> {
    let event = single_event(&format!("page-faults:{mode}"), setting.catalog)?;
    let mut work = PageFaults::by(sites, FAULTS)?;
    let runs = Taking::runs(setting, &mut work, &event, Some(PERIOD))?;
    Ok(Taking::row(case, expected as f64, &runs))
}
