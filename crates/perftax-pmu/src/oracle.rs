//! The large-PEBS oracle: would this event get multi-record PEBS, and if not, which attribute bit or CPU fact killed it?
//!
//! The rules are the kernel's (Linux 6.12 `arch/x86/events/intel/core.c`: `intel_pmu_hw_config`,
//! `intel_pmu_large_pebs_flags`; `ds.c`: `intel_ds_init`, `pebs_update_threshold`, `pebs_update_adaptive_cfg`). Nothing in
//! the kernel's interface shows their outcome; the number of samples per interrupt confirms it on the machine itself.

mod attr;
mod cpu;

use perftax_doc::steps::{Operation, Setting};
use serde::Serialize;

pub use attr::{AttrFacts, Rate, SAMPLE_FIELDS, SampleField, sample};
pub use cpu::CpuFacts;

/// How the kernel would take the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// PEBS with many records to an interrupt.
    MultiRecord,
    /// PEBS with an interrupt for each record.
    SingleRecord,
    /// No PEBS at all.
    NotPebs,
    /// The CPU's PEBS format is not known.
    Unknown,
}

/// One thing that takes multi-record PEBS away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Killer {
    /// The attribute bit or the CPU fact.
    pub what: String,
    /// The kernel's reason.
    pub why: String,
    /// The option of `perf record` that avoids it; empty where none does.
    pub fix: String,
}

/// The oracle's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargePebs {
    /// How the kernel would take the samples.
    pub verdict: Verdict,
    /// Everything that stands against multi-record PEBS; empty when it is granted.
    pub killed_by: Vec<Killer>,
    /// Bytes of a PEBS record, where PEBS is used and the format is known.
    pub record_bytes: Option<u32>,
    /// Records at which the interrupt comes, context switches (which drain too) aside.
    pub records_per_pmi: Option<u32>,
}

/// Would an event with these attributes get multi-record PEBS on this CPU?
pub fn large_pebs(attr: &AttrFacts, cpu: &CpuFacts) -> LargePebs {
    let without = |verdict, killed_by| LargePebs { verdict, killed_by, record_bytes: None, records_per_pmi: None };
    let not_pebs = not_pebs(attr, cpu);
    if !not_pebs.is_empty() {
        return without(Verdict::NotPebs, not_pebs);
    }
    let Some(format) = cpu.format else {
        let why = format!("{}: it decides which fields a record can carry by itself", cpu.format_source);
        return without(Verdict::Unknown, vec![killer("PEBS record format", why, "")]);
    };
    let mut killed_by = no_auto_reload(attr);
    killed_by.extend(no_large_flag(attr, cpu, format));
    let bytes = cpu.record_bytes(format, attr);
    if killed_by.is_empty() {
        let records = bytes.map(|bytes| cpu.records_per_interrupt(format, bytes));
        LargePebs { verdict: Verdict::MultiRecord, killed_by, record_bytes: bytes, records_per_pmi: records }
    } else {
        LargePebs { verdict: Verdict::SingleRecord, killed_by, record_bytes: bytes, records_per_pmi: Some(1) }
    }
}

/// The same while others sample on the same CPU: all have one buffer and one threshold, so that one event whose records must be read
/// one by one (`ds.c`, `pebs_update_threshold`: `n_pebs != n_large_pebs`) takes it from all, and on adaptive PEBS records are as large
/// as all events together need. Others without PEBS do not matter.
pub fn beside(attr: &AttrFacts, others: &[AttrFacts], cpu: &CpuFacts) -> LargePebs {
    let mut all = attr.clone();
    let mut answer = large_pebs(attr, cpu);
    if answer.verdict != Verdict::MultiRecord {
        return answer;
    }
    for other in others {
        match large_pebs(other, cpu).verdict {
            Verdict::SingleRecord => {
                let why = format!("its records are read one by one: {} says why", Operation::DiagnoseEvent(other.event.clone()));
                answer.killed_by.push(killer(format!("{} on the same CPU", other.event), why, "sample them one after the other"));
            }
            Verdict::MultiRecord => {
                all.sample_type |= other.sample_type;
                all.regs_intr |= other.regs_intr;
                all.regs_user |= other.regs_user;
                all.precise = all.precise.min(other.precise);
                // Each is granted by itself already: only the size of a record is asked for.
                all.exclude_kernel = true;
            }
            Verdict::NotPebs | Verdict::Unknown => {}
        }
    }
    if !answer.killed_by.is_empty() {
        return LargePebs { verdict: Verdict::SingleRecord, records_per_pmi: Some(1), ..answer };
    }
    let together = large_pebs(&all, cpu);
    LargePebs { record_bytes: together.record_bytes, records_per_pmi: together.records_per_pmi, ..answer }
}

