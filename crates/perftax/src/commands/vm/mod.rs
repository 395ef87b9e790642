//! `perftax vm`: an unmodified Linux guest that sees a PMU with PEBS, on a machine that has none.

mod bundle;
mod resident;
mod stat;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use perftax_vm::{Arm, Error, Finished, Generation, Guest, Installation, Processor, Sources, Terminal, Without};

use crate::failure::Outcome;

/// Run programs in an emulated machine with a PMU: PEBS, IBS, LBR
///
/// QEMU with perftax's PMU boots Debian's unmodified kernel; its perf driver, perf and perftax run inside and see a processor of Intel's
/// or AMD's.
/// Time is counted in instructions (1 ns each): the same command gives the same samples.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm build
  perftax vm install perftax-vm-0.1.0-x86_64.tar.zst
  perftax vm run -- perf stat -e instructions:u,branches:u bzip2 -k /bin/ls
  perftax vm run --cpu broadwell --assist-ns 286 --out p.data -- perf record -o p.data -e instructions:uppp -c 10007 gzip -k /bin/ls
  perftax vm run --cpu zen2 --out p.data -- perf record -a -o p.data -e ibs_op/cnt_ctl=1/ -c 100000 gzip -k /bin/ls
  perftax vm stat --share . --baseline app.baseline.json -- ./app input
  perftax vm up ci --cpu icelake
  perftax vm exec ci -- perf stat -e instructions:u true
  perftax vm down ci
  perftax vm shell --cpu icelake")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Build(BuildArgs),
    Bundle(bundle::BundleArgs),
    Install(bundle::InstallArgs),
    Run(RunArgs),
    Stat(Box<stat::StatCommandArgs>),
    Up(resident::UpArgs),
    Exec(resident::ExecArgs),
    Down(resident::DownArgs),
    List(resident::ListArgs),
    Shell(MachineArgs),
}

/// Build the machine once: QEMU from the distribution's source package with our patches, a kernel, a file system
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm build
  perftax vm build --kernel trixie        Debian 13's kernel beside the distribution's
  perftax vm build --tarball qemu-10.2.2.tar.xz --kernel /boot/vmlinuz")]
struct BuildArgs {
    /// Build it anew
    #[arg(long)]
    rebuild: bool,
    /// A QEMU 10.2.2 source archive, where there is no apt-get
    #[arg(long, value_name = "FILE")]
    tarball: Option<PathBuf>,
    /// Another kernel than the distribution's: a package (.deb), an image, or a suite of Debian's archive (trixie)
    #[arg(long, value_name = "FILE|SUITE")]
    kernel: Option<PathBuf>,
}

/// A shell in the machine, on this terminal: Ctrl-D or poweroff ends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm shell
  perftax vm shell --cpu icelake --smp 2")]
