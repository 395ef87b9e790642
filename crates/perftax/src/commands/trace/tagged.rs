//! What told the messages of a recording apart, and how well.

use std::path::Path;

use anyhow::Result;
use perftax_doc::{ContextSight, ProbeSight, RegisterSight, SocketSight};
use perftax_doc::{Mechanism, Warning};
use perftax_lab::system::performance_interrupts;
use perftax_pmu::Error;
use perftax_trace::Tag;
use perftax_trace::record::{Recorded, Recording, Seen};
use perftax_trace::store::write_relations;

use crate::failure::code_of_end;

/// Less than this share of samples with a tag is worth a warning: most of the time nothing is known but what lies between.
const FEW: f64 = 0.5;
/// Samples from which on it is seen whether an interrupt brings one or many.
const MANY: u64 = 1000;
/// Sampling periods that a delay must last to be seen surely.
const PERIODS: u64 = 3;

/// Performance monitoring interrupts so far, where the event is the hardware's.
pub fn interrupts(recording: &Recording) -> Result<u64> {
    if !recording.event.mechanism.interrupts_by_nmi() {
        return Ok(0);
    }
    let all = recording.cpus.iter().map(|&cpu| performance_interrupts(cpu));
    Ok(all.sum::<perftax_pmu::Result<u64>>()?)
}

/// How well a register did.
pub fn register(recording: &Recording, recorded: &Recorded) -> Option<RegisterSight> {
    let (Tag::Register(register), Seen::Register(sight)) = (&recording.tag, &recorded.seen) else { return None };
    let mut threads: Vec<(u32, u64, u64)> = sight.samples.iter().map(|(tid, (all, valid))| (*tid, *all, *valid)).collect();
    threads.sort_by_key(|(tid, all, _)| (std::cmp::Reverse(*all), *tid));
    let (samples, samples_valid) = threads.iter().fold((0, 0), |(all, valid), thread| (all + thread.1, valid + thread.2));
    threads.truncate(RegisterSight::MAX_THREADS);
    let gap_p50_ns = sight.gaps.quantile_ns(0.5);
    let period_ns = if recording.event.mechanism == Mechanism::CpuClock { recording.period } else { gap_p50_ns };
    let shown = samples_valid.max(1) as f64 / samples.max(1) as f64;
    Some(RegisterSight {
        name: register.name.into(),
        samples,
        samples_valid,
        looks_valid: sight.valid,
        looks_filled: sight.filled,
        looks_unknown: sight.unknown,
        gap_p50_ns,
        gap_p99_ns: sight.gaps.quantile_ns(0.99),
        unseen_p99_ns: sight.unseen.quantile_ns(0.99),
        shortest_ns: ((PERIODS * period_ns) as f64 / shown) as u64,
        abandoned: sight.abandoned,
        is_late: matches!(recording.event.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch),
        threads,
    })
}

/// How well probes did.
pub fn probes(recorded: &Recorded) -> Option<ProbeSight> {
    let Seen::Probes(passes) = &recorded.seen else { return None };
    Some(ProbeSight {
        binary: recorded.probed.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        hits: passes.hits,
        started: passes.started,
        done: passes.done,
        broken_off: passes.broken_off,
        done_without_start: passes.done_without_start,
        shortened: passes.labels.shortened,
    })
}

/// What a shell says of who died of SIGTRAP.
const DIED_OF_TRAP: u8 = 128 + 5;

/// Whether contexts may be watched: in a virtual machine the program may die of it.
pub fn check_traps(tag: &Tag, is_guest: bool, is_accepted: bool) -> Result<()> {
    if *tag != Tag::Otel || !is_guest || is_accepted {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "tell messages by --tag otel in a virtual machine".into(),
        why: "each change of a context is a debug exception, whose reason a hypervisor can lose: the program then dies of SIGTRAP (twice in some 900,000 under KVM on a Xeon)".into(),
        remedy: "--trap-in-guest, where the program may die; else marks (bindings), or a machine without a hypervisor".into(),
    }
    .into())
}

/// How well contexts did.
pub fn contexts(recorded: &Recorded) -> Option<ContextSight> {
    let Seen::Contexts(sight) = &recorded.seen else { return None };
    Some(ContextSight {
        changes: sight.changes,
        begun: sight.begun,
        ended: sight.ended,
        resumed: sight.resumed,
        threads: sight.threads,
        unseen: sight.unseen,
        unwatched: sight.unwatched,
        why: sight.why.clone(),
    })
}

/// How well a server's system calls did.
pub fn sockets(recording: &Recording, recorded: &Recorded) -> Option<SocketSight> {
    let (Tag::Sockets(port), Seen::Sockets(sight, _)) = (&recording.tag, &recorded.seen) else { return None };
    Some(SocketSight {
        port: *port,
        connections: sight.connections,
        begun: sight.begun,
        answered: sight.answered,
        unanswered: sight.unanswered,
        unasked: sight.unasked,
        refused: sight.refused,
        rings: sight.rings,
    })
}

/// The messages' texts.
pub fn labels(recorded: &Recorded) -> Vec<(u64, &str)> {
    match &recorded.seen {
        Seen::Probes(passes) => passes.labels.iter().collect(),
        Seen::Marks(marked) => marked.labels.iter().collect(),
        _ => Vec::new(),
    }
}

/// Writes what the program said of its messages beyond marks.
pub fn write_said(folder: &Path, recorded: &Recorded) -> Result<()> {
    match &recorded.seen {
        Seen::Marks(marked) => write_relations(folder, &marked.relations, &marked.hops)?,
        Seen::Contexts(sight) => write_relations::<perftax_trace::Hop>(folder, &sight.relations, &[])?,
        Seen::Sockets(_, passed) => write_relations(folder, &passed.relations, &passed.hops)?,
        _ => {}
    }
    Ok(())
}

