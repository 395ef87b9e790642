//! `doctor -e EVENT`: from the options, which are `perf record`'s, to the attributes that the oracle looks at.

use std::convert::Infallible;
use std::str::FromStr;

use anyhow::Result;
use perftax_doc::Mechanism;
use perftax_pmu::Error;
use perftax_pmu::event::{self, Catalog, Event};
use perftax_pmu::machine::intel::{GENERATIONS, Generation};
use perftax_pmu::machine::{Machine, Probe, Vendor};
use perftax_pmu::oracle::{AttrFacts, CpuFacts, LargePebs, Rate, beside, sample};

/// What `perf record` samples at when it is given neither -c nor -F, per second.
const PERF_DEFAULT_HZ: u64 = 4000;

/// The event and the attributes to ask about
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Question")]
pub struct Question {
    /// Ask about this event: would it get multi-record ("large") PEBS, and if not, what killed it?
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Fixed sampling period, in events
    #[arg(short = 'c', long = "count", value_name = "PERIOD", requires = "event", conflicts_with = "frequency")]
    period: Option<u64>,
    /// Samples per second (perf record's default: 4000)
    #[arg(short = 'F', long = "freq", value_name = "HZ", requires = "event")]
    frequency: Option<u64>,
    /// Record call chains: fp, dwarf or lbr
    #[arg(long, value_name = "MODE", requires = "event")]
    call_graph: Option<CallGraph>,
    /// Record the registers at the sample; all of them, or those named (ax,r13)
    #[arg(long, value_name = "REGS", requires = "event", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    intr_regs: Option<Registers>,
    /// Record the user-mode registers; all of them, or those named (ax,r13)
    #[arg(long, value_name = "REGS", requires = "event", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    user_regs: Option<Registers>,
    /// Record data addresses and sources
    #[arg(short, long, requires = "event")]
    data: bool,
    /// Record physical data addresses
    #[arg(long, requires = "event")]
    phys_data: bool,
    /// Record weights (latencies)
    #[arg(short = 'W', long, requires = "event")]
    weight: bool,
    /// Record branch stacks
    #[arg(short, long, requires = "event")]
    branch: bool,
    /// Read the counters of its group of N events at each sample ({...}:S); 2 if no number is given
    #[arg(long, value_name = "N", requires = "event", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = clap::value_parser!(u32).range(1..=64))]
    group_read: Option<u32>,
    /// Wake the reader after N samples (perf_event_attr.wakeup_events)
    #[arg(long, value_name = "N", requires = "event")]
    wakeup_events: Option<u32>,
    /// Record times, which is the default
    #[arg(long, requires = "event", conflicts_with = "no_timestamp")]
    timestamp: bool,
    /// Record no times
    #[arg(long, requires = "event")]
    no_timestamp: bool,
    /// Take times from this clock (use_clockid)
    #[arg(short = 'k', long, value_name = "CLOCK", requires = "event")]
    clockid: Option<String>,
    /// Another event that is sampled on the same CPUs meanwhile, with the same options; may be repeated
    #[arg(long, value_name = "EVENT", requires = "event")]
    beside: Vec<String>,
    /// Ask about another Intel generation: skylake, broadwell, icelake-server, sapphirerapids, …
    #[arg(long, value_name = "GENERATION", requires = "event")]
    cpu: Option<String>,
}

// Without doc comments: --help lists the values in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CallGraph {
    Fp,
    Dwarf,
    Lbr,
}

/// Registers that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Registers {
    /// All that there are.
    All,
    /// Those named; which names there are is known where they are looked up.
    Named(Vec<String>),
}

impl FromStr for Registers {
    type Err = Infallible;

    fn from_str(list: &str) -> Result<Self, Infallible> {
        Ok(match list {
            "" => Self::All,
            list => Self::Named(list.split(',').map(|name| name.trim().into()).collect()),
        })
    }
}

/// The oracle's answer for a kind of core.
pub struct OfCore {
    /// The kind of core.
    pub cpu: CpuFacts,
    /// The attributes.
    pub attr: AttrFacts,
    /// The answer.
    pub large_pebs: LargePebs,
}