struct MachineArgs {
    /// The processor
    #[arg(long, value_name = "NAME", value_enum, default_value = "skylake")]
    cpu: Cpu,
    /// Time that a PEBS assist takes, ns
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    assist_ns: u64,
    /// Time from an overflow to the interrupt handler's first instruction, ns
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pmi_ns: u64,
    /// Instructions from an ordinary counter's overflow to its interrupt
    #[arg(long, value_name = "N", default_value_t = 0)]
    skid: u32,
    /// PEBS records the event that overflows the counter, not the next one
    #[arg(long)]
    arm_same: bool,
    /// Simulate caches: cache events, at a tenth of the speed
    #[arg(long)]
    caches: bool,
    /// A load that misses takes the time that the modelled machine takes for it; else an instruction's, 1 ns, as all do
    #[arg(long, requires = "caches", conflicts_with = "fast")]
    miss_time: bool,
    /// IBS counts start at random, from a seed, as AMD's hardware does it; else at 0
    #[arg(long)]
    ibs_random: bool,
    /// Processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    smp: u32,
    /// Memory, MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..=65536))]
    memory: u32,
    /// Another kernel, as vm build --kernel made it: a package (.deb), an image, or a suite of Debian's archive
    #[arg(long, value_name = "FILE|SUITE")]
    kernel: Option<PathBuf>,
    /// What the processor lacks, as in clouds: interrupts of counters, branch records, PEBS, RDPMC of programs, all of it
    #[arg(long, value_name = "PART,…", value_enum, value_delimiter = ',')]
    without: Vec<Part>,
    /// Leave the kernel's limits of sampling as it has them; else all are lifted
    #[arg(long)]
    stock_limits: bool,
    /// Arguments for the kernel, behind our own: the last one of a name holds
    #[arg(long, value_name = "ARGUMENTS", default_value = "", hide_default_value = true)]
    append: String,
    #[command(flatten)]
    brought: BroughtArgs,
    /// Let processors run at the same time and time by the host's clock: faster, and no two runs are alike
    #[arg(long)]
    fast: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What a guest finds beside its own files.
#[derive(Clone, Debug, clap::Args)]
struct BroughtArgs {
    /// Copy a folder into the guest before the command starts, which runs there
    #[arg(long, value_name = "FOLDER")]
    share: Option<PathBuf>,
    /// Bring another program of this machine's along, a library, or a folder; programs that the command names come by themselves
    #[arg(long = "with", value_name = "PROGRAM|FILE|FOLDER")]
    with: Vec<String>,
    /// Lay a folder's files over the guest's own, from its root on
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Add a variable to the command's environment
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
}

/// What comes back, and when the command must have ended.
#[derive(Clone, Debug, clap::Args)]
struct BackArgs {
    /// Copy a file or folder out when the command has ended
    #[arg(long = "out", value_name = "PATH")]
    outputs: Vec<PathBuf>,
    /// Where outputs go
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out_folder: PathBuf,
    /// Give the command what stands on our standard input, which is read to its end first
    #[arg(long)]
    stdin: bool,
    /// Real seconds that it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

/// Run a command in it: its output is ours, its exit code too
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm run -- perf stat -e instructions:u true
  perftax vm run --share tests --out samples.data -- perf record -o samples.data -e instructions:uppp -c 10007 ./prog
  perftax vm run --kernel trixie -- perftax doctor
  perftax vm run -- perftax list")]
struct RunArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    back: BackArgs,
    /// Boot for this command; else one that has booted before goes on from there, where it has one processor and counts time in instructions
    #[arg(long)]
    boot: bool,
    /// The command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Cpu {
    Haswell,
    Broadwell,
    Skylake,
    Icelake,
    Sapphirerapids,
    Clearwaterforest,
    Zen2,
    Zen3,
    Zen4,
    Zen5,
}

/// What a processor may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Pmi,
    Lbr,
    Pebs,
    Rdpmc,
    Pmu,
}

