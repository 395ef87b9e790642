//! What tools expect around counters: branch records by kind and with cycles, call stacks, cycles by masks, slots, registers that are not there, parts that
//! clouds lack. Truths are arithmetic.

use perftax_vm::{Generation, Processor, Without};

use crate::common;

const TURNS: u64 = 1000;

/// Runs a script beside `calls`; what it says, its errors, and what was set and not modelled.
fn run(script: &str, generation: Generation, without: Without) -> (String, String, Vec<(u64, u64)>) {
    let folder = common::compiled("calls.c");
    let script = format!("{}{}", common::SHORT_PERF, script);
    let (output, errors, finished) = common::boot(&["sh".into(), "-c".into(), script], |guest| {
        guest.processor = Processor { generation, without, ..guest.processor };
        guest.share = Some(folder.path().into());
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    (output, errors, finished.unmodelled)
}

/// The lines behind `== name`, up to the next such.
fn section<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    output.lines().skip_while(|line| *line != format!("== {name}")).skip(1).take_while(|line| !line.starts_with("== ")).collect()
}

#[test]
fn branches_are_recorded_by_kind_and_with_their_cycles() {
    let script = format!(
        "echo == calls
perf record -q -e instructions:u -c 50021 -j any_call,u -o a ./calls 40 {TURNS} && perf script -i a -F brstacksym
echo == stacks
perf record -q -e instructions:u -c 10007 --call-graph lbr -o b ./calls 40 {TURNS} && perf script -i b -F ip,sym
echo == all
perf record -q -e instructions:u -c 10007 -b -o c ./calls 40 {TURNS} && perf script -i c -F brstack
"
    );
    for generation in [Generation::Skylake, Generation::IceLake, Generation::SapphireRapids] {
        let (output, errors, _) = run(&script, generation, Without::default());
        // Calls alone, as deep as there is room, each with the cycles since the one before: the loop of leaf is six instructions.
        let calls: Vec<&str> = section(&output, "calls").into_iter().filter(|line| line.contains("outer")).collect();
        assert!(calls.len() > 8, "{} {errors}", output.lines().take(3).collect::<String>());
        let (mut whole, mut deepest) = (0, 0);
        for line in &calls {
            let entries: Vec<Vec<&str>> =
                line.split_whitespace().filter(|word| word.contains('+')).map(|word| word.split('/').collect()).collect();
            deepest = deepest.max(entries.len());
            for entry in entries {
                let to = entry[1].split('+').next().unwrap();
                let cycles: u64 = entry[5].parse().unwrap();
                match to {
                    // From the call of middle to that of leaf, and from that of outer to that of middle.
                    "middle" => assert_eq!(cycles, 1, "{line}"),
                    // From one call of leaf to the next, where no sample fell in between, or the first of middle's.
                    "leaf" => whole += u64::from(cycles == 6 * TURNS + 9),
                    "outer" => {}
                    _ => {}
                }
            }
        }
        // Where a return from the kernel stood among them, perf leaves it out.
        assert!(deepest >= 30, "{deepest}: {}", calls[0]);
        assert!(whole > 2 * calls.len() as u64, "{whole} of {}: {}", calls.len(), calls[0]);

        let stacks = section(&output, "stacks").join("\n");
        let chains: Vec<Vec<&str>> = stacks
            .split("\n\n")
            .map(|chain| chain.lines().filter_map(|line| line.split_whitespace().nth(1)).collect())
            .filter(|chain: &Vec<&str>| chain.contains(&"outer"))
            .collect();
        let right = chains.iter().filter(|chain| chain.starts_with(&["leaf", "middle", "outer", "main"])).count();
        // All but those that fall on the few instructions between.
        assert!(chains.len() > 30 && right * 20 >= chains.len() * 19, "{right} of {}: {stacks}", chains.len());

        let all: Vec<&str> = section(&output, "all").into_iter().flat_map(str::split_whitespace).collect();
        let loops = all.iter().filter(|entry| entry.contains("/P/-/-/6/")).count();
        assert!(loops * 10 > all.len() * 9, "{loops} of {}", all.len());
    }
}

#[test]
fn an_instruction_counter_beside_loads_by_latency_samples_as_ever() {
    let script = format!(
        "perf record -q -e cpu/mem-loads,ldlat=3,name=loads/Pu -e instructions:u -c 10007 -o a ./calls 40 {TURNS}
perf script -i a -F event | sort | uniq -c
perf stat -x, -e instructions:u ./calls 40 {TURNS} 2>&1"
    );
    // Ice Lake's caches are not described: no loads by latency there.
    for generation in [Generation::Haswell, Generation::Skylake] {
        let (output, errors, _) = run(&script, generation, Without::default());
        let number = |name: &str| -> u64 {
            let line =
                output.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{generation:?} {output}{errors}"));
            line.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty()).unwrap().parse().unwrap()
        };
        let instructions = number(",instructions:u");
        let samples = number("instructions:u:");
        assert!(samples.abs_diff(instructions / 10_007) <= 1, "{generation:?}: {samples} of {instructions}");
        assert!(number("loads:") > 5, "{output}");
    }
}