fn killer(what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Killer {
    Killer { what: what.into(), why: why.into(), fix: fix.into() }
}

/// What keeps PEBS away altogether.
fn not_pebs(attr: &AttrFacts, cpu: &CpuFacts) -> Vec<Killer> {
    if !attr.is_hardware {
        let why = format!("{} is not counted by the CPU: the kernel or its timer takes the samples", attr.event);
        return vec![killer("event", why, "-e cycles:pp, -e instructions:pp, or another event of the cpu PMU")];
    }
    let mut killers = Vec::new();
    if !cpu.is_intel {
        killers.push(killer("CPU vendor", format!("{} has no PEBS", cpu.name), ""));
    } else if let Some(why) = &cpu.no_pebs {
        killers.push(killer("cpu PMU", why.as_str(), format!("{} GENERATION asks for another machine", Setting::Cpu)));
    }
    if attr.precise == 0 {
        let why = "no p modifier: a plain counter interrupt, with skid";
        killers.push(killer("precise_ip = 0", why, format!("-e {}pp", with_colon(&attr.event))));
    }
    if cpu.no_pebs.is_none() && u32::from(attr.precise) > cpu.max_precise {
        let why = format!("{} offers at most {}: perf_event_open answers EOPNOTSUPP", cpu.name, cpu.max_precise);
        killers.push(killer(format!("precise_ip = {}", attr.precise), why, format!("use {} p", cpu.max_precise)));
    }
    killers
}

/// An event's text, ready for another modifier.
fn with_colon(event: &str) -> String {
    if event.contains(':') || event.ends_with('/') { event.to_string() } else { format!("{event}:") }
}

/// What takes PERF_X86_EVENT_AUTO_RELOAD away: without it the kernel must set each next period itself, in an interrupt.
fn no_auto_reload(attr: &AttrFacts) -> Vec<Killer> {
    let mut killers = Vec::new();
    if let Rate::Frequency(hz) = attr.rate {
        let why = "frequency mode: the kernel sets the next period at each sample, so it needs an interrupt for each";
        killers.push(killer(format!("freq = 1 ({hz} Hz)"), why, "-c PERIOD instead of -F"));
    }
    if attr.wakeup_events > 0 && !attr.watermark {
        let why = "the reader asked to be woken after a number of samples, which must be counted in an interrupt";
        killers.push(killer(format!("wakeup_events = {}", attr.wakeup_events), why, "no --no-buffering; wake by watermark"));
    }
    killers
}

/// What takes PERF_X86_EVENT_LARGE_PEBS away: fields that a record does not hold by itself.
fn no_large_flag(attr: &AttrFacts, cpu: &CpuFacts, format: u32) -> Vec<Killer> {
    let fields = SAMPLE_FIELDS.iter().filter(|field| attr.sample_type & field.bit != 0);
    let mut killers: Vec<_> = fields.filter_map(|field| field_killer(field, attr, cpu, format)).collect();
    if attr.has_aux {
        killers.push(killer(
            "aux_sample_size / aux_pause / aux_resume",
            "AUX actions are done in the interrupt",
            "no --aux-sample",
        ));
    }
    killers
}

fn field_killer(field: &SampleField, attr: &AttrFacts, cpu: &CpuFacts, format: u32) -> Option<Killer> {
    let no = |why: String, fix: &str| Some(killer(field.name, why, fix));
    let basic_only = format >= 4 && !cpu.baseline;
    let is_dropped = [sample::ADDR, sample::TIME, sample::DATA_SRC, sample::TRANSACTION, sample::REGS_USER, sample::REGS_INTR];
    if basic_only && is_dropped.contains(&field.bit) {
        return no(format!("{} writes basic records only (no PEBS baseline)", cpu.name), field.fix);
    }
    match field.bit {
        sample::TIME if format < 3 => {
            no(format!("format {format} records hold no time stamp (format 3, Skylake, is the first)"), field.fix)
        }
        sample::TIME if attr.use_clockid => {
            no("the record's TSC cannot be turned into another clock (use_clockid)".into(), "no -k / --clockid")
        }
        sample::BRANCH_STACK if !cpu.baseline => {
            no(format!("format {format} records hold no branch stack (adaptive PEBS, Ice Lake, is the first)"), field.fix)
        }
        sample::BRANCH_STACK => None,
        sample::READ if format >= 6 && cpu.baseline => None,
        sample::REGS_USER if !attr.exclude_kernel => no(
            "user registers are those of the record only if no sample can hit the kernel".into(),
            "add the u modifier, or --intr-regs instead",
        ),
        sample::REGS_USER if attr.regs_user & !attr::GENERAL_REGISTERS != 0 => {
            no("a register outside of the general ones was asked for".into(), "--user-regs=ax,r13 names general registers only")
        }
        sample::REGS_INTR if attr.regs_intr & !attr::GENERAL_REGISTERS != 0 => {
            let why = "a register outside of the general ones was asked for (checked since Linux 6.18 and its stable backports)";
            no(why.into(), "--intr-regs=ax,r13 names general registers only")
        }
        _ if field.is_in_record => None,
        _ => no(field.why_not.to_string(), field.fix),
    }
}
