//! How this command line spells what a reader may set or do next: the one place where what a library advises becomes an option or a command.

use perftax_doc::steps::{Calibrated, Emulation, Experiment, Operation, Setting, Spelling, spell};

/// Has libraries speak in options and commands from now on.
pub fn speak() {
    spell(Spelling { setting, operation });
}

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Boot => "--boot",
        Setting::Budget => "--budget",
        Setting::Buffer => "--buffer",
        Setting::Caches => "--caches",
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
        Setting::MaxRounds => "--max-rounds",
        Setting::Mechanism => "--mechanism",
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
        Setting::With => "--with",
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
        Operation::Simulate => "perftax sim -- COMMAND",
        Operation::SimulateSharing => "perftax sim --comm -- …",
        Operation::StartMachine(name) => return format!("perftax vm up {name}"),
        Operation::StopMachine(name) => return format!("perftax vm down {name}"),
        Operation::WatchHeap => "perftax comm --heap … -- COMMAND",
        Operation::WatchNamed => "perftax comm --watch SYMBOL -- …",
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

#[cfg(test)]
mod tests {
    use perftax_doc::Mechanism;

    use super::*;

    /// Every setting that [`setting`] spells.
    const SETTINGS: [Setting; 39] = [
        Setting::Boot,
        Setting::Budget,
        Setting::Buffer,
        Setting::Caches,
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
        Setting::Mechanism,
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
        Setting::With,
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
            Operation::Simulate,
            Operation::SimulateSharing,
            Operation::StartMachine("m".into()),
            Operation::StopMachine("m".into()),
            Operation::WatchHeap,
            Operation::WatchNamed,
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
            let option = setting(known);
            assert!(somewhere(&cli, option), "{option} is no option");
        }
        let mut options: Vec<&str> = SETTINGS.map(setting).to_vec();
        options.sort_unstable();
        options.dedup();
        assert_eq!(options.len(), SETTINGS.len(), "an option for two settings");
    }

    #[test]
    fn each_operation_is_a_command_with_its_options() {
        let cli = crate::cli::command();
        for operation in all_operations() {
            let text = super::operation(&operation);
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
}
