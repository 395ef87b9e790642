//! Figures 3, 4 and 6: samples against events over the interval.

use perftax_doc::Mechanism;
use perftax_doc::words::count;
use perftax_doc::{Comparison, ComparisonVerdict, MeasuredOn};

use super::{Entry, Ours, Row, on, percent, span, spoken};
use crate::audit::Name;
use crate::audit::case::{Case, How};
use crate::published::pes::{Accuracy, Figure, Pes, Session, Simulated, Spread};

/// One number of samples of ours.
struct Cell {
    /// What is sampled.
    event: String,
    period: f64,
    /// Events over the period.
    expected: f64,
    /// From the least to the most of the runs.
    found: Spread,
}

/// How near to one sample in period + 1 the published medians count as explained by it: what the newer session leaves at intervals
/// of 1000 and more. Its residue has no known cause.
const NEAR: f64 = 0.001;

/// Figures 3 and 4: at one sample in 100,000 events, by mechanism.
pub(super) fn at_one_interval(pes: &Pes, ours: &Ours, figure: Figure) -> Vec<Comparison> {
    let mechanisms: &[Mechanism] = if figure == Figure::Three {
        &[Mechanism::Pebs, Mechanism::IbsOp, Mechanism::IbsFetch]
    } else {
        &[Mechanism::Pebs, Mechanism::IbsOp]
    };
    mechanisms.iter().flat_map(|mechanism| both(pes, ours, figure, *mechanism)).collect()
}

/// Figure 6: at intervals from 100 to 1,000,000.
pub(super) fn by_interval(pes: &Pes, ours: &Ours) -> Vec<Comparison> {
    [Mechanism::Pebs, Mechanism::IbsOp].into_iter().flat_map(|mechanism| both(pes, ours, Figure::Six, mechanism)).collect()
}

/// This machine's row and the software PMU's.
fn both(pes: &Pes, ours: &Ours, figure: Figure, mechanism: Mechanism) -> [Comparison; 2] {
    let published = Published::of(pes, figure, mechanism);
    let mut rows: Vec<&Entry> = ours.by(Name::Interval, mechanism);
    rows.extend(ours.by(Name::Misses, mechanism));
    let here = asked(&rows, figure, mechanism);
    let row = || Row { figure, asks: asks(figure, mechanism), published: published.text() };
    let measured = if here.is_empty() {
        let instead = if mechanism == Mechanism::Pebs { ours.instead(Name::Interval) } else { "nothing".into() };
        let because = if figure == Figure::Four && ours.has(Name::Misses) {
            ours.missing(Name::Misses, mechanism)
        } else if rows.is_empty() {
            ours.missing(Name::Interval, mechanism)
        } else {
            let lacking = match (figure, mechanism) {
                (Figure::Three, Mechanism::Pebs) => "is of instructions",
                (Figure::Three, _) => "has a signal for each sample, as the study's have",
                _ => "is of first-level misses",
            };
            format!("no row by {} {lacking}", spoken(mechanism))
        };
        row().not_here(instead, because)
    } else {
        row().ends(text(&here, figure), MeasuredOn::Here, published.judge(&here))
    };
    let is_same = |cell: &&Simulated| cell.figure == figure && cell.mechanism == mechanism;
    let simulated: Vec<Cell> = pes.simulated.iter().filter(is_same).map(Cell::simulated).collect();
    let (verdict, mut because) = published.judge(&simulated);
    // One number for all loop lengths (crates/perftax-model/machines/zen2.toml): what agrees with figure 3 had to.
    match mechanism {
        Mechanism::IbsOp => because += "; the model's 7,600 operations of a handler that count were fitted to figure 3",
        Mechanism::IbsFetch => because += "; the model's 2,900 fetches of a handler that count were fitted to this figure",
        _ => {}
    }
    [measured, row().ends(text(&simulated, figure), MeasuredOn::SoftwarePmu, (verdict, because))]
}

