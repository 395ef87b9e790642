//! `perftax field-test` as separated values.

use perftax_doc::FieldTest;

use super::Rows;
use crate::columns::ClaimColumns;

/// One row a claim.
pub fn field_test(doc: &FieldTest, separator: &str) -> String {
    let ClaimColumns { name, claim, verdict, evidence, found } = ClaimColumns::new();
    Rows::of(separator, &[&name, &verdict, &claim, &evidence, &found], doc.claims.iter())
}
