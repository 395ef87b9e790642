//! Several documents of one kind as one: `perftax report A.json B.json`.

use perftax_doc::SCHEMA;
use serde::Serialize;

use crate::csv::field;
use crate::document::SEVERAL;
#[cfg(feature = "html")]
use crate::html;
use crate::{Document, Render, text};

/// Documents of one kind, to be compared.
#[derive(Debug, Serialize)]
pub struct Several<'a> {
    schema: u32,
    kind: &'static str,
    documents: &'a [Document],
}

impl<'a> Several<'a> {
    /// Of these documents, in their order.
    pub fn of(documents: &'a [Document]) -> Self {
        Self { schema: SCHEMA, kind: SEVERAL, documents }
    }
}

impl Render for Several<'_> {
    fn text(&self) -> String {
        let together = text::comparison(self.documents);
        if text::has_tables(self.documents) {
            return together;
        }
        let one = |(i, document): (usize, &Document)| format!("\n{}\n{}", text::label(i), document.text());
        together + &self.documents.iter().enumerate().map(one).collect::<String>()
    }

    fn csv(&self, separator: &str) -> String {
        comparison(self.documents, separator)
    }

    #[cfg(feature = "html")]
    fn html(&self) -> String {
        html::comparison(self.documents)
    }
}

/// The main tables of several documents of one kind below one line of names, each row led by its machine and kernel.
fn comparison(documents: &[Document], separator: &str) -> String {
    let mut out = String::new();
    for (i, document) in documents.iter().enumerate() {
        let origin = document.origin();
        let lead = [field(&origin.machine.name, separator), field(&origin.kernel, separator)].join(separator);
        let table = document.csv(separator);
        let mut records = records(&table).into_iter();
        let names = records.next().unwrap_or_default();
        if i == 0 {
            out += &format!("machine{separator}kernel{separator}{names}\n");
        }
        for record in records {
            out += &format!("{lead}{separator}{record}\n");
        }
    }
    out
}

/// The records of separated values: a line end inside quotes does not end one.
fn records(table: &str) -> Vec<&str> {
    let (mut records, mut start, mut quoted) = (Vec::new(), 0, false);
    for (i, c) in table.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '\n' if !quoted => {
                records.push(&table[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_in_quotes_ends_no_record() {
        assert_eq!(records("a,b\n1,\"x\ny\"\n2,z\n"), ["a,b", "1,\"x\ny\"", "2,z"]);
    }
}
