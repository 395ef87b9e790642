//! What is refused once it was measured.

use std::collections::BTreeMap;

use perftax_doc::Control;

/// Two unmonitored arms differ: something slows one and not the other, and whatever was measured beside them is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlFailed {
    /// Whose arms; empty where there is one program alone.
    pub of: String,
    /// How they differ.
    pub control: Control,
    /// What is refused: `calibration`.
    pub refused: &'static str,
    /// What is to be done again: `calibrate`.
    pub again: &'static str,
}

impl std::fmt::Display for ControlFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = if self.of.is_empty() { String::new() } else { format!(" of {}", self.of) };
        write!(
            f,
            "the A/A control failed: two unmonitored arms{of} differ by {}, so the {} is refused\n  something slows one arm and not the other: quieten \
             the machine and {} again",
            difference(&self.control),
            self.refused,
            self.again
        )
    }
}

impl std::error::Error for ControlFailed {}

/// How the arms of a control differ: `+2.10 % [+1.02, +3.18] (99 %)`.
pub fn difference(control: &Control) -> String {
    let [estimate, low, high] = [control.difference.estimate, control.difference.low, control.difference.high].map(|x| x * 100.0);
    // Of controls that are judged together the confidence is no whole number.
    let confidence = (control.difference.confidence * 1000.0).round() / 10.0;
    format!("{estimate:+.2} % [{low:+.2}, {high:+.2}] ({confidence} %)")
}

/// The reason that most have.
pub fn commonest(reasons: impl Iterator<Item = String>) -> Option<String> {
    let mut counts = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_insert(0) += 1;
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(reason, _)| reason)
}

#[cfg(test)]
mod tests {
    use perftax_doc::Estimate;

    use super::*;

    #[test]
    fn a_failed_control_says_whose_arms_and_by_how_much() {
        let difference = Estimate { confidence: 0.99, ..Estimate::new(0.021, 0.0102, 0.0318) };
        let control = Control { difference, passed: false, detects: 0.011 };
        let failed = ControlFailed { of: "gcc".into(), control, refused: "verification", again: "verify" };
        let text = failed.to_string();
        assert!(text.contains("arms of gcc differ by +2.10 % [+1.02, +3.18] (99 %), so the verification is refused"), "{text}");
        assert!(text.ends_with("quieten the machine and verify again"), "{text}");
        assert!(ControlFailed { of: String::new(), ..failed }.to_string().contains("arms differ"));
    }

    #[test]
    fn the_reason_that_most_have_is_told() {
        assert_eq!(commonest(["a", "b", "b"].map(String::from).into_iter()).as_deref(), Some("b"));
        assert_eq!(commonest(std::iter::empty()), None);
    }
}
