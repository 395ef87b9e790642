//! Counting the records of a recording.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use perftax_doc::Untold;
use perftax_pmu::record::spe;
use perftax_pmu::sampler::CODE_PAGE_SHIFT;

use super::attribute::{Attribute, read_format, sample_type};
use super::bytes::{Order, text};
use super::command_line::{Whom, event_lists, whom};
use super::command_span::CommandSpan;
use super::event_counts::EventCounts;
use super::features::Features;
use super::kind;
use super::layout::{Belonging, Layout};
use super::mechanism;
use super::names::Names;
use super::observer::{Observer, SeenRecord, SeenSample};
use super::repeated::Repeated;
use super::slices::{Slices, Track};

/// The kernel's own types of events reach to here (`PERF_TYPE_BREAKPOINT`); others are PMUs, which a header names or does not.
const MAX_FIXED_TYPE: u32 = 5;

/// PERF_TYPE_TRACEPOINT.
const TRACEPOINT: u32 = 2;
/// `PERF_AUXTRACE_ARM_SPE`.
const AUX_TYPE_SPE: u32 = 4;
/// `PERF_TYPE_SYNTH` of perf: an event that perf itself puts together.
const TYPE_SYNTHESISED: u32 = 1 << 31;
/// Nobody loses more samples, and no clock shows more (146 years, or 2116 by the calendar).
const MAX_COUNT: u64 = 1 << 40;
const MAX_TIME_NS: u64 = 1 << 62;

/// Process and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// What was counted over all events.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Records by type, decompressed ones included, as `perf report --stats` counts them.
    pub records: BTreeMap<u32, u64>,
    /// Samples by CPU and event index, where samples say their CPU or their id stands for one.
    pub by_cpu: BTreeMap<(u32, usize), u64>,
    /// Those of them of the idle task.
    pub idle_by_cpu: BTreeMap<(u32, usize), u64>,
    /// Whether CPUs were watched, and not a command or tasks.
    pub of_cpus: bool,
    /// Samples by thread and event index.
    pub by_thread: FxHashMap<(Thread, usize), u64>,
    /// Samples over time, by CPU or thread.
    pub slices: Slices,
    /// Samples of ids that no event has.
    pub unknown_samples: u64,
    /// Records that state an impossible time or count, which are not counted, and the first of them.
    pub impossible: u64,
    /// What the first of them states.
    pub first_impossible: Option<String>,
    /// AUX records whose flags say that data were cut off, have gaps or collided.
    pub aux_lossy: u64,
    /// Time of the earliest sample.
    pub first_sample_ns: Option<u64>,
    /// Time of the latest sample.
    pub last_sample_ns: Option<u64>,
    /// Time at which the recorded command ran exec.
    pub exec_ns: Option<u64>,
    /// Time at which it ended.
    pub exit_ns: Option<u64>,
    /// Threads and processes created while recording.
    pub created: u64,
    /// Programs executed while recording.
    pub executed: u64,
    names: Names,
}

impl Counts {
    /// The name of a thread: its own, or its parent's at the fork where it was never renamed.
    pub fn comm(&self, tid: u32) -> &str {
        self.names.last(tid)
    }
}

/// Counts records as they come.
pub struct Counter<'a> {
    order: Order,
    observer: Option<&'a mut dyn Observer>,
    events: Vec<EventCounts>,
    layouts: Vec<Layout>,
    /// Whether one layout finds the id in every record.
    ids_agree: bool,
    event_of_id: FxHashMap<u64, usize>,
    cpu_of_id: FxHashMap<u64, u32>,
    /// Records and samples that repeat the one before.
    same_kind: Repeated<u32>,
    same_cpu: Repeated<(u32, usize)>,
    same_thread: Repeated<(Thread, usize)>,
    counts: Counts,
    command: CommandSpan,
    /// Whether the idle task was seen in a sample.
    saw_idle: bool,
    /// What AUX buffers hold (`enum auxtrace_type` of perf).
    aux_type: Option<u32>,
    /// Samples in them; none where one was not read.
    spe_samples: Option<u64>,
    /// Header features seen so far.
    pub features: Features,
}

