//! Connections of a server: who serves which, as /proc has it, and rows that wait until it is known whether an answer was over.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use perftax_pmu::Result;
use perftax_pmu::process::file_of;

use super::Row;
use super::descriptors::{open_sockets, socket};
use super::identity::Gap;
use super::peers::Peers;
use super::row_queue::RowQueue;
use crate::sockets::{Action, Asking, Call, Connections, Moment, Passed, Sight};

/// Connections, and rows between their marks.
pub(super) struct Served {
    connections: Connections,
    queue: RowQueue,
    ends: Ends,
}

/// What is asked of connections.
struct Ends {
    listening: Listening,
    peers: Peers,
}

impl Asking for Ends {
    fn is_served(&mut self, pid: u32, fd: i32) -> bool {
        self.listening.is_asked_for(pid, fd)
    }

    fn peer(&mut self, pid: u32, fd: i32) -> Option<(u32, i32)> {
        self.peers.of(pid, fd)
    }
}

/// Sockets that listen, by what is asked for.
struct Listening {
    /// The port that is asked for; none: all.
    port: Option<u16>,
    /// Whether a descriptor of a process is one of those, as far as that was asked.
    known: HashMap<(u32, i32), bool>,
}

impl Served {
    /// Of whichever processes are recorded.
    pub fn new(port: Option<u16>) -> Self {
        let listening = Listening { port, known: HashMap::new() };
        let ends = Ends { listening, peers: Peers::default() };
        Self { connections: Connections::default(), queue: RowQueue::default(), ends }
    }

    /// A process is recorded from now on, with the connections that it has.
    pub fn join(&mut self, pid: u32) {
        self.ends.peers.join(pid);
        connections_of(pid, self.ends.listening.port).into_iter().for_each(|fd| self.connections.serve(pid, fd));
    }

    /// TCP connections that processes serve now, and all sockets that they have open.
    pub fn now(&self, pids: Vec<u32>) -> Gap {
        let mut numbers: HashMap<PathBuf, HashSet<u64>> = HashMap::new();
        let (mut served, mut open) = (Vec::new(), Vec::new());
        for &pid in &pids {
            let sockets = open_sockets(pid);
            open.extend(sockets.iter().map(|(fd, _)| (pid, *fd)));
            let Ok(namespace) = std::fs::read_link(file_of(pid, "ns/net")) else { continue };
            let numbers = numbers.entry(namespace).or_insert_with(|| served_in(pid, self.ends.listening.port));
            served.extend(sockets.iter().filter(|(_, socket)| numbers.contains(socket)).map(|(fd, _)| (pid, *fd)));
        }
        Gap { pids, served, open }
    }

    /// Nothing was recorded for a while: these connections are served now, and those of before that are still open.
    pub fn resume(&mut self, served: &[(u32, i32)], open: &[(u32, i32)]) {
        self.connections.resume(served, open);
    }

    pub fn row(&mut self, row: Row) {
        self.queue.row(row);
    }

    /// A call, in order of time.
    pub fn call(&mut self, call: &Call) {
        let Self { connections, queue, ends } = self;
        if let Moment::Enter(Action::Closes(first, last)) = call.at {
            ends.peers.closed(call.pid, first, last);
        }
        connections.take(call, ends, &mut |mark| queue.mark(mark));
    }

    pub fn born(&mut self, pid: u32, parent: u32) {
        self.ends.peers.join(pid);
        self.connections.born(pid, parent);
    }

    pub fn gone(&mut self, pid: u32) {
        let Self { connections, queue, ends } = self;
        ends.peers.gone(pid);
        connections.gone(pid, &mut |mark| queue.mark(mark));
    }

    /// Somebody accepts connections of a socket just now: later it may be gone.
    pub fn accepts(&mut self, pid: u32, fd: i32) {
        self.ends.listening.is_asked_for(pid, fd);
    }

