//! Plans of a plain user's cost what they say. In this machine nothing varies but what instructions take, so what is left is the plan's own fault.

use perftax_doc::Estimate;
use perftax_doc::{Plan, Verification};

use crate::common;

/// A program that is looked at, and its command: one in the kernel most of its time, in no step with the tick; one that computes; one that does both.
const PROGRAMS: [(&str, &str); 3] = [
    ("bzip2", "bzip2 -kfc big"),
    ("perl", "perl -e 'my %n; for my $i (1 .. 150_000) { $n{$i % 5003} += $i }'"),
    ("walks", "perl -e 'for my $i (1 .. 9_000) { -e (q(/proc/..) x ($i % 61)) }'"),
];

/// What measures goes before what else runs on the one processor, as far as root lets it: `verify` calibrates between the runs.
const SCRIPT: &str = "\
mkdir -p /tmp/user /tmp/profile; cp as /bin/; cp big /tmp/user 2>/dev/null; chmod 777 /tmp/user /tmp/profile; chmod 1777 /tmp
export HOME=/tmp/user XDG_DATA_HOME=/tmp/profile NO_COLOR=1
echo 25 >/proc/sys/kernel/perf_cpu_time_max_percent; echo 100000 >/proc/sys/kernel/perf_event_max_sample_rate
echo -1 >/proc/sys/kernel/sched_rt_runtime_us; echo 0 >/proc/sys/kernel/randomize_va_space
calibrate -e cpu-clock:u --quick --time 2 --spacing 0 2>/tmp/err || { echo 'no calibration'; cat /tmp/err; }
chmod -R a+rX /tmp/profile
echo 2 >/proc/sys/kernel/perf_event_paranoid
cd /tmp/user
kept() {
    name=$1; shift
    as 1000 0 0 perftax plan --budget 5% -r 4 -e cpu-clock:u --json $name.plan -- \"$@\" >out 2>&1 || cat out
    period=$(sed -n 's/^  \"period\": \\([0-9]*\\),/\\1/p' $name.plan)
    chrt -f 1 as 1000 0 0 perftax verify -e cpu-clock:u -c $period --no-probe --half-width 0.3 --min-rounds 3 --max-rounds 6 --time 60 --json $name.run -- \"$@\" >out 2>&1
    case $? in 0 | 4) ;; *) cat out ;; esac
    echo \"@@@$name\"; cat $name.plan; echo '@@run'; cat $name.run
}
";

/// What was measured less what was planned: both err by themselves.
fn less(measured: &Estimate, planned: &Estimate) -> Estimate {
    measured.plus(&planned.scaled(-1.0))
}

#[test]
fn what_a_plain_user_plans_is_what_it_costs() {
    let folder = common::compiled("as.c");
    let big: Vec<u8> = std::iter::repeat_with({
        let mut state = 1u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 24) as u8 % 26
        }
    })
    .take(300_000)
    .collect();
    std::fs::write(folder.path().join("big"), big).unwrap();
    let programs = common::last_of(1, &PROGRAMS);
    let commands: String = programs.iter().map(|(name, command)| format!("kept {name} {command}\n")).collect();
    std::fs::write(folder.path().join("script"), format!("{}{SCRIPT}{commands}", common::CALIBRATE)).unwrap();
    let (output, errors, _) = common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.with = ["chrt", "perl", "bzip2"].map(Into::into).to_vec();
    });
    let mut parts = output.split("@@@");
    assert_eq!(parts.next(), Some(""), "{output}{errors}");
    let kept: Vec<&str> = parts.collect();
    assert_eq!(kept.len(), programs.len(), "{output}{errors}");
    for part in kept {
        let (name, documents) = part.split_once('\n').unwrap();
        let (plan, run) = documents.split_once("@@run\n").unwrap();
        let plan: Plan = serde_json::from_str(plan).unwrap_or_else(|error| panic!("{name}: {error}: {plan}"));
        let run: Verification = serde_json::from_str(run).unwrap_or_else(|error| panic!("{name}: {error}: {run}"));
        let (planned, measured) = (plan.expected_overhead, run.cells[0].measured_overhead);
        let difference = less(&measured, &planned);
        println!("{name}, {}, {} ns: planned {planned:?}, measured {measured:?}: {difference:?}", plan.event, plan.period);
        assert!(plan.feasible && planned.high <= 0.05 && planned.estimate > 0.03, "{name}: {planned:?}");
        assert!(difference.contains(0.0) && difference.half_width() <= 0.01, "{name}: {difference:?}, {planned:?}, {measured:?}");
        // What is known only roughly must not hide what is wrong.
        assert!(difference.estimate.abs() < 0.003, "{name}: {difference:?}");
        let system_s: f64 = plan.workload.runs.iter().map(|run| run.system_s).sum();
        let user_s: f64 = plan.workload.runs.iter().map(|run| run.user_s).sum();
        assert!(name != "walks" || system_s > user_s, "{user_s} s in user mode, {system_s} s in the kernel");
    }
}
