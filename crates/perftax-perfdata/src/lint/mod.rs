//! Whether a recording can be trusted for what it is usually read for: shares of time or events by function and thread.
//!
//! Each check is a file: its [`Rule`] says what is measured, from where on it is a warning or an error, and where that comes from. Checks see the records as the
//! recording is read once ([`crate::recording::Observer`]), and judge when all is read. None keeps more than a bounded table.

mod build_ids;
mod by_count;
mod check;
mod clock;
mod code_map;
mod cut_off;
mod few_samples;
mod filtered;
mod idle;
mod in_step;
mod kernel;
mod limits;
mod lost;
mod mappings;
mod multiplexed;
mod narrowed;
mod own_cost;
mod profilers;
mod short_tasks;
mod stacks;
mod substituted;
mod symbols;
mod throttled;
mod timeline;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::path::Path;
use std::rc::Rc;

use perftax_doc::{Lint, LintCheck, LintVerdict, MachineProfile, Origin};
use perftax_pmu::Result;

use crate::bill;
use crate::recording::{Observer, Recording, SeenRecord, SeenSample};
use check::{Check, Judgement, Whole};
pub use check::{Rule, Unit};
pub use limits::{Limits, Thresholds};

/// The rules of all checks, in the order in which they are made.
pub fn rules() -> Vec<&'static Rule> {
    checks().iter().map(|check| check.rule()).collect()
}

fn checks() -> Vec<Box<dyn Check>> {
    // Two checks read one map of the code.
    let map = Rc::new(RefCell::new(code_map::CodeMap::default()));
    vec![
        Box::new(cut_off::CutOff),
        Box::new(substituted::Substituted),
        Box::new(narrowed::Narrowed),
        Box::<lost::Lost>::default(),
        Box::<throttled::Throttled>::default(),
        Box::new(multiplexed::Multiplexed),
        Box::new(filtered::Filtered),
        Box::<by_count::ByCount>::default(),
        Box::<in_step::InStep>::default(),
        Box::<idle::Idle>::default(),
        Box::new(few_samples::FewSamples),
        Box::<short_tasks::ShortTasks>::default(),
        Box::<stacks::Stacks>::default(),
        Box::new(build_ids::BuildIds::default()),
        Box::new(mappings::Mappings(Rc::clone(&map))),
        Box::new(symbols::Symbols(map)),
        Box::<clock::Clock>::default(),
        Box::<profilers::Profilers>::default(),
        Box::new(kernel::Kernel),
        Box::new(own_cost::OwnCost),
    ]
}

/// All checks, and which of them look at what.
struct Checks {
    all: Vec<Box<dyn Check>>,
    of_samples: Vec<usize>,
    of_records: Vec<usize>,
}

impl Checks {
    fn new(limits: &Limits) -> Self {
        let all: Vec<_> = checks();
        // What is off sees nothing, but the map that others read is kept.
        let is_on = |check: &dyn Check| !limits.of(check.rule()).is_off || check.is_read_by_others();
        let where_ = |sees: fn(&dyn Check) -> bool| {
            let seeing = all.iter().enumerate().filter(|(_, check)| is_on(check.as_ref()) && sees(check.as_ref()));
            seeing.map(|(index, _)| index).collect()
        };
        Self { of_samples: where_(|check| check.sees_samples()), of_records: where_(|check| check.sees_records()), all }
    }
}

impl Observer for Checks {
    fn sample(&mut self, sample: &SeenSample<'_>) {
        for &index in &self.of_samples {
            self.all[index].sample(sample);
        }
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        for &index in &self.of_records {
            self.all[index].record(record);
        }
    }
}

/// Reads a recording and judges it. `profile` prices it, for its own cost; `origin.taken_at_s` is the time that the profile's age is counted to.
///
/// # Errors
/// As [`Recording::open`].
pub fn lint(path: &Path, limits: &Limits, profile: Option<&MachineProfile>, origin: Origin) -> Result<Lint> {
    let mut checks = Checks::new(limits);
    let recording = Recording::open_observed(path, &mut checks)?;
    Ok(judged(&checks, &recording, limits, profile, origin))
}

