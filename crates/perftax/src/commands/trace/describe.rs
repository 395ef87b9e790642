//! A message as documents have it: in pieces, with names for the numbers.

use std::collections::BTreeMap;

use perftax_doc::{self as doc, SampledFunction, TraceMeta, Waterfall, WaterfallPiece};
use perftax_trace::{Brief, Cause, Detail, Hit, Meanwhile, Message, Names, Piece, Shares, Symbols, Usual, Waker};

use super::reading::Reading;
use super::{events, execution};

/// A record of a loss is written when there is room again: at the next look at the ring, ns.
const LOSS_NS: u64 = 20_000_000;

/// A message in pieces; times from the first message on.
pub fn waterfall(reading: &Reading, message: &Message, first_ns: u64, usual: &Usual) -> Waterfall {
    let brief = Brief::of(message);
    Waterfall {
        id: message.id,
        label: reading.store.labels.get(&message.id).cloned(),
        begin_s: message.begin_ns.saturating_sub(first_ns) as f64 * 1e-9,
        latency_ns: message.latency_ns(),
        shares_ns: shares(&message.shares),
        pieces: waterfall_pieces(reading, message),
        functions: functions(
            reading,
            &message.hits.iter().collect::<Vec<_>>(),
            stretches(reading, message),
            message.shares.total(),
        ),
        events: brief.as_ref().map(|brief| events::of_message(reading, brief, usual)).unwrap_or_default(),
        executed: brief.and_then(|brief| execution::of_message(&brief, usual)),
        faults: message.faults,
        migrations: message.migrations,
        left_out: message.left_out,
        is_doubtful: is_doubtful(&reading.meta, (message.begin_ns, message.end_ns.unwrap_or(u64::MAX))),
    }
}

/// A message's pieces, in order of time, from its beginning on.
pub fn waterfall_pieces(reading: &Reading, message: &Message) -> Vec<WaterfallPiece> {
    let mut pieces: Vec<Piece> = message.pieces.clone();
    pieces.sort_by_key(|piece| (piece.from_ns, piece.tid));
    let mut hits: Vec<Vec<&Hit>> = vec![Vec::new(); pieces.len()];
    for hit in &message.hits {
        if let Some(at) = piece_of(&pieces, hit) {
            hits[at].push(hit);
        }
    }
    let described = pieces.iter().zip(&hits).map(|(piece, hits)| WaterfallPiece {
        from_ns: piece.from_ns.saturating_sub(message.begin_ns),
        ns: piece.to_ns - piece.from_ns,
        tid: piece.tid,
        thread: thread(reading, piece.tid),
        cause: piece.cause.name().into(),
        which: reading.names.which(piece.cause, piece.which, &reading.store.symbols),
        woken_by: message.woken(piece).map(|waker| woken_by(reading, waker)),
        meanwhile: message.meanwhile(piece).map(|meanwhile| worked_on(reading, meanwhile)),
        functions: functions(reading, hits, 1, piece.to_ns - piece.from_ns),
    });
    described.collect()
}

/// A thread by its name and number; 0 is none.
pub fn thread(reading: &Reading, tid: u32) -> String {
    if tid == 0 { "no thread".into() } else { reading.names.thread(tid) }
}

/// Time by cause, by name; only what there is.
pub fn shares(shares: &Shares) -> BTreeMap<String, u64> {
    let named = Cause::ALL.into_iter().map(|cause| (cause.name().to_string(), shares.of(cause)));
    named.filter(|(_, ns)| *ns > 0).collect()
}

/// Time of a function by its samples in so many stretches: in each at least the gaps between them, at most another gap at each end; never more than there was, ns.
pub fn between_ns(samples: u64, stretches: u64, gap_ns: u64, all_ns: u64) -> (u64, u64) {
    let at_most = samples.saturating_add(stretches).saturating_mul(gap_ns).min(all_ns);
    (samples.saturating_sub(stretches).saturating_mul(gap_ns).min(at_most), at_most)
}

