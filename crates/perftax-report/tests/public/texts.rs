//! The texts as a reader sees them: compared with the files in `tests/texts`, which `PERFTAX_BLESS=1 cargo test` writes anew.

use std::path::Path;

use perftax_doc::Estimate;
use perftax_doc::MachineProfile;
use perftax_report::{Document, ReadError, Render, Several, csv, text};

/// The text without its colour.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(|&c| c == 'm');
        } else {
            out.push(c);
        }
    }
    out
}

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts").join(name);
    if std::env::var_os("PERFTAX_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(text, wanted, "{name} changed; PERFTAX_BLESS=1 takes the new one");
}

fn check_text(name: &str, text: &str) {
    let text = plain(text);
    for line in text.lines() {
        assert!(line.chars().count() <= 110, "{name}: a line of {} columns: {line}", line.chars().count());
        assert_eq!(line.trim_end(), line, "{name}: a line ends in spaces");
    }
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: must end in one line end");
    check(name, &text);
}

fn both() -> [Document; 2] {
    [crate::samples::calibration(), crate::samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)))
}

fn both_selfcosts() -> [Document; 2] {
    [crate::samples::selfcost(), crate::samples::other_selfcost()].map(|doc| Document::Selfcost(Box::new(doc)))
}

fn grids() -> [Document; 2] {
    [crate::samples::matrix(), crate::samples::other_matrix()].map(|matrix| Document::Matrix(Box::new(matrix)))
}

fn shared() -> [Document; 2] {
    [crate::samples::comm_every(), crate::samples::comm()].map(|doc| Document::Comm(Box::new(doc)))
}

#[test]
fn texts_are_as_reviewed() {
    check_text("calibration.txt", &text::calibration(&crate::samples::calibration()));
    check_text("prediction.txt", &text::prediction(&crate::samples::prediction()));
    check_text("plan.txt", &text::plan(&crate::samples::plan()));
    check_text("infeasible.txt", &text::plan(&crate::samples::infeasible_plan()));
    check_text("verification.txt", &text::verification(&crate::samples::verification()));
    check_text("bill.txt", &text::bill(&crate::samples::bill()));
    check_text("bill-cpus.txt", &text::bill(&crate::samples::bill_of_cpus()));
    check_text("lint.txt", &text::lint(&crate::samples::lint()));
    check_text(
        "lints.txt",
        &text::comparison(&[crate::samples::lint(), crate::samples::lint()].map(|doc| Document::Lint(Box::new(doc)))),
    );
    check_text("simulation.txt", &text::simulation(&crate::samples::simulation()));
    check_text("sweep.txt", &text::simulation(&crate::samples::sweep()));
    check_text("stat.txt", &text::stat(&crate::samples::stat()));
    check_text("stat-compared.txt", &text::stat(&crate::samples::compared_stat()));
    check("stat.json-lines", &text::perf_lines(&crate::samples::stat()));
    check_text("sensitivity.txt", &text::sensitivity(&crate::samples::sensitivity()));
    check_text("audit.txt", &text::audit(&crate::samples::audit()));
    check_text("selfcost.txt", &text::selfcost(&crate::samples::selfcost()));
    check_text("selfcosts.txt", &text::comparison(&both_selfcosts()));
    check_text("phase.txt", &text::phase(&crate::samples::phase()));
    check_text("phase-by-time.txt", &text::phase(&crate::samples::phase_by_time()));
    check_text(
        "phases.txt",
        &text::comparison(&[crate::samples::phase(), crate::samples::phase()].map(|p| Document::Phase(Box::new(p)))),
    );
    check_text("recorded.txt", &text::recorded(&crate::samples::recorded()));
    check_text(
        "recordings.txt",
        &text::comparison(&[crate::samples::recorded(), crate::samples::recorded()].map(|doc| Document::Recorded(Box::new(doc)))),
    );
    check_text("trace-joined.txt", &text::trace(&crate::samples::traced::joined()));
    check_text("trace-message.txt", &text::trace_message(&crate::samples::traced::message(), 3));
    check_text("comparison.txt", &text::comparison(&both()));
    check_text("matrix-plan.txt", &text::matrix_plan(&crate::samples::matrix()));
    check_text("matrix.txt", &text::matrix(&crate::samples::matrix()));
    check_text("matrices.txt", &text::comparison(&grids()));
    check_text("comm.txt", &text::comm(&crate::samples::comm()));
    check_text("comm-every.txt", &text::comm(&crate::samples::comm_every()));
    check_text("comm-watched.txt", &text::comm(&crate::samples::comm_watched()));
    check_text("comm-many.txt", &text::comm(&crate::samples::comm_many()));
    check_text("comms.txt", &text::comparison(&shared()));
}

