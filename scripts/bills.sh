#!/bin/sh
# bills.sh here|emulated FOLDER ROUNDS KINDS [CALIBRATE-OPTIONS…]: what scripts/bills measures, here or in the emulated machine. FOLDER holds the programs. Leaves
# in FOLDER/measured the kinds, the calibrations, a bill for each kind and round, and `runs`: kind, arm, round, elapsed and CPU time.
set -eu
machine=$1
folder=$2
rounds=$3
wanted=$4
shift 4
work=$folder/bills-work
measured=$folder/measured
mkdir -p "$measured"
# Of the emulated machine's time one second takes ours several.
part=1
[ "$machine" = here ] || part=4

# Steps of work in a microsecond.
"$folder/timed" "$folder/took" "$work" spin $((100000000 / part))
us=$(awk -v part=$part '{ print int(100000000 / part / ($2 * 1e6)) }' "$folder/took")
watched=$(cat "$folder/watched")
fifth=$((us * 400000 / part))
fifty=$((50000 / part))

# A kind a line: name, the machine that has it (or any), options of perf record, program.
sed 's/ *| */|/g' >"$folder/kinds" <<END
clock | any | -e cpu-clock -F 20000 | $work spin $fifth
clock-chase | any | -e cpu-clock -F 20000 | $work chase $((60000000 / part))
clock-chains | any | -e cpu-clock -F 20000 -g | $work spin $fifth 0 16
clock-user | any | -e cpu-clock:u -F 20000 | $work mixed $((40000 / part)) $((us * 7))
task-clock | any | -e task-clock -c 50000 | xz -k -c -1 $folder/input
faults | any | -e page-faults -c 1 | $work touch $fifty $((us * 4))
faults-user | any | -e page-faults:u -c 1 | $work touch-twice $fifty $((us * 4))
faults-chains | any | -e page-faults -c 1 -g | $work touch $((32000 / part)) $((us * 8)) 16
faults-1k | any | -e page-faults -c 1 --call-graph dwarf,1024 | $work touch $((20000 / part)) $((us * 15)) 40 1000
faults-8k | any | -e page-faults -c 1 --call-graph dwarf,8192 | $work touch $((14000 / part)) $((us * 25)) 40 1000
faults-8k-flat | any | -e page-faults -c 1 --call-graph dwarf,8192 | $work touch $((14000 / part)) $((us * 25))
faults-32k | any | -e page-faults -c 1 --call-graph dwarf,32768 | $work touch $((4000 / part)) $((us * 100)) 40 1000
faults-data | any | -e page-faults -c 1 -d | $work touch $fifty $((us * 4))
faults-each | any | -e page-faults -c 1 -s | $work threads $((25000 / part)) $((us * 4)) 2
faults-alone | any | -e page-faults -c 1 --per-thread | $work touch $fifty $((us * 4))
threads | any | -e page-faults -c 1 | $work threads $((250 / part)) $((us * 4)) 200
churn | any | -e cpu-clock -F 10000 | $work churn 10 $((us * 12)) $((2000 / part))
switch-trace | any | -e sched:sched_switch -c 1 | $work pong $((20000 / part)) $((us * 6))
switches | any | -e context-switches -c 1 | $work pong $((20000 / part)) $((us * 6))
calls | any | -e raw_syscalls:sys_enter -c 1 | $work calls $((60000 / part)) $((us * 5))
calls-100 | any | -e syscalls:sys_enter_getppid -c 100 | $work calls $((60000 / part)) $((us * 5))
some-calls | any | -e syscalls:sys_enter_write -c 1 | $work copies $((40000 / part)) $((us * 7))
breakpoint | any | -e mem:$watched/8:w:u -c 1 | $work writes $((16000 / part)) $((us * 24))
breakpoint-100 | any | -e mem:$watched/8:w:u -c 100 | $work writes $((16000 / part)) $((us * 24))
build | here | -e cpu-clock -F 10000 | make -j2 -s -B -f $folder/Makefile
build-faults | here | -e page-faults -c 1 -g | make -j2 -s -B -f $folder/Makefile
commands | any | -e cpu-clock -F 10000 | sh $folder/commands.sh
cpus | any | -a -e cpu-clock -F 10000 | $work spin $fifth
two | any | -e cpu-clock/freq=10000/,page-faults/period=1/ | $work touch $fifty $((us * 4))
counter | emulated | -e instructions:u -c 50000 | $work spin $fifth
branches | emulated | -b -e instructions:u -c 100000 | $work spin $fifth
precise | emulated | -e instructions:uppp -c 10007 | $work spin $fifth
precise-branches | emulated | -b -e instructions:uppp -c 100003 | $work spin $fifth
precise-chains | emulated | -g -e instructions:uppp -c 50021 | $work spin $fifth 0 16
END
# Those that are asked for and can be here.
awk -F'|' -v OFS='|' -v wanted="$wanted" -v machine="$machine" '$1 ~ wanted && ($2 == "any" || $2 == machine) { print $1, $3, $4 }' "$folder/kinds" >"$measured/kinds"
[ -s "$measured/kinds" ] || { echo "bills: no kind is like $wanted" >&2; exit 2; }

