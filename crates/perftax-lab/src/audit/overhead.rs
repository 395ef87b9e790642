//! What does sampling real programs take, with and without a signal to each sample?

use perftax_doc::AuditRow;
use perftax_doc::steps;
use perftax_pmu::Result;

use super::case::Case;
use super::programs::{Programs, Round, Way, a_sample_s, longer, over_rounds};
use super::{Experiment, Name, Setting, Unit, or_impossible};

/// Programs that do different things, against the price of a sample in one that does nothing but count.
pub struct Overhead;

/// The program that gives the price.
const REFERENCE_LOOP: &str = "spin";
/// The programs.
const PROGRAMS: [&str; 4] = ["perl", "bzip2", "hmmer", "glpsol"];
/// How far a program's overhead may lie from samples × price, as a share of it: what a sample takes differs by what the program has in caches.
const ALLOWED: f64 = 0.3;

impl Experiment for Overhead {
    fn name(&self) -> Name {
        Name::Overhead
    }

    fn question(&self) -> &'static str {
        "is what sampling takes the number of samples times a price, with and without signals?"
    }

    fn method(&self) -> &'static str {
        "programs run alone, sampled, and sampled with a signal to them for each sample, in rounds of random order; the price of a sample is that \
         in a loop that only counts. A row holds where its interval reaches samples × price ± 30 %"
    }

    fn figures(&self) -> &'static str {
        "figures 8, 9 and 14"
    }

    fn is_pinned(&self) -> bool {
        false
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let programs = Programs::new(setting)?;
        let (rounds, names) = (setting.rounds(), if setting.is_quick { &PROGRAMS[..1] } else { &PROGRAMS[..] });
        let price = programs.rounds(REFERENCE_LOOP, rounds, &Way::ALL)?;
        let mut rows = Vec::new();
        for name in names {
            let of = programs.rounds(name, rounds, &Way::ALL).map(|of| of_program(name, &programs.sampled_by, &of, &price));
            rows.extend(or_impossible(*name, of)?);
        }
        if setting.is_quick {
            let too_long = format!("not with {}: it takes minutes", steps::Setting::Quick);
            rows.extend(PROGRAMS[1..].iter().map(|name| AuditRow::impossible(*name, &too_long)));
        }
        Ok(rows)
    }
}

fn of_program(name: &str, sampled_by: &str, rounds: &[Round], price: &[Round]) -> Vec<AuditRow> {
    let all_of_price: Vec<&Round> = price.iter().collect();
    let row = |(way, with_signal): (Way, bool)| {
        let price_us = 1e6 * a_sample_s(&all_of_price, way);
        let found = over_rounds(rounds, |rounds| 1e6 * a_sample_s(rounds, way));
        let longer = over_rounds(rounds, |rounds| 100.0 * longer(rounds, way));
        let mut samples: Vec<f64> = rounds.iter().map(|round| round.of(way).samples as f64).collect();
        let samples = perftax_doc::median(&mut samples);
        let runs: Vec<f64> = rounds.iter().map(|round| 1e6 * a_sample_s(&[round], way)).collect();
        let remark = format!(
            "{samples:.0} samples ({sampled_by}): {:.1} % longer than alone [{:.1}, {:.1}]",
            longer.estimate, longer.low, longer.high
        );
        AuditRow::measured(
            Case::Program { name: name.into(), with_signal },
            Unit::MicrosecondsASample.text(),
            price_us,
            found,
            ALLOWED,
            runs,
        )
        .remarking_first(remark)
    };
    [(Way::Sampled, false), (Way::Signalled, true)].into_iter().map(row).collect()
}
