//! Several documents as one table of separated values.

use crate::csv::field;
use crate::document::Document;

/// The main tables of several documents of one kind below one line of names, each row led by its machine and kernel.
pub fn comparison(documents: &[Document], separator: &str) -> String {
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
