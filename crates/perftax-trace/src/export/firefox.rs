//! Firefox Profiler: threads with samples, and markers for messages and for what their time went to (profiler.firefox.com, the processed
//! profile format).

use std::collections::BTreeMap;
use std::io::{Result, Write};
use std::time::{Duration, SystemTime};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Marker, MarkerFieldFlags, MarkerFieldFormat,
    MarkerLocations, MarkerTiming, MarkerTypeHandle, ProcessHandle, Profile, RuntimeSchemaMarkerField, RuntimeSchemaMarkerSchema,
    SamplingInterval, StringHandle, ThreadHandle, Timestamp,
};

use super::{Context, Export};
use crate::cause::Cause;
use crate::message::{Hit, Message};

/// Messages on their way to a profile. They are held until the end: the format is one JSON text.
pub struct Firefox<'a> {
    context: Context<'a>,
    messages: Vec<Message>,
}

impl<'a> Firefox<'a> {
    /// An empty one.
    pub fn new(context: Context<'a>) -> Self {
        Self { context, messages: Vec::new() }
    }
}

impl Export for Firefox<'_> {
    fn take(&mut self, message: &Message, _: &mut dyn Write) -> Result<()> {
        self.messages.push(message.clone());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut dyn Write) -> Result<()> {
        let profile = Making::of(&self.context, &self.messages).profile;
        serde_json::to_writer(&mut *out, &profile)?;
        out.flush()
    }
}

struct Making<'a> {
    context: &'a Context<'a>,
    profile: Profile,
    from_ns: u64,
    causes: [CategoryHandle; Cause::COUNT],
    processes: BTreeMap<u32, ProcessHandle>,
    threads: BTreeMap<u32, ThreadHandle>,
}

impl<'a> Making<'a> {
    fn of(context: &'a Context<'a>, messages: &[Message]) -> Self {
        let from_ns = messages.iter().map(|message| message.begin_ns).min().unwrap_or(0);
        let taken = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(context.taken_at_s.max(0.0));
        // The format wants an interval; where events are counted there is none, and this one means nothing.
        let interval = SamplingInterval::from_nanos(context.sampling_gap_ns.unwrap_or(1_000_000));
        let mut profile = Profile::new(context.program, taken.into(), interval);
        profile.set_os_name("Linux");
        let causes = Cause::ALL.map(|cause| profile.add_category(cause.name(), colour(cause)));
        let mut making = Self { context, profile, from_ns, causes, processes: BTreeMap::new(), threads: BTreeMap::new() };
        making.markers(messages);
        making.samples(messages);
        making
    }

    fn time(&self, ns: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(ns.saturating_sub(self.from_ns))
    }

    fn thread(&mut self, tid: u32) -> ThreadHandle {
        if let Some(thread) = self.threads.get(&tid) {
            return *thread;
        }
        let (pid, start) = (self.context.pid(tid), Timestamp::from_nanos_since_reference(0));
        let (profile, context) = (&mut self.profile, self.context);
        let process = *self.processes.entry(pid).or_insert_with(|| profile.add_process(context.program, pid, start));
        let thread = self.profile.add_thread(process, tid, start, pid == tid);
        self.profile.set_thread_name(thread, &context.thread(tid));
        self.profile.set_thread_show_markers_in_timeline(thread, true);
        self.threads.insert(tid, thread);
        thread
    }

