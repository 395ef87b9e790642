//! What a row compares. Documents hold its text; where rows are held against what was published, it is read back from there.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use perftax_doc::Mechanism;
use perftax_pmu::event::Retired;

use super::core_event::{CoreEvent, Overflow};
use super::source::Source;

/// What AMD's instruction-based sampling samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ibs {
    /// Dispatched operations.
    Op,
    /// Fetches.
    Fetch,
}

impl Ibs {
    /// How rows call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Op => "ibs-op",
            Self::Fetch => "ibs-fetch",
        }
    }

    /// What it counts.
    fn counted(self) -> &'static str {
        match self {
            Self::Op => "operations",
            Self::Fetch => "fetches",
        }
    }
}

/// What is counted or sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Events that work makes so many of.
    Source(Source),
    /// Loads that missed the first level of caches, by PEBS.
    Misses,
    /// A kind of IBS, whatever it samples.
    Sampler(Ibs),
    /// What a kind of IBS counts.
    Ibs(Ibs),
    /// Of operations that IBS samples, those of loads that missed.
    IbsMisses,
    /// A probe, whose function has no part in it.
    Probe,
}

impl Subject {
    /// All of them, and of two that begin alike the longer one first.
    fn all() -> Vec<Self> {
        let core = [Overflow::Interrupt, Overflow::Pebs]
            .into_iter()
            .flat_map(|by| Retired::ALL.map(|counted| Self::Source(Source::Core(CoreEvent { counted, by }))));
        let ibs = [Ibs::Op, Ibs::Fetch];
        let others = ibs.map(Self::Ibs).into_iter().chain([Self::IbsMisses, Self::Misses]).chain(ibs.map(Self::Sampler));
        Source::SOFTWARE.map(Self::Source).into_iter().chain(core).chain(others).chain([Self::Probe]).collect()
    }

    /// The hardware by which it is had; none of the kernel's own events.
    fn mechanism(self) -> Option<Mechanism> {
        match self {
            Self::Source(Source::Core(CoreEvent { by: Overflow::Interrupt, .. })) => Some(Mechanism::Pmi),
            Self::Source(Source::Core(CoreEvent { by: Overflow::Pebs, .. })) | Self::Misses => Some(Mechanism::Pebs),
            Self::Sampler(Ibs::Op) | Self::Ibs(Ibs::Op) | Self::IbsMisses => Some(Mechanism::IbsOp),
            Self::Sampler(Ibs::Fetch) | Self::Ibs(Ibs::Fetch) => Some(Mechanism::IbsFetch),
            Self::Source(_) | Self::Probe => None,
        }
    }

    /// What is counted, without that by which it is.
    pub fn counted(self) -> String {
        match self {
            Self::Source(Source::Core(core)) => core.counted.name().into(),
            Self::Misses => MISSES.into(),
            Self::Ibs(ibs) => ibs.counted().into(),
            Self::IbsMisses => IBS_MISSES.into(),
            Self::Source(_) | Self::Sampler(_) | Self::Probe => String::new(),
        }
    }
}

/// What is counted of caches.
const MISSES: &str = "first-level misses";
const IBS_MISSES: &str = "misses";

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Source(source) => f.write_str(&source.name()),
            Self::Misses => write!(f, "{} {MISSES}", Overflow::Pebs),
            Self::Sampler(ibs) => f.write_str(ibs.name()),
            Self::Ibs(ibs) => write!(f, "{} {}", ibs.name(), ibs.counted()),
            Self::IbsMisses => write!(f, "{} {IBS_MISSES}", Ibs::Op.name()),
            Self::Probe => f.write_str("uprobe"),
        }
    }
}

/// Who does something, and in which of the CPU's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program, in user mode.
    Program,
    /// The kernel, in kernel mode.
    Kernel,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Program, Self::Kernel];

    /// The modifier that restricts an event to its mode.
    pub fn modifier(self) -> char {
        match self {
            Self::Program => 'u',
            Self::Kernel => 'k',
        }
    }

    /// Its mode.
    fn mode(self) -> &'static str {
        match self {
            Self::Program => "user",
            Self::Kernel => "kernel",
        }
    }
}

