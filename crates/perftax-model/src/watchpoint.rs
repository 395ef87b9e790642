//! Debug registers as data watchpoints (SDM volume 3, 18.2: DR0 to DR3, DR7).

/// One watched range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchpoint {
    /// First byte; aligned to the length.
    pub address: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u64,
    /// Traps on reads too; else on writes only. x86 has no watchpoint for reads alone.
    pub reads: bool,
}

/// The four registers of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugRegisters([Option<Watchpoint>; 4]);

/// All registers are taken, or the range cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFreeRegister {
    /// All four are in use.
    #[error("all 4 debug registers are in use")]
    AllTaken,
    /// Length or alignment is not one that x86 can watch.
    #[error("{bytes} bytes at {address:#x} cannot be watched: 1, 2, 4 or 8 bytes, aligned to their length")]
    NotWatchable {
        /// First byte.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl DebugRegisters {
    /// Watches a range, and returns the number of the register.
    ///
    /// # Errors
    /// Where no register is free or the range cannot be watched.
    pub fn watch(&mut self, watchpoint: Watchpoint) -> Result<usize, NoFreeRegister> {
        let Watchpoint { address, bytes, .. } = watchpoint;
        if ![1, 2, 4, 8].contains(&bytes) || address % bytes != 0 {
            return Err(NoFreeRegister::NotWatchable { address, bytes });
        }
        let free = self.0.iter().position(Option::is_none).ok_or(NoFreeRegister::AllTaken)?;
        self.0[free] = Some(watchpoint);
        Ok(free)
    }

    /// Frees a register, and returns what it watched.
    pub fn free(&mut self, register: usize) -> Option<Watchpoint> {
        self.0.get_mut(register)?.take()
    }

    /// The first register that traps on an access. The trap comes after the access.
    pub fn trapping(&self, address: u64, bytes: u64, write: bool) -> Option<usize> {
        self.0.iter().position(|slot| {
            slot.is_some_and(|w| {
                (write || w.reads) && address < w.address.saturating_add(w.bytes) && w.address < address.saturating_add(bytes)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_and_they_trap_on_overlap() {
        let mut registers = DebugRegisters::default();
        for i in 0..4 {
            assert_eq!(registers.watch(Watchpoint { address: 64 * i, bytes: 8, reads: i % 2 == 0 }), Ok(i as usize));
        }
        let fifth = Watchpoint { address: 512, bytes: 8, reads: true };
        assert_eq!(registers.watch(fifth), Err(NoFreeRegister::AllTaken));
        assert_eq!(registers.trapping(71, 1, false), None, "register 1 watches writes only");
        assert_eq!(registers.trapping(71, 1, true), Some(1));
        assert_eq!(registers.trapping(126, 4, false), Some(2), "the access begins before the range");
        assert_eq!(registers.free(2).map(|w| w.address), Some(128));
        assert_eq!(registers.trapping(126, 4, true), None);
        assert_eq!(registers.watch(fifth), Ok(2));
        let odd = Watchpoint { address: 3, bytes: 2, reads: false };
        assert!(matches!(registers.watch(odd), Err(NoFreeRegister::NotWatchable { .. })));
    }
}
