//! System calls that have to do with sockets.

use syscalls::Sysno;

/// What a call does, by the descriptors of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It takes what has come.
    Reads(i32),
    /// It sends something.
    Writes(i32),
    /// It takes what has come to the first and sends it by the second (splice(2)).
    Moves(i32, i32),
    /// It takes the next connection of a socket that listens; what it returns is that connection's.
    Accepts(i32),
    /// It gives descriptors up, from the first to the last.
    Closes(i32, i32),
    /// Nothing more will be sent (shutdown(2), `SHUT_WR`).
    ShutsDown(i32),
    /// It waits for whichever descriptor is next.
    Waits,
    /// It hands work over by memory, where no call tells of it (io_uring(7)).
    Rings,
}

/// A thread enters or leaves such a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When.
    pub time_ns: u64,
    /// Whose thread.
    pub pid: u32,
    /// Who.
    pub tid: u32,
    /// Which of the two.
    pub at: Moment,
}

/// Into a call, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// What it is going to do.
    Enter(Action),
    /// What it returned; below 0 it failed.
    Exit(i64),
}

/// SHUT_RD (socket(7)).
const SHUT_RD: u64 = 0;

/// Descriptors stay open, but for what is executed later (close_range(2)).
const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// What a call does, by its number and arguments on this architecture; none where it has to do with no socket.
pub fn action(number: u64, arguments: &[u64; 6]) -> Option<Action> {
    // Descriptors are 32 bits wide; of the word's upper half nobody says anything.
    let fd = |at: usize| arguments[at] as i32;
    Some(match Sysno::new(usize::try_from(number).ok()?)? {
        Sysno::read | Sysno::readv | Sysno::recvfrom | Sysno::recvmsg | Sysno::recvmmsg | Sysno::preadv2 => Action::Reads(fd(0)),
        Sysno::write | Sysno::writev | Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg | Sysno::sendfile | Sysno::pwritev2 => {
            Action::Writes(fd(0))
        }
        Sysno::splice => Action::Moves(fd(0), fd(2)),
        Sysno::accept | Sysno::accept4 => Action::Accepts(fd(0)),
        Sysno::close => Action::Closes(fd(0), fd(0)),
        Sysno::close_range if arguments[2] & CLOSE_RANGE_CLOEXEC == 0 => {
            Action::Closes(fd(0), i32::try_from(arguments[1] as u32).unwrap_or(i32::MAX))
        }
        // The second is closed where it was open.
        Sysno::dup3 => Action::Closes(fd(1), fd(1)),
        #[cfg(target_arch = "x86_64")]
        Sysno::dup2 if fd(0) != fd(1) => Action::Closes(fd(1), fd(1)),
        Sysno::shutdown if arguments[1] != SHUT_RD => Action::ShutsDown(fd(0)),
        Sysno::epoll_pwait | Sysno::epoll_pwait2 | Sysno::ppoll | Sysno::pselect6 => Action::Waits,
        #[cfg(target_arch = "x86_64")]
        Sysno::epoll_wait | Sysno::poll | Sysno::select => Action::Waits,
        Sysno::io_uring_enter => Action::Rings,
        _ => return None,
    })
}

/// Whether a call may be one of those, by its number alone.
pub fn may_act(number: u64) -> bool {
    action(number, &[1, 2, 0, 0, 0, 0]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_sockets_are_told_from_others() {
        let of = |call: Sysno, arguments| action(call.id() as u64, &arguments);
        assert_eq!(of(Sysno::read, [7, 0, 0, 0, 0, 0]), Some(Action::Reads(7)));
        assert_eq!(of(Sysno::splice, [7, 0, 9, 0, 0, 0]), Some(Action::Moves(7, 9)));
        assert_eq!(of(Sysno::close_range, [3, 0xffff_ffff, 0, 0, 0, 0]), Some(Action::Closes(3, i32::MAX)));
        assert_eq!(of(Sysno::shutdown, [5, 1, 0, 0, 0, 0]), Some(Action::ShutsDown(5)));
        assert_eq!(of(Sysno::shutdown, [5, 0, 0, 0, 0, 0]), None);
        assert_eq!(of(Sysno::write, [0xffff_ffff_0000_0002, 0, 0, 0, 0, 0]), Some(Action::Writes(2)));
        assert_eq!(of(Sysno::getpid, [0; 6]), None);
        assert_eq!(action(u64::MAX, &[0; 6]), None);
        assert!(may_act(Sysno::shutdown.id() as u64) && !may_act(Sysno::getpid.id() as u64));
    }
}
