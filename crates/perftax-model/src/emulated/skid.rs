//! Instructions from an overflow to its interrupt.

/// An interrupt that is due, and not yet there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skid(Option<u32>);

impl Skid {
    /// Whether an interrupt arrives now, where one falls due or does not: with a skid of so many instructions one that falls due waits, and
    /// the one that has waited for them arrives. One that falls due while another waits is not put off.
    pub fn arrives(&mut self, skid: u32, is_due: bool) -> bool {
        if is_due && skid > 0 && self.0.is_none() {
            self.0 = Some(skid);
            return false;
        }
        if self.0 == Some(0) {
            self.0 = None;
            return true;
        }
        is_due
    }

    /// So many instructions have retired.
    pub fn pass(&mut self, instructions: i64) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(u32::try_from(instructions).unwrap_or(0));
        }
    }

    /// Instructions that are still to come; `None` where no interrupt waits.
    pub fn left(self) -> Option<u32> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_waits_for_its_instructions() {
        let mut skid = Skid::default();
        assert!(skid.arrives(0, true) && !skid.arrives(0, false), "without a skid it is there at once");
        assert!(!skid.arrives(3, true));
        skid.pass(2);
        assert_eq!((skid.left(), skid.arrives(3, false)), (Some(1), false));
        skid.pass(5);
        assert!(skid.arrives(3, false));
        assert_eq!(skid.left(), None);
    }
}
