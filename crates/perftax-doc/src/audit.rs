//! `perftax audit`: whether samples tell the truth.

use serde::{Deserialize, Serialize};

use crate::Origin;
use crate::{Estimate, quantile};

/// All experiments of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Fewer runs of each.
    pub is_quick: bool,
    /// One an experiment, in the order in which they were done.
    pub experiments: Vec<AuditedExperiment>,
    /// What the PES study (TPDS'23) published against what came here, for the experiments that were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
}

impl Audit {
    /// Rows that did not meet their criterion.
    pub fn failed(&self) -> impl Iterator<Item = (&AuditedExperiment, &AuditRow)> {
        let rows = |experiment| move |row| (experiment, row);
        let all = self.experiments.iter().flat_map(move |experiment| experiment.rows.iter().map(rows(experiment)));
        all.filter(|(_, row)| row.verdict == Verdict::Failed)
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &AuditRow> {
        self.experiments.iter().flat_map(|experiment| &experiment.rows)
    }

    /// Where nothing at all was measured: what stood in the way first, a missing right before anything that the machine lacks.
    pub fn nothing_measured(&self) -> Option<&str> {
        if self.rows().any(|row| row.verdict != Verdict::Impossible) {
            return None;
        }
        let first = self.rows().find(|row| row.is_forbidden()).or_else(|| self.rows().next());
        Some(first.and_then(|row| row.remark.as_deref()).unwrap_or("nothing was asked"))
    }
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditedExperiment {
    /// What `--only` calls it.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// How it is answered.
    pub method: String,
    /// The figures and tables of the PES study (TPDS'23) that ask the same.
    pub figures: String,
    /// What came of it.
    pub rows: Vec<AuditRow>,
    /// How long it took, s.
    pub elapsed_s: f64,
}

/// One comparison with a truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// What is compared: an event, a period, a number of threads.
    pub case: String,
    /// What is counted: `samples`, `events`, `% of the samples`.
    pub unit: String,
    /// The truth.
    pub expected: f64,
    /// What was found, and from the least to the most over the runs.
    pub found: Estimate,
    /// Samples that the kernel could not write, all runs.
    pub lost: u64,
    /// Times that the kernel throttled, all runs.
    pub throttled: u64,
    /// (found − expected)/expected, signed; where nothing is expected, found itself.
    pub error: Estimate,
    /// The largest error that passes, without its sign.
    pub allowed: f64,
    /// Whether it passed.
    pub verdict: Verdict,
    /// What it means, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// What each run found.
    pub runs: Vec<f64>,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All runs are within what is allowed, and nothing was lost.
    Passed,
    /// Not all are.
    Failed,
    /// This machine cannot do it; the remark says why.
    Impossible,
}

/// A published figure or table against what came here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The figure or table: `figure 3`, `table III`.
    pub figure: String,
    /// What it asks, and by which mechanism.
    pub asks: String,
    /// The published numbers, with their unit and machine; where there are none, what is known instead.
    pub published: String,
    /// Ours, with their unit; where the mechanism is missing, what others show instead.
    pub ours: String,
    /// Where `ours` was measured: `this machine`, `software PMU`.
    pub place: String,
    /// How the two compare.
    pub verdict: ComparisonVerdict,
    /// Why: it goes on from the verdict's words.
    pub because: String,
}

/// How what came here compares with what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonVerdict {
    /// The numbers agree, or one rule gives both.
    Reproduced,
    /// They do not, and it is said why.
    Differs,
    /// The mechanism, the program or the published number is missing here.
    NotHere,
}

/// Where the numbers of a comparison that stand against the published ones are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOn {
    /// Measured on this machine, or not to be had on it.
    Here,
    /// The software PMU.
    SoftwarePmu,
    /// The rotation of events, modelled.
    Rotation,
}

impl MeasuredOn {
    const ALL: [Self; 3] = [Self::Here, Self::SoftwarePmu, Self::Rotation];

    /// As [`Comparison::place`] has it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Here => "this machine",
            Self::SoftwarePmu => "software PMU",
            Self::Rotation => "perf's rotation, modelled",
        }
    }

    /// The one of this text; none of another version's.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.text() == text)
    }
}