/// What was asked, and the oracle's answer.
pub struct Answer {
    /// By kind of core: one answer, or one for each kind where the event names none.
    pub cores: Vec<OfCore>,
    /// Whether the CPU is another than the one here.
    pub is_hypothetical: bool,
    /// Whether neither a period nor a frequency was given, so that perf's default was taken.
    pub is_default_rate: bool,
    /// The error to end with where the event cannot be sampled here.
    pub unsupported: Option<Error>,
}

impl Question {
    /// The answer, or nothing where nothing was asked.
    pub fn answer(&self, machine: &Machine, probe: &dyn Probe) -> Result<Option<Answer>> {
        let Some(text) = &self.event else { return Ok(None) };
        let cpus = match &self.cpu {
            Some(name) => CpuFacts::each_of_generation(Generation::named(name).ok_or_else(|| unknown_generation(name))?),
            None => CpuFacts::each_of_machine(machine),
        };
        let is_hypothetical = self.cpu.is_some();
        let here = Catalog::of_this_machine();
        // A precise event of an Intel CPU that is asked about is PEBS, whoever made the CPU here.
        let catalog = if is_hypothetical { here.with_vendor(Vendor::Intel) } else { here };
        let event = one_event(text, &catalog)?;
        let cores = self.of_cores(&event, cpus, &catalog)?;
        let unsupported = if is_hypothetical { None } else { unsupported(text, &event, &catalog, machine, probe) };
        let is_default_rate = self.period.is_none() && self.frequency.is_none() && event.rate.is_none();
        Ok(Some(Answer { cores, is_hypothetical, is_default_rate, unsupported }))
    }

    /// The answer for each kind of core that the event is of: of the one that it names, else of all.
    fn of_cores(&self, event: &Event, cpus: Vec<CpuFacts>, catalog: &Catalog) -> Result<Vec<OfCore>> {
        let kinds: Vec<String> = cpus.iter().map(|cpu| cpu.pmu.clone()).collect();
        let is_meant = |cpu: &CpuFacts| kinds.len() < 2 || event.core.as_ref().is_none_or(|named| *named == cpu.pmu);
        let meant: Vec<CpuFacts> = cpus.into_iter().filter(is_meant).collect();
        if meant.is_empty() {
            let needed = format!("an event of {}", kinds.join(" or "));
            return Err(Error::Argument { argument: "-e", value: format!("'{}'", event.name), needed }.into());
        }
        let of_core = |cpu: CpuFacts| {
            let attr = self.attr(event, &cpu)?;
            let others =
                self.beside.iter().map(|text| self.attr(&one_event(text, catalog)?, &cpu)).collect::<Result<Vec<_>>>()?;
            Ok(OfCore { large_pebs: beside(&attr, &others, &cpu), attr, cpu })
        };
        meant.into_iter().map(of_core).collect()
    }

    fn attr(&self, event: &Event, cpu: &CpuFacts) -> Result<AttrFacts> {
        let rate = match (event.rate, self.period, self.frequency) {
            (Some(event::Rate::Period(period)), ..) | (None, Some(period), _) => Rate::Period(in_range("-c", period)?),
            (Some(event::Rate::Frequency(hz)), ..) | (None, None, Some(hz)) => Rate::Frequency(in_range("-F", hz)?),
            (None, None, None) => Rate::Frequency(PERF_DEFAULT_HZ),
        };
        let highest = u8::try_from(cpu.sure_precise()).unwrap_or(3);
        let precise = if event.modifiers.precise_max { highest } else { event.modifiers.precise };
        let mut attr = AttrFacts::new(&event.name, precise, rate);
        attr.is_hardware = is_hardware(event.mechanism);
        attr.exclude_kernel = event.modifiers.exclude_kernel;
        attr.wakeup_events = self.wakeup_events.unwrap_or(0);
        attr.use_clockid = self.clockid.is_some();
        let asked = [
            (self.data, sample::ADDR | sample::DATA_SRC),
            (self.phys_data, sample::PHYS_ADDR),
            (self.weight, sample::WEIGHT),
            (self.branch, sample::BRANCH_STACK),
            (self.group_read.is_some(), sample::READ),
            (self.intr_regs.is_some(), sample::REGS_INTR),
            (self.user_regs.is_some(), sample::REGS_USER),
        ];
        attr.sample_type |= asked.iter().filter(|(is_asked, _)| *is_asked).fold(0, |bits, (_, bit)| bits | bit);
        attr.group_events = self.group_read.unwrap_or(1);
        // config2 of a core's event is nothing else (Linux 7.1, `format_attr_acr_mask`).
        attr.acr_mask = if is_of_core(event.mechanism) { event.config2 } else { 0 };
        if self.no_timestamp {
            attr.sample_type &= !sample::TIME;
        }
        attr.regs_intr = registers("--intr-regs", self.intr_regs.as_ref(), cpu)?;
        attr.regs_user = registers("--user-regs", self.user_regs.as_ref(), cpu)? & 0xffff_ffff;
        match self.call_graph {
            Some(CallGraph::Dwarf) => {
                attr.sample_type |= sample::CALLCHAIN | sample::REGS_USER | sample::STACK_USER;
                attr.regs_user |= DEFAULT_REGISTERS;
            }
            Some(CallGraph::Lbr) => attr.sample_type |= sample::CALLCHAIN | sample::BRANCH_STACK,
            Some(CallGraph::Fp) => attr.sample_type |= sample::CALLCHAIN,
            None => {}
        }
        Ok(attr)
    }
}

