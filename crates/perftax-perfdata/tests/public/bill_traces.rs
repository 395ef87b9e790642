//! Recordings of what takes no samples: AUX buffers, and what was put together from them.

use crate::bill_built::{ENABLE_ON_EXEC, MS, Pipe, SAMPLE_ID_ALL, SAMPLE_TYPE, origin, unpriced_bill as bill};
use crate::bill_records::{calibration, profile};
use perftax_doc::Mechanism;
use perftax_doc::Untold;
use perftax_perfdata::bill;

/// A recording whose header names the PMU of type 9.
fn of_pmu(name: &str) -> Pipe {
    let mut pipe = Pipe::new(false);
    let mut named = name.as_bytes().to_vec();
    named.resize(named.len() / 8 * 8 + 8, 0);
    let section = [pipe.words(&[16]), pipe.halves(&[1, 9, named.len() as u32]), named].concat();
    pipe.record(80, 0, &section);
    pipe.event(9, 0x300, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
    pipe
}

/// A piece of an AUX area, and the data that it held.
fn aux(pipe: &mut Pipe) {
    let piece = pipe.words(&[0, 64, 0]);
    pipe.with_trailer(11, 0, piece, 10, 5 * MS);
    let fields = pipe.words(&[64, 0, 0, 0, 0]);
    pipe.record(71, 0, &fields);
    pipe.bytes.extend([0x55; 64]);
}

#[test]
fn what_a_trace_costs_is_unknown_and_not_nothing() {
    for pmu in ["intel_pt", "intel_bts", "arm_spe_0", "cs_etm"] {
        let mut pipe = of_pmu(pmu);
        aux(&mut pipe);
        let bill = bill(&pipe.read());
        let said = format!("{:?}", bill.origin.warnings);
        assert_eq!((bill.cost_s, bill.share_of_run, bill.events[0].cost_s), (None, None, None), "{pmu}: {said}");
        assert!(said.contains("AUX buffers") && !said.contains("cost nothing"), "{pmu}: {said}");
    }
    // Without any data of it there is nothing to be unknown; another PMU's samples are its own affair.
    let empty = bill(&of_pmu("intel_pt").read());
    assert!(format!("{:?}", empty.origin.warnings).contains("cost nothing"), "{:?}", empty.origin.warnings);
    let mut pipe = of_pmu("uncore_imc");
    aux(&mut pipe);
    assert_eq!(bill(&pipe.read()).events[0].untold, None);
}

#[test]
fn samples_of_a_trace_interrupted_nobody() {
    let mut pipe = of_pmu("intel_pt");
    pipe.event(0, 1, 1000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[1_000_000_010, 1_000_000_011]);
    (0..40).for_each(|i| pipe.sample(1_000_000_010, 7, (2 + i) * MS, 0));
    let recording = pipe.read();
    let bill = bill(&recording);
    let event = bill.events.iter().find(|event| event.samples > 0).unwrap();
    assert_eq!((event.samples, event.charged(), event.synthesised), (40, 0, true));
    assert_eq!(bill.cost_s.map(|cost| cost.estimate), Some(0.0));
    let said = format!("{:?}", bill.origin.warnings);
    assert!(said.contains("put together from a trace"), "{said}");
    // An event whose ids merely are large took its samples itself.
    let mut own = Pipe::new(false);
    own.event(0, 1, 1000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[1_000_000_010]);
    own.sample(1_000_000_010, 7, 2 * MS, 0);
    assert!(!own.read().events[0].synthesised);
}

/// What traced may have been left out of the file since: the command line tells of it.
#[test]
fn samples_of_a_trace_that_was_left_out_interrupted_nobody_either() {
    let recorded = |command: &[&str]| {
        let mut pipe = Pipe::new(false);
        let mut line = [pipe.words(&[11]), pipe.halves(&[command.len() as u32])].concat();
        for word in command {
            let mut padded = word.as_bytes().to_vec();
            padded.resize(padded.len() / 8 * 8 + 8, 0);
            line.extend([pipe.halves(&[padded.len() as u32]), padded].concat());
        }
        pipe.record(80, 0, &line);
        pipe.event(0, 1, 1000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[1_000_000_010]);
        pipe.sample(1_000_000_010, 7, 2 * MS, 0);
        pipe.read().events[0].synthesised
    };
    assert!(recorded(&["perf", "record", "-e", "{intel_pt//u,instructions}", "--", "ls"]));
    assert!(!recorded(&["perf", "record", "-e", "instructions", "--", "intel_pt"]));
}

/// Each ends with a timestamp.
fn spe_buffer(samples: usize) -> Vec<u8> {
    let mut buffer: Vec<u8> = (0..samples).flat_map(|_| [0x71, 1, 2, 3, 4, 5, 6, 7, 8]).collect();
    buffer.resize(buffer.len().next_multiple_of(64), 0);
    buffer
}

/// ARM's own samples are in the AUX buffers.
#[test]
fn samples_in_aux_buffers_are_billed() {
    const AUXTRACE_INFO: u32 = 70;
    const ARM_SPE: u32 = 4;
    let recorded = |kind: u32| {
        let mut pipe = of_pmu("arm_spe_0");
        let info = pipe.halves(&[kind, 0, 0, 0]);
        pipe.record(AUXTRACE_INFO, 0, &info);
        for samples in [7, 30] {
            let buffer = spe_buffer(samples);
            let fields = pipe.words(&[buffer.len() as u64, 0, 0, 0, 0]);
            pipe.record(71, 0, &fields);
            pipe.bytes.extend(buffer);
        }
        pipe
    };
    let prices = profile(vec![calibration(Mechanism::Spe, "arm_spe_0//", 400.0, 0.0)]);
    let billed = bill::bill(&recorded(ARM_SPE).read(), Some(&prices), origin(1060.0));
    let event = &billed.events[0];
    assert_eq!((event.samples, event.untold, event.mechanism), (37, None, Some(Mechanism::Spe)));
    let cost_s = billed.cost_s.unwrap().estimate;
    assert!((cost_s - 37.0 * 400e-9).abs() < 1e-12, "{cost_s}");
    assert_eq!(billed.elapsed_cost_s.map(|cost| cost.estimate), Some(cost_s));
    // Another's buffers are not read; nor are those that end early taken for all.
    assert_eq!(bill(&recorded(1).read()).events[0].untold, Some(Untold::AuxBuffer));
    let mut cut = recorded(ARM_SPE);
    cut.bytes.truncate(cut.bytes.len() - 100);
    assert!(cut.read().fault.is_some());
}

/// A recorder that was killed before its first sample was written says nothing of what came.
#[test]
fn what_was_cut_off_before_anything_came_is_not_nothing() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 0, 100_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
    let whole = bill(&pipe.read());
    assert_eq!((whole.cost_s.map(|cost| cost.estimate), whole.events[0].untold), (Some(0.0), None));
    pipe.sample(10, 7, 2 * MS, 0);
    pipe.bytes.truncate(pipe.bytes.len() - 4);
    let cut = bill(&pipe.read());
    assert_eq!((cut.cost_s, cut.events[0].untold), (None, Some(Untold::CutOff)));
    assert!(!format!("{:?}", cut.origin.warnings).contains("cost nothing"), "{:?}", cut.origin.warnings);
}

/// Of a ring that was overwritten the last samples are left, which tell nothing of all that there were.
#[test]
fn what_was_overwritten_is_not_taken_for_nothing() {
    const WRITE_BACKWARD: u64 = 1 << 27;
    let recorded = |flags: u64| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 0, 100_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC | flags, &[10, 11]);
        (0..157).for_each(|i| pipe.sample(10, 7, (900 + i) * MS, 0));
        bill(&pipe.read())
    };
    let overwritten = recorded(WRITE_BACKWARD);
    assert_eq!((overwritten.events[0].samples, overwritten.events[0].untold), (157, Some(Untold::Overwritten)));
    assert_eq!((overwritten.cost_s, overwritten.share_of_run), (None, None));
    let said = format!("{:?}", overwritten.origin.warnings);
    assert!(said.contains("were overwritten") && said.contains("without --overwrite"), "{said}");
    assert_eq!(recorded(0).events[0].untold, None);
}