/// The rows of what a figure is of. Figure 6 asks about the interval: without misses at several any event will do, and its name is said.
fn asked(rows: &[&Entry], figure: Figure, mechanism: Mechanism) -> Vec<Cell> {
    let of = |is_asked: &dyn Fn(&Case) -> bool| -> Vec<Cell> {
        rows.iter().filter(|entry| is_asked(&entry.case)).filter_map(|entry| Cell::of(entry, mechanism)).collect()
    };
    let misses = of(&Case::is_of_misses);
    match figure {
        Figure::Three if mechanism == Mechanism::Pebs => of(&Case::is_of_instructions),
        // The study has a signal for each sample, and IBS counts what that takes.
        Figure::Three => of(&|case| !case.is_of_misses() && case.has_signal()),
        Figure::Six if misses.iter().all(|cell| cell.period == misses[0].period) => {
            of(&|case| !case.is_without_the_handlers() && !case.is_of_misses())
        }
        _ => misses,
    }
}

fn asks(figure: Figure, mechanism: Mechanism) -> String {
    let of = match (figure, mechanism) {
        (Figure::Three, Mechanism::Pebs) => "instructions",
        (Figure::Three, Mechanism::IbsOp) => "operations",
        (Figure::Three, _) => "fetches",
        _ => "first-level misses",
    };
    let at = if figure == Figure::Six { "by interval" } else { "every 100,000" };
    format!("accuracy, {} of {of}, {at}", spoken(mechanism))
}

impl Cell {
    /// A row at one period; jittered ones have several.
    fn of(entry: &Entry, mechanism: Mechanism) -> Option<Self> {
        let (row, watched) = (entry.row, entry.case.watched()?);
        let period = watched.every.filter(|_| watched.how != How::Jittered)? as f64;
        let expected = if mechanism == Mechanism::Pebs { row.expected * (period + 1.0) / period } else { row.expected };
        let found = Spread { median: row.found.estimate, least: row.found.low, most: row.found.high };
        let event = watched.subject.counted();
        (expected > 0.0).then_some(Self { event, period, expected, found })
    }

    fn simulated(cell: &Simulated) -> Self {
        let samples = cell.samples;
        let found = Spread { median: samples, least: samples, most: samples };
        Self { event: cell.event.clone(), period: cell.period_events as f64, expected: cell.expected_samples, found }
    }

    /// Signed error of the median, %.
    fn error(&self) -> f64 {
        100.0 * (self.found.median / self.expected - 1.0)
    }

    /// Whether every run has one sample in period + 1 events, to within one sample.
    fn is_by_rule(&self) -> bool {
        let ruled = self.expected * self.period / (self.period + 1.0);
        // Both counts are of whole samples, rounded down.
        [self.found.least, self.found.most].iter().all(|samples| (samples - ruled).abs() <= 1.0 + 1e-9)
    }
}

/// Cells that are told one by one; more are summed up.
const MAX_TOLD: usize = 6;

/// Ours: what was sampled, and the errors, by interval where there are few.
fn text(cells: &[Cell], figure: Figure) -> String {
    let mut events: Vec<&str> = cells.iter().map(|cell| cell.event.as_str()).collect();
    events.dedup();
    let events = events.join(", ");
    if figure == Figure::Six && cells.len() <= MAX_TOLD {
        let at = |cell: &Cell| format!("{} % at {}", percent(cell.error()), count(cell.period as u64));
        return format!("{events}: {}", cells.iter().map(at).collect::<Vec<_>>().join("; "));
    }
    let errors = Spread::of(cells.iter().map(Cell::error)).map_or(String::new(), |spread| span(&spread));
    let periods = Spread::of(cells.iter().map(|cell| cell.period)).map_or(String::new(), |spread| {
        let [least, most] = [spread.least, spread.most].map(|period| count(period as u64));
        if least == most { least } else { format!("{least} to {most}") }
    });
    format!("{events}: {errors} ({} cells, every {periods})", cells.len())
}

/// The study's cells of a figure and mechanism.
struct Published<'a> {
    newer: Vec<&'a Accuracy>,
    older: Vec<&'a Accuracy>,
}

impl<'a> Published<'a> {
    fn of(pes: &'a Pes, figure: Figure, mechanism: Mechanism) -> Self {
        let cells = |session| pes.cells(figure, mechanism, session).collect();
        Self { newer: cells(Session::Newer), older: cells(Session::Older) }
    }

