//! `perf record`, and `perf mem record` and `perf c2c record`, which are the same with events of their own.

use super::options::{C2C_RECORD, MEM, MEM_RECORD, RECORD};
use super::{events, number, unpriced, whom};
use crate::grammar::{Grammar, Read};
use crate::{Error, Left, Whom};

/// How often a line asks to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many samples a second (`-F`); perf's default is 4000 (builtin-record.c, `opts.freq`).
    Frequency(u64),
    /// As many a second as the kernel allows (`-F max`).
    Most,
    /// One every so many events (`-c`).
    Period(u64),
}

/// How callers are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// By frame pointers, in the kernel.
    FramePointers,
    /// A copy of so many bytes of the user's stack, and all user registers.
    StackCopy(u32),
    /// The hardware's call stack of branch records.
    BranchRecords,
}

impl Chain {
    /// A value of `--call-graph`: `fp`, `lbr`, `dwarf`, `dwarf,BYTES` (rounded up to words, as perf does).
    ///
    /// # Errors
    /// What is needed instead.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let (mode, more) = value.split_once(',').map_or((value, None), |(mode, more)| (mode, Some(more)));
        match (mode, more) {
            // Newer perfs may have the user's callers in a record of their own.
            ("fp", None | Some("defer")) => Ok(Self::FramePointers),
            ("lbr", None) => Ok(Self::BranchRecords),
            ("dwarf", _) => {
                let bytes: u32 = match more {
                    Some(bytes) => bytes.parse().map_err(|_| "dwarf, or dwarf,BYTES")?,
                    None => DEFAULT_STACK,
                };
                if bytes == 0 || bytes > MAX_STACK {
                    return Err("1 to 65528 bytes");
                }
                Ok(Self::StackCopy(bytes.next_multiple_of(8)))
            }
            _ => Err("fp, dwarf or lbr"),
        }
    }
}

/// What a `perf record` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Events in perf's syntax; none: perf's default, cycles or, without a PMU, cpu-clock.
    pub events: Vec<String>,
    /// How often each is sampled that does not say so itself.
    pub rate: Rate,
    /// Callers.
    pub chain: Option<Chain>,
    /// Whether call chains leave the user's callers out, as with a copy of the stack.
    pub is_kernel_chain: bool,
    /// Branch records beside.
    pub branches: bool,
    /// The user's registers, how many; those of a copied stack not among them.
    pub user_registers: u32,
    /// Whether tasks that are created are sampled, too.
    pub inherits: bool,
    /// Whether the kernel's mode is left out of every event, or the user's.
    pub only: Option<Mode>,
    /// Addresses of data in each sample (`-d`).
    pub has_address: bool,
    /// The CPU in each sample, asked for or because CPUs are watched.
    pub has_cpu: bool,
    /// The period in each sample: by frequency, or asked for.
    pub has_period: bool,
    /// The time in each sample.
    pub has_time: bool,
    /// The event's id in each sample where it would not be there.
    pub has_identifier: bool,
    /// Whether samples are taken at all.
    pub samples: bool,
}

/// A mode of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The user's.
    User,
    /// The kernel's.
    Kernel,
}

impl Mode {
    /// The modifier of an event that is counted in this mode alone.
    pub fn modifier(self) -> char {
        match self {
            Self::User => 'u',
            Self::Kernel => 'k',
        }
    }
}

/// perf's default rate, samples a second (builtin-record.c).
const DEFAULT_HZ: u64 = 4000;
/// perf's default copy of the user's stack, bytes (util/callchain.h), and the most that a sample holds (u16, rounded down to 8).
const DEFAULT_STACK: u32 = 8192;
const MAX_STACK: u32 = 65528;
/// Registers that a copy of the stack comes with on x86-64 (arch/x86/include/uapi/asm/perf_regs.h: PERF_REGS_MASK without segments).
const X86_REGISTERS: u32 = 16 + 1;

