//! The large-PEBS oracle: would this event get multi-record PEBS, and if not, which attribute bit or CPU fact killed it?
//!
//! The rules are the kernel's (Linux 7.1 `arch/x86/events/intel/core.c`: `intel_pmu_hw_config`, `intel_pmu_large_pebs_flags`,
//! `__intel_update_large_pebs_flags`; `ds.c`: `intel_ds_pebs_init`, `pebs_update_threshold`, `pebs_update_adaptive_cfg`; what 6.12 does otherwise is said
//! where it matters). Nothing in the kernel's interface shows their outcome; the number of samples per interrupt confirms it on the machine itself.

mod attr;
mod cpu;

use perftax_doc::steps::{Operation, Setting};
use serde::Serialize;

use crate::machine::intel::{Groups, NEWEST_DEBUG_STORE_FORMAT, Pebs};

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
    /// What decides about it is not known of the CPU: its PEBS format, or which groups its records have.
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
    /// Everything that stands against multi-record PEBS; empty when it is granted. Where the verdict is `unknown`: what is not known.
    pub killed_by: Vec<Killer>,
    /// Bytes of a PEBS record, where PEBS is used and the format is known.
    pub record_bytes: Option<u32>,
    /// Records at which the interrupt comes, context switches (which drain too) aside. Where others share the buffer: records of all; and where those are
    /// of different sizes (architectural PEBS): as many of each event.
    pub records_per_pmi: Option<u32>,
}

/// Would an event with these attributes get multi-record PEBS on this CPU?
pub fn large_pebs(attr: &AttrFacts, cpu: &CpuFacts) -> LargePebs {
    let without = |verdict, killed_by| LargePebs { verdict, killed_by, record_bytes: None, records_per_pmi: None };
    let not_pebs = not_pebs(attr, cpu);
    if !not_pebs.is_empty() {
        return without(Verdict::NotPebs, not_pebs);
    }
    let (mut killed_by, mut unknown) = (no_auto_reload(attr), unknown(attr, cpu));
    if matches!(cpu.pebs, Pebs::Unknown) || cpu.pebs.format().is_some_and(|format| format > NEWEST_DEBUG_STORE_FORMAT) {
        return without(Verdict::Unknown, unknown);
    }
    for killer in no_large_flag(attr, cpu) {
        match killer {
            Doubt::Sure(killer) => killed_by.push(killer),
            Doubt::Unknown(killer) => unknown.push(killer),
        }
    }
    let bytes = cpu.record_bytes(attr);
    match (killed_by.is_empty(), unknown.is_empty()) {
        (true, true) => {
            let records = bytes.and_then(|bytes| cpu.records_per_interrupt(bytes));
            LargePebs { verdict: Verdict::MultiRecord, killed_by, record_bytes: bytes, records_per_pmi: records }
        }
        (true, false) => LargePebs { verdict: Verdict::Unknown, killed_by: unknown, record_bytes: bytes, records_per_pmi: None },
        (false, _) => LargePebs { verdict: Verdict::SingleRecord, killed_by, record_bytes: bytes, records_per_pmi: Some(1) },
    }
}

/// What stands against multi-record PEBS, and whether it surely does.
enum Doubt {
    Sure(Killer),
    Unknown(Killer),
}

/// What of the CPU is not known and decides.
fn unknown(attr: &AttrFacts, cpu: &CpuFacts) -> Vec<Killer> {
    let mut unknown = Vec::new();
    match cpu.pebs {
        Pebs::Unknown => {
            let why = format!("it decides which fields a record can carry by itself; {}", cpu.format_source);
            unknown.push(killer("PEBS record format", why, ""));
        }
        Pebs::DebugStore { format, .. } if format > NEWEST_DEBUG_STORE_FORMAT => {
            let why = format!(
                "format {format} ({}): the newest known here is {NEWEST_DEBUG_STORE_FORMAT}, and Linux 7.1 refuses it",
                cpu.format_source
            );
            unknown.push(killer("PEBS record format", why, ""));
        }
        Pebs::DebugStore { .. } | Pebs::Architectural(_) => {}
    }
    if cpu.max_precise.is_none() && u32::from(attr.precise) > cpu.sure_precise() {
        let why = format!(
            "CPUID leaf 23H, subleaf 5 says whether {} has counters with precise distribution, and was not read",
            cpu.name
        );
        unknown.push(killer(format!("precise_ip = {}", attr.precise), why, format!("use {} p", cpu.sure_precise())));
    }
    unknown
}

