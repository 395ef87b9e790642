#!/bin/sh
# tasks.sh FOLDER ROUNDS [CALIBRATE-OPTIONS…]: what scripts/tasks measures, here or in the emulated machine. FOLDER holds `timed`, and `programs`: a name and a
# command a line. Leaves there the calibration, a prediction for each program and way to attach, and `runs`: program, cell, round, elapsed and CPU time, samples.
set -eu
folder=$1
rounds=$2
shift 2
perftax=${PERFTAX:-perftax}
periods="1000003 4000037"

# quietly COMMAND…: what it says is shown where it fails alone.
quietly() { "$@" </dev/null >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }; }

# shellcheck disable=SC2086 # options, and words of commands
quietly "$perftax" calibrate -e cpu-clock "$@" --json "$folder/calibration.json" -o /dev/null
while read -r name command; do
    for attach in inherited cpus; do
        option=
        [ $attach = inherited ] || option=-a
        # shellcheck disable=SC2086,SC2046
        quietly "$perftax" predict $option -e cpu-clock $(printf -- '-c %s ' $periods) -r 6 --json "$folder/$name.$attach.json" -o /dev/null -- $command
    done
done <"$folder/programs"

# once NAME CELL ROUND COMMAND PERF-OPTIONS…: elapsed and CPU time of a run, and the samples of the program that came.
once() {
    name=$1 cell=$2 round=$3 command=$4
    shift 4
    samples=0
    # shellcheck disable=SC2086
    if [ $# = 0 ]; then
        "$folder/timed" "$folder/took" $command </dev/null >/dev/null
    else
        # The program writes to where it does otherwise.
        perf record -q -o "$folder/perf.data" "$@" -- "$folder/timed" "$folder/took" $command </dev/null >/dev/null 2>"$folder/said" ||
            { cat "$folder/said" >&2; exit 1; }
        perf report -i "$folder/perf.data" --stats >"$folder/stats" 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
        samples=$(perl -ne '$most = $1 if /SAMPLE events: *(\d+)/ && $1 > ($most // 0); END { print $most // 0 }' "$folder/stats")
        rm -f "$folder/perf.data"
    fi
    echo "$name $cell $round $(cat "$folder/took") $samples" >>"$folder/runs"
}

round=1
while [ "$round" -le "$rounds" ]; do
    while read -r name command; do
        cells="off off2"
        for period in $periods; do
            cells="$cells inherited/1/$period inherited/4/$period cpus/1/$period"
        done
        # In random order, each time another.
        for cell in $(perl -e 'srand shift; my @left = @ARGV; print splice(@left, rand @left, 1), "\n" while @left' "$round" $cells); do
            period=${cell##*/}
            case $cell in
            off*) once "$name" "$cell" "$round" "$command" ;;
            inherited/1/*) once "$name" "$cell" "$round" "$command" -e cpu-clock -c "$period" ;;
            # Three further ones that hardly fire: what they cost is being copied.
            inherited/4/*)
                once "$name" "$cell" "$round" "$command" -e "cpu-clock/period=$period/" -e "alignment-faults/period=1000000007/" \
                    -e "emulation-faults/period=1000000007/" -e "major-faults/period=1000000007/"
                ;;
            cpus/*) once "$name" "$cell" "$round" "$command" -a -e cpu-clock -c "$period" ;;
            esac
        done
    done <"$folder/programs"
    round=$((round + 1))
done
