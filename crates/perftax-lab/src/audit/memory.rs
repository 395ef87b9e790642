//! How much memory does sampling take?

use perftax_doc::AuditRow;
use perftax_pmu::event::parse_one;
use perftax_pmu::sampler::{LiveSampler, Sampling};
use perftax_pmu::sys::Target;
use perftax_pmu::{Error, Result};

use super::programs::{Programs, Round, Way};
use super::{Experiment, Name, Setting, Unit, or_impossible};

/// A program's memory, sampled and not, and the kernel's for rings.
pub struct Memory;

/// The program whose memory is compared.
const PROGRAM: &str = "perl";
/// Rings that are mapped at once, and pages of each: enough to stand out of what the machine does besides.
const RINGS: usize = 16;
const RING_PAGES: usize = 512;
/// How long the kernel is given to free what has been let go.
const SETTLING: std::time::Duration = std::time::Duration::from_millis(200);
/// How far the kernel's free memory may be off, as a share of the rings.
const ALLOWED: f64 = 0.1;

impl Experiment for Memory {
    fn name(&self) -> Name {
        Name::Memory
    }

    fn question(&self) -> &'static str {
        "how much memory does sampling take, of the program's and of the kernel's?"
    }

    fn method(&self) -> &'static str {
        "a program's largest resident size sampled and alone: the difference must lie within that from one run alone to the next; free memory \
         with 16 rings mapped and without them: the rings' pages must be missing, and no more than a tenth of that besides"
    }

    fn figures(&self) -> &'static str {
        "figure 8"
    }

    fn is_pinned(&self) -> bool {
        false
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let resident = Programs::new(setting).and_then(|programs| resident(setting, &programs));
        let mut rows = or_impossible("resident size", resident.map(|row| vec![row]))?;
        rows.push(rings(setting)?);
        Ok(rows)
    }
}

/// KiB that a sampled run has more than one alone, against the noise of runs alone.
fn resident(setting: &Setting, programs: &Programs) -> Result<AuditRow> {
    let rounds = programs.rounds(PROGRAM, setting.rounds(), &Way::QUIET)?;
    let kib = |round: &Round, way: Way| round.of(way).max_rss_bytes as f64 / 1024.0;
    let mut alone: Vec<f64> = rounds.iter().map(|round| kib(round, Way::Alone)).collect();
    let middle = perftax_doc::median(&mut alone);
    let spread = alone.last().copied().unwrap_or(middle) - alone.first().copied().unwrap_or(middle);
    let mut sampled: Vec<f64> = rounds.iter().map(|round| kib(round, Way::Sampled)).collect();
    let found = perftax_doc::median(&mut sampled);
    // One page is the least that a resident size differs by.
    let floor = spread.max(rustix::param::page_size() as f64 / 1024.0);
    let case = format!("{PROGRAM}, largest resident size");
    let remark = format!("alone {middle:.0} KiB, from run to run {spread:.0}: what lies within {floor:.0} is noise");
    Ok(AuditRow::of(case, Unit::Kib.text(), middle, &[found], floor / middle.max(1.0)).remarking(remark))
}

/// KiB of the kernel's that rings take.
fn rings(setting: &Setting) -> Result<AuditRow> {
    let event = parse_one("page-faults:u", setting.catalog)?;
    let page = rustix::param::page_size();
    let mut found = Vec::new();
    for _ in 0..setting.runs.max(3) {
        // What was freed before comes back when RCU lets it.
        std::thread::sleep(SETTLING);
        let before = free_kib()?;
        let open =
            || LiveSampler::open(&[(event.clone(), Sampling::every(1000, RING_PAGES * page))], &[Target::ThisThread], RING_PAGES);
        let rings: Vec<LiveSampler> = (0..RINGS).map(|_| open()).collect::<Result<_>>()?;
        found.push(before - free_kib()?);
        drop(rings);
    }
    // One page more holds what kernel and reader tell each other.
    let expected = (RINGS * (RING_PAGES + 1) * page) as f64 / 1024.0;
    let middle = perftax_doc::median(&mut found);
    let case = format!("{RINGS} rings of {RING_PAGES} pages, free memory");
    // What others free or take meanwhile is in single runs; the median leaves it out.
    Ok(AuditRow::of(case, Unit::Kib.text(), expected, &[middle], ALLOWED).remarking(format!("runs: {found:.0?}")))
}

/// Free memory of the machine, KiB: MemFree, and what CPUs keep for themselves when they free pages, which MemFree does not count (proc(5);
/// mm/page_alloc.c, the per-CPU lists).
fn free_kib() -> Result<f64> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(Error::file(path));
    let (path, zones) = ("/proc/meminfo", read("/proc/zoneinfo")?);
    let text = read(path)?;
    let free: Option<f64> = text.lines().find_map(|line| line.strip_prefix("MemFree:")?.split_whitespace().next()?.parse().ok());
    let free = free.ok_or_else(|| Error::Malformed { what: path.into(), offset: 0, why: "no line MemFree".into() })?;
    let kept: f64 = zones.lines().filter_map(|line| line.trim().strip_prefix("count:")?.trim().parse::<f64>().ok()).sum();
    Ok(free + kept * rustix::param::page_size() as f64 / 1024.0)
}