/// What costs the program something that has no price here, by option.
const UNPRICED: [(&str, &str); 24] = [
    ("intr-regs", "registers at the interrupt in each sample"),
    ("phys-data", "the physical address in each sample"),
    ("data-page-size", "the size of the data's page in each sample"),
    ("code-page-size", "the size of the code's page in each sample"),
    ("weight", "weights in each sample"),
    ("transaction", "transactions in each sample"),
    ("sample-mem-info", "what a load met in each sample"),
    ("aux-sample", "AUX data in each sample"),
    ("all-cgroups", "the control group in each sample"),
    ("cgroup", "which part of the CPUs' time the control group has"),
    ("filter", "which samples the filter drops: all are priced"),
    ("setup-filter", "which samples the filter drops: all are priced"),
    ("uid", "which tasks the user has: all of the program's are priced"),
    ("exclude-perf", "the filter that leaves perf out"),
    ("off-cpu", "a BPF program at each context switch"),
    ("off-cpu-thresh", "a BPF program at each context switch"),
    ("switch-events", "a record at each context switch"),
    ("latency", "a record at each context switch"),
    ("namespaces", "a record of namespaces for each task"),
    ("no-buffering", "waking perf at each event"),
    ("realtime", "perf before everything else on its CPU"),
    ("snapshot", "an AUX buffer"),
    ("delay", "that events are off for a part of the run: all of it is priced"),
    ("stat", "a record of counts as each task ends"),
];

/// Options whose cost perf bears itself, beside the program: its file, its own threads, what it looks up before and after.
const PERFS_OWN: [&str; 6] = ["compression-level", "aio", "threads", "buildid-all", "kcore", "switch-output"];

impl Recording {
    /// Reads the words behind `perf record`.
    pub(crate) fn read(words: &[String]) -> Result<(Self, Whom, Left), Error> {
        let read = RECORD.read(words)?;
        Self::of(&read, "perf record")
    }

    fn of(read: &Read<'_>, tool: &'static str) -> Result<(Self, Whom, Left), Error> {
        let whom = whom(read);
        let chain = chain(read, tool)?;
        let (frequency, period) = (read.value("freq"), read.value("count"));
        let rate = match (frequency, period) {
            (_, Some(period)) => Rate::Period(positive(tool, "-c", period)?),
            (Some("max"), None) => Rate::Most,
            (Some(hz), None) => Rate::Frequency(positive(tool, "-F", hz)?),
            (None, None) => Rate::Frequency(DEFAULT_HZ),
        };
        let only = match (read.has("all-user"), read.has("all-kernel")) {
            (true, true) => {
                let needed = "one of the two: together they leave nothing".into();
                return Err(Error::Value { tool, option: "--all-user".into(), value: "beside --all-kernel".into(), needed });
            }
            (true, false) => Some(Mode::User),
            (false, true) => Some(Mode::Kernel),
            _ => None,
        };
        let is_stack = matches!(chain, Some(Chain::StackCopy(_)));
        let recording = Self {
            events: read.values("event").flat_map(events).collect(),
            rate,
            chain,
            is_kernel_chain: is_stack || read.has("kernel-callchains"),
            branches: read.has("branch-any") || read.value("branch-filter").is_some() || chain == Some(Chain::BranchRecords),
            user_registers: registers(read, is_stack),
            inherits: !read.has("no-inherit") && !whom.is_of_cpus(),
            only,
            has_address: read.has("data"),
            has_cpu: whom.is_of_cpus() || read.has("sample-cpu"),
            has_period: !matches!(rate, Rate::Period(_)) || read.has("period"),
            has_time: !read.options.iter().any(|option| option.name == "timestamp" && option.is_denied),
            has_identifier: read.has("sample-identifier"),
            samples: !read.has("no-samples"),
        };
        let beside = read.options.iter().filter(|option| PERFS_OWN.contains(&option.name) && !option.is_denied);
        let left = Left { unpriced: unpriced(read, &UNPRICED), beside: beside.map(|option| option.written.to_owned()).collect() };
        Ok((recording, whom, left))
    }

    /// Bytes of a sample's record before call chain, branch records, registers, stack and raw data (linux/perf_event.h, PERF_RECORD_SAMPLE), where a line has so
    /// many events. A tracepoint's samples have CPU, time and period whatever was asked.
    pub fn fixed_bytes(&self, events: usize, is_tracepoint: bool) -> u32 {
        let has = |is: bool| if is { 8 } else { 0 };
        let (header, ip, tid) = (8, 8, 8);
        header
            + ip
            + tid
            + has(self.has_time || is_tracepoint)
            + has(self.has_cpu || is_tracepoint)
            + has(self.has_period || is_tracepoint)
            + has(self.has_address)
            + has(events > 1 || self.has_identifier)
    }

    /// Bytes of what follows these, but for what depends on the program: `entries` of a call chain, bytes copied of a stack.
    pub fn variable_bytes(&self, entries: f64, stack_bytes: f64) -> f64 {
        let chain = if self.chain.is_some() { 8.0 + 8.0 * entries } else { 0.0 };
        let registers = match self.chain {
            Some(Chain::StackCopy(_)) => 8 + 8 * X86_REGISTERS,
            _ if self.user_registers > 0 => 8 + 8 * self.user_registers,
            _ => 0,
        };
        let stack = match self.chain {
            Some(Chain::StackCopy(_)) => 8.0 + stack_bytes + 8.0,
            _ => 0.0,
        };
        chain + f64::from(registers) + stack
    }
}

