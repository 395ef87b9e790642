//! Bytes that nobody wrote: whatever they are, decoding ends, does not panic, and points into what it was given only.
//!
//! `cargo test` tries random bytes and mutations of real recordings; `cargo bolero test` searches on from there.

use perftax_pmu::record::{self, Header, Layout, Record, Sample, Tally, ibs, pebs, spe};
use std::sync::atomic::{AtomicU64, Ordering};

/// A layout out of any bytes, so that the fuzzer chooses it too.
fn layout(seed: &[u8; 20]) -> Layout {
    let word = |at: usize| u32::from_le_bytes([seed[at], seed[at + 1], seed[at + 2], seed[at + 3]]);
    Layout {
        sample_type: u64::from(word(0) & 0x1ff_ffff),
        read_format: u64::from(seed[4] & 31),
        sample_id_all: seed[5] & 1 != 0,
        branch_sample_type: u64::from(word(8)),
        sample_regs_user: u64::from(word(12)),
        sample_regs_intr: u64::from(word(16)) << 32 | u64::from(word(16)),
    }
}

#[track_caller]
fn inside(part: &[u8], whole: &[u8]) {
    if !part.is_empty() {
        let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
        assert!(whole.start <= part.start && part.end <= whole.end, "points outside of the record");
    }
}

/// Touches every part of a sample that is taken apart when asked for.
fn use_sample(sample: &Sample<'_>, body: &[u8]) {
    let mut words = 0;
    if let Some(counts) = &sample.counts {
        words += counts.iter().count();
        assert_eq!(counts.iter().count(), counts.len());
        assert_eq!(counts.get(counts.len()), None);
    }
    if let Some(callchain) = &sample.callchain {
        words += callchain.frames().count();
    }
    if let Some(branches) = &sample.branches {
        words += 3 * branches.iter().len();
        assert!(branches.counters.is_none_or(|counters| counters.len() == branches.len()));
    }
    for registers in [&sample.user_registers, &sample.interrupt_registers].into_iter().flatten() {
        words += registers.iter().count();
        assert_eq!(registers.values.len(), registers.mask.count_ones() as usize);
    }
    assert!(8 * words <= body.len(), "more words than bytes");
    inside(sample.raw.unwrap_or(&[]), body);
    inside(sample.aux.unwrap_or(&[]), body);
    inside(sample.user_stack.map_or(&[], |stack| stack.valid), body);
}

fn use_record(record: &Record<'_>, body: &[u8]) {
    match record {
        Record::Sample(sample) => use_sample(sample, body),
        Record::Mmap(mmap) => inside(mmap.path, body),
        Record::Mmap2(mmap) => inside(mmap.mapping.path, body),
        Record::Comm(comm) => inside(comm.name, body),
        Record::Ksymbol(symbol) => inside(symbol.name, body),
        Record::Cgroup(cgroup) => inside(cgroup.path, body),
        Record::TextPoke(poke) => {
            inside(poke.old, body);
            inside(poke.new, body);
        }
        Record::Namespaces(namespaces) => assert!(16 * namespaces.links().count() <= body.len()),
        Record::CallchainDeferred(deferred) => assert!(8 * deferred.callchain.frames().count() <= body.len()),
        Record::Read(read) => assert!(8 * read.counts.iter().count() <= body.len()),
        _ => {}
    }
}

/// Walks `bytes` as a stream, decodes every record. Gives how many could be decoded.
fn walk(bytes: &[u8], layout: &Layout, piped: bool) -> u64 {
    let mut tally = Tally::default();
    let mut decoded = 0;
    let mut stream = record::stream(bytes);
    if piped {
        stream = stream.piped();
    }
    for raw in stream {
        let Ok(raw) = raw else { break };
        inside(raw.body, bytes);
        inside(raw.attachment, bytes);
        let _ = tally.add(raw.header, raw.body);
        let _ = record::identifier(raw.header, raw.body, layout);
        if let Ok(record) = record::decode(raw.header, raw.body, layout) {
            use_record(&record, raw.body);
            decoded += 1;
        }
    }
    assert!(tally.bytes <= bytes.len() as u64);
    decoded
}

#[test]
fn records_of_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((seed, bytes)) = bytes.split_first_chunk::<20>() else { return };
        let layout = layout(seed);
        walk(bytes, &layout, seed[6] & 1 != 0);
        // And as one record of any kind, its header made to fit, so that the fuzzer need not find the size.
        if let Ok(size) = u16::try_from(bytes.len() + 8) {
            for kind in [u32::from(seed[7]) % 32, 9] {
                let header = Header { kind, misc: u16::from_le_bytes([seed[6], seed[5]]), size };
                if let Ok(record) = record::decode(header, bytes, &layout) {
                    use_record(&record, bytes);
                }
            }
        }
    });
}

#[test]
fn hardware_payloads_of_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(op) = ibs::Op::decode(bytes) {
            let _ = (op.source(), op.data_page_bytes(), op.streaming_store(), op.remote_socket());
        }
        let _ = ibs::Fetch::decode(bytes);
        for format in [pebs::Format::Format0, pebs::Format::Format1, pebs::Format::Format2, pebs::Format::Format3] {
            assert!(format.records(bytes).count() <= bytes.len() / 144 + 1);
        }
        for record in pebs::adaptive(bytes).flatten() {
            inside(record.other, bytes);
            assert!(24 * record.lbr().count() <= bytes.len());
        }
        for record in pebs::architectural(bytes).flatten() {
            assert!(24 * record.lbr().count() <= bytes.len() && record.bytes <= bytes.len());
        }
        assert!(spe::packets(bytes).count() <= bytes.len());
        assert!(spe::samples(bytes).count() <= bytes.len());
    });
}

/// Real records with a few bytes changed come further than random ones.
#[test]
fn mutated_recordings() {
    static DECODED: AtomicU64 = AtomicU64::new(0);
    let recordings: Vec<Vec<u8>> = ["clock", "registers", "faults", "stack", "group", "lost", "raw"]
        .iter()
        .map(|name| {
            let path: std::path::PathBuf =
                [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", &format!("{name}.data")].iter().collect();
            std::fs::read(path).unwrap()
        })
        .collect();
    bolero::check!().for_each(move |changes: &[u8]| {
        let Some((&choice, changes)) = changes.split_first() else { return };
        let mut bytes = recordings[usize::from(choice) % recordings.len()].clone();
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (attr, start, len) = (word(&bytes, 24) as usize, word(&bytes, 40) as usize, word(&bytes, 48) as usize);
        let layout = Layout {
            sample_type: word(&bytes, attr + 24),
            read_format: word(&bytes, attr + 32),
            branch_sample_type: word(&bytes, attr + 72),
            sample_regs_user: word(&bytes, attr + 80),
            sample_regs_intr: word(&bytes, attr + 96),
            sample_id_all: true,
        };
        let data = &mut bytes[start..start + len];
        for change in changes.chunks_exact(3).take(32) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % data.len();
            data[at] = change[2];
        }
        DECODED.fetch_add(walk(data, &layout, false), Ordering::Relaxed);
    });
    assert!(DECODED.load(Ordering::Relaxed) > 1000, "the mutations reach the decoder");
}
