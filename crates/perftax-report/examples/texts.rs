//! Prints every text for documents with plausible numbers: `cargo run -p perftax-report --example texts`.

#[path = "../tests/public/samples/mod.rs"]
mod samples;

use perftax_report::{Document, text};

fn main() {
    println!("{}", text::calibration(&samples::calibration()));
    println!("{}", text::prediction(&samples::prediction()));
    println!("{}", text::plan(&samples::plan()));
    println!("{}", text::plan(&samples::infeasible_plan()));
    println!("{}", text::verification(&samples::verification()));
    println!("{}", text::bill(&samples::bill()));
    println!("{}", text::lint(&samples::lint()));
    let both = [samples::calibration(), samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)));
    println!("{}", text::comparison(&both));
}
