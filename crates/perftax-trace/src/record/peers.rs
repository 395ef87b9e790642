//! Which of the recorded processes has the other end of a connection (TCP, within one network namespace): asked while both are there.

use std::collections::{BTreeSet, HashMap};

use perftax_pmu::sys::monotonic_raw_ns;

use super::descriptors::{open_sockets, socket};
use super::served::tcp_sockets;

/// A connection, by its process and descriptor.
type At = (u32, i32);

/// From one look for a connection's other end to the next at least, as many times as the last look took: whoever connects anew for each request is not looked after for more of our time.
const SPARING: u64 = 10;

/// Connections whose other end was looked for.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pids: BTreeSet<u32>,
    known: HashMap<At, Option<At>>,
    next_ns: u64,
}

impl Peers {
    /// A process is recorded, too.
    pub fn join(&mut self, pid: u32) {
        self.pids.insert(pid);
    }

    /// It is not any more.
    pub fn gone(&mut self, pid: u32) {
        self.pids.remove(&pid);
        self.known.retain(|at, peer| at.0 != pid && peer.is_none_or(|peer| peer.0 != pid));
    }

    /// Descriptors are given up.
    pub fn closed(&mut self, pid: u32, first: i32, last: i32) {
        if self.known.is_empty() {
            return;
        }
        let is_closed = |at: &At| at.0 == pid && (first..=last).contains(&at.1);
        self.known.retain(|at, peer| !is_closed(at) && peer.is_none_or(|peer| !is_closed(&peer)));
    }

    /// Who has the other end of a process's connection.
    pub fn of(&mut self, pid: u32, fd: i32) -> Option<At> {
        if let Some(known) = self.known.get(&(pid, fd)) {
            return *known;
        }
        let began_ns = monotonic_raw_ns();
        // One process has nobody to pass anything to.
        if self.pids.len() < 2 || began_ns < self.next_ns {
            return None;
        }
        let found = self.find(pid, fd);
        let now_ns = monotonic_raw_ns();
        self.next_ns = now_ns + SPARING * (now_ns - began_ns);
        self.known.insert((pid, fd), found);
        found
    }

    fn find(&self, pid: u32, fd: i32) -> Option<At> {
        let number = socket(pid, fd)?;
        let all = tcp_sockets(pid);
        let [own, other] = &all.iter().find(|socket| socket.inode == number)?.ends;
        let peer = all.iter().find(|socket| socket.inode != 0 && socket.ends[0] == *other && socket.ends[1] == *own)?.inode;
        // A worker's sockets are its parent's, too: whoever serves the connection is not its other end.
        let holds =
            |other: &u32| open_sockets(*other).into_iter().find(|(_, socket)| *socket == peer).map(|(fd, _)| (*other, fd));
        self.pids.iter().find_map(holds)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_other_end_is_found_by_both_addresses_and_forgotten_when_it_is_closed() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (server, _) = listener.accept().unwrap();
            let own = std::process::id();
            let mut peers = Peers::default();
            peers.join(own);
            assert_eq!(peers.of(own, server.as_raw_fd()), None, "one process alone");
            peers.join(1);
            assert_eq!(peers.of(own, server.as_raw_fd()), Some((own, client.as_raw_fd())));
            peers.closed(own, client.as_raw_fd(), client.as_raw_fd());
            assert!(peers.known.is_empty());
            peers.next_ns = 0;
            assert_eq!(peers.of(own, listener.as_raw_fd()), None);
        }
    }
}
