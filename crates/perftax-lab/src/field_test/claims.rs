//! Which of perftax's claims hold on a machine, by what was measured there. None of them needs the truth that only an emulated machine knows: mechanisms are held
//! against each other, costs against what they must be above, counts against loops of known length.

use perftax_cost::buffering::ASSIST_TERM;
use perftax_doc::{Audit, Calibration, ClaimVerdict, Estimate, FieldClaim, Mechanism, Selfcost, Verdict};

/// What a PEBS record delays a program by, ns, on the machines that were published (ROSS'17, table 2 and section 4).
const PEBS_RECORD_NS: (f64, f64) = (200.0, 300.0);
/// Elapsed time that bends away from a line in the number of samples by more than this is none.
const BENDS: f64 = 0.2;
/// The tracepoints around a handler, which tell how long it takes, take so much of that time themselves at most: 9 % in the emulated machine.
const TOLD_BY: f64 = 0.2;
/// Perf's buffer evicts other lines than our module's, which nobody reads: what they find differs by so much at the most.
const TWO_WAYS: f64 = 0.1;
/// The experiment about events that the kernel translates: where one fails it is the kernel's table that is wrong, and neither the machine nor perftax.
const GENERIC: &str = "generic";
/// The share of the samples that should come which must.
const DELIVERED: f64 = 0.95;

/// Every claim, in the order in which they are read.
pub fn claims(calibrations: &[Calibration], audit: Option<&Audit>, selfcost: Option<&Selfcost>) -> Vec<FieldClaim> {
    let of = |mechanism: Mechanism| calibrations.iter().find(|calibration| calibration.mechanism == mechanism);
    let mut claims = vec![
        about_all("control", "two unmonitored runs do not differ", calibrations, control),
        about_all("delivered", "the samples that should come do come", calibrations, delivered),
        about_all("handler", "a sample costs no less than the time inside its interrupt's handler", calibrations, handler),
        about_all("line", "elapsed time grows in a straight line with the number of samples", calibrations, line),
        pebs_against_interrupts(of(Mechanism::Pebs), of(Mechanism::Pmi)),
        counter_against_timer(of(Mechanism::Pmi).or(of(Mechanism::IbsOp)), of(Mechanism::CpuClock)),
        pebs_record(of(Mechanism::PebsDirect)),
        pebs_two_ways(of(Mechanism::Pebs), of(Mechanism::PebsDirect)),
    ];
    claims.push(audited("counts", "counts are those of loops of known length", audit, |name| name == "count"));
    claims.push(audited("samples", "samples tell the truth: periods, bias, modes, addresses", audit, |name| {
        !["count", GENERIC].contains(&name)
    }));
    claims.push(audited(GENERIC, "Linux's generic events count what they are called", audit, |name| name == GENERIC));
    claims.push(kept(selfcost));
    claims
}

/// A verdict, what it rests on, and the number.
type Found = (ClaimVerdict, String, Option<Estimate>);

fn claim(name: &str, claim: &str, (verdict, evidence, found): Found) -> FieldClaim {
    FieldClaim { name: name.into(), claim: claim.into(), verdict, evidence, found }
}

fn untested(why: &str) -> Found {
    (ClaimVerdict::Untested, why.into(), None)
}

fn holds(is_so: bool) -> ClaimVerdict {
    if is_so { ClaimVerdict::Confirmed } else { ClaimVerdict::Contradicted }
}