    /// Its numbers; of figure 6, which has several intervals, one each.
    fn text(&self) -> String {
        let machine = self.newer.first().map_or(String::new(), |cell| on(cell.machine));
        let by_interval = self.newer.iter().any(|cell| cell.period_events != self.newer[0].period_events);
        let number = |cell: &Accuracy| match (&cell.signed_error_percent, cell.accuracy_percent) {
            (Some(error), _) => format!("{} %", percent(error.median)),
            (None, Some(accuracy)) => format!("{accuracy:.1} % accurate"),
            (None, None) => "nothing".into(),
        };
        let list = |cells: &[&Accuracy]| {
            let at = |cell: &&Accuracy| format!("{} at {}", number(cell), count(cell.period_events));
            cells.iter().map(at).collect::<Vec<_>>().join("; ")
        };
        if by_interval {
            return format!("medians {machine}: {}. Older session: {}", list(&self.newer), list(&self.older));
        }
        let runs = self.newer.first().map_or(0, |cell| cell.runs);
        let errors = self.errors(&self.newer).map_or(String::new(), |spread| span(&spread));
        let older = Spread::of(self.older.iter().filter_map(|cell| cell.accuracy_percent));
        let older = older.map_or(String::new(), |spread| {
            format!("; older session {} accurate", super::range(&spread, "%", if spread.least > 99.0 { 2 } else { 1 }))
        });
        format!("{errors} {machine} ({} ratios of {runs} runs{older})", self.newer.len())
    }

    /// From the least to the most of all runs, %.
    fn errors(&self, cells: &[&Accuracy]) -> Option<Spread> {
        Spread::around(cells.iter().filter_map(|cell| cell.signed_error_percent.as_ref()))
    }

    /// The cells whose interval is nearest to one of ours.
    fn nearest<'b>(cells: &'b [&'a Accuracy], period: f64) -> Vec<&'b &'a Accuracy> {
        let distance = |cell: &&Accuracy| (cell.period_events as f64 / period).ln().abs();
        let least = cells.iter().map(distance).fold(f64::INFINITY, f64::min);
        cells.iter().filter(|cell| distance(cell) <= least).collect()
    }

    /// Whether one sample in period + 1 events explains what was published near our interval, and how far its medians are off, %.
    fn by_rule(&self, cell: &Cell) -> Option<Vec<f64>> {
        let off = |published: &Accuracy| {
            let period = published.period_events as f64;
            let error = published.signed_error_percent?.median / 100.0;
            Some((1.0 + error) * (period + 1.0) / period - 1.0)
        };
        let newer: Vec<f64> = Self::nearest(&self.newer, cell.period).into_iter().filter_map(|cell| off(cell)).collect();
        let is_near = !newer.is_empty() && newer.iter().all(|off| off.abs() <= NEAR);
        // The older session keeps the rule to a sample, which at its counts is far below a thousandth of what is near.
        let older = Self::nearest(&self.older, cell.period);
        let is_kept = older.iter().any(|cell| off(cell).is_some_and(|off| off.abs() < 1e-6));
        (is_near || is_kept).then(|| newer.iter().map(|off| 100.0 * off).collect())
    }

    /// Ours against it.
    fn judge(&self, ours: &[Cell]) -> (ComparisonVerdict, String) {
        let (reproduced, differs) = (ComparisonVerdict::Reproduced, ComparisonVerdict::Differs);
        let Some(all) = self.errors(&self.newer) else { return (differs, self.disagreement(ours)) };
        let within = |cell: &Cell| {
            let near = Self::nearest(&self.newer, cell.period).into_iter().filter_map(|cell| cell.signed_error_percent.as_ref());
            Spread::around(near).is_some_and(|spread| spread.has_one_sign() && spread.contains(cell.error()))
        };
        if ours.iter().all(within) {
            return (
                reproduced,
                "each error has the published sign and lies between the least and the most of the published runs".into(),
            );
        }
        let off: Option<Vec<Vec<f64>>> = ours.iter().map(|cell| self.by_rule(cell)).collect();
        if let Some(off) = off.filter(|_| ours.iter().all(Cell::is_by_rule)) {
            let off = Spread::of(off.into_iter().flatten()).map_or(String::new(), |spread| span(&spread));
            let because = format!(
                "one sample in period + 1 events, to within one here; the published medians lie {off} from that, for which no cause is known"
            );
            return (reproduced, because);
        }
        if !all.has_one_sign() {
            let older = Spread::of(self.older.iter().filter_map(|cell| cell.accuracy_percent));
            let older = older
                .map_or(String::new(), |spread| format!(", the older session is {} accurate", super::range(&spread, "%", 1)));
            let because =
                format!("the published runs disagree with each other, from {}{older}: there is no one error to meet", span(&all));
            return (differs, because);
        }
        let farthest = |cell: &Cell| {
            let near = Spread::around(
                Self::nearest(&self.newer, cell.period).into_iter().filter_map(|c| c.signed_error_percent.as_ref()),
            );
            near.map_or(0.0, |near| (near.least - cell.error()).max(cell.error() - near.most))
        };
        let by = ours.iter().map(farthest).fold(0.0, f64::max);
        (differs, format!("an error lies {by:.2} points outside of the published runs, and no rule that is known explains it"))
    }

