//! Real recordings against what perf itself says of them: every record of every file, rendered as `perf script -D` renders
//! it, must be the same text. `fixtures/record.sh` made both.

use perftax_pmu::record::{
    self, Header, Layout, MappedFile, Mmap, RawRecord, Record, RegisterAbi, Registers, Sample, SampleId, Tally, Weight,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The parts of a perf.data file that this test needs, by the offsets of perf.data-file-format.txt.
struct Recording {
    bytes: Vec<u8>,
    data: std::ops::Range<usize>,
    events: Vec<Event>,
}

struct Event {
    layout: Layout,
    period: u64,
    ids: Vec<u64>,
}

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

impl Recording {
    fn open(name: &str) -> Self {
        let bytes = std::fs::read(fixture(&format!("{name}.data"))).unwrap();
        assert_eq!(&bytes[..8], b"PERFILE2");
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (entry_bytes, attrs, attrs_bytes) = (u64_at(16) as usize, u64_at(24) as usize, u64_at(32) as usize);
        let data = u64_at(40) as usize..(u64_at(40) + u64_at(48)) as usize;
        let events = (attrs..attrs + attrs_bytes)
            .step_by(entry_bytes)
            .map(|attr| {
                let ids = u64_at(attr + entry_bytes - 16) as usize;
                let ids_bytes = u64_at(attr + entry_bytes - 8) as usize;
                Event {
                    period: u64_at(attr + 16),
                    layout: Layout {
                        sample_type: u64_at(attr + 24),
                        read_format: u64_at(attr + 32),
                        sample_id_all: u64_at(attr + 40) >> 18 & 1 != 0,
                        branch_sample_type: u64_at(attr + 72),
                        sample_regs_user: u64_at(attr + 80),
                        sample_regs_intr: u64_at(attr + 96),
                    },
                    ids: (ids..ids + ids_bytes).step_by(8).map(u64_at).collect(),
                }
            })
            .collect();
        Self { data, events, bytes }
    }

    fn records(&self) -> impl Iterator<Item = RawRecord<'_>> {
        record::stream(&self.bytes[self.data.clone()]).map(|record| record.unwrap())
    }

    /// The event of a record; perf's own records and made-up ones carry no id.
    fn event(&self, record: &RawRecord<'_>) -> &Event {
        let id = record::identifier(record.header, record.body, &self.events[0].layout);
        self.events.iter().find(|event| event.ids.iter().any(|one| Some(*one) == id)).unwrap_or(&self.events[0])
    }
}