fn positive(tool: &'static str, option: &str, value: &str) -> Result<u64, Error> {
    let number: u64 = number(tool, option, value, "a positive whole number")?;
    if number == 0 {
        return Err(Error::Value { tool, option: option.into(), value: value.into(), needed: "a positive whole number".into() });
    }
    Ok(number)
}

/// `-g`, `--call-graph MODE[,BYTES]`: the last one counts.
fn chain(read: &Read<'_>, tool: &'static str) -> Result<Option<Chain>, Error> {
    let mut chain = None;
    for option in &read.options {
        if option.name == "call-graph" && option.is_denied {
            chain = None;
        } else if option.letter == 'g' && option.name.is_empty() {
            chain = chain.or(Some(Chain::FramePointers));
        } else if option.name == "call-graph" {
            chain = Some(chain_of(option.value.unwrap_or("fp"), tool)?);
        }
    }
    Ok(chain)
}

fn chain_of(value: &str, tool: &'static str) -> Result<Chain, Error> {
    Chain::parse(value).map_err(|needed| Error::Value {
        tool,
        option: "--call-graph".into(),
        value: value.into(),
        needed: needed.into(),
    })
}

/// User registers asked for by name, or all.
fn registers(read: &Read<'_>, is_stack: bool) -> u32 {
    if is_stack || !read.has("user-regs") {
        return 0;
    }
    read.value("user-regs").map_or(X86_REGISTERS, |names| names.split(',').count() as u32)
}

/// `perf mem record`: loads and stores by precise events, with addresses, weights and what they met (builtin-mem.c).
pub(crate) fn of_mem(words: &[String]) -> Result<(Recording, Whom, Left), Error> {
    let before = MEM.read(words)?;
    let Some((&"record", _)) = before.rest.split_first() else {
        let value = before.rest.first().map_or("nothing".into(), |word| (*word).to_owned());
        return Err(Error::Value { tool: "perf mem", option: "the subcommand".into(), value, needed: "record".into() });
    };
    let rest = &words[words.len() + 1 - before.rest.len()..];
    let kinds = before.value("type").unwrap_or("load,store");
    let events: Vec<String> = kinds.split(',').filter_map(memory_event).collect();
    of_memory(&MEM_RECORD, rest, events, before.value("cpu"))
}

