//! Figures 5, 7 and 12 and the execution mode: who gets which samples, among threads, instructions, events and modes.

use perftax_doc::Mechanism;
use perftax_doc::{AuditRow, Comparison, ComparisonVerdict, MeasuredOn, Verdict};
use perftax_model::Rotation;

use super::{Entry, Ours, Row, on};
use crate::audit::Name;
use crate::audit::case::{How, Share};
use crate::published::pes::{EventsAtOnce, Figure, Maker, Pes, Prose, Spread};

/// The study's counters for PEBS on Cascade Lake (published: 4 before Ice Lake).
const COUNTERS: u32 = 4;
/// How near a share must come to that of the rotation, %: the published ones come within 0.3.
const NEAR_PERCENT: f64 = 1.0;
/// The same of ours, whose runs may be so short that events take only some hundred turns.
const NEAR_HERE_PERCENT: f64 = 2.0;

fn prose(pes: &Pes, figure: Figure) -> Row {
    let empty = || (String::from("unknown"), String::from("unknown"));
    let (asks, published) = pes.prose(figure).map_or_else(empty, |Prose { asks, finding, .. }| (asks.clone(), finding.clone()));
    Row { figure, asks, published }
}

fn passed(rows: &[&Entry]) -> String {
    let count = rows.iter().filter(|entry| entry.has_passed()).count();
    format!("{count} of {} rows by hardware as they must be", rows.len())
}

/// Figure 5: there are no numbers, so ours stand alone.
pub(super) fn threads(pes: &Pes, ours: &Ours) -> Comparison {
    let rows = ours.precise(Name::Threads);
    let most = ours.rows(Name::Threads).filter_map(|entry| entry.case.at_once()).max().unwrap_or(0);
    let measured = if rows.is_empty() { ours.instead(Name::Threads) } else { passed(&rows) };
    let because = format!("no published number to hold it against; there are CPUs for {most} threads at once here");
    prose(pes, Figure::Five).not_here(format!("{measured}, to {most} threads"), because)
}

/// Figure 7: what the arithmetic of the period gives without any bias of the mechanism.
pub(super) fn bias(pes: &Pes, ours: &Ours) -> Comparison {
    let row = prose(pes, Figure::Seven);
    let share = |row: &AuditRow| {
        format!("{:.1} % on one instruction, {:.0} % by the period's arithmetic", row.found.estimate, row.expected)
    };
    let rows = ours.precise(Name::Bias);
    if !rows.is_empty() {
        let text = rows.iter().map(|entry| format!("{}: {}", entry.case, share(entry.row))).collect::<Vec<_>>().join("; ");
        // Of shares that arithmetic makes even: what goes beyond is the mechanism's.
        let is_beyond = |row: &AuditRow| row.expected < 100.0 && row.error.high > row.allowed;
        let failed = rows.iter().filter(|entry| entry.row.verdict == Verdict::Failed).count();
        return if rows.iter().any(|entry| is_beyond(entry.row)) {
            row.reproduced(text, "a mechanism prefers an instruction at a period that arithmetic makes even")
        } else if failed > 0 {
            row.differs(text, format!("samples were lost, or named none of the instructions, in {failed} of {} rows", rows.len()))
        } else {
            row.differs(text, "no share goes beyond what the arithmetic of the period gives")
        };
    }
    let others: Vec<String> = ours
        .rows(Name::Bias)
        .filter(|entry| entry.is_possible())
        .map(|entry| format!("{}: {}", entry.case.anyhow(), share(entry.row)))
        .collect();
    let text = if others.is_empty() { "nothing was measured instead".into() } else { others.join("; ") };
    let because = format!(
        "{}. Of 12 loads a turn a sampler without bias that takes one in 100,000 always meets the same three, one of them of the four; one in \
         100,001, as PEBS does, meets each equally often. So the interval alone can make a bias, but would not explain that of PEBS",
        ours.missing(Name::Bias, Mechanism::Pebs)
    );
    row.not_here(text, because)
}