/// As [`lint`], of any stream of bytes.
///
/// # Errors
/// As [`Recording::read`].
pub fn lint_stream(
    input: impl std::io::Read,
    name: &str,
    limits: &Limits,
    profile: Option<&MachineProfile>,
    origin: Origin,
) -> Result<Lint> {
    let mut checks = Checks::new(limits);
    let recording = Recording::read_observed(input, name, &mut checks)?;
    Ok(judged(&checks, &recording, limits, profile, origin))
}

fn judged(checks: &Checks, recording: &Recording, limits: &Limits, profile: Option<&MachineProfile>, origin: Origin) -> Lint {
    let bill = bill::bill(recording, profile, Origin { warnings: Vec::new(), ..origin.clone() });
    let whole = Whole { recording, bill: &bill };
    let mut done: Vec<LintCheck> = checks.all.iter().map(|check| verdict(check.as_ref(), &whole, limits)).collect();
    // Of equal ones those that are furthest beyond their threshold stand first.
    let beyond = |check: &LintCheck| {
        let from = if check.verdict == LintVerdict::Error { check.error_from } else { check.warning_from };
        check.measured.zip(from).map_or(0.0, |(measured, from)| measured / from)
    };
    done.sort_by(|a, b| Reverse(a.verdict).cmp(&Reverse(b.verdict)).then(beyond(b).total_cmp(&beyond(a))));
    Lint {
        origin,
        recording: bill.recording.clone(),
        recorded_command: bill.recorded_command.clone(),
        recorded_on: bill.recorded_on.clone(),
        recorded_by: bill.recorded_by.clone(),
        samples: recording.events.iter().map(|event| event.samples).sum(),
        span_s: Some(bill.span_s).filter(|span_s| *span_s > 0.0),
        verdict: match done.iter().map(|check| check.verdict).max() {
            Some(LintVerdict::Unknown | LintVerdict::Off) | None => LintVerdict::Passed,
            Some(worst) => worst,
        },
        checks: done,
    }
}

fn verdict(check: &dyn Check, whole: &Whole<'_>, limits: &Limits) -> LintCheck {
    let rule = check.rule();
    let thresholds = limits.of(rule);
    let judgement = if thresholds.is_off { None } else { Some(check.judge(whole)) };
    let mut done = LintCheck {
        check: rule.name.into(),
        verdict: LintVerdict::Off,
        measures: rule.measures.into(),
        unit: rule.unit,
        measured: None,
        warning_from: thresholds.warning,
        error_from: thresholds.error,
        evidence: String::new(),
        effect: String::new(),
        remedy: String::new(),
    };
    match judgement {
        None => {}
        Some(Judgement::Unknown(why)) => {
            (done.verdict, done.evidence) = (thresholds.unknown, why);
            if done.verdict != LintVerdict::Unknown {
                done.effect = "whether it is so is not known, and the thresholds want that known".into();
                done.remedy = format!("what is said of it; or thresholds without `unknown` in [{}]", rule.name);
            }
        }
        Some(Judgement::Measured(measured)) => {
            let reaches = |from: Option<f64>| from.is_some_and(|from| measured.value >= from);
            done.measured = Some(measured.value);
            done.verdict = if reaches(thresholds.error) && !measured.is_a_warning_at_most {
                LintVerdict::Error
            } else if reaches(thresholds.warning) || reaches(thresholds.error) {
                LintVerdict::Warning
            } else {
                LintVerdict::Passed
            };
            done.evidence = measured.evidence;
            if done.verdict != LintVerdict::Passed {
                (done.effect, done.remedy) = (measured.effect, measured.remedy);
            }
        }
    }
    done
}