impl Comparison {
    /// Verdict and reason in one sentence.
    pub fn conclusion(&self) -> String {
        match self.verdict {
            ComparisonVerdict::Reproduced => format!("reproduced: {}", self.because),
            ComparisonVerdict::Differs => format!("differs because {}", self.because),
            ComparisonVerdict::NotHere => format!("cannot be measured here: {}", self.because),
        }
    }
}

/// What an impossible row lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// A truth to hold the event against.
    Truth,
    /// The right to measure it.
    Right,
    /// The event, or whatever else its remark names.
    Event,
}

impl Lack {
    /// What stands instead of a number, and before the reason in the first two remarks.
    fn text(self) -> &'static str {
        match self {
            Self::Truth => "no truth for it here",
            Self::Right => "not yours to measure",
            Self::Event => "cannot be had here",
        }
    }

    /// The remark of a row that lacks it.
    fn because(self, why: &str) -> String {
        format!("{}: {why}", self.text())
    }

    /// What the row of a remark lacks.
    fn read(remark: &str) -> Self {
        [Self::Truth, Self::Right].into_iter().find(|lack| remark.starts_with(lack.text())).unwrap_or(Self::Event)
    }
}

impl AuditRow {
    /// A row of some runs.
    pub fn of(case: impl Into<String>, unit: &str, expected: f64, runs: &[f64], allowed: f64) -> Self {
        let error = |found: f64| if expected == 0.0 { found } else { (found - expected) / expected };
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Without a run nothing was found; a document holds no number that is none.
        let mid = if sorted.is_empty() { 0.0 } else { quantile(&mut sorted.clone(), 0.5) };
        let (low, high) = (sorted.first().copied().unwrap_or(0.0), sorted.last().copied().unwrap_or(0.0));
        let is_within = sorted.iter().all(|found| error(*found).abs() <= allowed) && !sorted.is_empty();
        Self {
            case: case.into(),
            unit: unit.into(),
            expected,
            found: Estimate::new(mid, low, high),
            lost: 0,
            throttled: 0,
            error: Estimate::new(error(mid), error(low), error(high)),
            allowed,
            verdict: if is_within { Verdict::Passed } else { Verdict::Failed },
            remark: None,
            runs: runs.to_vec(),
        }
    }

    /// A row of a measured quantity that has an interval of its own: it passes where the interval reaches what was expected, give or take what
    /// is allowed.
    pub fn measured(case: impl Into<String>, unit: &str, expected: f64, found: Estimate, allowed: f64, runs: Vec<f64>) -> Self {
        let row = Self::of(case, unit, expected, &[found.low, found.estimate, found.high], allowed);
        let (least, most) = (expected * (1.0 - allowed), expected * (1.0 + allowed));
        let reaches = found.low <= most.max(least) && found.high >= most.min(least);
        let row = Self { verdict: if reaches { Verdict::Passed } else { Verdict::Failed }, found, runs, ..row };
        let half_width = (found.high - found.low) / 2.0;
        // Whatever reaches as far as nothing and twice as much agrees with everything. (Nor is what has no interval.)
        if half_width < expected.abs() {
            return row;
        }
        let told = "too noisy to tell: its interval is as wide as what is expected; more runs, or a quieter machine";
        Self { verdict: Verdict::Impossible, remark: Some(told.into()), ..row }
    }