/// Figure 12: more events than counters.
pub(super) fn events(pes: &Pes, ours: &Ours) -> Vec<Comparison> {
    let of = |maker: Maker| pes.events.iter().filter(move |row| row.machine == maker);
    let shares = |row: &EventsAtOnce| Spread::of(row.accuracy_percent.iter().copied());
    let each = |row: &EventsAtOnce| Some(format!("{} of {}", super::range(&shares(row)?, "%", 1), row.at_once?));
    let published = of(Maker::Intel).filter_map(each).collect::<Vec<_>>().join(", ");
    let row = || Row {
        figure: Figure::Twelve,
        asks: "samples of several events at once, PEBS".into(),
        published: format!("{published} {}", on(Maker::Intel)),
    };
    let rows = ours.by(Name::Events, Mechanism::Pebs);
    let here = match in_turns(&rows) {
        Some((text, conclusion)) => row().ends(text, MeasuredOn::Here, conclusion),
        None if rows.is_empty() => row().not_here(
            ours.instead(Name::Events),
            format!(
                "{}; software events need no counter, so they do not take turns",
                ours.missing(Name::Events, Mechanism::Pebs)
            ),
        ),
        None => row().not_here(passed(&rows), "no row has more events than counters"),
    };
    let rotations: Vec<(u32, f64)> =
        [4, 5, 6].map(|events| (events, 100.0 * Rotation { events, counters: COUNTERS }.share())).to_vec();
    let is_published = |(events, share): &(u32, f64)| {
        let row = of(Maker::Intel).find(|row| row.at_once == Some(*events)).and_then(shares);
        row.is_some_and(|spread| (spread.least - share).abs().max((spread.most - share).abs()) <= NEAR_PERCENT)
    };
    let text = rotations.iter().map(|(events, share)| format!("{share:.1} % of {events}")).collect::<Vec<_>>().join(", ");
    let conclusion = if rotations.iter().all(is_published) {
        (
            ComparisonVerdict::Reproduced,
            "4/5 and 4/6: events take turns on four counters, and the counts were not scaled by the time that each ran".into(),
        )
    } else {
        (ComparisonVerdict::Differs, "the shares are not those of events that take turns on four counters".into())
    };
    let model = row().ends(text, MeasuredOn::Rotation, conclusion);
    let ibs: Vec<String> = of(Maker::Amd)
        .flat_map(|row| row.events.iter().zip(&row.signed_error_percent))
        .map(|(event, error)| format!("{event} {} %", super::percent(*error)))
        .collect();
    let ibs_row = Row {
        figure: Figure::Twelve,
        asks: "kinds of operation told apart by IBS op".into(),
        published: format!("{} {}", ibs.join(", "), on(Maker::Amd)),
    };
    let of_ibs = ours.by(Name::Events, Mechanism::IbsOp);
    let ibs = if of_ibs.is_empty() {
        ibs_row.not_here("nothing".into(), ours.missing(Name::Events, Mechanism::IbsOp))
    } else {
        let off = Spread::of(of_ibs.iter().map(|entry| 100.0 * entry.row.error.estimate));
        let text = off.map_or(String::new(), |off| super::span(&off));
        let all = Spread::of(of(Maker::Amd).flat_map(|row| row.signed_error_percent.iter().copied()));
        match off.zip(all) {
            Some((off, all)) if all.contains(off.least) && all.contains(off.most) => {
                ibs_row.reproduced(text, "the errors lie among the published ones")
            }
            _ => ibs_row.differs(text, "an error lies outside of the published ones"),
        }
    };
    vec![here, model, ibs]
}

/// What each of several events got against what events that take turns get. `None` where no row has more events than counters.
fn in_turns(rows: &[&Entry]) -> Option<(String, (ComparisonVerdict, String))> {
    let cell = |entry: &&Entry| match entry.case.watched()?.how {
        How::Rotating { events, counters, share: Share::Unscaled } => {
            Some((Rotation { events: events as u32, counters: counters as u32 }, entry.row.found.estimate))
        }
        _ => None,
    };
    let cells: Vec<(Rotation, f64)> = rows.iter().filter_map(cell).collect();
    let told =
        |(rotation, share): &(Rotation, f64)| format!("{share:.1} % of {} on {} counters", rotation.events, rotation.counters);
    let text = cells.iter().map(told).collect::<Vec<_>>().join(", ");
    let off = cells.iter().map(|(rotation, share)| (share - 100.0 * rotation.share()).abs()).reduce(f64::max)?;
    let conclusion = if off <= NEAR_HERE_PERCENT {
        (
            ComparisonVerdict::Reproduced,
            format!(
                "each is left counters/events of its samples, to within {off:.1} points; the study's machine has four counters"
            ),
        )
    } else {
        (ComparisonVerdict::Differs, format!("a share is {off:.1} points off counters/events"))
    };
    Some((text, conclusion))
}

/// The execution mode: prose alone.
pub(super) fn mode(pes: &Pes, ours: &Ours) -> Comparison {
    let row = prose(pes, Figure::Mode);
    let rows = ours.precise(Name::Mode);
    if rows.is_empty() {
        let because = format!(
            "{}. What it asks holds for the events that are here, with a positive control beside",
            ours.missing(Name::Mode, Mechanism::Pebs)
        );
        return row.not_here(ours.instead(Name::Mode), because);
    }
    let text = passed(&rows);
    if rows.iter().all(|entry| entry.has_passed()) {
        row.reproduced(text, "no sample of the other mode, and with a positive control, which the study has not")
    } else {
        row.differs(text, "samples came in a mode in which there are none by construction")
    }
}