/// A claim about each calibration: it holds where it holds of all that can tell.
fn about_all(name: &str, text: &str, calibrations: &[Calibration], of: fn(&Calibration) -> Option<(bool, String)>) -> FieldClaim {
    let told: Vec<(bool, String)> = calibrations
        .iter()
        .filter_map(|calibration| of(calibration).map(|(holds, text)| (holds, format!("{}: {text}", calibration.mechanism))))
        .collect();
    if told.is_empty() {
        return claim(name, text, untested("no calibration tells"));
    }
    let evidence = told.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ");
    claim(name, text, (holds(told.iter().all(|(holds, _)| *holds)), evidence, None))
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn ns(of: &Estimate) -> String {
    format!("{:.0} ns [{:.0}, {:.0}]", of.estimate, of.low, of.high)
}

fn control(calibration: &Calibration) -> Option<(bool, String)> {
    let control = calibration.control?;
    let difference = &control.difference;
    Some((
        control.passed,
        format!("{} [{}, {}]", percent(difference.estimate), percent(difference.low), percent(difference.high)),
    ))
}

fn delivered(calibration: &Calibration) -> Option<(bool, String)> {
    let expected = calibration.expected_samples;
    if expected <= 0.0 {
        return None;
    }
    let share = calibration.samples as f64 / expected;
    let text =
        format!("{} of {expected:.0}, {} lost, throttled {} times", calibration.samples, calibration.lost, calibration.throttled);
    Some((share >= DELIVERED && calibration.lost == 0, text))
}

/// The slope of elapsed time against samples, and the kernel's own tracepoints around the handler: the one contains the other.
fn handler(calibration: &Calibration) -> Option<(bool, String)> {
    let inside = calibration.cross_check.as_ref()?.handler_ns;
    // Records that share interrupts have none in a block that is short: nothing was held against anything then.
    if inside.high <= 0.0 {
        return None;
    }
    let all = calibration.alpha_ns.widened(calibration.drift);
    Some((all.high >= inside.low * (1.0 - TOLD_BY), format!("{} a sample, {} inside the handler", ns(&all), ns(&inside))))
}

/// Of clocks and counters, which cost nothing between two samples: what traps at every event costs the more the longer the period is.
fn line(calibration: &Calibration) -> Option<(bool, String)> {
    if !calibration.mechanism.is_time_driven() && !calibration.mechanism.interrupts_by_nmi() {
        return None;
    }
    let bends = &calibration.linearity.as_ref()?.curvature;
    let is_bent = !bends.contains(0.0) && bends.estimate.abs() > BENDS;
    Some((
        !is_bent,
        format!(
            "the cost at the shortest and at the longest period differ by {} [{}, {}]",
            percent(bends.estimate),
            percent(bends.low),
            percent(bends.high)
        ),
    ))
}

/// A buffer of records takes an interrupt's place. Where the kernel takes each record by an interrupt of its own (times before Skylake) nothing is shared, and a
/// sample costs the record on top.
fn pebs_against_interrupts(pebs: Option<&Calibration>, pmi: Option<&Calibration>) -> FieldClaim {
    let text = "a sample by PEBS that shares its interrupt costs no more than one by an interrupt of its own";
    let found = match (pebs, pmi) {
        (Some(pebs), Some(_)) if !pebs.terms.contains_key(ASSIST_TERM) => {
            untested("no record waited for others here: each had an interrupt of its own")
        }
        (Some(pebs), Some(pmi)) => {
            let evidence = format!("{} by PEBS, {} by interrupt", ns(&pebs.alpha_ns), ns(&pmi.alpha_ns));
            (holds(pebs.alpha_ns.low <= pmi.alpha_ns.high), evidence, None)
        }
        _ => untested("needs PEBS and a counter's interrupt on one machine"),
    };
    claim("pebs-shares", text, found)
}

/// Counters interrupt by what no timer needs, and go through the same kernel: neither is ten times the other.
fn counter_against_timer(counter: Option<&Calibration>, timer: Option<&Calibration>) -> FieldClaim {
    let text = "a sample by a counter's interrupt and one by the kernel's timer cost the same within a factor of ten";
    let found = match (counter, timer) {
        (Some(counter), Some(timer)) if timer.alpha_ns.estimate > 0.0 => {
            let ratio = counter.alpha_ns.scaled(1.0 / timer.alpha_ns.estimate).widened(timer.alpha_ns.relative_half_width());
            let evidence = format!("{} by {}, {} by timer", ns(&counter.alpha_ns), counter.mechanism, ns(&timer.alpha_ns));
            (holds(ratio.high >= 0.1 && ratio.low <= 10.0), evidence, Some(ratio))
        }
        _ => untested("needs a counter's interrupt and the timer on one machine"),
    };
    claim("counter-and-timer", text, found)
}

fn pebs_record(direct: Option<&Calibration>) -> FieldClaim {
    let (least, most) = PEBS_RECORD_NS;
    let text = format!("a PEBS record by itself delays a program by {least:.0} to {most:.0} ns");
    let found = match direct.and_then(|calibration| calibration.direct.as_ref()?.line.as_ref()) {
        Some(line) => {
            let slope = line.slope_ns;
            (holds(slope.high >= least && slope.low <= most), ns(&slope), Some(slope))
        }
        None => untested("needs our kernel module, and a processor with PEBS"),
    };
    claim("pebs-record", &text, found)
}

/// A part of a sample that is what the others leave would confirm any sum; what two ways find that share no code may differ.
fn pebs_two_ways(pebs: Option<&Calibration>, direct: Option<&Calibration>) -> FieldClaim {
    let text = "perf's PEBS and our module, which share no code, find the same cost of a record";
    let record_ns = |calibration: Option<&Calibration>| calibration?.terms.get(ASSIST_TERM).copied();
    let found = match (record_ns(pebs), record_ns(direct)) {
        (Some(perf), Some(module)) => {
            let ratio = perf.scaled(1.0 / module.estimate.max(f64::MIN_POSITIVE)).widened(module.relative_half_width());
            let is_same = ratio.high >= 1.0 - TWO_WAYS && ratio.low <= 1.0 + TWO_WAYS;
            (holds(is_same), format!("{} by perf's, {} by our module", ns(&perf), ns(&module)), Some(ratio))
        }
        _ => untested("needs our kernel module, and perf's PEBS beside it whose records wait in a buffer"),
    };
    claim("pebs-two-ways", text, found)
}

fn audited(name: &str, text: &str, audit: Option<&Audit>, is_of: fn(&str) -> bool) -> FieldClaim {
    let Some(audit) = audit else { return claim(name, text, untested("the audit is not done")) };
    let rows = || audit.experiments.iter().filter(|experiment| is_of(&experiment.name)).flat_map(|experiment| &experiment.rows);
    let count = |verdict: Verdict| rows().filter(|row| row.verdict == verdict).count();
    let (passed, failed, impossible) = (count(Verdict::Passed), count(Verdict::Failed), count(Verdict::Impossible));
    let failures: Vec<&str> = rows().filter(|row| row.verdict == Verdict::Failed).map(|row| row.case.as_str()).collect();
    let evidence = format!("{passed} passed, {failed} failed, {impossible} impossible");
    let evidence = if failures.is_empty() { evidence } else { format!("{evidence}: {}", failures.join(", ")) };
    let verdict = if passed + failed == 0 { ClaimVerdict::Untested } else { holds(failed == 0) };
    claim(name, text, (verdict, evidence, None))
}

/// What the price list promises of its prices against each other.
fn kept(selfcost: Option<&Selfcost>) -> FieldClaim {
    let text = "prices of perf_event against each other keep what is promised of them";
    let Some(selfcost) = selfcost else { return claim("prices", text, untested("the price list is not done")) };
    let told: Vec<_> = selfcost.ratios.iter().filter_map(|ratio| Some((ratio, ratio.is_kept()?))).collect();
    let broken: Vec<String> =
        told.iter().filter(|(_, is_kept)| !is_kept).map(|(ratio, _)| format!("{} to {}", ratio.of, ratio.to)).collect();
    if told.is_empty() {
        return claim("prices", text, untested("no ratio is known well enough"));
    }
    let evidence = match &broken[..] {
        [] => format!("{} of {} ratios", told.len(), told.len()),
        broken => format!("{} of {} ratios; not {}", told.len() - broken.len(), told.len(), broken.join(", ")),
    };
    claim("prices", text, (holds(broken.is_empty()), evidence, None))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::{Control, CrossCheck, MachineId, Origin, StopReason};

    use super::*;

    fn calibration(mechanism: Mechanism, alpha_ns: f64) -> Calibration {
        let origin = Origin {
            schema: 1,
            kind: "calibrate".into(),
            perftax: String::new(),
            machine: MachineId::default(),
            kernel: String::new(),
            taken_at_s: 0.0,
            command: Vec::new(),
            warnings: Vec::new(),
        };
        Calibration {
            origin,
            mechanism,
            event: mechanism.to_string(),
            alpha_ns: Estimate::new(alpha_ns, alpha_ns * 0.95, alpha_ns * 1.05),
            floor_ns: None,
            samples: 1000,
            expected_samples: 1000.0,
            lost: 0,
            throttled: 0,
            terms: Default::default(),
            wide_code_pages: None,
            linearity: None,
            control: Some(Control { difference: Estimate::new(0.0, -0.01, 0.01), passed: true, detects: 0.01 }),
            cross_check: None,
            direct: None,
            drift: 0.0,
            sessions: 10,
            elapsed_s: 1.0,
            stopped: StopReason::Precision,
            blocks: Vec::new(),
        }
    }

    fn verdict(claims: &[FieldClaim], name: &str) -> ClaimVerdict {
        claims.iter().find(|claim| claim.name == name).unwrap().verdict
    }

    #[test]
    fn what_nobody_measured_is_untested_and_never_confirmed() {
        let claims = claims(&[], None, None);
        assert!(claims.iter().all(|claim| claim.verdict == ClaimVerdict::Untested), "{claims:?}");
        let mut names: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), claims.len());
    }

    #[test]
    fn a_sample_that_costs_less_than_its_handler_contradicts() {
        let of = |handler_ns: f64| {
            let check = CrossCheck { source: "x".into(), handler_ns: Estimate::exact(handler_ns), samples: 9 };
            let one = Calibration { cross_check: Some(check), ..calibration(Mechanism::CpuClock, 10_000.0) };
            verdict(&claims(&[one], None, None), "handler")
        };
        assert_eq!((of(4_000.0), of(14_000.0)), (ClaimVerdict::Confirmed, ClaimVerdict::Contradicted));
        // No interrupt came while it was looked: that says nothing.
        assert_eq!(of(0.0), ClaimVerdict::Untested);
    }

    /// By PEBS, whose records waited for others in a buffer: the cost is split.
    fn sharing(alpha_ns: f64) -> Calibration {
        let terms = [(ASSIST_TERM.to_owned(), Estimate::exact(250.0))].into();
        Calibration { terms, ..calibration(Mechanism::Pebs, alpha_ns) }
    }

    #[test]
    fn records_that_share_no_interrupt_do_not_contradict_that_sharing_is_cheap() {
        let found = claims(&[calibration(Mechanism::Pebs, 3_900.0), calibration(Mechanism::Pmi, 2_300.0)], None, None);
        assert_eq!(verdict(&found, "pebs-shares"), ClaimVerdict::Untested);
    }

    #[test]
    fn two_ways_may_disagree() {
        let module = |assist_ns: f64| {
            let terms = [(ASSIST_TERM.to_owned(), Estimate::exact(assist_ns))].into();
            Calibration { terms, ..calibration(Mechanism::PebsDirect, assist_ns) }
        };
        let of = |assist_ns: f64| verdict(&claims(&[sharing(900.0), module(assist_ns)], None, None), "pebs-two-ways");
        assert_eq!(
            [245.0, 300.0, 200.0].map(of),
            [ClaimVerdict::Confirmed, ClaimVerdict::Contradicted, ClaimVerdict::Contradicted]
        );
        // Where each record of perf's has an interrupt of its own nothing tells the two apart.
        let found = claims(&[calibration(Mechanism::Pebs, 3_900.0), module(250.0)], None, None);
        assert_eq!(verdict(&found, "pebs-two-ways"), ClaimVerdict::Untested);
    }

    #[test]
    fn one_that_fails_is_enough() {
        let lossy = Calibration { lost: 3, ..calibration(Mechanism::Pmi, 3_000.0) };
        let biased = Calibration {
            control: Some(Control { difference: Estimate::new(0.1, 0.05, 0.15), passed: false, detects: 0.05 }),
            ..calibration(Mechanism::CpuClock, 10_000.0)
        };
        let found = claims(&[sharing(900.0), lossy, biased], None, None);
        assert_eq!(verdict(&found, "delivered"), ClaimVerdict::Contradicted);
        assert_eq!(verdict(&found, "control"), ClaimVerdict::Contradicted);
        assert_eq!(verdict(&found, "pebs-shares"), ClaimVerdict::Confirmed);
        assert_eq!(verdict(&found, "counter-and-timer"), ClaimVerdict::Confirmed);
        let slow = claims(&[sharing(9_000.0), calibration(Mechanism::Pmi, 3_000.0)], None, None);
        assert_eq!(verdict(&slow, "pebs-shares"), ClaimVerdict::Contradicted);
    }
}