impl Display for Side {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "the program",
            Self::Kernel => "the kernel",
        })
    }
}

/// What is looked at of samples or counts of events that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// What each is left.
    Unscaled,
    /// The same over the share of the time for which it counted.
    Scaled,
}

impl Share {
    /// Both.
    const ALL: [Self; 2] = [Self::Unscaled, Self::Scaled];
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Unscaled => "unscaled",
            Self::Scaled => "scaled by the time",
        })
    }
}

/// Under which circumstances, or what of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Nothing particular.
    #[default]
    Plain,
    /// At a round period.
    Round,
    /// At a prime one.
    Prime,
    /// At several around one.
    Jittered,
    /// What the handler's own events add is taken off.
    HandlerTakenOff,
    /// With a signal to each sample.
    WithSignal,
    /// Of a chain that misses once in so many instructions.
    OneIn(u64),
    /// The same without a sample.
    OneInCounted(u64),
    /// So many runs against their median.
    Runs(usize),
    /// On so many CPUs, or by so many events, at once.
    AtOnce(usize),
    /// So many at once against one alone.
    AgainstOneAlone(usize),
    /// Four stores that take turns.
    FourStores,
    /// Four loads that do.
    FourLoads,
    /// More events than counters, which take turns.
    Rotating {
        /// How many events.
        events: usize,
        /// How many counters.
        counters: usize,
        /// What of the samples.
        share: Share,
    },
    /// Pages that somebody touched.
    TouchedBy(Side),
    /// What somebody did.
    DoneBy(Side),
    /// Of what the kernel does, the samples in a mode.
    OfTheKernelsIn(Side),
    /// The instruction that a sample names.
    Instruction,
    /// The address that it names.
    Address,
    /// A register that it holds.
    Register,
    /// All three, where there are none.
    InstructionAddressRegister,
}

impl How {
    /// Those whose text has no number to read.
    const WITHOUT_NUMBER: [Self; 18] = [
        Self::Plain,
        Self::Round,
        Self::Prime,
        Self::Jittered,
        Self::HandlerTakenOff,
        Self::WithSignal,
        Self::FourStores,
        Self::FourLoads,
        Self::TouchedBy(Side::Program),
        Self::TouchedBy(Side::Kernel),
        Self::DoneBy(Side::Program),
        Self::DoneBy(Side::Kernel),
        Self::OfTheKernelsIn(Side::Program),
        Self::OfTheKernelsIn(Side::Kernel),
        Self::Instruction,
        Self::Address,
        Self::Register,
        Self::InstructionAddressRegister,
    ];

    /// Those with these numbers.
    fn with(numbers: &[u64]) -> Vec<Self> {
        match *numbers {
            [n] => {
                let count = n as usize;
                vec![Self::OneIn(n), Self::OneInCounted(n), Self::Runs(count), Self::AtOnce(count), Self::AgainstOneAlone(count)]
            }
            [events, counters] => {
                let (events, counters) = (events as usize, counters as usize);
                Share::ALL.map(|share| Self::Rotating { events, counters, share }).to_vec()
            }
            _ => Vec::new(),
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::WITHOUT_NUMBER.into_iter().chain(Self::with(&numbers(text))).find(|how| how.to_string() == text)
    }
}

impl Display for How {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Plain => Ok(()),
            Self::Round => f.write_str(" (round)"),
            Self::Prime => f.write_str(" (prime)"),
            Self::Jittered => f.write_str(" ± 10 % (jittered)"),
            Self::HandlerTakenOff => f.write_str(", the handler's taken off"),
            Self::WithSignal => f.write_str(", with a signal"),
            Self::OneIn(instructions) => write!(f, ", one in {instructions} instructions"),
            Self::OneInCounted(instructions) => write!(f, ", one in {instructions} instructions: counted"),
            Self::Runs(count) => write!(f, ", {count} runs"),
            Self::AtOnce(count) => write!(f, ", {count} at once"),
            Self::AgainstOneAlone(count) => write!(f, ", {count} at once against one alone"),
            Self::FourStores => f.write_str(", four stores in turn"),
            Self::FourLoads => f.write_str(", four loads in turn"),
            Self::Rotating { events, counters, share } => write!(f, ", {events} on {counters} counters: {share}"),
            Self::TouchedBy(side) => write!(f, ", touched by {side}"),
            Self::DoneBy(side) => write!(f, ", done by {side}"),
            Self::OfTheKernelsIn(side) => write!(f, ", of the kernel's: in {} mode", side.mode()),
            Self::Instruction => f.write_str(": the instruction"),
            Self::Address => f.write_str(": the address"),
            Self::Register => f.write_str(": a register"),
            Self::InstructionAddressRegister => f.write_str(": instruction, address, register"),
        }
    }
}