/// The largest period: counters are at most 48 bits wide, and the issue's bound for every command.
const MAX_PERIOD: u64 = 1 << 48;

fn in_range(argument: &'static str, value: u64) -> Result<u64> {
    if (1..=MAX_PERIOD).contains(&value) {
        return Ok(value);
    }
    Err(Error::Argument { argument, value: value.to_string(), needed: format!("1 to {MAX_PERIOD}") }.into())
}

/// x86 registers in the order of `perf_regs.h`; DS, ES, FS and GS (12 to 15) cannot be sampled in 64-bit mode.
const REGISTERS: [&str; 24] = [
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss", "ds", "es", "fs", "gs", "r8", "r9", "r10", "r11",
    "r12", "r13", "r14", "r15",
];

/// What perf asks for when no registers are named: all but DS, ES, FS, GS. CS and SS are among them.
const DEFAULT_REGISTERS: u64 = 0x00ff_ffff & !0xf000;
/// And the XMM registers, 32 bits on, where the CPU's PEBS has them.
const XMM_REGISTERS: u64 = 0xffff_ffff_0000_0000;

fn registers(argument: &'static str, asked: Option<&Registers>, cpu: &CpuFacts) -> Result<u64> {
    match asked {
        None => Ok(0),
        Some(Registers::All) => Ok(DEFAULT_REGISTERS | if cpu.pebs.holds_xmm() == Some(false) { 0 } else { XMM_REGISTERS }),
        Some(Registers::Named(names)) => names.iter().try_fold(0, |mask, name| Ok(mask | register(argument, name)?)),
    }
}

fn register(argument: &'static str, name: &str) -> Result<u64> {
    let plain = name.to_ascii_lowercase();
    if let Some(number) = plain.strip_prefix("xmm").and_then(|n| n.parse::<u32>().ok()).filter(|n| *n < 16) {
        return Ok(0b11 << (32 + 2 * number));
    }
    match REGISTERS.iter().position(|r| *r == plain) {
        Some(bit) => Ok(1 << bit),
        None if is_vector(&plain) => {
            let needed = "a register that samples can hold: general ones, and xmm0 to xmm15 (Linux 7.1 has no bits for wider vectors, masks, R16 to R31 and SSP)";
            Err(Error::Argument { argument, value: name.into(), needed: needed.into() }.into())
        }
        None => {
            let needed = format!("registers such as {}", REGISTERS[..10].join(", "));
            Err(Error::Argument { argument, value: name.into(), needed }.into())
        }
    }
}