/// perf's text, by the record's offset in the file.
fn told_by_perf(name: &str) -> BTreeMap<usize, String> {
    let text = std::fs::read_to_string(fixture(&format!("{name}.txt"))).unwrap();
    let mut told: BTreeMap<usize, String> = BTreeMap::new();
    let mut at = None;
    for line in text.lines() {
        if let Some((before, _)) = line.split_once(" [0x").filter(|_| line.contains("]: PERF_RECORD_")) {
            let offset = before.rsplit(' ').next().unwrap().trim_start_matches("0x");
            at = Some(usize::from_str_radix(offset, 16).unwrap());
        }
        if !line.contains(": sched:sched_process_") {
            writeln!(told.entry(at.unwrap()).or_default(), "{}", line.trim_end()).unwrap();
        }
    }
    told
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// C's `%#lx`: a zero has no prefix.
fn hex(number: u64) -> String {
    if number == 0 { "0".into() } else { format!("{number:#x}") }
}

fn stamp(layout: &Layout, cpu: Option<u32>, time_ns: Option<u64>) -> String {
    assert_eq!(layout.sample_type >> 7 & 1 != 0, cpu.is_some());
    assert_eq!(layout.sample_type >> 2 & 1 != 0, time_ns.is_some());
    let cpu = cpu.map(|cpu| format!("{cpu} ")).unwrap_or_default();
    let time = time_ns.map(|time| format!("{time} ")).unwrap_or_default();
    format!("{cpu}{time}")
}

fn render_registers(out: &mut String, whose: &str, registers: &Registers<'_>) {
    const NAMES: [&str; 24] = [
        "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS", "R8", "R9", "R10",
        "R11", "R12", "R13", "R14", "R15",
    ];
    let abi = match registers.abi {
        RegisterAbi::None => return,
        RegisterAbi::Bits32 => "32-bit",
        RegisterAbi::Bits64 => "64-bit",
    };
    writeln!(out, "... {whose} regs: mask {:#x} ABI {abi}", registers.mask).unwrap();
    for (number, value) in registers.iter() {
        assert_eq!(registers.get(number), Some(value));
        writeln!(out, ".... {:<5} 0x{value:016x}", NAMES[number as usize]).unwrap();
    }
}

fn render_sample(out: &mut String, header: Header, event: &Event, body: &[u8], sample: &Sample<'_>) {
    let task = sample.task.unwrap();
    let period = sample.period.unwrap_or(event.period);
    let (ip, address) = (sample.ip.unwrap(), hex(sample.address.unwrap_or(0)));
    writeln!(out, "(IP, {:#x}): {}/{}: {ip:#x} period: {period} addr: {address}", header.misc, task.pid, task.tid).unwrap();
    if let Some(callchain) = sample.callchain {
        writeln!(out, "... FP chain: nr:{}", callchain.entries.len()).unwrap();
        for (at, entry) in callchain.entries.iter().enumerate() {
            writeln!(out, "..... {at:2}: {entry:016x}").unwrap();
        }
    }
    if let Some(branches) = &sample.branches {
        writeln!(out, "... branch stack: nr:{}", branches.len()).unwrap();
        for (at, branch) in branches.iter().enumerate() {
            let flags = branch.flags;
            let said = |is_so: bool, letter| if is_so { letter } else { ' ' };
            let letters: String = [
                said(flags.mispredicted(), 'M'),
                said(flags.predicted(), 'P'),
                said(flags.abort(), 'A'),
                said(flags.in_transaction(), 'T'),
            ]
            .iter()
            .collect();
            assert_eq!(flags.kind(), 0, "the emulated machine tells no kinds");
            writeln!(out, "..... {at:2}: {:016x} -> {:016x} {} cycles {letters} 0", branch.from, branch.to, flags.cycles())
                .unwrap();
        }
    }
    if let Some(registers) = &sample.user_registers {
        render_registers(out, "user", registers);
    }
    if let Some(registers) = &sample.interrupt_registers {
        render_registers(out, "intr", registers);
    }
    if let Some(stack) = sample.user_stack.filter(|stack| stack.dumped_bytes > 0) {
        let offset = stack.valid.as_ptr() as usize - body.as_ptr() as usize; // of the word before it, the size
        writeln!(out, "... ustack: size {}, offset {offset:#x}", stack.valid.len()).unwrap();
    }
    match sample.weight {
        Some(Weight::Parts { var1, var2, var3 }) => writeln!(out, "... weight: {var1},{var2:#x},{var3:#x}").unwrap(),
        Some(Weight::Full(weight)) => writeln!(out, "... weight: {weight}").unwrap(),
        None => {}
    }
    if let Some(source) = sample.data_source {
        writeln!(out, " . data_src: {:#x}", source.0).unwrap();
    }
    if let Some(address) = sample.physical_address {
        writeln!(out, " .. phys_addr: {address:#x}").unwrap();
    }
    if let Some(counts) = sample.counts {
        writeln!(out, "... sample_read:\n.... group nr {}", counts.len()).unwrap();
        for count in counts.iter() {
            writeln!(out, "..... id {:016x}, value {:016x}, lost {}", count.id.unwrap(), count.value, count.lost.unwrap())
                .unwrap();
        }
    }
}

fn render_range(mapping: &Mmap<'_>) -> String {
    let task = mapping.task;
    format!(
        " {}/{}: [{}({}) @ {}",
        task.pid as i32,
        task.tid as i32,
        hex(mapping.address),
        hex(mapping.length),
        hex(mapping.file_offset)
    )
}

fn render(offset: usize, event: &Event, raw: &RawRecord<'_>) -> Option<String> {
    let layout = &event.layout;
    let record = record::decode(raw.header, raw.body, layout).unwrap();
    let mut rest = String::new();
    let with = |id: &SampleId| stamp(layout, id.cpu, id.time_ns);
    let stamp = match &record {
        Record::Sample(sample) => {
            render_sample(&mut rest, raw.header, event, raw.body, sample);
            stamp(layout, sample.cpu, sample.time_ns)
        }
        Record::Comm(comm) => {
            let exec = if comm.by_exec { " exec" } else { "" };
            writeln!(rest, "{exec}: {}:{}/{}", text(comm.name), comm.task.pid, comm.task.tid).unwrap();
            with(&comm.sample_id)
        }
        Record::Mmap(mapping) => {
            let kind = if mapping.is_data { "r" } else { "x" };
            writeln!(rest, "{}]: {kind} {}", render_range(mapping), text(mapping.path)).unwrap();
            with(&mapping.sample_id)
        }
        Record::Mmap2(mmap) => {
            let file = match mmap.file {
                MappedFile::Inode { major, minor, inode, generation } => format!("{major:02x}:{minor:02x} {inode} {generation}"),
                MappedFile::BuildId(id) => format!("<{}>", id.iter().fold(String::new(), |all, byte| format!("{all}{byte:02x}"))),
            };
            let flag = |bit, letter| if mmap.protection & bit != 0 { letter } else { '-' };
            let shared = if mmap.flags & 1 != 0 { 's' } else { 'p' };
            let protection: String = [flag(1, 'r'), flag(2, 'w'), flag(4, 'x'), shared].iter().collect();
            writeln!(rest, "{} {file}]: {protection} {}", render_range(&mmap.mapping), text(mmap.mapping.path)).unwrap();
            with(&mmap.mapping.sample_id)
        }
        Record::Fork(life) | Record::Exit(life) => {
            let (task, parent) = (life.task, life.parent);
            writeln!(rest, "({}:{}):({}:{})", task.pid, task.tid, parent.pid, parent.tid).unwrap();
            with(&life.sample_id)
        }
        Record::Switch(switch) => {
            let preempted = if switch.preempted { " preempt" } else { "" };
            writeln!(rest, " {}{preempted}", if switch.out { "OUT" } else { "IN" }).unwrap();
            with(&switch.sample_id)
        }
        Record::Namespaces(namespaces) => {
            let task = namespaces.task;
            writeln!(rest, " {}/{} - nr_namespaces: {}", task.pid, task.tid, namespaces.links().len()).unwrap();
            with(&namespaces.sample_id)
        }
        Record::Lost(lost) => {
            writeln!(rest, ": id:{}: lost:{}", lost.id, lost.lost).unwrap();
            with(&lost.sample_id)
        }
        // perf shows the id of a trailer that has none as all ones.
        Record::LostSamples(lost) => {
            let id = lost.sample_id.id.unwrap_or(u64::MAX);
            writeln!(rest, ": id:{id}: lost samples :{}", lost.lost).unwrap();
            with(&lost.sample_id)
        }
        Record::Other { kind: 64.. } => return None,
        unexpected => panic!("no such record was made: {unexpected:?}"),
    };
    Some(format!("{stamp}{offset:#x} [{:#x}]: {}{rest}", raw.header.size, raw.header.kind_name()))
}

/// Every record, compared. Gives the number of samples.
fn compare(name: &str) -> usize {
    let recording = Recording::open(name);
    let mut told = told_by_perf(name);
    let mut samples = 0;
    let mut tally = Tally::default();
    for raw in recording.records() {
        let offset = recording.data.start + raw.offset;
        let theirs = told.remove(&offset).unwrap_or_else(|| panic!("{name}: perf has no record at {offset:#x}"));
        if let Some(ours) = render(offset, recording.event(&raw), &raw) {
            assert_eq!(ours, theirs, "{name}");
        }
        samples += usize::from(raw.header.kind == 9);
        tally.add(raw.header, raw.body).unwrap();
    }
    assert!(told.is_empty(), "{name}: not met: {told:?}");
    assert_eq!(tally.bytes, recording.data.len() as u64, "{name}");
    assert_eq!(tally.samples, samples as u64, "{name}");
    samples
}

#[test]
fn call_chains_switches_and_build_ids_are_as_perf_tells() {
    assert!(compare("clock") >= 10);
}

#[test]
fn user_registers_are_as_perf_tells() {
    assert!(compare("registers") >= 10);
}

#[test]
fn addresses_and_weight_structs_are_as_perf_tells() {
    assert!(compare("faults") >= 5);
}

#[test]
fn stack_copies_are_as_perf_tells() {
    assert!(compare("stack") >= 3);
}

#[test]
fn group_reads_are_as_perf_tells() {
    assert!(compare("group") >= 5);
}

#[test]
fn lost_records_are_as_perf_tells() {
    assert!(compare("lost") >= 50);
    let recording = Recording::open("lost");
    let mut tally = Tally::default();
    for raw in recording.records() {
        tally.add(raw.header, raw.body).unwrap();
    }
    // The kernel says it once in the ring, perf repeats it at the end from the event's own counter.
    let said = std::fs::read_to_string(fixture("lost.txt")).unwrap();
    let number = |label: &str| said.lines().find_map(|line| line.split_once(label)).unwrap().1.parse::<u64>().unwrap();
    assert_eq!((tally.lost, tally.lost_samples), (number(" lost:"), number(" lost samples :")));
    assert!(tally.is_discarded());
}

#[test]
fn tracepoints_raw_bytes_are_as_perf_tells() {
    assert!(compare("raw") >= 6);
    let recording = Recording::open("raw");
    let said = std::fs::read_to_string(fixture("raw.txt")).unwrap();
    // sched_process_exec: common fields 8 bytes, then filename's place u32, pid u32, old pid u32. sched_process_exit: comm 16
    // bytes, pid u32, prio u32 (their `format` files). The first attribute is the exec's.
    let mut ours = Vec::new();
    for raw in recording.records() {
        let event = recording.event(&raw);
        let Record::Sample(sample) = record::decode(raw.header, raw.body, &event.layout).unwrap() else { continue };
        let data = sample.raw.unwrap();
        let u32_at = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
        let until_nul = |from: usize| text(data[from..].split(|byte| *byte == 0).next().unwrap());
        ours.push(if std::ptr::eq(event, &recording.events[0]) {
            let name = until_nul((u32_at(8) & 0xffff) as usize);
            format!("sched:sched_process_exec: filename={name} pid={} old_pid={}", u32_at(12), u32_at(16))
        } else {
            format!("sched:sched_process_exit: comm={} pid={} prio={}", until_nul(8), u32_at(24), u32_at(28))
        });
    }
    let theirs: Vec<&str> = said.lines().filter(|line| line.contains("sched:sched_process_")).collect();
    // Records of two CPUs lie in the file one ring after the other; perf tells them by time.
    assert_eq!(ours.len(), theirs.len());
    for line in ours {
        assert!(theirs.iter().any(|theirs| theirs.contains(&line)), "{line}");
    }
}

/// Recorded in the emulated machine (`fixtures/record-vm.sh`): PEBS records as Debian's kernel hands them on.
#[test]
fn precise_samples_are_as_perf_tells() {
    assert!(compare("pebs") >= 15);
    assert!(compare("pebs-addresses") >= 8);
    assert!(compare("pebs-branches") >= 7);
}