    /// Hands out what is so old that no mark can come before it any more; time has come to `now_ns`, [`u64::MAX`]: to its end.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<u64> {
        let Self { connections, queue, .. } = self;
        connections.lose_patience(now_ns, &mut |mark| queue.mark(mark));
        let until_ns = connections.undecided_ns().unwrap_or(now_ns).min(now_ns);
        queue.hand_out(until_ns, keep).map(|()| until_ns)
    }

    /// Which messages are part of which, as far as that was not asked before.
    pub fn passed(&mut self) -> &mut Passed {
        &mut self.connections.passed
    }

    pub fn into_sight(self) -> (Sight, Passed) {
        (self.connections.sight, self.connections.passed)
    }
}

impl Listening {
    /// Whether connections of a socket are asked for. It listens for long: what it is now it was when a connection was accepted.
    fn is_asked_for(&mut self, pid: u32, fd: i32) -> bool {
        let Some(port) = self.port else { return true };
        if let Some(known) = self.known.get(&(pid, fd)) {
            return *known;
        }
        let number = socket(pid, fd);
        let found = number.map(|inode| tcp_sockets(pid).iter().any(|socket| socket.inode == inode && socket.port == port));
        // Of a process that is gone nobody tells.
        if let Some(is_it) = found {
            self.known.insert((pid, fd), is_it);
        }
        found.unwrap_or(false)
    }
}

/// A TCP socket, as /proc has it.
pub(super) struct Socket {
    port: u16,
    state: u8,
    pub inode: u64,
    /// Both its ends: its own address and the other one's.
    pub ends: [String; 2],
}

/// Addresses of version 4 as version 6 has them, in the words of /proc.
const MAPPED: &str = "0000000000000000FFFF0000";

/// TCP_ESTABLISHED and TCP_LISTEN (include/net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const LISTENS: u8 = 10;

/// Descriptors of TCP connections that a process serves.
fn connections_of(pid: u32, port: Option<u16>) -> Vec<i32> {
    let numbers = served_in(pid, port);
    open_sockets(pid).into_iter().filter(|(_, socket)| numbers.contains(socket)).map(|(fd, _)| fd).collect()
}

/// TCP connections of a process's network namespace at whose port somebody listens there.
fn served_in(pid: u32, port: Option<u16>) -> HashSet<u64> {
    let all = tcp_sockets(pid);
    let listened: HashSet<u16> = all.iter().filter(|socket| socket.state == LISTENS).map(|socket| socket.port).collect();
    let is_served = |socket: &&Socket| {
        socket.state == ESTABLISHED && listened.contains(&socket.port) && port.is_none_or(|port| port == socket.port)
    };
    all.iter().filter(is_served).map(|socket| socket.inode).collect()
}

/// TCP sockets of a process's network namespace.
pub(super) fn tcp_sockets(pid: u32) -> Vec<Socket> {
    let tables = ["net/tcp", "net/tcp6"].map(|name| std::fs::read_to_string(file_of(pid, name)).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(read_socket).collect()
}

/// A line: number, local and remote address with ports in hexadecimal, state, three more, user, timeout, inode (Documentation/networking/proc_net_tcp.rst).
fn read_socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_whitespace();
    let own = fields.nth(1)?;
    let (_, port) = own.rsplit_once(':')?;
    let other = fields.next()?;
    let state = fields.next()?;
    Some(Socket {
        ends: [own, other].map(|end| end.strip_prefix(MAPPED).unwrap_or(end).into()),
        port: u16::from_str_radix(port, 16).ok()?,
        state: u8::from_str_radix(state, 16).ok()?,
        inode: fields.nth(5)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn connections_that_a_process_serves_are_told_by_their_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let own = std::process::id();
        let served = connections_of(own, Some(address.port()));
        assert_eq!(served, [server.as_raw_fd()], "not the client's own end, {}", client.as_raw_fd());
        assert!(connections_of(own, None).contains(&server.as_raw_fd()));
        let mut listening = Listening { port: Some(address.port()), known: HashMap::new() };
        assert!(listening.is_asked_for(own, listener.as_raw_fd()));
        assert!(!listening.is_asked_for(own, -1) && !listening.known.contains_key(&(own, -1)));
        let mut other = Listening { port: Some(address.port() ^ 1), known: HashMap::new() };
        assert!(!other.is_asked_for(own, listener.as_raw_fd()) && !other.known[&(own, listener.as_raw_fd())]);
    }
}