/// Whether it is a register of x86 that `sample_regs_intr` has no bit for (`asm/perf_regs.h`, Linux 7.1): YMM, ZMM, masks, those of APX, the shadow stack's pointer.
fn is_vector(name: &str) -> bool {
    let numbered = |prefix: &str, numbers: std::ops::Range<u32>| {
        name.strip_prefix(prefix).and_then(|number| number.parse().ok()).is_some_and(|number| numbers.contains(&number))
    };
    name == "ssp"
        || numbered("ymm", 0..32)
        || numbered("zmm", 0..32)
        || numbered("xmm", 16..32)
        || numbered("k", 0..8)
        || numbered("r", 16..32)
}

fn unknown_generation(name: &str) -> Error {
    let names: Vec<_> = GENERATIONS.iter().map(|g| g.name).collect();
    Error::Argument { argument: "--cpu", value: format!("'{name}'"), needed: format!("one of {}", names.join(", ")) }
}

/// The event that the text names: the oracle is asked about one at a time.
fn one_event(text: &str, catalog: &Catalog) -> Result<Event> {
    let mut events = event::parse(text, catalog)?;
    match (events.pop(), events.is_empty()) {
        (Some(event), true) => Ok(event),
        _ => Err(Error::Argument { argument: "-e", value: format!("'{text}'"), needed: "one event".into() }.into()),
    }
}

/// Whether the CPU takes the samples, by whichever mechanism.
fn is_hardware(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::Pebs | Mechanism::Pmi | Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Spe)
}

/// Whether a counter of the core counts it.
fn is_of_core(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::Pmi | Mechanism::Pebs)
}