impl From<Cpu> for Generation {
    fn from(cpu: Cpu) -> Self {
        match cpu {
            Cpu::Haswell => Self::Haswell,
            Cpu::Broadwell => Self::Broadwell,
            Cpu::Skylake => Self::Skylake,
            Cpu::Icelake => Self::IceLake,
            Cpu::Sapphirerapids => Self::SapphireRapids,
            Cpu::Clearwaterforest => Self::ClearwaterForest,
            Cpu::Zen2 => Self::Zen2,
            Cpu::Zen3 => Self::Zen3,
            Cpu::Zen4 => Self::Zen4,
            Cpu::Zen5 => Self::Zen5,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    // ^C is the guest's.
    perftax_pmu::guard::take_interrupt_as_end();
    match &args.action {
        Action::Build(args) => build(args),
        Action::Bundle(args) => bundle::bundle(args),
        Action::Install(args) => bundle::install(args),
        Action::Run(args) => {
            let mut guest = args.machine.guest(args.command.clone())?;
            args.back.complete(&mut guest)?;
            guest.boots = args.boot;
            boot(&args.machine, &guest)
        }
        Action::Stat(args) => stat::stat(args),
        Action::Up(args) => resident::up(args),
        Action::Exec(args) => resident::exec(args),
        Action::Down(args) => resident::down(args),
        Action::List(args) => resident::list(args),
        Action::Shell(args) => boot(args, &args.guest(Vec::new())?),
    }
}

fn build(args: &BuildArgs) -> Result<Outcome> {
    let sources = Sources::find()?;
    if args.rebuild {
        sources.clean(args.kernel.as_deref())?;
    }
    let built = sources.build(args.kernel.as_deref(), args.tarball.as_deref())?;
    anstream::eprintln!("qemu    {}\nkernel  {}\nfiles   {}", built.qemu.display(), built.kernel.display(), built.base.display());
    Ok(Outcome::Done)
}

fn boot(machine: &MachineArgs, guest: &Guest) -> Result<Outcome> {
    let installation = Installation::find(machine.kernel.as_deref())?;
    let us = std::env::current_exe()?;
    Ok(ended(&perftax_vm::run(&installation, guest, &us, terminal())?))
}

/// The program's own output is ours.
fn terminal() -> Terminal {
    let interrupted = perftax_pmu::guard::interrupted;
    Terminal { output: Box::new(std::io::stdout()), errors: Box::new(std::io::stderr()), interrupted }
}

/// What takes longer is said.
const LONG: Duration = Duration::from_secs(20);

/// Our exit code.
fn ended(finished: &Finished) -> Outcome {
    for output in &finished.missing {
        anstream::eprintln!("perftax: output not brought back: {output}");
    }
    for (which, times) in &finished.unmodelled {
        let (code, umask) = (which & 0xff | which >> 24 & 0xf00, which >> 8 & 0xff);
        let times = if *times == 1 { "once".into() } else { format!("{times} times") };
        anstream::eprintln!(
            "perftax: a counter was set {times} to event 0x{code:02x}, unit mask 0x{umask:02x}, which this machine does not model: it counted 0"
        );
    }
    if let Some(guest) = finished.guest_time.filter(|_| finished.real_time > LONG) {
        anstream::eprintln!(
            "perftax: {:.1} s of the guest's time took {:.0} s",
            guest.as_secs_f64(),
            finished.real_time.as_secs_f64()
        );
    }
    let code = u8::try_from(finished.code).unwrap_or(1);
    Outcome::Passed(if code == 0 && !finished.missing.is_empty() { 1 } else { code })
}

impl MachineArgs {
    fn guest(&self, argv: Vec<String>) -> Result<Guest> {
        let mut guest = Guest {
            processor: Processor {
                generation: self.cpu.into(),
                count: self.smp,
                assist_ns: self.assist_ns,
                interrupt_ns: self.pmi_ns,
                skid: self.skid,
                arm: if self.arm_same { Arm::Same } else { Arm::Next },
                caches: self.caches,
                ibs_random: self.ibs_random,
                without: Without {
                    pmu: self.without.contains(&Part::Pmu),
                    lbr: self.without.contains(&Part::Lbr),
                    pebs: self.without.contains(&Part::Pebs),
                    pmi: self.without.contains(&Part::Pmi),
                    rdpmc: self.without.contains(&Part::Rdpmc),
                },
                miss_time: self.miss_time,
            },
            stock_limits: self.stock_limits,
            memory_mib: self.memory,
            append: self.append.clone(),
            fast: self.fast,
            seed: self.seed,
            ..Guest::new(argv)
        };
        self.brought.complete(&mut guest)?;
        Ok(guest)
    }
}

impl BroughtArgs {
    fn complete(&self, guest: &mut Guest) -> Result<()> {
        if let Some(share) = self.share.as_deref().filter(|share| !share.is_dir()) {
            return Err(Error::Missing {
                what: "the folder to share".into(),
                why: format!("{} is no folder", share.display()),
                remedy: "--share FOLDER".into(),
            }
            .into());
        }
        if let Some(root) = self.root.as_deref().filter(|root| !root.is_dir()) {
            let (value, needed) = (root.display().to_string(), "a folder".into());
            return Err(perftax_pmu::Error::Argument { argument: "--root", value, needed }.into());
        }
        guest.share = self.share.as_deref().map(Path::to_path_buf);
        guest.root.clone_from(&self.root);
        guest.with.clone_from(&self.with);
        guest.environment.clone_from(&self.environment);
        Ok(())
    }
}

impl BackArgs {
    fn complete(&self, guest: &mut Guest) -> Result<()> {
        // Said before a guest has worked for it.
        if !self.outputs.is_empty() && !self.out_folder.is_dir() {
            let (value, needed) = (self.out_folder.display().to_string(), "a folder that is there: outputs go there".into());
            return Err(perftax_pmu::Error::Argument { argument: "--out-folder", value, needed }.into());
        }
        guest.outputs.clone_from(&self.outputs);
        guest.output_folder.clone_from(&self.out_folder);
        guest.timeout = Duration::from_secs(self.timeout);
        if self.stdin {
            std::io::stdin().read_to_end(&mut guest.input)?;
        }
        Ok(())
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("needs NAME=VALUE")?;
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if fits && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok((name.into(), value.into()))
    } else {
        Err(format!("'{name}' is no name of a variable"))
    }
}
