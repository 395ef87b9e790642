//! What each command needs of the kernel, and what it uses where it may: `doctor --for COMMAND`, and the line that doctor begins with.

use perftax_pmu::Error;
use perftax_pmu::machine::{Right, RightStatus, meanwhile};
use serde::Serialize;

/// What a command needs.
pub struct Needs {
    /// Its name.
    pub command: &'static str,
    /// Without these it refuses.
    pub needs: &'static [Right],
    /// Without these it gives less, and says so: what is less.
    pub uses: &'static [(Right, &'static str)],
}

const KERNEL_TOO: (Right, &str) = (Right::OwnKernelMode, "the usual event leaves the kernel's mode out (cpu-clock:u, …)");
const LIMITS: (Right, &str) = (Right::SamplingLimits, "the kernel may throttle what is sampled often; that is counted and said");
const REFERENCE_LOOP: (Right, &str) = (Right::RealTime, "no reference loop: the machine's own variation stays in the intervals");
const RINGS: (Right, &str) = (Right::Rings, "smaller rings: samples that come in bursts may be lost, which is counted and said");

/// Of every command.
pub const ALL: [Needs; 20] = [
    Needs {
        command: "calibrate",
        needs: &[Right::OwnUserMode],
        uses: &[KERNEL_TOO, LIMITS, RINGS, (Right::WholeCpus, "no handler cross-check, no cost of switches by CPU")],
    },
    Needs { command: "predict", needs: &[Right::OwnUserMode], uses: &[KERNEL_TOO, LIMITS] },
    Needs { command: "plan", needs: &[Right::OwnUserMode], uses: &[KERNEL_TOO, LIMITS] },
    Needs { command: "record", needs: &[Right::OwnUserMode], uses: &[KERNEL_TOO, LIMITS, RINGS] },
    Needs { command: "verify", needs: &[Right::OwnUserMode], uses: &[KERNEL_TOO, LIMITS, RINGS, REFERENCE_LOOP] },
    Needs {
        command: "matrix",
        // Its sets name their events, those of the kernel's mode among them.
        needs: &[Right::OwnUserMode, Right::OwnKernelMode],
        uses: &[LIMITS, RINGS, REFERENCE_LOOP, (Right::WholeCpus, "no --monitors cpus")],
    },
    Needs { command: "sensitivity", needs: &[], uses: &[(Right::RealTime, "the thread that evicts comes less regularly")] },
    Needs {
        command: "selfcost",
        needs: &[Right::OwnUserMode],
        uses: &[
            (Right::OwnKernelMode, "no prices of events of the kernel's mode"),
            (Right::WholeCpus, "no prices of events on a CPU"),
        ],
    },
    Needs {
        command: "audit",
        needs: &[Right::OwnUserMode],
        uses: &[
            (Right::OwnKernelMode, "rows of the kernel's mode are not yours to measure"),
            (Right::WholeCpus, "rows of whole CPUs are not yours to measure"),
            (Right::Tracepoints, "rows of tracepoints are not yours to measure"),
            (Right::Uprobes, "rows of uprobes are not yours to measure"),
            LIMITS,
        ],
    },
    Needs {
        command: "field-test",
        needs: &[],
        uses: &[
            (Right::OwnUserMode, "nothing is calibrated and no row of the audit is measured"),
            (Right::OwnKernelMode, "nothing of the kernel's mode is measured"),
            (Right::WholeCpus, "nothing of whole CPUs is measured"),
            (Right::Tracepoints, "tracepoints are not calibrated, and no handler is looked into"),
            (Right::Uprobes, "uprobes are not calibrated"),
            LIMITS,
        ],
    },
    Needs { command: "dataset", needs: &[], uses: &[] },
    Needs { command: "phase", needs: &[Right::OwnUserMode], uses: &[LIMITS, RINGS] },
    Needs {
        command: "trace",
        needs: &[Right::OwnUserMode],
        uses: &[
            KERNEL_TOO,
            (Right::WholeCpus, "what the kernel did beside the program is left out"),
            (Right::Tracepoints, "what the kernel did beside the program is left out; no --tag socket"),
            (Right::Uprobes, "no --tag usdt:…, func:…"),
            (Right::KernelNames, "the kernel's functions stay numbers"),
            RINGS,
        ],
    },
    Needs {
        command: "comm",
        needs: &[Right::OwnUserMode],
        uses: &[(Right::Uprobes, "no --heap"), (Right::Tracepoints, "no --heap"), RINGS],
    },
    Needs { command: "bill", needs: &[], uses: &[] },
    Needs { command: "lint", needs: &[], uses: &[] },
    Needs { command: "report", needs: &[], uses: &[] },
    Needs { command: "list", needs: &[], uses: &[(Right::Tracepoints, "tracepoints may be missing from the list")] },
    Needs { command: "sim", needs: &[], uses: &[] },
    Needs { command: "vm", needs: &[], uses: &[] },
];

/// What a command can do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Able {
    /// All that it does on this machine.
    Works,
    /// Less, which it says.
    WorksWithLess,
    /// Nothing.
    Refused,
}

/// The answer to `--for`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ability {
    /// The command asked about.
    pub command: &'static str,
    /// What it can do.
    pub able: Able,
    /// What is missing, and what is less without it.
    pub lacks: Vec<Lack>,
}