/// The same while others sample on the same CPU: all have one buffer and one threshold, so that one event whose records must be read
/// one by one (`ds.c`, `pebs_update_threshold`: `n_pebs != n_large_pebs`) takes it from all, and on adaptive PEBS records are as large
/// as all events together need. Others without PEBS do not matter.
pub fn beside(attr: &AttrFacts, others: &[AttrFacts], cpu: &CpuFacts) -> LargePebs {
    let mut all = attr.clone();
    let mut answer = large_pebs(attr, cpu);
    let mut unknown = Vec::new();
    if answer.verdict != Verdict::MultiRecord {
        return answer;
    }
    let mut sharing = vec![attr];
    for other in others {
        match large_pebs(other, cpu).verdict {
            Verdict::SingleRecord => {
                let why = format!("its records are read one by one: {} says why", Operation::DiagnoseEvent(other.event.clone()));
                answer.killed_by.push(killer(format!("{} on the same CPU", other.event), why, "sample them one after the other"));
            }
            // Records of architectural PEBS are as large as their own event needs, counters aside.
            Verdict::MultiRecord if matches!(cpu.pebs, Pebs::Architectural(_)) => sharing.push(other),
            Verdict::MultiRecord => {
                all.group_events = all.group_events.max(other.group_events);
                all.sample_type |= other.sample_type;
                all.regs_intr |= other.regs_intr;
                all.regs_user |= other.regs_user;
                all.precise = all.precise.min(other.precise);
                // Each is granted by itself already: only the size of a record is asked for.
                all.exclude_kernel = true;
            }
            Verdict::Unknown => unknown.push(other),
            Verdict::NotPebs => {}
        }
    }
    if let ([], Some(other)) = (answer.killed_by.as_slice(), unknown.first()) {
        let why = "whether its records are read one by one is not known, and all on a CPU are read alike";
        let killed_by = vec![killer(format!("{} on the same CPU", other.event), why, "sample them one after the other")];
        return LargePebs { verdict: Verdict::Unknown, killed_by, records_per_pmi: None, ..answer };
    }
    if !answer.killed_by.is_empty() {
        return LargePebs { verdict: Verdict::SingleRecord, records_per_pmi: Some(1), ..answer };
    }
    if sharing.len() > 1 {
        let sizes = cpu.sizes_together(&sharing);
        let records = sizes.as_deref().and_then(|sizes| cpu.records_of_several(sizes));
        return LargePebs { record_bytes: sizes.and_then(|sizes| sizes.first().copied()), records_per_pmi: records, ..answer };
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
    if let Some(most) = cpu.max_precise.filter(|most| cpu.no_pebs.is_none() && u32::from(attr.precise) > *most) {
        let why = format!("{} offers at most {most}: perf_event_open answers EOPNOTSUPP", cpu.name);
        killers.push(killer(format!("precise_ip = {}", attr.precise), why, format!("use {most} p")));
    }
    killers.extend(no_reload_by_others(attr));
    killers
}

/// What automatic counter reload does not go with: perf_event_open answers EINVAL (`intel_pmu_hw_config`).
fn no_reload_by_others(attr: &AttrFacts) -> Vec<Killer> {
    if attr.acr_mask == 0 {
        return Vec::new();
    }
    let mut killers = Vec::new();
    if let Rate::Frequency(hz) = attr.rate {
        let why = "counters that others reload (acr_mask) have one fixed period: perf_event_open answers EINVAL";
        killers.push(killer(format!("freq = 1 ({hz} Hz)"), why, "-c PERIOD instead of -F"));
    }
    if attr.precise > 2 {
        let why = "counters that others reload (acr_mask) have no precise distribution: perf_event_open answers EINVAL";
        killers.push(killer(format!("precise_ip = {}", attr.precise), why, "use 2 p"));
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
fn no_large_flag(attr: &AttrFacts, cpu: &CpuFacts) -> Vec<Doubt> {
    let fields = SAMPLE_FIELDS.iter().filter(|field| attr.sample_type & field.bit != 0);
    let mut killers: Vec<_> = fields.filter_map(|field| field_killer(field, attr, cpu)).collect();
    if attr.has_aux {
        killers.push(Doubt::Sure(killer(
            "aux_sample_size / aux_pause / aux_resume",
            "AUX actions are done in the interrupt",
            "no --aux-sample",
        )));
    }
    killers
}

/// What a field stands against, by the kind of records: `None` where nothing does.
fn field_killer(field: &SampleField, attr: &AttrFacts, cpu: &CpuFacts) -> Option<Doubt> {
    let sure = |why: String, fix: &str| Some(Doubt::Sure(killer(field.name, why, fix)));
    // What holds for all kinds of records first.
    match field.bit {
        sample::TIME if attr.use_clockid => {
            return sure("the record's TSC cannot be turned into another clock (use_clockid)".into(), "no -k / --clockid");
        }
        sample::REGS_USER if !attr.exclude_kernel => {
            let why = "user registers are those of the record only if no sample can hit the kernel";
            return sure(why.into(), "add the u modifier, or --intr-regs instead");
        }
        sample::REGS_USER if attr.regs_user & !attr::GENERAL_REGISTERS != 0 => {
            let why = "a register outside of the general ones was asked for";
            return sure(why.into(), "--user-regs=ax,r13 names general registers only");
        }
        sample::REGS_INTR if attr.regs_intr & !attr::GENERAL_REGISTERS != 0 => {
            let why = "a register outside of the general ones was asked for (checked since Linux 6.18 and its stable backports)";
            return sure(why.into(), "--intr-regs=ax,r13 names general registers only");
        }
        _ => {}
    }
    match cpu.pebs {
        Pebs::Unknown => None,
        Pebs::DebugStore { format, baseline } => in_debug_store(field, cpu, format, baseline).map(Doubt::Sure),
        Pebs::Architectural(groups) => in_architectural(field, cpu, groups),
    }
}

/// Records through the debug store (`ds.c`, `intel_ds_pebs_init`).
fn in_debug_store(field: &SampleField, cpu: &CpuFacts, format: u32, baseline: bool) -> Option<Killer> {
    let no = |why: String| Some(killer(field.name, why, field.fix));
    let is_dropped = [sample::ADDR, sample::TIME, sample::DATA_SRC, sample::TRANSACTION, sample::REGS_USER, sample::REGS_INTR];
    if format >= 4 && !baseline && is_dropped.contains(&field.bit) {
        return no(format!("{} writes basic records only (no PEBS baseline)", cpu.name));
    }
    match field.bit {
        sample::TIME if format < 3 => no(format!("format {format} records hold no time stamp (format 3, Skylake, is the first)")),
        sample::BRANCH_STACK if baseline => None,
        sample::BRANCH_STACK => {
            no(format!("format {format} records hold no branch stack (adaptive PEBS, Ice Lake, is the first)"))
        }
        sample::READ if format >= 6 && baseline => None,
        _ if field.is_in_record => None,
        _ => no(field.why_not.to_string()),
    }
}

/// Records of architectural PEBS, by the groups that CPUID names (`__intel_update_large_pebs_flags`).
fn in_architectural(field: &SampleField, cpu: &CpuFacts, groups: Option<Groups>) -> Option<Doubt> {
    type Has = fn(Groups) -> bool;
    let (has, group): (Has, &str) = match field.bit {
        sample::BRANCH_STACK => (Groups::has_branches, "branches"),
        sample::READ => (Groups::has_counters, "counters"),
        sample::DATA_SRC => (Groups::has_access, "accesses"),
        sample::REGS_INTR | sample::REGS_USER => (Groups::has_registers, "general registers"),
        _ if field.is_in_record => return None,
        _ => return Some(Doubt::Sure(killer(field.name, field.why_not, field.fix))),
    };
    match groups {
        Some(groups) if has(groups) => None,
        Some(_) => {
            let why = format!("records of {} have no group of {group} (CPUID leaf 23H, subleaf 4)", cpu.name);
            Some(Doubt::Sure(killer(field.name, why, field.fix)))
        }
        None => {
            let why = format!("CPUID leaf 23H, subleaf 4 says whether records have a group of {group}, and was not read");
            Some(Doubt::Unknown(killer(field.name, why, field.fix)))
        }
    }
}
