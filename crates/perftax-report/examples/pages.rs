//! Writes documents with plausible numbers, as pages and as JSON, into a directory:
//! `cargo run -p perftax-report --example pages -- DIR`.

#[path = "../tests/public/samples/mod.rs"]
mod samples;

use std::path::PathBuf;

use perftax_report::{Document, html};

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let both = [samples::calibration(), samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)));
    let pages = [
        ("calibration", html::calibration(&samples::calibration())),
        ("prediction", html::prediction(&samples::prediction())),
        ("plan", html::plan(&samples::plan())),
        ("infeasible", html::plan(&samples::infeasible_plan())),
        ("verification", html::verification(&samples::verification())),
        ("bill", html::bill(&samples::bill())),
        ("lint", html::lint(&samples::lint())),
        ("comparison", html::comparison(&both)),
        ("comm", html::comm(&samples::comm())),
        ("comm-every", html::comm(&samples::comm_every())),
        ("comm-watched", html::comm(&samples::comm_watched())),
        ("comm-many", html::comm(&samples::comm_many())),
        ("comms", html::comparison(&[samples::comm_every(), samples::comm()].map(|doc| Document::Comm(Box::new(doc))))),
    ];
    for (name, page) in pages {
        std::fs::write(directory.join(format!("{name}.html")), page)?;
    }
    let [first, second] = &both;
    let documents = [
        ("calibration", first.clone()),
        ("calibration-2", second.clone()),
        ("prediction", Document::Prediction(Box::new(samples::prediction()))),
        ("plan", Document::Plan(Box::new(samples::plan()))),
        ("verification", Document::Verification(Box::new(samples::verification()))),
        ("bill", Document::Bill(Box::new(samples::bill()))),
        ("lint", Document::Lint(Box::new(samples::lint()))),
    ];
    for (name, document) in documents {
        std::fs::write(directory.join(format!("{name}.json")), serde_json::to_string(&document)?)?;
    }
    Ok(())
}
