//! `perftax record` as separated values.

use perftax_doc::Recorded;

use super::Rows;

/// One row a stretch of time.
pub fn recorded(doc: &Recorded, separator: &str) -> String {
    let mut rows = Rows::new(separator, &["from_s", "elapsed_s", "program_cpu_s", "spent_high_s", "samples"]);
    for stretch in &doc.course {
        rows.row(vec![
            stretch.from_s.to_string(),
            stretch.elapsed_s.to_string(),
            stretch.program_cpu_s.to_string(),
            stretch.spent_high_s.to_string(),
            stretch.samples.to_string(),
        ]);
    }
    rows.out
}
