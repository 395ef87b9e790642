//! Where a PMU's terms go in the attribute: sysfs `format/` files such as `config:0-7,32-35`.

/// One word of `perf_event_attr` that terms are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `config`.
    Config,
    /// `config1`.
    Config1,
    /// `config2`.
    Config2,
    /// `config3` (Linux 6.3).
    Config3,
    /// `config4` (`PERF_ATTR_SIZE_VER9`, in Linux 7.1).
    Config4,
}

impl Word {
    /// Its name in sysfs and in perf's syntax.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "config" => Some(Self::Config),
            "config1" => Some(Self::Config1),
            "config2" => Some(Self::Config2),
            "config3" => Some(Self::Config3),
            "config4" => Some(Self::Config4),
            _ => None,
        }
    }
}

/// A named bit field of a PMU, possibly in several pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Which word of the attribute.
    pub word: Word,
    /// Bit ranges, lowest value bits first; both ends are part of the range.
    pub ranges: Vec<(u32, u32)>,
}

impl FormatField {
    /// Reads the text of a `format/` file. None for a text of another shape.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, bits) = text.trim().split_once(':')?;
        let ranges = bits.split(',').map(range).collect::<Option<Vec<_>>>()?;
        Some(Self { word: Word::parse(word)?, ranges })
    }

    /// How many bits it has.
    pub fn width(&self) -> u32 {
        self.ranges.iter().map(|(low, high)| high - low + 1).sum()
    }

    /// The largest value that fits.
    pub fn max(&self) -> u64 {
        if self.width() >= u64::BITS { u64::MAX } else { (1 << self.width()) - 1 }
    }

    /// Puts `value` into `word` in place of what the field held. The caller has checked that it fits.
    pub fn deposit(&self, word: u64, value: u64) -> u64 {
        let mut result = word;
        let mut taken = 0;
        for (low, high) in &self.ranges {
            let width = high - low + 1;
            let mask = if width >= u64::BITS { u64::MAX } else { (1 << width) - 1 };
            let piece = value.checked_shr(taken).unwrap_or(0) & mask;
            result = result & !(mask << low) | piece << low;
            taken += width;
        }
        result
    }
}

impl FormatField {
    /// The value that it holds in `word`: what [`Self::deposit`] has put there.
    pub fn extract(&self, word: u64) -> u64 {
        let mut value = 0;
        let mut taken = 0;
        for (low, high) in &self.ranges {
            let width = high - low + 1;
            let mask = if width >= u64::BITS { u64::MAX } else { (1 << width) - 1 };
            value |= (word >> low & mask).checked_shl(taken).unwrap_or(0);
            taken += width;
        }
        value
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high && high < u64::BITS).then_some((low, high))
}
