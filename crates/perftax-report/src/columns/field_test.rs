//! Columns of `perftax field-test`: one row a claim.

use perftax_doc::FieldClaim;

use super::{Column, ends};
use crate::printable::printable;

pub(crate) struct ClaimColumns<'a> {
    pub(crate) name: Column<&'a FieldClaim>,
    pub(crate) claim: Column<&'a FieldClaim>,
    pub(crate) verdict: Column<&'a FieldClaim>,
    pub(crate) evidence: Column<&'a FieldClaim>,
    pub(crate) found: Column<&'a FieldClaim>,
}

impl ClaimColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            name: Column::name("claim", |of: &&FieldClaim| printable(&of.name)).under(&["name"], |of| vec![of.name.clone()]),
            claim: Column::name("what is claimed", |of: &&FieldClaim| printable(&of.claim))
                .under(&["claim"], |of| vec![of.claim.clone()]),
            verdict: Column::name("here", |of: &&FieldClaim| of.verdict.name().into())
                .under(&["verdict"], |of| vec![of.verdict.name().into()])
                .main(),
            evidence: Column::name("by", |of: &&FieldClaim| printable(&of.evidence))
                .under(&["evidence"], |of| vec![of.evidence.clone()]),
            found: Column::field(&["found", "found_low", "found_high"], |of: &&FieldClaim| ends(of.found.as_ref())),
        }
    }
}
