//! How the command line spells what a reader may set or do next: the one place where what a library advises becomes an option or a command. The
//! command line has it said so before anything else; its tests hold each to what clap knows.

use perftax_doc::steps::{Calibrated, Emulation, Experiment, Operation, Setting, Spelling, spell};

/// The options and commands.
pub const SPELLING: Spelling = Spelling { setting, operation };

/// Has libraries speak in options and commands from now on.
pub fn speak() {
    spell(SPELLING);
}

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Budget => "--budget",
        Setting::Buffer => "--buffer",
        Setting::Config => "--config",
        Setting::CountOf => "--count-of",
        Setting::Cpu => "--cpu",
        Setting::Event => "-e",
        Setting::EventSet => "-g",
        Setting::For => "--for",
        Setting::Heap => "--heap",
        Setting::LinesFrom => "--lines-from",
        Setting::Load => "--load",
        Setting::Machine => "--machine",
        Setting::Memory => "--memory",
        Setting::MaxRounds => "--max-rounds",
        Setting::Method => "--method",
        Setting::Only => "--only",
        Setting::Overheads => "--overheads",
        Setting::Pages => "--pages",
        Setting::Period => "-c",
        Setting::Plant => "--plant",
        Setting::Probe => "--probe",
        Setting::Process => "-p",
        Setting::Profile => "--profile",
        Setting::Quick => "--quick",
        Setting::Ready => "--ready",
        Setting::Resume => "--resume",
        Setting::RingPages => "-m",
        Setting::Runs => "-r",
        Setting::Scratch => "--scratch",
        Setting::Stdin => "--stdin",
        Setting::Tag => "--tag",
        Setting::Time => "--time",
        Setting::Timeout => "--timeout",
        Setting::Watch => "--watch",
        Setting::Watchpoints => "--watchpoints",
        Setting::Work => "--work",
    }
}

fn operation(operation: &Operation) -> String {
    let fixed = match operation {
        Operation::Bill => "perftax bill FILE",
        Operation::BundleMachine => "perftax vm bundle",
        Operation::BuildMachine(None) => "perftax vm build",
        Operation::BuildMachine(Some(kernel)) => return format!("perftax vm build --kernel {kernel}"),
        Operation::Calibrate(Calibrated::All) => "perftax calibrate",
        Operation::Calibrate(Calibrated::Event(event)) => return format!("perftax calibrate -e {event}"),
        Operation::Calibrate(Calibrated::Mechanism(mechanism)) => return format!("perftax calibrate --mechanism {mechanism}"),
        Operation::Diagnose => "perftax doctor",
        Operation::DiagnoseAsRoot => "sudo perftax doctor",
        Operation::DiagnoseEvent(event) => return format!("perftax doctor -e {event}"),
        Operation::DiagnoseRecords => "perftax doctor -e EVENT -c PERIOD",
        Operation::Emulate(emulation) => return emulate(emulation),
        Operation::InstallMachine => "perftax vm install FILE",
        Operation::InstallMachineOfSum => "perftax vm install FILE --sha256 SUM",
        Operation::ListEvents => "perftax list",
        Operation::Plan => "perftax plan --budget 1% -- COMMAND",
        Operation::PlanByTimer => "perftax plan -e cpu-clock …",
        Operation::PredictElsewhere => "perftax predict --machine NAME …",
        Operation::PredictFromSimulation => "perftax predict --machine NAME --counts-from sim -- COMMAND",
        Operation::RebuildMachine => "perftax vm build --rebuild",
        Operation::RunBooting => "perftax vm run --boot",
        Operation::Simulate => "perftax sim -- COMMAND",
        Operation::SimulateSharing => "perftax sim --comm -- …",
        Operation::StartMachine(name) => return format!("perftax vm up {name}"),
        Operation::StopMachine(name) => return format!("perftax vm down {name}"),
        Operation::WatchHeap => "perftax comm --heap … -- COMMAND",
        Operation::WatchNamed => "perftax comm --watch SYMBOL -- …",
        Operation::WatchWithTwo => "perftax comm --watchpoints 2",
    };
    fixed.into()
}

fn emulate(emulation: &Emulation) -> String {
    let options = [
        emulation.processor.map(|processor| format!("--cpu {processor}")),
        emulation.cpus.map(|cpus| format!("--smp {cpus}")),
        emulation.has_caches.then(|| "--caches".into()),
        emulation.has_random_starts.then(|| "--ibs-random".into()),
        emulation.kernel_parameter.map(|parameter| format!("--append {parameter}")),
    ];
    let command = emulation.experiment.map(|experiment| match experiment {
        Experiment::Audit => "-- perftax audit".into(),
        Experiment::AuditOfMisses => "-- perftax audit --only misses".into(),
        Experiment::Phase => "-- perftax phase …".into(),
        Experiment::Sharing => "-- perftax comm …".into(),
    });
    let words: Vec<String> =
        std::iter::once("perftax vm run".into()).chain(options.into_iter().flatten()).chain(command).collect();
    words.join(" ")
}
