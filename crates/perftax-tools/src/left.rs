//! What of a line has no price.

/// What of a line has no price, and what costs the tool itself and not the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Options as they are written, and what of them has no price.
    pub unpriced: Vec<(String, String)>,
    /// Options that cost the tool, beside the program.
    pub beside: Vec<String>,
}