impl<'a> Counter<'a> {
    /// Nothing counted yet.
    pub fn new(order: Order, observer: Option<&'a mut dyn Observer>) -> Self {
        Self {
            order,
            observer,
            events: Vec::new(),
            layouts: Vec::new(),
            ids_agree: true,
            event_of_id: FxHashMap::default(),
            cpu_of_id: FxHashMap::default(),
            same_kind: Repeated::default(),
            same_cpu: Repeated::default(),
            same_thread: Repeated::default(),
            counts: Counts::default(),
            command: CommandSpan::default(),
            saw_idle: false,
            aux_type: None,
            spe_samples: Some(0),
            features: Features::default(),
        }
    }

    /// Byte order of the recording.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Adds an event. One whose ids are all known already is a repetition (`perf inject` writes them).
    pub fn add_event(&mut self, attribute: Attribute, ids: Vec<u64>) {
        if !ids.is_empty() && ids.iter().all(|id| self.event_of_id.contains_key(id)) {
            return;
        }
        let index = self.events.len();
        self.event_of_id.extend(ids.iter().map(|&id| (id, index)));
        self.layouts.push(Layout::of(&attribute));
        self.ids_agree &= self.layouts[index].agrees_with(&self.layouts[0]);
        self.events.push(EventCounts { attribute, ids, ..EventCounts::default() });
    }