    /// Where only accuracies are published, which have no sign: how far the sessions are apart at the same interval.
    fn disagreement(&self, ours: &[Cell]) -> String {
        let apart = |cell: &&Accuracy| {
            let older = self.older.iter().find(|older| older.period_events == cell.period_events)?;
            let older = 100.0 - older.signed_error_percent?.median.abs();
            Some((cell.period_events, cell.accuracy_percent?, older))
        };
        let worst = self.newer.iter().filter_map(apart).max_by(|a, b| (a.1 - a.2).abs().total_cmp(&(b.1 - b.2).abs()));
        let sessions = worst.map_or(String::new(), |(period, newer, older)| {
            format!(
                "the study's sessions disagree ({newer:.0} and {older:.0} % accurate at {}) and the newer one has no sign",
                count(period)
            )
        });
        let surplus = ours.iter().map(Cell::error).fold(f64::NEG_INFINITY, f64::max);
        if surplus > 100.0 {
            // The handler's operations that count are nearly as many as the interval has.
            return format!(
                "{sessions}; at the shortest interval the operations of the handler that count nearly fill it, so ours runs away"
            );
        }
        sessions
    }
}

/// Figures 3 and 6 from run to run: how far apart runs of the same work are.
pub(super) fn from_run_to_run(pes: &Pes, ours: &Ours) -> Vec<Comparison> {
    [Mechanism::Pebs, Mechanism::IbsOp, Mechanism::IbsFetch]
        .into_iter()
        .map(|mechanism| stability(pes, ours, mechanism))
        .collect()
}

fn stability(pes: &Pes, ours: &Ours, mechanism: Mechanism) -> Comparison {
    // From the least to the most of the runs, against their median, %.
    let width = |spread: &Spread| 100.0 * (spread.most - spread.least) / (100.0 + spread.median);
    let cells =
        || [Figure::Three, Figure::Four, Figure::Six].into_iter().flat_map(|figure| pes.cells(figure, mechanism, Session::Newer));
    let published = Spread::of(cells().filter_map(|cell| cell.signed_error_percent.as_ref()).map(width));
    let widest = published.map_or(0.0, |spread| spread.most);
    let machine = cells().next().map_or(String::new(), |cell| on(cell.machine));
    let row = Row {
        figure: Figure::ThreeFourSix,
        asks: format!("stability from run to run, {}", spoken(mechanism)),
        published: published
            .map_or(String::new(), |spread| format!("runs lie {} apart {machine}", super::range(&spread, "%", 2))),
    };
    let rows = ours.by(Name::Stability, mechanism);
    let apart = Spread::of(
        rows.iter().map(|entry| &entry.row.found).map(|found| 100.0 * (found.high - found.low) / found.estimate.abs().max(1.0)),
    );
    let Some(apart) = apart else {
        let instead = if mechanism == Mechanism::Pebs { ours.instead(Name::Stability) } else { "nothing".into() };
        return row.not_here(instead, ours.missing(Name::Stability, mechanism));
    };
    let text = format!("runs lie {} apart", super::range(&apart, "%", 2));
    if apart.most <= widest {
        row.reproduced(text, "no farther apart than the published runs")
    } else {
        row.differs(text, format!("runs lie up to {:.2} % apart here, the published ones up to {widest:.2} %", apart.most))
    }
}