    fn markers(&mut self, messages: &[Message]) {
        let (message_type, piece_type) = (schema("message", "{marker.data.message}"), schema("piece", "{marker.name}"));
        let message_type = self.profile.register_marker_type(message_type);
        let piece_type = self.profile.register_marker_type(piece_type);
        for message in messages {
            let own = message.threads.first().copied().or_else(|| message.pieces.first().map(|piece| piece.tid)).unwrap_or(0);
            let called = self.profile.intern_string(&self.context.message(message.id));
            let largest = Cause::ALL.into_iter().rev().max_by_key(|cause| message.shares.of(*cause)).unwrap_or(Cause::OnCpu);
            let marker = Told {
                kind: message_type,
                name: self.profile.intern_string("message"),
                category: self.causes[largest as usize],
                message: called,
                cause: self.profile.intern_string(largest.name()),
                samples: message.hits.len(),
                faults: message.faults,
            };
            let (begin, thread) = (self.time(message.begin_ns), self.thread(own));
            let timing = match message.end_ns {
                Some(end_ns) => MarkerTiming::Interval(begin, self.time(end_ns)),
                None => MarkerTiming::IntervalStart(begin),
            };
            self.profile.add_marker(thread, timing, marker);
            // What the program itself did, samples say.
            for piece in message.pieces.iter().filter(|piece| piece.cause != Cause::OnCpu) {
                let marker = Told {
                    kind: piece_type,
                    name: self.profile.intern_string(&self.context.piece(piece)),
                    category: self.causes[piece.cause as usize],
                    message: called,
                    cause: self.profile.intern_string(piece.cause.name()),
                    samples: 0,
                    faults: 0,
                };
                let timing = MarkerTiming::Interval(self.time(piece.from_ns), self.time(piece.to_ns));
                let thread = self.thread(if piece.tid == 0 { own } else { piece.tid });
                self.profile.add_marker(thread, timing, marker);
            }
        }
    }

    fn samples(&mut self, messages: &[Message]) {
        let mut hits: Vec<&Hit> = messages.iter().flat_map(|message| &message.hits).collect();
        hits.sort_by_key(|hit| hit.time_ns);
        let each = self.context.sampling_gap_ns.map_or(CpuDelta::ZERO, CpuDelta::from_nanos);
        for hit in hits {
            let (thread, time) = (self.thread(hit.tid), self.time(hit.time_ns));
            let name = self.profile.intern_string(&self.context.function(hit.function));
            let category_pair = self.causes[hit.cause as usize].into();
            let frame = FrameInfo { frame: Frame::Label(name), category_pair, flags: FrameFlags::empty() };
            let stack = self.profile.intern_stack_frames(thread, std::iter::once(frame));
            self.profile.add_sample(thread, time, stack, each, 1);
        }
    }
}

/// A marker of a message or a piece.
struct Told {
    kind: MarkerTypeHandle,
    name: StringHandle,
    category: CategoryHandle,
    message: StringHandle,
    cause: StringHandle,
    samples: usize,
    faults: u32,
}

impl Marker for Told {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.kind
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        if field == 0 { self.message } else { self.cause }
    }

    fn number_field_value(&self, field: u32) -> f64 {
        if field == 2 { self.samples as f64 } else { f64::from(self.faults) }
    }
}

/// Of a marker's fields; [`Told`] gives them by number.
fn schema(name: &str, label: &str) -> RuntimeSchemaMarkerSchema {
    let field = |key: &str, label: &str, format| RuntimeSchemaMarkerField {
        key: key.into(),
        label: label.into(),
        format,
        flags: MarkerFieldFlags::SEARCHABLE,
    };
    RuntimeSchemaMarkerSchema {
        type_name: name.into(),
        description: None,
        locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE | MarkerLocations::TIMELINE_OVERVIEW,
        chart_label: Some(label.into()),
        tooltip_label: Some(label.into()),
        table_label: Some("{marker.data.message} - {marker.name}".into()),
        fields: vec![
            field("message", "Message", MarkerFieldFormat::String),
            field("origin", "Cause", MarkerFieldFormat::String),
            field("samples", "Samples", MarkerFieldFormat::Integer),
            field("faults", "Page faults", MarkerFieldFormat::Integer),
        ],
        graphs: Vec::new(),
    }
}

fn colour(cause: Cause) -> CategoryColor {
    match cause {
        Cause::OnCpu => CategoryColor::Blue,
        Cause::PageFault => CategoryColor::LightBlue,
        Cause::Syscall => CategoryColor::Green,
        Cause::Irq => CategoryColor::Red,
        Cause::Softirq => CategoryColor::Orange,
        Cause::Vector => CategoryColor::Yellow,
        Cause::Steal => CategoryColor::Magenta,
        Cause::Preempted => CategoryColor::Purple,
        Cause::Runnable => CategoryColor::LightGreen,
        Cause::Blocked => CategoryColor::Gray,
        Cause::Unattended => CategoryColor::Transparent,
    }
}