/// A right that is missing.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lack {
    /// Which.
    #[serde(flatten)]
    pub status: RightStatus,
    /// What the command gives less of without it; `it refuses` where it needs it.
    pub less: &'static str,
}

impl Ability {
    /// Of a command, by the rights that there are.
    pub fn of(needs: &Needs, rights: &[RightStatus]) -> Self {
        let lacking = |right: Right| rights.iter().find(|status| status.right == right && status.held != Some(true));
        let lack = |&(right, less): &(Right, &'static str)| lacking(right).map(|status| Lack { status: status.clone(), less });
        let mut lacks: Vec<Lack> = needs.needs.iter().filter_map(|&right| lack(&(right, "it refuses"))).collect();
        let is_refused = !lacks.is_empty();
        lacks.extend(needs.uses.iter().filter_map(lack));
        let able = match (is_refused, lacks.is_empty()) {
            (true, _) => Able::Refused,
            (false, true) => Able::Works,
            (false, false) => Able::WorksWithLess,
        };
        Self { command: needs.command, able, lacks }
    }

    /// The error to end with where the command refuses.
    pub fn refusal(&self) -> Option<Error> {
        let first = self.lacks.first().filter(|_| self.able == Able::Refused)?;
        let (why, remedy) = (first.status.why_not.clone(), first.status.remedy.clone());
        Some(Error::Unsupported { what: format!("run perftax {}", self.command), why, remedy })
    }
}

/// What can be done here by whoever asks, in a line.
pub fn in_a_line(rights: &[RightStatus]) -> String {
    let has = |right: Right| rights.iter().any(|status| status.right == right && status.held == Some(true));
    if !has(Right::OwnUserMode) {
        let why = rights.iter().find(|status| status.right == Right::OwnUserMode).map_or("", |status| &status.why_not);
        return format!("As you are, you can measure nothing here: {why}. {}", meanwhile());
    }
    let (may, not): (Vec<&RightStatus>, Vec<&RightStatus>) = rights.iter().partition(|status| status.held == Some(true));
    if not.is_empty() {
        return "As you are, you can measure all that this machine has.".into();
    }
    let listed = |all: &[&RightStatus]| all.iter().map(|status| status.right.to_do()).collect::<Vec<_>>().join(", ");
    format!("As you are, you can {}; you cannot {}.", listed(&may), listed(&not))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(held: impl Fn(Right) -> bool) -> Vec<RightStatus> {
        let status = |right| {
            let why_not = if held(right) { String::new() } else { format!("{right:?} is refused") };
            RightStatus { right, held: Some(held(right)), why_not, remedy: "sudo it".into() }
        };
        Right::ALL.into_iter().map(status).collect()
    }

    fn able(command: &str, held: impl Fn(Right) -> bool) -> Able {
        let needs = ALL.iter().find(|needs| needs.command == command).unwrap_or_else(|| panic!("{command}"));
        Ability::of(needs, &rights(held)).able
    }

    #[test]
    fn what_is_needed_refuses_and_what_is_used_gives_less() {
        let user = |right| right == Right::OwnUserMode;
        assert_eq!(able("plan", |_| true), Able::Works);
        assert_eq!(able("plan", user), Able::WorksWithLess);
        assert_eq!(able("plan", |_| false), Able::Refused);
        assert_eq!(able("sim", |_| false), Able::Works);
        let refused = Ability::of(&ALL[0], &rights(|_| false)).refusal().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("OwnUserMode is refused") && refused.contains("sudo it"), "{refused}");
    }

    #[test]
    fn every_command_can_be_asked_about() {
        let asks = |name: &str| ALL.iter().any(|needs| needs.command == name);
        let commands = crate::cli::command();
        let left_out: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).filter(|name| !asks(name)).collect();
        // The one that is asked, and what prints texts.
        assert!(left_out.iter().all(|name| ["doctor", "man", "completions", "help"].contains(name)), "{left_out:?}");
    }

    /// Of a plain user at paranoid 2 the table of docs/guide/rights.md, which a test in the emulated machine makes, says the same.
    #[test]
    fn what_is_foreseen_is_what_the_documented_table_says() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/rights.md");
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}"));
        let user = |right| matches!(right, Right::OwnUserMode | Right::Rings);
        for (command, documented) in row("situation").iter().zip(row("user, paranoid 2")).skip(1) {
            if *command == "doctor" {
                continue;
            }
            // What a command uses it need not use in every run.
            let is_as_foreseen = match able(command, user) {
                Able::Refused => *documented == "refused",
                Able::Works => *documented == "works",
                Able::WorksWithLess => matches!(*documented, "works" | "less"),
            };
            assert!(is_as_foreseen, "{command}: {documented}");
        }
    }

    #[test]
    fn the_line_says_what_can_and_cannot_be_done() {
        assert!(in_a_line(&rights(|_| true)).contains("all that this machine has"));
        let user = in_a_line(&rights(|right| right == Right::OwnUserMode));
        assert!(user.contains("can sample your own programs in user mode; you cannot sample what the kernel"), "{user}");
        perftax_report::speak();
        let nothing = in_a_line(&rights(|_| false));
        assert!(nothing.contains("nothing here: OwnUserMode is refused") && nothing.contains("perftax sim"), "{nothing}");
    }
}