#[test]
fn slots_add_up_and_masks_count_cycles() {
    // Of the loop's six instructions three load or store: two micro-operations of a load, one of a store each.
    let script = format!(
        "perf stat -x, -e instructions:u -e cpu/event=0xc2,umask=2/u -e cpu/event=0xc2,umask=2,cmask=2/u \
-e cpu/event=0xc2,umask=2,cmask=2,inv=1/u ./calls 40 {TURNS} 2>&1
perf stat -x, --topdown -a ./calls 400 {TURNS} 2>&1 || true"
    );
    let generations = [(Generation::Skylake, 4.0, 1.0), (Generation::IceLake, 5.0, 1.0), (Generation::SapphireRapids, 6.0, 2.0)];
    for (generation, width, levels) in generations {
        let (output, errors, _) = run(&script, generation, Without::default());
        let counts: Vec<f64> = output
            .lines()
            .filter(|line| line.contains(":u") || line.contains("/u"))
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect();
        let [instructions, uops, several, one] = counts[..] else { panic!("{output}{errors}") };
        assert_eq!(several + one, instructions, "each cycle has at least two or fewer: {output}");
        assert!(several > 0.0 && one > 0.0 && uops > instructions, "{output}");
        let shares: Vec<f64> = output
            .lines()
            .filter(|line| !line.contains(":u") && !line.contains("/u"))
            .flat_map(|line| line.split([',', ' ', '%']))
            .filter_map(|word| word.parse::<f64>().ok().filter(|share| word.contains('.') && *share <= 100.0))
            .collect();
        let total: f64 = shares.iter().sum();
        assert!(shares.len() >= 4 && (total - levels * 100.0).abs() < 0.5, "{shares:?}: {output}");
        // The program is most of what runs: of its slots as many retire as it has micro-operations.
        let retiring = 100.0 * uops / instructions / width;
        assert!((shares[0] - retiring).abs() < 2.0, "{generation:?}: {shares:?}, {retiring}");
    }
}

#[test]
fn registers_that_are_not_there_are_refused_and_events_that_are_not_modelled_are_told() {
    let script = "rdmsr 0x40 2>&1 || echo refused
rdmsr 0x345; wrmsr 0x4c1 0x1000000000000 2>&1 || echo refused; wrmsr 0x4c1 0x123456789abc; rdmsr 0x4c1
cat /sys/devices/system/cpu/cpu0/cache/index*/size
perf stat -e cpu/event=0xa3,umask=4/u -e instructions:u true 2>/dev/null
dmesg | grep -c 'unchecked MSR' || true
";
    let (output, errors, unmodelled) = run(script, Generation::Skylake, Without::default());
    let lines: Vec<&str> = output.lines().collect();
    let expected = [
        "rdmsr: 0x40: no such register",
        "refused",
        "00000000000033c5",
        "wrmsr: 0x4c1: no such register, or not this value",
        "refused",
        "0000123456789abc",
        // machines/skylake.toml
        "32K",
        "32K",
        "256K",
        "6144K",
        "0",
    ];
    assert_eq!(lines, expected, "{errors}");
    assert_eq!(unmodelled.iter().map(|(which, _)| *which).collect::<Vec<_>>(), [0x04a3], "{unmodelled:?}");
}

#[test]
fn what_clouds_lack_is_missing_and_said() {
    let script = "dmesg | grep -o 'Performance Events: .*'
perf record -q -e instructions:u -c 10007 -o a ./calls 10 1000 2>/dev/null; perf script -i a -F ip 2>/dev/null | wc -l
perf record -q -b -e instructions:u -c 10007 -o a ./calls 10 1000 >/dev/null 2>&1 && echo branches
perf record -q -e instructions:ppu -c 10007 -o a ./calls 10 1000 >/dev/null 2>&1 && echo precise
perf stat -x, -e instructions:u true 2>&1 | cut -d, -f1
perftax doctor -e instructions:u 2>&1 >/dev/null | sed 's/^/doctor: /'
true";
    let lacks = |change: fn(&mut Without)| {
        let mut without = Without::default();
        change(&mut without);
        let (output, errors, _) = run(script, Generation::Skylake, without);
        let has = |word: &str| output.lines().any(|line| line == word);
        let samples = output.lines().find_map(|line| line.parse::<u64>().ok()).unwrap_or_else(|| panic!("{output}{errors}"));
        let counts = output.lines().any(|line| line.parse::<u64>().is_ok_and(|n| n > 1000));
        let doctor = errors_of_doctor(&output);
        ((samples > 5, has("branches"), has("precise"), counts), doctor)
    };
    let (all, doctor) = lacks(|_| ());
    assert_eq!((all, doctor.as_str()), ((true, true, true, true), ""));
    assert_eq!(lacks(|without| without.lbr = true), ((true, false, true, true), String::new()));
    assert_eq!(lacks(|without| without.pebs = true), ((true, true, false, true), String::new()));
    let ((samples, _, _, counts), doctor) = lacks(|without| without.pmi = true);
    assert_eq!((samples, counts), (false, true), "it counts, and nothing comes of it");
    assert!(doctor.contains("counts only"), "{doctor}");
    let (none, doctor) = lacks(|without| without.pmu = true);
    assert_eq!(none, (false, false, false, false));
    assert!(!doctor.is_empty() && !doctor.contains("counts only"), "{doctor}");
}

/// What doctor said beside its answer.
fn errors_of_doctor(output: &str) -> String {
    output.lines().filter(|line| line.starts_with("doctor: ")).collect::<Vec<_>>().join(" ")
}
