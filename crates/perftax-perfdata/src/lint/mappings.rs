//! Samples in code that nobody mapped, as far as the recording tells.

use std::cell::RefCell;
use std::rc::Rc;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use super::code_map::CodeMap;
use crate::recording::{SeenRecord, SeenSample};
use perftax_doc::words::{count, share};

/// Fills the map that it shares.
pub(super) struct Mappings(pub(super) Rc<RefCell<CodeMap>>);

static RULE: Rule = Rule {
    name: "mappings",
    measures: "samples in user mode at addresses that no mapping of their process has, of all in user mode",
    unit: Unit::Share,
    warning: Some(0.05),
    error: Some(0.5),
    source: "PERF_RECORD_MMAP and MMAP2 tell which file is where; what perf record saw none of, it reports as [unknown]",
};

impl Check for Mappings {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn is_read_by_others(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        self.0.borrow_mut().sample(sample);
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        self.0.borrow_mut().record(record);
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let map = self.0.borrow();
        if map.user_samples == 0 {
            return Judgement::none("no samples in user mode that tell their address and process");
        }
        let code = map.looked_up();
        if map.mappings_left_out && code.unmapped > 0 {
            return Judgement::unknown("there are more mappings than are kept");
        }
        let Some((pid, address)) = code.example else {
            return Judgement::none("every sampled address lies in a mapping");
        };
        let of_all = code.unmapped as f64 / map.user_samples as f64;
        let name = whole.recording.counts.comm(pid);
        Judgement::measured(
            of_all,
            format!(
                "{} of {} samples in user mode ({}) are in no mapping, for example at {address:#x} of process {}",
                count(code.unmapped),
                count(map.user_samples),
                share(of_all),
                format!("{pid} {name}").trim_end()
            ),
            "their functions are [unknown], and their file too",
            "larger rings (perf record -m 1024) where mappings were lost; where code is generated, have it written down (java -XX:+DumpPerfMapAtExit, node --perf-basic-prof)",
        )
    }
}