#[test]
fn separated_values_are_as_reviewed() {
    check("prediction.csv", &csv::prediction(&crate::samples::prediction(), ","));
    check("plan.csv", &csv::plan(&crate::samples::plan(), ","));
    check("bill.csv", &csv::bill(&crate::samples::bill(), ";"));
    check("lint.csv", &csv::lint(&crate::samples::lint(), ","));
    check("sweep.csv", &csv::simulation(&crate::samples::sweep(), ","));
    check("stat.csv", &csv::stat(&crate::samples::stat(), ","));
    check("recorded.csv", &csv::recorded(&crate::samples::recorded(), ","));
    check("selfcost.csv", &csv::selfcost(&crate::samples::selfcost(), ","));
    check("sensitivity.csv", &csv::sensitivity(&crate::samples::sensitivity(), ","));
    check("comparison.csv", &Several::of(&both()).csv(","));
    check("comm.csv", &csv::comm(&crate::samples::comm(), ","));
    check("comm-cores.csv", &csv::comm_cores(&crate::samples::comm(), ","));
    check("comm-lines.csv", &csv::comm_lines(&crate::samples::comm(), ","));
}

#[test]
fn every_row_of_separated_values_has_as_many_fields_as_the_first() {
    let tables = [
        csv::calibration(&crate::samples::calibration(), "|"),
        csv::prediction(&crate::samples::prediction(), "|"),
        csv::plan(&crate::samples::plan(), "|"),
        csv::verification(&crate::samples::verification(), "|"),
        csv::bill(&crate::samples::bill(), "|"),
        csv::lint(&crate::samples::lint(), "|"),
        csv::simulation(&crate::samples::simulation(), "|"),
        csv::simulation(&crate::samples::sweep(), "|"),
        csv::sensitivity(&crate::samples::sensitivity(), "|"),
        csv::audit(&crate::samples::audit(), "|"),
        csv::selfcost(&crate::samples::selfcost(), "|"),
        csv::phase(&crate::samples::phase(), "|"),
        csv::recorded(&crate::samples::recorded(), "|"),
        csv::matrix(&crate::samples::matrix(), "|"),
        csv::comm(&crate::samples::comm_watched(), "|"),
        csv::comm_cores(&crate::samples::comm_every(), "|"),
        csv::comm_lines(&crate::samples::comm_many(), "|"),
        Several::of(&both()).csv("|"),
        Several::of(&shared()).csv("|"),
    ];
    for table in tables {
        let fields: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(fields.len() > 1 && fields.iter().all(|&n| n == fields[0]), "{table}");
    }
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut bill = crate::samples::bill();
    bill.by_thread[0].key = "1/1 \u{1b}[2J\u{1b}]0;title\u{7}".into();
    bill.recording = "\u{1b}[31mperf.data".into();
    bill.recorded_command = vec!["x\u{1b}[2J".into()];
    let text = text::bill(&bill);
    assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{7}') && !text.contains("\u{1b}[31mperf"), "{text:?}");
}