/// Why the event cannot be sampled on this machine, if it cannot: the hardware first, then the kernel's permission.
fn unsupported(text: &str, event: &Event, catalog: &Catalog, machine: &Machine, probe: &dyn Probe) -> Option<Error> {
    if let Err(error) = event.check_supported(catalog) {
        return Some(error);
    }
    let status = machine.mechanism(event.mechanism, probe);
    let what = format!("sample {}", event.name);
    if !status.available {
        return Some(Error::Unsupported { what, why: status.why_not, remedy: status.remedy });
    }
    (is_of_core(event.mechanism) && probe.interrupts(text) == Some(false)).then(|| Error::Unsupported {
        what,
        why: "it counts only: no interrupt comes where its counter overflows, as in clouds that pass counters through without"
            .into(),
        remedy: "perf stat counts it; perftax plan -e cpu-clock samples by the kernel's timer".into(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;

    use super::*;

    fn attr_of(text: &str, cpu: &str) -> AttrFacts {
        let catalog = Catalog::at(Path::new("/nonexistent"), None).with_vendor(Vendor::Intel);
        let cpu = CpuFacts::each_of_generation(Generation::named(cpu).unwrap()).remove(0);
        Question::default().attr(&one_event(text, &catalog).unwrap(), &cpu).unwrap()
    }

    #[test]
    fn modifiers_become_attributes() {
        assert_eq!(attr_of("cycles", "skylake").precise, 0);
        assert_eq!(attr_of("cycles:ppp", "skylake").precise, 3);
        assert_eq!(attr_of("cycles:P", "skylake").precise, 3);
        assert_eq!(attr_of("cycles:P", "sandybridge").precise, 2);
        assert!(attr_of("cycles:upp", "skylake").exclude_kernel);
        assert!(!attr_of("cycles:ukpp", "skylake").exclude_kernel);
        assert!(attr_of("cycles:pp", "skylake").is_hardware);
        assert!(!attr_of("page-faults:u", "skylake").is_hardware);
        assert_eq!(attr_of("cycles:pp", "skylake").rate, Rate::Frequency(PERF_DEFAULT_HZ));
    }

    #[test]
    fn an_event_that_is_read_one_by_one_takes_it_from_its_neighbour() {
        let cpu = CpuFacts::each_of_generation(Generation::named("skylake").unwrap()).remove(0);
        let catalog = Catalog::at(Path::new("/nonexistent"), None).with_vendor(Vendor::Intel);
        let at = |period| Question { period: Some(period), ..Question::default() };
        let of = |question: Question, text| question.attr(&one_event(text, &catalog).unwrap(), &cpu).unwrap();
        let mine = of(at(1009), "cycles:pp");
        assert_eq!(beside(&mine, &[of(at(2003), "branches:pp")], &cpu).records_per_pmi, Some(323));
        let answer = beside(&mine, &[of(Question::default(), "branches:pp")], &cpu);
        assert_eq!(answer.records_per_pmi, Some(1), "a frequency");
        assert_eq!(answer.killed_by[0].what, "branches:pp on the same CPU");
        assert_eq!(beside(&mine, &[of(Question::default(), "branches")], &cpu).records_per_pmi, Some(323), "no PEBS, no matter");
    }

    #[test]
    fn one_event_is_asked_about_at_a_time() {
        let catalog = Catalog::at(Path::new("/nonexistent"), None);
        assert!(one_event("cycles,instructions", &catalog).is_err());
        assert!(one_event("", &catalog).is_err());
        assert!(one_event("cycles:pppp", &catalog).is_err());
    }

    #[test]
    fn bare_registers_are_more_than_the_general_ones() {
        let skylake = CpuFacts::each_of_generation(Generation::named("skylake").unwrap()).remove(0);
        let of = |list: &str| registers("--intr-regs", list.parse().ok().as_ref(), &skylake);
        assert_eq!(of("ax, r13").unwrap(), 1 | 1 << 21);
        assert_ne!(of("").unwrap() & (1 << 10), 0, "CS is in perf's default");
        assert!(of("r99").is_err() && of("ax,").is_err());
        assert_eq!((registers("--intr-regs", None, &skylake).unwrap(), "".parse()), (0, Ok(Registers::All)));
    }

    #[test]
    fn vectors_that_no_sample_holds_are_refused_by_name() {
        for name in ["ymm0", "zmm31", "xmm16", "k7", "r16", "ssp"] {
            let why = register("--intr-regs", name).unwrap_err().to_string();
            assert!(why.contains(name) && why.contains("xmm0 to xmm15"), "{why}");
        }
        assert_eq!(register("--intr-regs", "xmm15").unwrap(), 0b11 << 62);
        assert!(!register("--intr-regs", "r99").unwrap_err().to_string().contains("xmm15"));
    }

    /// An event that names no kind of core is of all of them, one that does is of that alone.
    #[test]
    fn each_kind_of_core_has_an_answer() {
        let catalog = Catalog::at(Path::new("/nonexistent"), None).with_vendor(Vendor::Intel);
        let of = |text: &str, cpu: &str| {
            let question = Question { period: Some(100_003), no_timestamp: true, ..Question::default() };
            let cpus = CpuFacts::each_of_generation(Generation::named(cpu).unwrap());
            question.of_cores(&one_event(text, &catalog).unwrap(), cpus, &catalog)
        };
        let records = |text: &str| {
            let cores = of(text, "arrowlake-h").unwrap();
            cores.iter().map(|core| (core.cpu.pmu.clone(), core.large_pebs.records_per_pmi.unwrap())).collect::<Vec<_>>()
        };
        let [core, atom, low] =
            [("cpu_core", 2034), ("cpu_atom", 2033), ("cpu_lowpower", 2037)].map(|(pmu, n)| (pmu.to_string(), n));
        // 2048 basic records fit; reserved are 10 + 4, 8 + 7 (fixed counters up to number 6) and 8 + 3.
        assert_eq!(records("cycles:pp"), [core, atom.clone(), low]);
        assert_eq!(records("cpu_atom/cycles/pp"), [atom]);
        assert_eq!(
            of("cpu_atom/event=0xc0/pp", "skylake").unwrap()[0].cpu.pmu,
            "cpu",
            "one kind of core: the PMU's name decides nothing"
        );
        let error = of("cpu_lowpower/cycles/pp", "lunarlake").err().unwrap().to_string();
        assert!(error.contains("cpu_core or cpu_atom"), "{error}");
    }

    #[test]
    fn modes_of_call_graphs_have_perf_s_names() {
        let names = CallGraph::value_variants().iter().filter_map(CallGraph::to_possible_value);
        assert_eq!(names.map(|value| value.get_name().to_owned()).collect::<Vec<_>>(), ["fp", "dwarf", "lbr"]);
        for mode in CallGraph::value_variants() {
            let name = mode.to_possible_value().unwrap();
            assert_eq!(CallGraph::from_str(name.get_name(), false), Ok(*mode));
        }
    }
}