/// Something that is counted or sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// What.
    pub subject: Subject,
    /// In whose mode alone, where it is restricted.
    pub side: Option<Side>,
    /// Events from one sample to the next, where it is sampled; of several periods the middle one.
    pub every: Option<u64>,
    /// How.
    pub how: How,
}

impl Watched {
    /// In one mode alone.
    pub fn within(self, side: Side) -> Self {
        Self { side: Some(side), ..self }
    }

    /// Sampled every so many events.
    pub fn every(self, period: u64) -> Self {
        Self { every: Some(period), ..self }
    }

    /// With what is particular about it.
    pub fn how(self, how: How) -> Self {
        Self { how, ..self }
    }

    fn read(text: &str) -> Option<Self> {
        let begins = |subject: Subject| Some((subject, text.strip_prefix(&subject.to_string())?));
        let (subject, mut rest) = Subject::all().into_iter().find_map(begins)?;
        let modified = |side: Side| Some((side, rest.strip_prefix(':')?.strip_prefix(side.modifier())?));
        let side = Side::ALL.into_iter().find_map(modified).map(|(side, behind)| {
            rest = behind;
            side
        });
        let every = rest.strip_prefix(EVERY).and_then(|behind| {
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            let period = behind[..end].parse().ok()?;
            rest = &behind[end..];
            Some(period)
        });
        Some(Self { subject, side, every, how: How::read(rest)? })
    }
}

/// What stands before a period.
const EVERY: &str = " every ";

impl From<Subject> for Watched {
    fn from(subject: Subject) -> Self {
        Self { subject, side: None, every: None, how: How::Plain }
    }
}

impl From<Source> for Watched {
    fn from(source: Source) -> Self {
        Subject::Source(source).into()
    }
}

impl From<CoreEvent> for Watched {
    fn from(core: CoreEvent) -> Self {
        Source::Core(core).into()
    }
}

impl Display for Watched {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(side) = self.side {
            write!(f, ":{}", side.modifier())?;
        }
        if let Some(period) = self.every {
            write!(f, "{EVERY}{period}")?;
        }
        write!(f, "{}", self.how)
    }
}

impl From<Watched> for String {
    fn from(watched: Watched) -> Self {
        watched.to_string()
    }
}

/// What a row compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Case {
    /// Something that is counted or sampled.
    Watched(Watched),
    /// Events that are counted while they take turns.
    Counted {
        /// How many events.
        events: usize,
        /// How many counters.
        counters: usize,
        /// What of their counts.
        share: Share,
    },
    /// Pinned events, of which those without a counter are in error.
    Pinned {
        /// How many events.
        events: usize,
        /// How many counters.
        counters: usize,
    },
    /// A program that is sampled.
    Program {
        /// Which one.
        name: String,
        /// Whether each sample is a signal to it.
        with_signal: bool,
    },
    /// Whatever is told from nothing else.
    Other(String),
}