# quietly COMMAND…: what it says is shown where it fails alone.
quietly() { "$@" </dev/null >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }; }

# The prices of what is recorded, or of what bill asks for instead.
export XDG_DATA_HOME="$folder/data"
mkdir "$XDG_DATA_HOME"
options=$(cut -d'|' -f2 "$measured/kinds")
# priced PATTERN NAME OPTIONS…: calibrated where a kind needs it.
priced() {
    pattern=$1 name=$2
    shift 2
    echo "$options" | grep -qE -e "$pattern" || return 0
    echo "bills: calibrating $name" >&2
    quietly "$PERFTAX" calibrate "$@" -o "$measured/calibrated-$name.txt"
}
priced 'cpu-clock|task-clock' clock -e cpu-clock "$@"
priced 'page-faults|context-switches' faults -e page-faults "$@"
if [ "$machine" = here ]; then
    priced getppid getppid -e syscalls:sys_enter_getppid "$@"
    priced 'raw_syscalls|sched:|sys_enter_write' calls -e raw_syscalls:sys_enter "$@"
else
    # Whoever waits there for an event of every system call, ahead of all others, keeps itself awake.
    priced 'getppid|raw_syscalls|sched:|sys_enter_write' getppid -e syscalls:sys_enter_getppid "$@"
fi
priced mem: breakpoint --mechanism breakpoint "$@"
priced 'instructions:u ' counter -e instructions:u "$@"
priced instructions:uppp precise -e instructions:uppp "$@"
cp "$XDG_DATA_HOME"/perftax/machines/*.json "$measured/profile.json"

# once KIND ARM ROUND COMMAND PERF-OPTIONS…: elapsed and CPU time of a run, and its bill.
once() {
    kind=$1 arm=$2 round=$3 command=$4
    shift 4
    run="$folder/timed $folder/took $command"
    [ "$kind" != faults-alone ] || run="env TOOK=$folder/took $command"
    # shellcheck disable=SC2086 # words of commands
    if [ $# = 0 ]; then
        $run </dev/null >/dev/null
    else
        quietly perf record -q -o "$folder/perf.data" "$@" -- $run
        status=0
        "$PERFTAX" bill --json "$measured/$kind.$round.json" -o /dev/null "$folder/perf.data" 2>"$folder/said" || status=$?
        # 3: nothing could be priced, which the result says.
        [ $status = 0 ] || [ $status = 3 ] || { cat "$folder/said" >&2; exit 1; }
        rm -rf "$folder/perf.data"
    fi
    echo "$kind $arm $round $(cat "$folder/took")" >>"$measured/runs"
}

round=1
while [ "$round" -le "$rounds" ]; do
    echo "bills: round $round of $rounds" >&2
    while IFS='|' read -r kind options command; do
        # In random order, each time another.
        for arm in $(shuf -e off off2 on); do
            # shellcheck disable=SC2086 # words of options
            if [ "$arm" = on ]; then once "$kind" on "$round" "$command" $options; else once "$kind" "$arm" "$round" "$command"; fi
        done
    done <"$measured/kinds"
    round=$((round + 1))
done
