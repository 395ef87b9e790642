//! User and kernel mode.

use serde::{Deserialize, Serialize};

/// Privilege at which an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ring 3.
    User,
    /// Ring 0.
    Kernel,
}

/// Which modes a counter counts in (bits USR and OS of IA32_PERFEVTSELx, SDM volume 3, 20.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Counts in user mode.
    pub user: bool,
    /// Counts in kernel mode.
    pub kernel: bool,
}

impl Filter {
    /// User mode only: perf's `:u`.
    pub const USER: Self = Self { user: true, kernel: false };
    /// Both modes.
    pub const ALL: Self = Self { user: true, kernel: true };

    /// Whether events of the mode count.
    pub fn admits(self, mode: Mode) -> bool {
        match mode {
            Mode::User => self.user,
            Mode::Kernel => self.kernel,
        }
    }
}