impl Case {
    /// The hardware by which it was had; none where the kernel alone was needed.
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.watched().and_then(|watched| watched.subject.mechanism())
    }

    /// What is counted or sampled, where that is known.
    pub fn watched(&self) -> Option<&Watched> {
        if let Self::Watched(watched) = self { Some(watched) } else { None }
    }

    /// Whether it is of misses.
    pub fn is_of_misses(&self) -> bool {
        self.watched().is_some_and(|watched| matches!(watched.subject, Subject::Misses | Subject::IbsMisses))
    }

    /// Whether each sample is a signal.
    pub fn has_signal(&self) -> bool {
        match self {
            Self::Watched(watched) => watched.how == How::WithSignal,
            Self::Program { with_signal, .. } => *with_signal,
            _ => false,
        }
    }

    /// Whether instructions are sampled.
    pub fn is_of_instructions(&self) -> bool {
        let is_of = |core: CoreEvent| core.counted == Retired::Instructions;
        self.watched().is_some_and(|watched| matches!(watched.subject, Subject::Source(Source::Core(core)) if is_of(core)))
    }

    /// Whether what the handler adds is taken off.
    pub fn is_without_the_handlers(&self) -> bool {
        self.watched().is_some_and(|watched| watched.how == How::HandlerTakenOff)
    }

    /// The same without its circumstances.
    pub fn anyhow(&self) -> Self {
        match self {
            Self::Watched(watched) => Self::Watched(watched.how(How::Plain)),
            other => other.clone(),
        }
    }

    /// How many run at once.
    pub fn at_once(&self) -> Option<usize> {
        match self.watched()?.how {
            How::AtOnce(count) | How::AgainstOneAlone(count) => Some(count),
            _ => None,
        }
    }

    fn read(text: &str) -> Option<Self> {
        if let Some(watched) = Watched::read(text) {
            return Some(Self::Watched(watched));
        }
        if let [events, counters] = numbers(text)[..] {
            let (events, counters) = (events as usize, counters as usize);
            let counted = Share::ALL.map(|share| Self::Counted { events, counters, share });
            return counted.into_iter().chain([Self::Pinned { events, counters }]).find(|case| case.to_string() == text);
        }
        let (name, _) = text.split_once(", ")?;
        let program = |with_signal| Self::Program { name: name.into(), with_signal };
        [false, true].map(program).into_iter().find(|case| case.to_string() == text)
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Watched(watched) => write!(f, "{watched}"),
            Self::Counted { events, counters, share } => write!(f, "{events} counted on {counters} counters: {share}"),
            Self::Pinned { events, counters } => write!(f, "{events} pinned on {counters} counters: in error"),
            Self::Program { name, with_signal: false } => write!(f, "{name}, sampled"),
            Self::Program { name, with_signal: true } => write!(f, "{name}, sampled with a signal"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<Case> for String {
    fn from(case: Case) -> Self {
        case.to_string()
    }
}

impl FromStr for Case {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::read(text).unwrap_or_else(|| Self::Other(text.into())))
    }
}