#[test]
fn a_failed_control_and_a_failed_prediction_are_said() {
    let mut doc = crate::samples::verification();
    doc.held = false;
    doc.controls[2].control.passed = false;
    doc.controls[2].control.difference = Estimate::new(0.031, 0.024, 0.038);
    let text = plain(&text::verification(&doc));
    assert!(text.contains("did NOT hold"), "{text}");
    assert!(text.contains("FAILED: off against off 3.1 % ± 0.7 in gcc"), "{text}");
    assert!(text.contains("perftax calibrate -e cpu-clock"), "{text}");
}

#[test]
fn documents_are_known_again() {
    let all = [
        Document::Calibration(Box::new(crate::samples::calibration())),
        Document::Prediction(Box::new(crate::samples::prediction())),
        Document::Plan(Box::new(crate::samples::plan())),
        Document::Verification(Box::new(crate::samples::verification())),
        Document::Bill(Box::new(crate::samples::bill())),
        Document::Lint(Box::new(crate::samples::lint())),
        Document::Simulation(Box::new(crate::samples::sweep())),
        Document::Sensitivity(Box::new(crate::samples::sensitivity())),
        Document::Audit(Box::new(crate::samples::audit())),
        Document::Selfcost(Box::new(crate::samples::selfcost())),
        Document::Phase(Box::new(crate::samples::phase())),
        Document::Recorded(Box::new(crate::samples::recorded())),
        Document::Matrix(Box::new(crate::samples::matrix())),
        Document::Comm(Box::new(crate::samples::comm())),
        Document::Comm(Box::new(crate::samples::comm_watched())),
    ];
    for document in all {
        let json = serde_json::to_string(&document).unwrap();
        let read = Document::read(&json).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].kind(), document.kind());
        assert_eq!(plain(&read[0].text()), plain(&document.text()));
    }
}

#[test]
fn what_was_put_side_by_side_is_read_again() {
    let both = [crate::samples::calibration(), crate::samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)));
    let json = serde_json::to_string(&Several::of(&both)).unwrap();
    let read = Document::read(&json).unwrap();
    assert_eq!(plain(&Several::of(&read).text()), plain(&Several::of(&both).text()));
    assert_eq!(serde_json::to_string(&Several::of(&read)).unwrap(), json);
}

/// Of counts no table holds two.
#[test]
fn results_without_a_common_table_stand_below_each_other() {
    let both = [crate::samples::stat(), crate::samples::compared_stat()].map(|doc| Document::Stat(Box::new(doc)));
    let text = plain(&Several::of(&both).text());
    assert!(both.iter().all(|doc| text.contains(plain(&doc.text()).trim())), "{text}");
}

#[test]
fn a_machine_profile_gives_its_calibrations() {
    let mut profile = MachineProfile {
        schema: 1,
        machine: crate::samples::machine(),
        kernel: "6.18.0".into(),
        calibrations: vec![crate::samples::calibration()],
    };
    profile.insert(crate::samples::calibration_of("page-faults", perftax_doc::Mechanism::Software, 1_480.0, 5));
    for c in &mut profile.calibrations {
        c.blocks.clear();
    }
    let documents = Document::read(&serde_json::to_string(&profile).unwrap()).unwrap();
    assert_eq!(documents.len(), 2);
    assert!(plain(&text::comparison(&documents)).contains("page-faults"));
}

#[test]
fn what_is_no_document_is_said_in_its_own_words() {
    assert!(matches!(Document::read("{"), Err(ReadError::NotJson(_))));
    assert!(matches!(Document::read("[1]"), Err(ReadError::Foreign(_))));
    assert!(matches!(Document::read(r#"{"kind": "plan"}"#), Err(ReadError::Foreign(_))));
    assert!(matches!(Document::read(r#"{"schema": 1, "kind": "doctor"}"#), Err(ReadError::Foreign(_))));
    assert_eq!(Document::read(r#"{"schema": 99, "kind": "plan"}"#), Err(ReadError::Newer { schema: 99 }));
    let Err(ReadError::Malformed { kind, why }) = Document::read(r#"{"schema": 1, "kind": "plan"}"#) else {
        panic!("an empty plan was read");
    };
    assert!(kind == "plan" && why.contains("missing field"), "{why}");
}