/// Stretches of a message in each of which samples are counted anew: a clock of threads stands still while they are off a CPU, one of CPUs goes on.
pub fn stretches(reading: &Reading, message: &Message) -> u64 {
    match reading.meta.clock_of_cpus {
        true => message.stretches_on_cpus(),
        false => 1,
    }
}

/// Whether records were lost from when to when.
pub fn is_doubtful(meta: &TraceMeta, (from_ns, to_ns): (u64, u64)) -> bool {
    let end_ns = to_ns.saturating_add(LOSS_NS);
    let first = meta.losses_ns.partition_point(|loss| *loss < from_ns);
    meta.losses_ns.get(first).is_some_and(|loss| *loss <= end_ns)
}

/// The piece in which a sample was taken: one of its thread around its time, if there is one of its cause that one (a sample taken where
/// one piece ends and the next begins belongs to the one that it was told of).
fn piece_of(pieces: &[Piece], hit: &Hit) -> Option<usize> {
    let after = pieces.partition_point(|piece| piece.from_ns <= hit.time_ns);
    let around = |at: &usize| pieces[*at].tid == hit.tid && pieces[*at].to_ns >= hit.time_ns;
    // Two of a thread can touch its time, and few threads work on a message at once.
    const NEAR: usize = 64;
    let candidates: Vec<usize> = (after.saturating_sub(NEAR)..after).rev().filter(around).collect();
    candidates.iter().copied().find(|at| pieces[*at].cause == hit.cause).or_else(|| candidates.first().copied())
}

/// Who ended a piece of waiting.
pub fn woken_by(reading: &Reading, waker: &Waker) -> doc::Waker {
    let label = waker.id.and_then(|id| reading.store.labels.get(&id).cloned());
    doc::Waker { label, ..waker_of(&reading.names, &reading.store.symbols, waker) }
}

/// The same where nobody knows what messages are called.
pub fn waker_of(names: &Names, symbols: &Symbols, waker: &Waker) -> doc::Waker {
    let at = waker.at.map(|(cause, which)| match names.which(cause, which, symbols) {
        Some(which) => format!("{}: {which}", cause.name()),
        None => cause.name().into(),
    });
    let thread = (waker.tid != 0).then(|| names.thread(waker.tid));
    doc::Waker { tid: waker.tid, thread, message: waker.id, label: None, at }
}

/// What a thread worked on while a message waited for it.
pub fn worked_on(reading: &Reading, meanwhile: &Meanwhile) -> doc::Meanwhile {
    let Meanwhile { tid, stretches, ns, most, is_partial, .. } = *meanwhile;
    let label = reading.store.labels.get(&most).cloned();
    doc::Meanwhile { tid, thread: reading.names.thread(tid), stretches, ns, is_partial, most, label }
}

/// Functions by samples, most samples first.
fn functions(reading: &Reading, hits: &[&Hit], stretches: u64, all_ns: u64) -> Vec<SampledFunction> {
    let mut counts = Sampled::new();
    for hit in hits {
        *counts.entry((hit.function, hit.cause)).or_default() += 1;
    }
    named_functions(reading, counts, stretches, all_ns)
}

/// Samples by the number of their function and what their thread was at.
pub type Sampled = BTreeMap<(u32, Cause), u64>;

/// The same where they are counted already.
pub fn named_functions(reading: &Reading, counts: Sampled, stretches: u64, all_ns: u64) -> Vec<SampledFunction> {
    let mut order: Vec<((u32, Cause), u64)> = counts.into_iter().collect();
    order.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let named = order.into_iter().filter_map(|((function, cause), samples)| {
        Some(SampledFunction {
            name: reading.names.detail(cause, Detail::Function(function), &reading.store.symbols)?,
            samples,
            between_ns: reading.meta.sampling_gap_ns.map(|gap_ns| between_ns(samples, stretches, gap_ns, all_ns)),
        })
    });
    named.collect()
}