/// What weakens it, each with a remedy.
pub fn warnings(recording: &Recording, recorded: &Recorded, interrupts: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if let Seen::Marks(marked) = &recorded.seen
        && marked.forgotten > 0
    {
        let what = "names, parents, identities or hops of messages were not remembered: there were too many";
        warn(format!("{} {what}", marked.forgotten), "a shorter recording");
    }
    if let Seen::Sockets(_, passed) = &recorded.seen
        && passed.forgotten > 0
    {
        let message =
            format!("of {} messages it was not remembered which ones they are part of: there were too many", passed.forgotten);
        warn(message, "a shorter recording");
    }
    if let Some(sight) = contexts(recorded) {
        if code_of_end(recorded.exit.ended) == DIED_OF_TRAP {
            let message =
                "the program died of SIGTRAP: a debug exception whose reason the hypervisor lost, if none of its own".to_string();
            warn(message, "a machine without a hypervisor, or marks (bindings)");
        }
        let because = sight.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        if sight.unwatched > 0 {
            let message = format!("of {} threads that publish contexts not all was watched{because}", sight.unwatched);
            let remedy = "end what else uses debug registers of this program (a debugger, perftax comm --watch); where files are too many: ulimit -n";
            warn(message, remedy);
        } else if sight.begun == 0 {
            let message = format!("no thread published a context (otel_thread_ctx_v1){because}");
            let remedy = "a tracer that does: ddtrace 4.13 and later for Python with DD_TRACE_OTEL_CTX_ENABLED=true; Go and Node publish otherwise: marks (bindings)";
            warn(message, remedy);
        }
        if sight.unseen > 0 && sight.threads > 0 {
            let message = format!(
                "{} threads began and ended meanwhile without a context that was seen: what a thread publishes within its first 10 ms or so is missed",
                sight.unseen
            );
            warn(message, "a pool of threads instead of one for each request, or marks (bindings)");
        }
        if sight.resumed > 0 {
            let message =
                format!("{} messages are of a trace that had one before: it waited for more than 3 s, perhaps", sight.resumed);
            warn(message, "by its trace all of them are found: perftax trace show DIR TRACE");
        }
    }
    let samples = recorded.rows[1];
    if recording.event.mechanism == Mechanism::Pebs && samples >= MANY && 2 * interrupts > samples {
        let message = "PEBS took an interrupt each for its samples".to_string();
        let remedy =
            "records that hold a time (Skylake and later), and no other precise event on these CPUs: perftax doctor -e says why";
        warn(message, remedy);
    }
    if let Some(sight) = register(recording, recorded) {
        let name = &sight.name;
        let valid = sight.samples_valid as f64 / sight.samples.max(1) as f64;
        if sight.looks_valid == 0 {
            let remedy =
                "build it with -ffixed-r13 and perftax_tag_register.h: perftax_register_begin(id), perftax_register_end()";
            warn(format!("{name} never held a tag"), remedy);
        } else if valid < FEW {
            let message = format!("{name} held a tag in {:.0} % of samples: libraries use it, too", 100.0 * valid);
            warn(message, "the libraries that take most of the time built with -ffixed-r13, or --tag marks with perftax_tag.h");
        }
        if sight.abandoned > 0 {
            let message = format!("the ends of {} messages were not seen: their threads showed no tag for long", sight.abandoned);
            warn(message, "perftax_register_end() before long calls of libraries");
        }
    }
    if let Some(probes) = probes(recorded) {
        if probes.started == 0 {
            let remedy = match recording.tag {
                Tag::Functions(_) => {
                    "a function that the program calls for each message, of the file that runs: func:/PATH/TO/BINARY:BEGIN,END"
                }
                _ => "the file that runs, by its path: usdt:/PATH/TO/BINARY:PROVIDER:START,DONE",
            };
            warn(format!("the probes of {} were never passed", probes.binary), remedy);
        }
        if probes.started > 0 && probes.done == 0 {
            let remedy = "an end that is passed: NAME%return is where a function returns";
            warn(format!("no message ended at the place that was named, of {} begun", probes.started), remedy);
        }
        if probes.shortened > 0 {
            let message = format!("{} texts were kept without their values, since so many different ones came", probes.shortened);
            warn(message, "a shorter recording");
        }
    }
    if let Some(sockets) = sockets(recording, recorded) {
        if sockets.begun == 0 {
            let remedy = "the port that the program listens at, and requests while it is recorded: --tag socket:PORT";
            warn(format!("no request was read on {} connections", sockets.connections), remedy);
        }
        if sockets.refused > 0 {
            let message = format!(
                "requests overlapped on {} of {} connections (answers were written while requests were read): nothing more is told of those",
                sockets.refused, sockets.connections
            );
            warn(message, "--tag func:BEGIN@N,END@N, by functions of the program");
        }
        if sockets.unasked > sockets.answered / 100 {
            let message = format!(
                "{} writes were of no request: answers that went on after a pause of 50 ms look shorter than they were",
                sockets.unasked
            );
            warn(message, "--tag func:BEGIN@N,END@N, by functions of the program");
        }
        if sockets.rings > 0 {
            let message = "the program uses io_uring: what it reads and writes by that is not seen".to_string();
            warn(message, "--tag func:BEGIN@N,END@N, by functions of the program");
        }
    }
    warnings
}
