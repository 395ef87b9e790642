//! What a reader may set, or do next: named here, spelled by the program that speaks.
//!
//! A library knows that more time would help; how time is given is the command line's. Errors and remedies therefore hold a [`Setting`] or an
//! [`Operation`], and the program says once, before anything else, how it spells them ([`spell`]). Where nobody has, both read as plain
//! words.

use std::fmt;
use std::sync::OnceLock;

use crate::Mechanism;

/// Something that a user can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The share of the run that measuring may cost.
    Budget,
    /// Bytes of a buffer of records.
    Buffer,
    /// The file of thresholds.
    Config,
    /// How often an event happens, where it is known.
    CountOf,
    /// The CPU to measure on.
    Cpu,
    /// The event.
    Event,
    /// A file that names a set of events.
    EventSet,
    /// How long to measure.
    For,
    /// Whether objects of the heap are told.
    Heap,
    /// A recording whose lines are watched.
    LinesFrom,
    /// The command that gives a server work.
    Load,
    /// Another machine, by its name or description.
    Machine,
    /// How caches are taken away.
    Method,
    /// Experiments that are done, of all.
    Only,
    /// Overheads to verify at.
    Overheads,
    /// The size of pages.
    Pages,
    /// Events from one sample to the next.
    Period,
    /// A fault that an audit has to find.
    Plant,
    /// Overheads at which pollution is probed.
    Probe,
    /// A process that runs.
    Process,
    /// Memory of an emulated machine.
    Memory,
    /// A machine's profile.
    Profile,
    /// Whether fewer runs are enough.
    Quick,
    /// How a server says that it is ready.
    Ready,
    /// The file that keeps what is done.
    Resume,
    /// Pages of a ring.
    RingPages,
    /// How many runs.
    Runs,
    /// How many rounds at most.
    MaxRounds,
    /// Whether the program runs in copies of its folder.
    Scratch,
    /// What the program reads.
    Stdin,
    /// How messages are marked.
    Tag,
    /// The time that measuring may take.
    Time,
    /// After how long something is given up.
    Timeout,
    /// A place to watch.
    Watch,
    /// Debug registers to use of each thread.
    Watchpoints,
    /// An event that counts pieces of work.
    Work,
}

impl Setting {
    /// As the program spells it: `--budget`; `'budget'` where none has said.
    pub fn name(self) -> &'static str {
        match SPELLING.get() {
            Some(spelling) => (spelling.setting)(self),
            None => self.word(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Budget => "'budget'",
            Self::Buffer => "'buffer'",
            Self::Config => "'thresholds'",
            Self::CountOf => "'count'",
            Self::Cpu => "'CPU'",
            Self::Event => "'event'",
            Self::EventSet => "'set of events'",
            Self::For => "'duration'",
            Self::Heap => "'heap'",
            Self::LinesFrom => "'lines from'",
            Self::Load => "'load'",
            Self::Machine => "'machine'",
            Self::Method => "'method'",
            Self::Only => "'only'",
            Self::Overheads => "'overheads'",
            Self::Pages => "'pages'",
            Self::Period => "'period'",
            Self::Plant => "'plant'",
            Self::Probe => "'probe'",
            Self::Process => "'process'",
            Self::Memory => "'memory'",
            Self::Profile => "'profile'",
            Self::Quick => "'quick'",
            Self::Ready => "'ready'",
            Self::Resume => "'resume'",
            Self::RingPages => "'ring pages'",
            Self::Runs => "'runs'",
            Self::MaxRounds => "'rounds at most'",
            Self::Scratch => "'scratch'",
            Self::Stdin => "'standard input'",
            Self::Tag => "'tag'",
            Self::Time => "'time'",
            Self::Timeout => "'timeout'",
            Self::Watch => "'watch'",
            Self::Watchpoints => "'watchpoints'",
            Self::Work => "'work'",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is calibrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calibrated {
    /// Every mechanism that the machine has.
    All,
    /// One, by this event.
    Event(String),
    /// One, by an event that can be made to happen.
    Mechanism(Mechanism),
}

/// What is done in the emulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Samples are held against truths.
    Audit,
    /// Only those of cache misses.
    AuditOfMisses,
    /// Intervals are counted.
    Phase,
    /// Shared lines are looked for.
    Sharing,
}

/// An emulated machine, and what is done there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// Which processor; none for the usual one.
    pub processor: Option<&'static str>,
    /// How many CPUs; none for the usual number.
    pub cpus: Option<u32>,
    /// Whether it has caches.
    pub has_caches: bool,
    /// Whether counts of IBS start at random, as the hardware's do.
    pub has_random_starts: bool,
    /// A parameter of its kernel.
    pub kernel_parameter: Option<&'static str>,
    /// What is done there; none where any command is meant.
    pub experiment: Option<Experiment>,
}

/// Something that can be asked of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The cost recorded in a file, itemised.
    Bill,
    /// A machine that was built, packed for others.
    BundleMachine,
    /// The emulated machine, built, with the kernel of this file or the usual one.
    BuildMachine(Option<String>),
    /// What a sample costs, measured.
    Calibrate(Calibrated),
    /// What this machine can do.
    Diagnose,
    /// Likewise, asked as root.
    DiagnoseAsRoot,
    /// How the machine takes this event.
    DiagnoseEvent(String),
    /// How many records an interrupt has, of an event and a period.
    DiagnoseRecords,
    /// Something done in the emulated machine.
    Emulate(Emulation),
    /// An emulated machine that somebody else built, installed.
    InstallMachine,
    /// Likewise, after it was checked by its sum.
    InstallMachineOfSum,
    /// The events of this machine.
    ListEvents,
    /// Settings that keep within a budget.
    Plan,
    /// Likewise, sampled by the kernel's timer.
    PlanByTimer,
    /// What sampling costs on another machine.
    PredictElsewhere,
    /// Likewise, with counts of a simulated run.
    PredictFromSimulation,
    /// The emulated machine, built anew.
    RebuildMachine,
    /// A command in a machine that boots, and does not go on from where one was saved.
    RunBooting,
    /// A program, simulated.
    Simulate,
    /// Likewise, with all accesses to shared lines.
    SimulateSharing,
    /// The machine of this name, started and kept.
    StartMachine(String),
    /// The machine of this name, stopped.
    StopMachine(String),
    /// Shared lines, with objects of the heap told by name.
    WatchHeap,
    /// The lines that are named, watched.
    WatchNamed,
    /// Lines watched with two debug registers.
    WatchWithTwo,
}

