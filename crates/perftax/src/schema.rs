//! The keys of every document, as they are recorded in docs/reference/schema: what changes there is a change for those who read documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::commands::{doctor, list};

/// The documents by the names of their files.
fn schemas() -> Vec<(&'static str, Schema)> {
    fn of<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<T>()
    }
    vec![
        ("audit", of::<perftax_doc::Audit>()),
        ("bill", of::<perftax_doc::Bill>()),
        ("record", of::<perftax_doc::Recorded>()),
        ("calibrate", of::<perftax_doc::Calibration>()),
        ("comm", of::<perftax_doc::Comm>()),
        ("dataset-add", of::<perftax_doc::DatasetAdd>()),
        ("dataset-check", of::<perftax_doc::DatasetCheck>()),
        ("dataset-compact", of::<perftax_doc::DatasetCompact>()),
        ("doctor", of::<doctor::Document<'static>>()),
        ("field-test", of::<perftax_doc::FieldTest>()),
        ("lint", of::<perftax_doc::Lint>()),
        ("list", of::<list::Listing<'static>>()),
        ("machine-profile", of::<perftax_doc::MachineProfile>()),
        ("matrix", of::<perftax_doc::Matrix>()),
        ("matrix-plan", of::<perftax_doc::MatrixPlan>()),
        ("phase", of::<perftax_doc::Phase>()),
        ("plan", of::<perftax_doc::Plan>()),
        ("predict", of::<perftax_doc::Prediction>()),
        ("predict-tool", of::<perftax_doc::ToolPrediction>()),
        ("selfcost", of::<perftax_doc::Selfcost>()),
        ("sensitivity", of::<perftax_doc::Sensitivity>()),
        ("sim", of::<perftax_doc::Simulation>()),
        ("stat", of::<perftax_doc::Stat>()),
        ("trace-diff", of::<perftax_doc::TraceDiff>()),
        ("trace-join", of::<perftax_doc::TraceJoin>()),
        ("trace-message", of::<perftax_doc::TraceMessage>()),
        ("trace-publish", of::<perftax_doc::TracePublish>()),
        ("trace-report", of::<perftax_doc::TraceReport>()),
        ("trace-top", of::<perftax_doc::TraceTop>()),
        ("verify", of::<perftax_doc::Verification>()),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schema")
}

/// As it is written: a change is a line of a diff.
fn text(schema: &Schema) -> String {
    serde_json::to_string_pretty(schema).unwrap() + "\n"
}

#[test]
fn documents_have_the_keys_that_are_recorded() {
    let is_written = std::env::var_os("PERFTAX_WRITE_SCHEMA").is_some();
    let mut changed = Vec::new();
    for (name, schema) in schemas() {
        let (path, now) = (folder().join(format!("{name}.json")), text(&schema));
        if is_written {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &now).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != now {
            changed.push(name);
        }
    }
    assert!(
        changed.is_empty(),
        "the documents of {changed:?} have changed: raise `schema` where a key went or means something else, say so in CHANGELOG.md, and \
         record them with PERFTAX_WRITE_SCHEMA=1 cargo test -p perftax --bin perftax schema::"
    );
}

/// What is recorded is what is written, and no more.
#[test]
fn every_recorded_schema_is_of_a_document() {
    let known: Vec<String> = schemas().iter().map(|(name, _)| format!("{name}.json")).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "{name}");
    }
}

/// What a command writes with --json is read by `perftax report`, but for what is no result, and traces, whose folders are read.
#[test]
fn every_result_is_read_again() {
    let others = ["dataset-add", "dataset-check", "dataset-compact", "doctor", "list", "machine-profile", "matrix-plan"];
    let of_traces = |name: &str| name.starts_with("trace-");
    let written = schemas().into_iter().map(|(name, _)| name).filter(|name| !others.contains(name) && !of_traces(name));
    let read = perftax_report::Document::KINDS.iter().map(|(kind, _)| *kind);
    assert_eq!(written.collect::<BTreeSet<_>>(), read.collect::<BTreeSet<_>>());
}