    /// Counts one record. A body too short for what it should say counts as a record and says nothing.
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        if let Some((kind, many)) = self.same_kind.count(kind) {
            *self.counts.records.entry(kind).or_default() += many;
        }
        if kind != kind::SAMPLE && self.observer.is_some() {
            self.show(kind, misc, body);
        }
        match kind {
            kind::SAMPLE => self.sample(misc, body),
            kind::HEADER_ATTR => self.header_attr(body),
            kind::HEADER_FEATURE => {
                if let Some(feature) = self.order.u64(body, 0).and_then(|f| u32::try_from(f).ok()) {
                    self.features.take(self.order, feature, &body[8..]);
                }
            }
            kind::EVENT_UPDATE => self.event_update(body),
            kind::AUXTRACE_INFO => self.aux_type = self.order.u32(body, 0),
            kind::HEADER_BUILD_ID => self.features.take_build_id(body),
            kind::ID_INDEX => self.id_index(body),
            _ => self.side_band(kind, misc, body).unwrap_or(()),
        }
    }

    /// Lets the observer see a record that is not a sample.
    fn show(&mut self, kind: u32, misc: u16, body: &[u8]) {
        // Only what the kernel writes has a trailer.
        let event = if kind < kind::HEADER_ATTR { self.event_of_trailer(body) } else { None };
        let layout = event.and_then(|index| self.layouts.get(index));
        let belongs = layout.map_or_else(Belonging::default, |layout| layout.of_trailer(self.order, body));
        if let Some(observer) = &mut self.observer {
            observer.record(&SeenRecord { order: self.order, kind, misc, body, event, belongs });
        }
    }

    /// Everything counted.
    pub fn finish(mut self) -> (Vec<EventCounts>, Counts, Features) {
        if let Some((kind, many)) = self.same_kind.take() {
            *self.counts.records.entry(kind).or_default() += many;
        }
        let (cpu, thread) = (self.same_cpu.take(), self.same_thread.take());
        self.of_cpu(cpu);
        self.of_thread(thread);
        self.counts.slices.settle();
        let described = std::mem::take(&mut self.features.described);
        let same_order = described.len() == self.events.len();
        for (index, (_, name, ids)) in described.iter().enumerate() {
            let by_id = ids.iter().find_map(|id| self.event_of_id.get(id).copied());
            if let Some(event) = by_id.or(same_order.then_some(index)).and_then(|i| self.events.get_mut(i)) {
                event.name.clone_from(name);
            }
        }
        self.features.described = described;
        let whom = whom(&self.features.command);
        let of_tasks = whom == Whom::Tasks;
        // The idle task is seen by none but events of CPUs.
        self.counts.of_cpus = whom == Whom::Cpus || self.saw_idle;
        let has_aux = [kind::AUX, kind::AUXTRACE].iter().any(|kind| self.counts.records.contains_key(kind));
        let event_of_id = &self.event_of_id;
        let asked_for_trace = asks_for_trace(&self.features.command);
        let mut spe_samples = self.spe_samples.filter(|samples| self.aux_type == Some(AUX_TYPE_SPE) && *samples > 0);
        for (index, event) in self.events.iter_mut().enumerate() {
            event.is_of_tasks = event.attribute.enable_on_exec || of_tasks;
            let pmu = self.features.pmus.get(&event.attribute.pmu_type);
            event.untold = match has_aux
                && (event.attribute.aux_output
                    || pmu.map_or(event.attribute.pmu_type > MAX_FIXED_TYPE && event.samples == 0, |pmu| mechanism::traces(pmu)))
            {
                true => Some(Untold::AuxBuffer),
                false => event.attribute.overwrites.then_some(Untold::Overwritten),
            };
            // perf's own way to make an id of another (tools/perf/util/auxtrace.c and its users).
            let source = |id: &u64| id.checked_sub(kind::SYNTHESISED_ID).and_then(|id| event_of_id.get(&id));
            // The event that traced may have been left out since: then the command line names it, or perf's own type does.
            let is_of_dropped = || {
                let is_beyond = event.ids.first().is_some_and(|id| *id > kind::SYNTHESISED_ID);
                event.attribute.pmu_type == TYPE_SYNTHESISED || (is_beyond && asked_for_trace)
            };
            event.synthesised = event.ids.iter().any(|id| source(id).is_some_and(|source| *source != index)) || is_of_dropped();
            if let (Some(samples), true) = (spe_samples, pmu.is_some_and(|pmu| pmu.starts_with("arm_spe"))) {
                (event.in_aux, event.samples, event.untold) = (samples, event.samples + samples, None);
                // They are of all CPUs' buffers: the first event has them.
                spe_samples = None;
            }
        }
        // The first program that was executed is the command only where perf began with it.
        if self.events.iter().any(|event| event.attribute.enable_on_exec) {
            (self.counts.exec_ns, self.counts.exit_ns) = self.command.settled();
        }
        for event in self.events.iter_mut().filter(|e| e.name.is_empty()) {
            let pmu = self.features.pmus.get(&event.attribute.pmu_type);
            let traced =
                self.features.tracepoints.get(&event.attribute.config).filter(|_| event.attribute.pmu_type == TRACEPOINT);
            event.name = traced.cloned().unwrap_or_else(|| event.attribute.fallback_name(pmu.map(String::as_str)));
        }
        (self.events, self.counts, self.features)
    }

    fn sample(&mut self, misc: u16, body: &[u8]) {
        let id = self.layouts.first().and_then(|l| l.sample_id(self.order, body));
        let Some(index) = self.event_of(id) else {
            self.counts.unknown_samples += 1;
            return;
        };
        let layout = &self.layouts[index];
        let mut belongs = layout.of_sample(self.order, body);
        let address = layout.place_in_sample(sample_type::IP).and_then(|at| self.order.u64(body, at));
        belongs.cpu = belongs.cpu.or_else(|| id.and_then(|id| self.cpu_of_id.get(&id).copied()));
        if let Some(observer) = &mut self.observer {
            let attribute = &self.events[index].attribute;
            observer.sample(&SeenSample { order: self.order, event: index, attribute, misc, body, belongs, layout });
        }
        if let Some(at) = layout.sample_read() {
            let event = &mut self.events[index];
            if let Some((enabled_ns, running_ns)) = times_in(self.order, &event.attribute, body.get(at..).unwrap_or(&[])) {
                let known = id.filter(|id| self.event_of_id.contains_key(id));
                event.times.sampled(known.unwrap_or(0), enabled_ns, running_ns);
            }
        }
        if let Some(entries) =
            layout.sample_chain().and_then(|at| self.order.u64(body, at)).filter(|entries| *entries < body.len() as u64 / 8)
        {
            self.events[index].chain_entries = self.events[index].chain_entries.saturating_add(entries);
        }
        let event = &mut self.events[index];
        // More than was asked for there is in no file that the kernel wrote.
        if let Some(bytes) =
            layout.stack_bytes(self.order, body).filter(|bytes| *bytes <= event.attribute.stack_user_bytes.into())
        {
            event.stack_bytes = event.stack_bytes.saturating_add(bytes);
            event.with_stack += 1;
        }
        self.events[index].samples += 1;
        let cpu = belongs.cpu;
        if let Some(cpu) = cpu {
            let before = self.same_cpu.count((cpu, index));
            self.of_cpu(before);
        }
        // What happens to the idle task (a switch away from it) may be on somebody's way: only an interrupt of nothing delays nobody.
        let is_of_idle = belongs.thread == Some((0, 0));
        self.saw_idle |= is_of_idle;
        let attribute = &self.events[index].attribute;
        let is_clock = attribute.is_clock();
        let is_idle = is_of_idle && misc & kind::MISC_CPUMODE == kind::MISC_KERNEL && attribute.is_clock_or_counter();
        if let Some((pid, tid)) = belongs.thread {
            let before = self.same_thread.count((Thread { pid, tid }, index));
            self.of_thread(before);
        }
        if let (Some((pid, _)), true) = (belongs.thread, is_clock && !is_of_idle) {
            let code = &mut self.events[index].code;
            address.into_iter().for_each(|address| *code.entry((pid, address >> CODE_PAGE_SHIFT)).or_default() += 1);
        }
        if is_idle {
            self.events[index].idle += 1;
            cpu.into_iter().for_each(|cpu| *self.counts.idle_by_cpu.entry((cpu, index)).or_default() += 1);
        }
        if let Some(time) = belongs.time_ns.and_then(|time_ns| self.possible("ns", time_ns, MAX_TIME_NS)) {
            let counts = &mut self.counts;
            counts.first_sample_ns = Some(counts.first_sample_ns.map_or(time, |t| t.min(time)));
            counts.last_sample_ns = Some(counts.last_sample_ns.map_or(time, |t| t.max(time)));
            // A CPU that has nothing to do is not held up.
            if !is_idle {
                let track = cpu.map(Track::Cpu).or(belongs.thread.map(|t| Track::Thread(t.1))).unwrap_or(Track::All);
                counts.slices.add(time, track, index);
            }
        }
    }

    fn of_cpu(&mut self, of: Option<((u32, usize), u64)>) {
        if let Some((of, many)) = of {
            *self.counts.by_cpu.entry(of).or_default() += many;
        }
    }

    fn of_thread(&mut self, of: Option<((Thread, usize), u64)>) {
        if let Some((of, many)) = of {
            *self.counts.by_thread.entry(of).or_default() += many;
        }
    }

    /// The event of an id, by perf's own rules: a lone event owns everything, and 0 stands for the first.
    fn event_of(&self, id: Option<u64>) -> Option<usize> {
        match (self.events.len(), id) {
            (0, _) => None,
            (1, _) | (_, Some(0)) => Some(0),
            (_, Some(id)) if self.ids_agree => self.event_of_id.get(&id).copied(),
            _ => None,
        }
    }

    /// The event of a record that is not a sample, by the id at its end; the first where it has none.
    fn event_of_trailer(&self, body: &[u8]) -> Option<usize> {
        let id = self.layouts.first()?.trailer_id(self.order, body);
        id.map_or(Some(0), |id| self.event_of(Some(id)))
    }

    fn belonging(&self, body: &[u8]) -> Belonging {
        let layout = self.event_of_trailer(body).and_then(|i| self.layouts.get(i));
        layout.map_or_else(Belonging::default, |l| l.of_trailer(self.order, body))
    }

    fn side_band(&mut self, kind: u32, misc: u16, body: &[u8]) -> Option<()> {
        let order = self.order;
        let u32_at = |at| order.u32(body, at);
        match kind {
            kind::LOST => {
                let (id, lost) = (order.u64(body, 0)?, self.possible("samples lost", order.u64(body, 8)?, MAX_COUNT)?);
                let index = self.event_of(Some(id))?;
                let event = &mut self.events[index];
                event.lost_in_ring = event.lost_in_ring.saturating_add(lost);
            }
            kind::LOST_SAMPLES => {
                let lost = self.possible("samples lost", order.u64(body, 0)?, MAX_COUNT)?;
                let index = self.event_of_trailer(&body[8..])?;
                let event = &mut self.events[index];
                let total = if misc & kind::MISC_LOST_SAMPLES_BPF != 0 { &mut event.filtered } else { &mut event.lost_samples };
                *total = total.saturating_add(lost);
            }
            kind::THROTTLE => {
                let index = self.event_of(Some(order.u64(body, 8)?))?;
                self.events[index].throttled += 1;
            }
            kind::COMM => {
                let (pid, tid) = (u32_at(0)?, u32_at(4)?);
                let time_ns = self.belonging(body).time_ns;
                self.counts.names.name(tid, time_ns.unwrap_or(0), text(&body[8..]));
                if misc & kind::MISC_COMM_EXEC != 0 {
                    self.counts.executed += 1;
                    if let Some(time_ns) = time_ns.filter(|&time_ns| time_ns > 0) {
                        self.command.executed(pid, time_ns);
                    }
                }
            }
            kind::FORK => {
                let time_ns = self.possible("ns", order.u64(body, 16)?, MAX_TIME_NS)?;
                self.counts.names.fork(u32_at(8)?, u32_at(12)?, time_ns);
                // perf makes up records of tasks that were there before: at no time.
                self.counts.created += u64::from(time_ns > 0);
            }
            kind::EXIT => {
                let time_ns = self.possible("ns", order.u64(body, 16)?, MAX_TIME_NS)?;
                self.command.ended(order.u32(body, 0)?, time_ns);
            }
            kind::READ => {
                let index = self.event_of_trailer(body)?;
                let event = &self.events[index];
                let (enabled_ns, running_ns) = times_in(order, &event.attribute, body.get(8..)?)?;
                let tid = order.u32(body, 4)?;
                let enabled_ns = self.possible("ns", enabled_ns, MAX_TIME_NS)?;
                self.events[index].times.ended(tid, enabled_ns, running_ns);
            }
            kind::AUX => {
                self.counts.aux_lossy += u64::from(order.u64(body, 16)? & kind::AUX_FLAGS_LOSSY != 0);
            }
            _ => {}
        }
        Some(())
    }

    /// A number where it can be; else it is noted and left out.
    fn possible(&mut self, unit: &str, number: u64, most: u64) -> Option<u64> {
        if number <= most {
            return Some(number);
        }
        self.counts.impossible += 1;
        self.counts.first_impossible.get_or_insert_with(|| format!("{number} {unit}"));
        None
    }

    /// The samples of an AUX buffer, where they can be told (ARM SPE); `None`: a buffer that was not read.
    pub fn aux(&mut self, buffer: Option<&[u8]>) {
        let counted = buffer.map(|buffer| spe::samples(buffer).map_while(std::result::Result::ok).count() as u64);
        self.spe_samples = self.spe_samples.zip(counted).map(|(sum, counted)| sum + counted);
    }

    /// Whether its AUX buffers hold samples that can be told.
    pub fn has_spe(&self) -> bool {
        self.aux_type == Some(AUX_TYPE_SPE)
    }

    fn header_attr(&mut self, body: &[u8]) {
        if let Some((attribute, size)) = Attribute::parse(self.order, body) {
            let ids = body[size..].chunks_exact(8).filter_map(|id| self.order.u64(id, 0)).collect();
            self.add_event(attribute, ids);
        }
    }

    /// A name for an event (`PERF_EVENT_UPDATE__NAME`), as pipes of older perf send it.
    fn event_update(&mut self, body: &[u8]) {
        const NAME: u64 = 2;
        let (what, id) = (self.order.u64(body, 0), self.order.u64(body, 8));
        if let (Some(NAME), Some(&index)) = (what, id.and_then(|id| self.event_of_id.get(&id))) {
            self.events[index].name = text(&body[16..]);
        }
    }

    fn id_index(&mut self, body: &[u8]) {
        // Entries of id, idx, cpu, tid after their number. perf ≥ 5.19 appends more after them.
        let many = self.order.u64(body, 0).unwrap_or(0);
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        for entry in body.get(8..).unwrap_or(&[]).chunks_exact(32).take(many) {
            if let (Some(id), Some(cpu)) = (self.order.u64(entry, 0), self.order.u64(entry, 16)) {
                // -1 stands for any CPU.
                if let Ok(cpu) = u32::try_from(cpu) {
                    self.cpu_of_id.insert(id, cpu);
                }
            }
        }
    }
}

/// Whether perf record was asked for an event that fills AUX buffers.
fn asks_for_trace(command: &[String]) -> bool {
    event_lists(command).flat_map(|list| list.split([',', '{'])).any(mechanism::traces)
}

/// Enabled and running times out of counter values in their read format, ns.
fn times_in(order: Order, attribute: &Attribute, values: &[u8]) -> Option<(u64, u64)> {
    let has = |bit: u64| attribute.read_format & bit != 0;
    // Both times follow one word: the value, or the number of values of a group.
    (has(read_format::ENABLED) && has(read_format::RUNNING)).then(|| Some((order.u64(values, 8)?, order.u64(values, 16)?)))?
}
