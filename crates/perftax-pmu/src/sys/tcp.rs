//! What a TCP connection of another process has received.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Where `tcpi_bytes_received` lies in `struct tcp_info`, and where it ends (include/uapi/linux/tcp.h, since Linux 4.1).
const RECEIVED: usize = 128;
const RECEIVED_END: usize = RECEIVED + 8;

/// A process whose descriptors can be looked at.
#[derive(Debug)]
pub struct Descriptors(OwnedFd);

impl Descriptors {
    /// Those of a process; none where it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(pid.try_into().ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    /// Bytes that came by the TCP connection that is this descriptor; none where it is none, or we may not look (`pidfd_getfd`, Linux 5.6, asks for what ptrace asks for). For
    /// that moment the connection is open here, too.
    pub fn tcp_received(&self, fd: i32) -> Option<u64> {
        let socket = pidfd_getfd(&self.0, fd, PidfdGetfdFlags::empty()).ok()?;
        tcp_received(rustix::fd::AsFd::as_fd(&socket))
    }
}

fn tcp_received(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut info = [0u8; RECEIVED_END];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has so many, and says in `length` how many they were.
    let failed = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    let bytes = info.get(RECEIVED..RECEIVED_END).filter(|_| failed == 0 && length as usize >= RECEIVED_END)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_has_received_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 12_345]).unwrap();
        server.read_exact(&mut [0; 12_345]).unwrap();
        let own = Descriptors::of(std::process::id()).unwrap();
        assert_eq!(own.tcp_received(server.as_raw_fd()), Some(12_345));
        assert_eq!(own.tcp_received(client.as_raw_fd()), Some(0));
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!((own.tcp_received(file.as_raw_fd()), own.tcp_received(-1)), (None, None));
        assert!(Descriptors::of(u32::MAX).is_none());
    }
}
