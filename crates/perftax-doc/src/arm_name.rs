//! Names of those arms of calibrations that say more than which one it is.

use std::fmt::{self, Display, Formatter};

/// An arm of a calibration, as a block names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArmName {
    /// Nothing is open.
    Off,
    /// The event runs at a period at which no sample is due.
    Idle {
        /// Bytes of the buffer, where that is not the main one.
        buffer_bytes: Option<u64>,
    },
    /// Sampled.
    On {
        /// The period, where that is not the main one.
        period: Option<u64>,
        /// Bytes of the buffer, likewise; it has a period then.
        buffer_bytes: Option<u64>,
    },
    /// Sampled by perf's PEBS, beside our module's.
    Perf {
        /// The period.
        period: u64,
    },
    /// Threads that come into being under more copies of an event than one for each CPU.
    FurtherCopies(u32),
    /// Any other.
    Other(String),
}

impl ArmName {
    /// Of a block's arm.
    pub fn of(text: &str) -> Self {
        Self::read(text).unwrap_or_else(|| Self::Other(text.into()))
    }

    /// Whether nothing is sampled though the event runs.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }

    /// Whether it samples at the main period or another one.
    pub fn is_on(&self) -> bool {
        matches!(self, Self::On { .. })
    }

    fn read(text: &str) -> Option<Self> {
        let (name, buffer_bytes) = match text.split_once(BUFFER) {
            Some((name, bytes)) => (name, Some(bytes.parse().ok()?)),
            None => (text, None),
        };
        let (name, period) = match name.split_once(PERIOD) {
            Some((name, period)) => (name, Some(period.parse().ok()?)),
            None => (name, None),
        };
        let copies = || name.strip_prefix(FURTHER_COPIES)?.parse().ok();
        let read = match (name, period, buffer_bytes) {
            (OFF, None, None) => Self::Off,
            (IDLE, None, buffer_bytes) => Self::Idle { buffer_bytes },
            (ON, Some(_), _) | (ON, None, None) => Self::On { period, buffer_bytes },
            (PERF, Some(period), None) => Self::Perf { period },
            (_, None, None) => Self::FurtherCopies(copies()?),
            _ => return None,
        };
        // A number may be written otherwise.
        (read.to_string() == text).then_some(read)
    }
}

const OFF: &str = "off";
const IDLE: &str = "idle";
const ON: &str = "on";
const PERF: &str = "perf";
const FURTHER_COPIES: &str = "task-on+";
/// What stands before a period, and before a size of a buffer.
const PERIOD: char = '@';
const BUFFER: char = '/';

impl Display for ArmName {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let (name, period, buffer_bytes) = match self {
            Self::Off => (OFF, None, None),
            Self::Idle { buffer_bytes } => (IDLE, None, *buffer_bytes),
            Self::On { period, buffer_bytes } => (ON, *period, *buffer_bytes),
            Self::Perf { period } => (PERF, Some(*period), None),
            Self::FurtherCopies(copies) => return write!(f, "{FURTHER_COPIES}{copies}"),
            Self::Other(text) => return f.write_str(text),
        };
        f.write_str(name)?;
        if let Some(period) = period {
            write!(f, "{PERIOD}{period}")?;
        }
        if let Some(bytes) = buffer_bytes {
            write!(f, "{BUFFER}{bytes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_from_its_text() {
        for (text, name) in [
            ("idle", ArmName::Idle { buffer_bytes: None }),
            ("idle/4096", ArmName::Idle { buffer_bytes: Some(4096) }),
            ("on", ArmName::On { period: None, buffer_bytes: None }),
            ("on@2053", ArmName::On { period: Some(2053), buffer_bytes: None }),
            ("on@2053/65536", ArmName::On { period: Some(2053), buffer_bytes: Some(65_536) }),
            ("perf@32771", ArmName::Perf { period: 32_771 }),
            ("task-on+6", ArmName::FurtherCopies(6)),
            ("off", ArmName::Off),
            ("off2", ArmName::Other("off2".into())),
            ("task-on", ArmName::Other("task-on".into())),
            ("perf-idle", ArmName::Other("perf-idle".into())),
            ("on/4", ArmName::Other("on/4".into())),
            ("on@x", ArmName::Other("on@x".into())),
        ] {
            assert_eq!(name.to_string(), text);
            assert_eq!(ArmName::of(text), name);
        }
    }
}
