//! What libraries advise is spelled as this command line has it.

use perftax_doc::Mechanism;

use perftax_doc::steps::{Calibrated, Emulation, Experiment, Operation, Setting};
use perftax_report::SPELLING;

/// Every setting.
const SETTINGS: [Setting; 36] = [
    Setting::Budget,
    Setting::Buffer,
    Setting::Config,
    Setting::CountOf,
    Setting::Cpu,
    Setting::Event,
    Setting::EventSet,
    Setting::For,
    Setting::Heap,
    Setting::LinesFrom,
    Setting::Load,
    Setting::Machine,
    Setting::MaxRounds,
    Setting::Memory,
    Setting::Method,
    Setting::Only,
    Setting::Overheads,
    Setting::Pages,
    Setting::Period,
    Setting::Plant,
    Setting::Probe,
    Setting::Process,
    Setting::Profile,
    Setting::Quick,
    Setting::Ready,
    Setting::Resume,
    Setting::RingPages,
    Setting::Runs,
    Setting::Scratch,
    Setting::Stdin,
    Setting::Tag,
    Setting::Time,
    Setting::Timeout,
    Setting::Watch,
    Setting::Watchpoints,
    Setting::Work,
];

fn all_operations() -> Vec<Operation> {
    let emulation = Emulation {
        processor: Some("zen2"),
        cpus: Some(4),
        has_caches: true,
        has_random_starts: true,
        kernel_parameter: Some("nopti"),
        experiment: None,
    };
    let experiments = [Experiment::Audit, Experiment::AuditOfMisses, Experiment::Phase, Experiment::Sharing];
    let emulated = experiments.map(|experiment| Operation::Emulate(Emulation { experiment: Some(experiment), ..emulation }));
    let others = [
        Operation::Bill,
        Operation::BundleMachine,
        Operation::BuildMachine(None),
        Operation::BuildMachine(Some("6.12".into())),
        Operation::Calibrate(Calibrated::All),
        Operation::Calibrate(Calibrated::Event("cycles:u".into())),
        Operation::Calibrate(Calibrated::Mechanism(Mechanism::CpuClock)),
        Operation::Diagnose,
        Operation::DiagnoseAsRoot,
        Operation::DiagnoseEvent("cycles:u".into()),
        Operation::DiagnoseRecords,
        Operation::InstallMachine,
        Operation::InstallMachineOfSum,
        Operation::ListEvents,
        Operation::Plan,
        Operation::PlanByTimer,
        Operation::PredictElsewhere,
        Operation::PredictFromSimulation,
        Operation::RebuildMachine,
        Operation::RunBooting,
        Operation::Simulate,
        Operation::SimulateSharing,
        Operation::StartMachine("m".into()),
        Operation::StopMachine("m".into()),
        Operation::WatchHeap,
        Operation::WatchNamed,
        Operation::WatchWithTwo,
    ];
    emulated.into_iter().chain(others).collect()
}

fn has(command: &clap::Command, option: &str) -> bool {
    let is_it = |argument: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| option == format!("-{short}")),
    };
    command.get_arguments().any(is_it)
}

#[test]
fn each_setting_is_an_option_of_some_command() {
    fn somewhere(command: &clap::Command, option: &str) -> bool {
        has(command, option) || command.get_subcommands().any(|inner| somewhere(inner, option))
    }
    let cli = crate::cli::command();
    for known in SETTINGS {
        let option = (SPELLING.setting)(known);
        assert!(somewhere(&cli, option), "{option} is no option");
    }
    let mut options: Vec<&str> = SETTINGS.map(SPELLING.setting).to_vec();
    options.sort_unstable();
    options.dedup();
    assert_eq!(options.len(), SETTINGS.len(), "an option for two settings");
}

#[test]
fn each_operation_is_a_command_with_its_options() {
    let cli = crate::cli::command();
    for operation in all_operations() {
        let text = (SPELLING.operation)(&operation);
        for spelled in text.split(" -- ").filter(|part| part.contains("perftax ")) {
            let words: Vec<&str> = spelled.split_whitespace().skip_while(|word| *word != "perftax").skip(1).collect();
            let mut command = &cli;
            for word in words {
                if let Some(inner) = command.find_subcommand(word) {
                    command = inner;
                } else if word.starts_with('-') {
                    assert!(has(command, word), "'{text}': {} has no {word}", command.get_name());
                }
            }
            assert!(command.get_name() != cli.get_name(), "'{text}' names no command");
        }
    }
}