impl Operation {
    fn words(&self) -> String {
        let fixed = match self {
            Self::Bill => "a bill of the recording",
            Self::BundleMachine => "a bundle of the machine",
            Self::BuildMachine(None) => "a build of the emulated machine",
            Self::BuildMachine(Some(kernel)) => return format!("a build of the emulated machine with the kernel {kernel}"),
            Self::Calibrate(Calibrated::All) => "a calibration",
            Self::Calibrate(Calibrated::Event(event)) => return format!("a calibration of {event}"),
            Self::Calibrate(Calibrated::Mechanism(mechanism)) => return format!("a calibration of {mechanism}"),
            Self::Diagnose => "a diagnosis of the machine",
            Self::DiagnoseAsRoot => "a diagnosis by root",
            Self::DiagnoseEvent(event) => return format!("a diagnosis of {event}"),
            Self::DiagnoseRecords => "a diagnosis of the event and its period",
            Self::Emulate(emulation) => return emulation.words(),
            Self::InstallMachine => "an installation of a bundle",
            Self::InstallMachineOfSum => "an installation of the bundle, with its sum",
            Self::ListEvents => "the list of events",
            Self::Plan => "a plan for a budget",
            Self::PlanByTimer => "a plan of cpu-clock",
            Self::PredictElsewhere => "a prediction elsewhere",
            Self::PredictFromSimulation => "a prediction for another machine from a simulation's counts",
            Self::RebuildMachine => "a new build of the emulated machine",
            Self::RunBooting => "a command in a machine that boots",
            Self::Simulate => "a simulation of the program",
            Self::SimulateSharing => "a simulation of shared lines",
            Self::StartMachine(name) => return format!("a start of the machine '{name}'"),
            Self::StopMachine(name) => return format!("a stop of the machine '{name}'"),
            Self::WatchHeap => "a watch with objects of the heap",
            Self::WatchNamed => "a watch of named lines",
            Self::WatchWithTwo => "a watch with two debug registers",
        };
        fixed.into()
    }
}

impl Emulation {
    fn words(self) -> String {
        let mut words = match self.experiment {
            Some(Experiment::Audit) => "an audit in the emulated machine".to_string(),
            Some(Experiment::AuditOfMisses) => "an audit of misses in the emulated machine".into(),
            Some(Experiment::Phase) => "a look at phases in the emulated machine".into(),
            Some(Experiment::Sharing) => "a watch of shared lines in the emulated machine".into(),
            None => "the emulated machine".into(),
        };
        let with = [
            self.processor.map(|processor| format!("the processor {processor}")),
            self.cpus.map(|cpus| format!("{cpus} CPUs")),
            self.has_caches.then(|| "caches".into()),
            self.has_random_starts.then(|| "random starts".into()),
            self.kernel_parameter.map(|parameter| format!("the kernel parameter {parameter}")),
        ];
        for (i, with) in with.into_iter().flatten().enumerate() {
            words += if i == 0 { " with " } else { " and " };
            words += &with;
        }
        words
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SPELLING.get() {
            Some(spelling) => f.write_str(&(spelling.operation)(self)),
            None => f.write_str(&self.words()),
        }
    }
}

/// How a program spells what its user can set and ask for.
#[derive(Clone, Copy, Debug)]
pub struct Spelling {
    /// The option that sets it.
    pub setting: fn(Setting) -> &'static str,
    /// The command that does it.
    pub operation: fn(&Operation) -> String,
}

static SPELLING: OnceLock<Spelling> = OnceLock::new();

/// Has everything from now on spelled so; of several spellings the first stays.
pub fn spell(spelling: Spelling) {
    SPELLING.set(spelling).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_spelling_they_read_as_words() {
        assert_eq!(Setting::Watch.to_string(), "'watch'");
        let emulation = Emulation { processor: Some("zen2"), has_caches: true, ..Emulation::default() };
        assert_eq!(Operation::Emulate(emulation).to_string(), "the emulated machine with the processor zen2 and caches");
        let calibrated = Calibrated::Mechanism(Mechanism::CpuClock);
        assert_eq!(Operation::Calibrate(calibrated).to_string(), "a calibration of cpu-clock");
    }
}
