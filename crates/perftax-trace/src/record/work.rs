//! What a program has done so far, by what is counted without recording anything.

use std::collections::{BTreeMap, BTreeSet};

use perftax_pmu::process::has_ended;
use perftax_pmu::sys::{Descriptors, monotonic_raw_ns, process_cpu_ns, process_trees};

use super::descriptors::open_sockets;
use super::listener::Listener;
use crate::budget::Progress;
use crate::tag::Tag;

/// Bytes that are counted as one piece of work: a request is some tens at least.
const PIECE_BYTES: u64 = 32;
/// Of the connections that were there before, the share that may be gone: what those had received meanwhile nobody knows.
const MAX_GONE: f64 = 0.1;

/// The processes that are recorded, and what they have done.
pub(super) struct Work {
    roots: Vec<u32>,
    /// What was there before, and is not recorded.
    others: BTreeSet<u32>,
    known: BTreeSet<u32>,
    cpu_ns: BTreeMap<u32, u64>,
    /// CPU time of those that are gone, ns.
    gone_ns: u64,
    /// Messages are marked; otherwise bytes that came by TCP are counted.
    is_marked: bool,
    /// What each connection had received, by its socket's number, and all of them together.
    received: BTreeMap<u64, u64>,
    all_received: u64,
}

impl Work {
    /// Of processes and of what they will start.
    pub fn of(roots: Vec<u32>, tag: &Tag) -> Self {
        let all = process_trees(roots.iter().copied(), &BTreeSet::new());
        let others = all.into_iter().filter(|pid| !roots.contains(pid)).collect();
        let (cpu_ns, received) = (BTreeMap::new(), BTreeMap::new());
        let known = roots.iter().copied().collect();
        Self { roots, others, known, cpu_ns, gone_ns: 0, is_marked: *tag == Tag::Marks, received, all_received: 0 }
    }

    /// The processes that are recorded, as far as they are there: also those that have left the tree, whose parents have ended.
    pub fn pids(&mut self) -> Vec<u32> {
        self.known.retain(|pid| !has_ended(*pid));
        self.known = process_trees(self.known.iter().copied(), &self.others);
        self.known.iter().copied().collect()
    }

    /// CPU time so far, ns.
    pub fn cpu_ns(&mut self, listener: &mut Listener) -> u64 {
        if self.is_marked {
            return listener.progress(&self.roots).1;
        }
        for pid in self.pids() {
            self.cpu_ns.entry(pid).or_default();
        }
        // One that is gone takes no more, and its number may be another's soon.
        let (known, gone_ns) = (&self.known, &mut self.gone_ns);
        self.cpu_ns.retain(|pid, cpu_ns| {
            if !known.contains(pid) {
                *gone_ns += *cpu_ns;
                return false;
            }
            *cpu_ns = process_cpu_ns(*pid).unwrap_or(*cpu_ns).max(*cpu_ns);
            true
        });
        self.gone_ns + self.cpu_ns.values().sum::<u64>()
    }

    /// CPU time and work of one moment. Where work is not known any more it goes back to 0.
    pub fn progress(&mut self, listener: &mut Listener) -> Progress {
        let (messages, cpu_ns) = match self.is_marked {
            true => listener.progress(&self.roots),
            false => (self.receive(), self.cpu_ns(listener)),
        };
        Progress { time_ns: monotonic_raw_ns(), cpu_ns, messages }
    }

    /// Bytes that came by TCP so far.
    fn receive(&mut self) -> u64 {
        let mut now = BTreeMap::new();
        for pid in self.pids() {
            let Some(descriptors) = Descriptors::of(pid) else { continue };
            for (fd, socket) in open_sockets(pid) {
                // Several processes may have it.
                if !now.contains_key(&socket)
                    && let Some(received) = descriptors.tcp_received(fd)
                {
                    now.insert(socket, received);
                }
            }
        }
        let gone = self.received.keys().filter(|socket| !now.contains_key(*socket)).count();
        let more = now.iter().map(|(socket, received)| received.saturating_sub(self.received.get(socket).copied().unwrap_or(0)));
        self.all_received += more.sum::<u64>();
        if gone as f64 > MAX_GONE * self.received.len() as f64 {
            self.all_received = 0;
        }
        self.received = now;
        self.all_received / PIECE_BYTES
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_came_by_connections_is_work() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pairs = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let mut all: Vec<(TcpStream, TcpStream)> = (0..20).map(|_| pairs()).collect();
        let mut work = Work::of(vec![std::process::id()], &Tag::Sockets(None));
        let folder = tempfile::tempdir().unwrap();
        let mut marks = Listener::new([(folder.path().to_path_buf(), std::process::id())]);
        let before = work.progress(&mut marks);
        for (client, server) in &mut all {
            client.write_all(&[1; 1000]).unwrap();
            server.read_exact(&mut [0; 1000]).unwrap();
        }
        let after = work.progress(&mut marks);
        // Other tests of this process may have connections, too.
        assert!(after.messages - before.messages >= 20_000 / PIECE_BYTES && after.cpu_ns > before.cpu_ns, "{before:?} {after:?}");
        assert!(work.pids().contains(&std::process::id()));
        all.clear();
        assert_eq!(work.progress(&mut marks).messages, 0, "most of them are gone: how much came is not known");
    }
}