    /// A row that this machine has nothing for.
    pub fn impossible(case: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Impossible, remark: Some(why.into()), ..Self::of(case, "", 0.0, &[0.0], 0.0) }
    }

    /// A row of an event for which no truth can be made, and why not.
    pub fn without_truth(case: impl Into<String>, why: &str) -> Self {
        Self::impossible(case, Lack::Truth.because(why))
    }

    /// Whether it says that no truth can be made, and not that something is missing.
    pub fn has_no_truth(&self) -> bool {
        self.verdict == Verdict::Impossible && self.lack() == Lack::Truth
    }

    /// A row that this machine could have measured, and did not let this process.
    pub fn forbidden(case: impl Into<String>, why: &str) -> Self {
        Self::impossible(case, Lack::Right.because(why))
    }

    /// Whether it says that the right is missing, and not the machine's ability.
    pub fn is_forbidden(&self) -> bool {
        self.verdict == Verdict::Impossible && self.lack() == Lack::Right
    }

    /// What an impossible row says instead of a number.
    pub fn instead(&self) -> &'static str {
        if self.verdict == Verdict::Impossible { self.lack().text() } else { Lack::Event.text() }
    }

    fn lack(&self) -> Lack {
        self.remark.as_deref().map_or(Lack::Event, Lack::read)
    }

    /// With what was lost on the way: whatever was, the row fails.
    #[must_use]
    pub fn losing(mut self, lost: u64, throttled: u64) -> Self {
        (self.lost, self.throttled) = (lost, throttled);
        if lost + throttled > 0 && self.verdict == Verdict::Passed {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// Where others took its counter: the share of the time for which it counted. It fails: a share is an estimate of the whole.
    #[must_use]
    pub fn sharing(mut self, share: f64) -> Self {
        let told = format!("multiplexed: it counted for {:.1} % of the time", 100.0 * share);
        self.remark = Some(self.remark.map_or(told.clone(), |remark| format!("{remark}; {told}")));
        if self.verdict == Verdict::Passed {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// With words before those that it has.
    #[must_use]
    pub fn remarking_first(self, first: impl Into<String>) -> Self {
        let first = first.into();
        let remark = self.remark.map_or(first.clone(), |remark| format!("{first}; {remark}"));
        Self { remark: Some(remark), ..self }
    }

    /// With words.
    #[must_use]
    pub fn remarking(self, remark: impl Into<String>) -> Self {
        Self { remark: Some(remark.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_outside_fails_a_row() {
        let row = |runs: &[f64]| AuditRow::of("x", "samples", 1000.0, runs, 0.001);
        assert_eq!(row(&[1000.0, 1001.0, 999.0]).verdict, Verdict::Passed);
        let failed = row(&[1000.0, 1002.0, 1000.0]);
        assert_eq!((failed.verdict, failed.found.high), (Verdict::Failed, 1002.0));
        assert!((failed.error.high - 0.002).abs() < 1e-12);
        let nothing = row(&[]);
        assert_eq!((nothing.verdict, nothing.found.estimate), (Verdict::Failed, 0.0));
        assert!(serde_json::from_str::<AuditRow>(&serde_json::to_string(&nothing).unwrap()).is_ok());
    }

    #[test]
    fn whatever_is_lost_fails_a_row() {
        let row = AuditRow::of("x", "samples", 10.0, &[10.0], 0.0);
        assert_eq!(row.clone().losing(0, 0).verdict, Verdict::Passed);
        assert_eq!(row.clone().losing(1, 0).verdict, Verdict::Failed);
        assert_eq!(row.losing(0, 1).verdict, Verdict::Failed);
    }

    #[test]
    fn what_is_missing_and_what_cannot_be_known_are_told_apart() {
        let forbidden = AuditRow::forbidden("z", "the knob is 2");
        assert!(forbidden.is_forbidden() && !forbidden.has_no_truth() && forbidden.instead() == "not yours to measure");
        let rows = [AuditRow::impossible("x", "no such counter"), AuditRow::without_truth("y", "nobody knows")];
        assert!(rows.iter().all(|row| !row.is_forbidden()));
        assert_eq!(rows.each_ref().map(AuditRow::instead), ["cannot be had here", "no truth for it here"]);
        assert!(!AuditRow::of("x", "events", 1.0, &[1.0], 0.0).has_no_truth());
    }

    #[test]
    fn places_and_lacks_are_read_from_their_texts() {
        assert_eq!(MeasuredOn::ALL.map(MeasuredOn::text), ["this machine", "software PMU", "perf's rotation, modelled"]);
        assert!(MeasuredOn::ALL.into_iter().all(|place| MeasuredOn::read(place.text()) == Some(place)));
        assert_eq!(MeasuredOn::read("elsewhere"), None);
        for lack in [Lack::Truth, Lack::Right, Lack::Event] {
            assert_eq!(Lack::read(&lack.because("why")), lack);
        }
        assert_eq!(Lack::Truth.because("nobody knows"), "no truth for it here: nobody knows");
    }

    #[test]
    fn where_nothing_is_expected_the_error_is_what_came() {
        let row = AuditRow::of("kernel samples of user code", "samples", 0.0, &[0.0, 3.0], 0.0);
        assert_eq!((row.error.high, row.verdict), (3.0, Verdict::Failed));
    }
}