/// `perf c2c record`: loads and stores, with addresses, weights and what they met, of all CPUs where nothing else is said (builtin-c2c.c).
pub(crate) fn of_c2c(words: &[String]) -> Result<(Recording, Whom, Left), Error> {
    let Some(("record", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) else {
        let value = words.first().map_or("nothing".into(), Clone::clone);
        return Err(Error::Value { tool: "perf c2c", option: "the subcommand".into(), value, needed: "record".into() });
    };
    let events = ["load", "store"].into_iter().filter_map(memory_event).collect();
    of_memory(&C2C_RECORD, rest, events, None)
}

/// What perf calls the events of loads and stores: each vendor's own, of which sysfs says the name.
fn memory_event(kind: &str) -> Option<String> {
    match kind {
        "load" => Some("mem-loads".into()),
        "store" => Some("mem-stores".into()),
        _ => None,
    }
}

/// Its own options come first, and `perf record`'s behind them or behind `--`; both kinds may be mixed before.
fn of_memory(own: &Grammar, words: &[String], events: Vec<String>, cpu: Option<&str>) -> Result<(Recording, Whom, Left), Error> {
    let mut handed_on: Vec<String> = Vec::new();
    if let Some(cpu) = cpu {
        handed_on.extend(["-C".to_owned(), cpu.to_owned()]);
    }
    let mut rest = words;
    // Option by option: what is its own is read by its own grammar, all else is perf record's.
    while let Some((word, behind)) = rest.split_first() {
        if !word.starts_with('-') || word == "-" {
            break;
        }
        if word == "--" {
            rest = behind;
            if rest.first().is_some_and(|word| word.starts_with('-')) {
                continue;
            }
            break;
        }
        let takes_next = |grammar: &Grammar| {
            let one = grammar.read(std::slice::from_ref(word));
            match one {
                Ok(_) => Some(false),
                Err(Error::Value { .. }) => Some(true),
                Err(_) => None,
            }
        };
        let (is_own, takes_next) = match takes_next(own) {
            Some(takes_next) => (true, takes_next),
            None => (false, takes_next(&RECORD).unwrap_or(false)),
        };
        let words = rest.iter().take(1 + usize::from(takes_next));
        if !is_own {
            handed_on.extend(words.cloned());
        }
        rest = behind.get(usize::from(takes_next)..).unwrap_or_default();
    }
    handed_on.push("--".into());
    handed_on.extend(rest.iter().cloned());
    let read = RECORD.read(&handed_on)?;
    let (mut recording, whom, mut left) = Recording::of(&read, own.tool)?;
    recording.events.extend(events);
    recording.has_address = true;
    left.unpriced.push((own.tool.into(), "weights and what each load met in each sample".into()));
    Ok((recording, whom, left))
}

/// Whom a recording's own line watched, where it tells: tasks, or CPUs.
pub fn of_tasks_or_cpus(line: &[String]) -> Option<Whom> {
    let words: Vec<String> = line.iter().skip_while(|word| *word != "record").skip(1).cloned().collect();
    match whom(&RECORD.read_known(&words)) {
        Whom::Command(_) => None,
        whom => Some(whom),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn read(line: &str) -> (Recording, Whom, Left) {
        Recording::read(&line.split(' ').map(String::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_usual_line_is_read() {
        let (recording, whom, left) = read("-F 99 -g -a");
        assert_eq!((recording.rate, recording.chain), (Rate::Frequency(99), Some(Chain::FramePointers)));
        assert_eq!((whom, recording.inherits, recording.has_cpu), (Whom::Cpus(None), false, true));
        assert_eq!((left, recording.events.is_empty(), recording.fixed_bytes(1, false)), (Left::default(), true, 48));
    }

    #[test]
    fn what_a_sample_carries_is_known_in_bytes() {
        // As perf evlist -v has it: IP|TID|TIME|PERIOD by frequency, no PERIOD by count; RAW and CPU for tracepoints; an id where there are several.
        assert_eq!(read("-F 99 x").0.fixed_bytes(1, false), 40);
        assert_eq!(read("-c 1000 x").0.fixed_bytes(1, false), 32);
        assert_eq!(read("-c 1 -e sched:sched_switch x").0.fixed_bytes(1, true), 48);
        assert_eq!(read("-c 1000 -e a,b -d x").0.fixed_bytes(2, false), 48);
        let copied = read("--call-graph dwarf,1000 x").0;
        assert_eq!((copied.chain, copied.is_kernel_chain), (Some(Chain::StackCopy(1000)), true));
        assert_eq!(copied.variable_bytes(2.0, 1000.0), 24.0 + 144.0 + 1016.0);
    }

    #[test]
    fn what_has_no_price_is_named_as_it_was_written() {
        let (_, whom, left) = read("-e cycles -c 9 --switch-events -z -D 100 --intr-regs=ax make -j");
        assert_eq!(whom, Whom::Command(vec!["make".into(), "-j".into()]));
        let options: Vec<&str> = left.unpriced.iter().map(|(option, _)| option.as_str()).collect();
        assert_eq!((options, left.beside), (vec!["--switch-events", "-D", "--intr-regs=ax"], vec!["-z".to_owned()]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |line: &str| Recording::read(&line.split(' ').map(String::from).collect::<Vec<_>>()).unwrap_err().to_string();
        assert_eq!(error("-F 0 x"), "perf record: -F is '0', needs a positive whole number");
        assert_eq!(error("--call-graph dwarf,99999 x"), "perf record: --call-graph is 'dwarf,99999', needs 1 to 65528 bytes");
        assert!(error("--all-user --all-kernel x").contains("needs one of the two"));
        assert!(error("--frob x").contains("no option '--frob'"));
    }

    #[test]
    fn loads_and_stores_are_recordings_too() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let (recording, whom, left) = of_mem(&words("-t load record -F 500 --ldlat 30 -- ./a b")).unwrap();
        assert_eq!((recording.events, recording.rate), (vec!["mem-loads".to_owned()], Rate::Frequency(500)));
        assert_eq!((whom, left.unpriced.len()), (Whom::Command(vec!["./a".into(), "b".into()]), 1));
        let (recording, whom, _) = of_c2c(&words("record -a -- sleep 1")).unwrap();
        assert_eq!((recording.events, whom), (vec!["mem-loads".to_owned(), "mem-stores".into()], Whom::Cpus(None)));
        assert!(of_mem(&words("report")).unwrap_err().to_string().contains("needs record"));
    }
}