/// The numbers of a text, in their order.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Case> {
        let hows = How::WITHOUT_NUMBER.into_iter().chain(How::with(&[20])).chain(How::with(&[5, 4]));
        let watched = hows.flat_map(|how| {
            Subject::all().into_iter().flat_map(move |subject| {
                let plain = Watched::from(subject).how(how);
                let periods = [plain, plain.every(100_003)];
                periods.into_iter().chain(Side::ALL.into_iter().flat_map(move |side| periods.map(|one| one.within(side))))
            })
        });
        let (events, counters) = (6, 4);
        let others = Share::ALL.map(|share| Case::Counted { events, counters, share }).into_iter();
        let others = others.chain([Case::Pinned { events, counters }]);
        let programs = [false, true].map(|with_signal| Case::Program { name: "perl".into(), with_signal });
        watched.map(Case::Watched).chain(others).chain(programs).collect()
    }

    #[test]
    fn each_case_is_read_from_its_text() {
        for case in every() {
            assert_eq!(case.to_string().parse(), Ok(case.clone()), "{case}");
        }
        for other in ["", "perl", "events that take turns", "minor-faults:u, 5000 pages touched", "page-faults every 1, odd"] {
            assert_eq!(other.parse(), Ok(Case::Other(other.into())));
        }
    }

    #[test]
    fn cases_are_called_as_they_were() {
        let of = |subject: Subject, period: u64, how: How| Watched::from(subject).every(period).how(how).to_string();
        let faults = Subject::Source(Source::PageFaults);
        let core = |counted, by| Subject::Source(Source::Core(CoreEvent { counted, by }));
        let (events, counters) = (5, 4);
        let texts = [
            (of(faults, 100, How::Round), "page-faults every 100 (round)"),
            (of(faults, 101, How::Prime), "page-faults every 101 (prime)"),
            (of(faults, 200, How::Jittered), "page-faults every 200 ± 10 % (jittered)"),
            (of(faults, 97, How::Address), "page-faults every 97: the address"),
            (of(faults, 100, How::FourStores), "page-faults every 100, four stores in turn"),
            (of(Subject::Source(Source::Syscalls), 7, How::Runs(15)), "raw_syscalls:sys_enter every 7, 15 runs"),
            (of(Subject::Source(Source::Writes), 21, How::AtOnce(5)), "mem:VARIABLE/8:w every 21, 5 at once"),
            (of(Subject::Source(Source::Calls), 49, How::Plain), "uprobe:FUNCTION every 49"),
            (of(Subject::Probe, 97, How::Instruction), "uprobe every 97: the instruction"),
            (of(core(Retired::Loads, Overflow::Pebs), 999, How::FourLoads), "pebs loads every 999, four loads in turn"),
            (of(core(Retired::Loads, Overflow::Pebs), 999, How::Register), "pebs loads every 999: a register"),
            (
                Watched::from(core(Retired::Loads, Overflow::Pebs)).how(How::InstructionAddressRegister).to_string(),
                "pebs loads: instruction, address, register",
            ),
            (
                of(
                    core(Retired::Branches, Overflow::Interrupt),
                    100_003,
                    How::Rotating { events, counters, share: Share::Unscaled },
                ),
                "interrupt branches every 100003, 5 on 4 counters: unscaled",
            ),
            (of(Subject::Misses, 1000, How::OneIn(20)), "pebs first-level misses every 1000, one in 20 instructions"),
            (
                Watched::from(Subject::Misses).how(How::OneInCounted(20)).to_string(),
                "pebs first-level misses, one in 20 instructions: counted",
            ),
            (of(Subject::IbsMisses, 10_000, How::OneIn(60)), "ibs-op misses every 10000, one in 60 instructions"),
            (of(Subject::Ibs(Ibs::Op), 100_000, How::WithSignal), "ibs-op operations every 100000, with a signal"),
            (of(Subject::Ibs(Ibs::Fetch), 3200, How::HandlerTakenOff), "ibs-fetch fetches every 3200, the handler's taken off"),
            (
                of(Subject::Ibs(Ibs::Op), 10_000, How::AgainstOneAlone(2)),
                "ibs-op operations every 10000, 2 at once against one alone",
            ),
            (
                of(Subject::Ibs(Ibs::Op), 10_000, How::OfTheKernelsIn(Side::Program)),
                "ibs-op operations every 10000, of the kernel's: in user mode",
            ),
            (
                Watched::from(faults).within(Side::Program).every(101).how(How::TouchedBy(Side::Kernel)).to_string(),
                "page-faults:u every 101, touched by the kernel",
            ),
            (
                Watched::from(core(Retired::Locked, Overflow::Pebs))
                    .within(Side::Kernel)
                    .every(10_000)
                    .how(How::DoneBy(Side::Program))
                    .to_string(),
                "pebs locked loads:k every 10000, done by the program",
            ),
            (Case::Counted { events, counters, share: Share::Scaled }.to_string(), "5 counted on 4 counters: scaled by the time"),
            (Case::Pinned { events, counters }.to_string(), "5 pinned on 4 counters: in error"),
            (Case::Program { name: "perl".into(), with_signal: true }.to_string(), "perl, sampled with a signal"),
        ];
        for (text, expected) in texts {
            assert_eq!(text, expected);
        }
    }
}
