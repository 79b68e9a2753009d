#!/bin/sh
# hang.sh PROGRAM: a job that no longer moves ends with exit code 4 and a line of each rank; a failure on one rank ends all
# with exit code 1 and one line; both soon. PIPELEAF_LAUNCH holds the launcher up to its number of ranks.
program=$1
errors=$(mktemp) || exit 1
trap 'rm -f "$errors"' EXIT
failures=0

complain() {
    echo "FALSE: $*"
    sed 's/^/    /' "$errors"
    failures=$((failures + 1))
}

# expect CODE LINES PATTERN RANKS ARGUMENT...: the exit code, and how many lines of standard error match the pattern
expect() {
    code=$1 lines=$2 pattern=$3 ranks=$4
    shift 4
    begin=$(date +%s)
    # shellcheck disable=SC2086 # the launcher is a command with arguments
    $PIPELEAF_LAUNCH "$ranks" $PREFIX "$program" "$@" >"$errors" 2>&1 </dev/null
    got=$?
    seconds=$(($(date +%s) - begin))
    found=$(grep -c "$pattern" "$errors")
    echo "$ranks ranks, $*: exit code $got after $seconds s, $found lines"
    [ "$got" -eq "$code" ] || complain "$ranks ranks, $*: exit code $got is not $code"
    [ "$found" -eq "$lines" ] || complain "$ranks ranks, $*: $found lines and not $lines say '$pattern'"
    [ "$seconds" -le 20 ] || complain "$ranks ranks, $*: took $seconds s"
}

timeout=0.5
line_of() {
    echo "^pipeleaf: timeout: rank $1 on .*: no action completed anywhere for [0-9.]* s.*; last done: action [0-9-]*; now: action 1 of this test\$"
}
line=$(line_of '[0-9]*')

PREFIX=
expect 4 1 "$line" 1 spin 0 $timeout
expect 4 3 "$line" 3 spin 1 $timeout
expect 4 4 "$line" 4 spin 0 $timeout
expect 4 3 "$line" 3 lock 2 $timeout
expect 4 3 "$line" 3 lock 0 $timeout
# A stopped process cannot speak; the others do, whether or not it is the one that adds up.
expect 4 2 "$(line_of '[02]')" 3 stop 1 $timeout
expect 4 2 "$(line_of '[12]')" 3 stop 0 $timeout
# A job that moves, though each rank rests for longer than the timeout, is left alone.
expect 0 1 'all ranks came to the end' 3 slow 0 0.6
expect 0 1 'all ranks came to the end' 2 computing 0 0.6
expect 0 0 'pipeleaf: ' 1 slow 0 $timeout
# One rank's failure ends all.
expect 1 1 '^pipeleaf: error: rank 2 on .*: on purpose$' 3 fail 2 $timeout
expect 1 1 '^pipeleaf: error: rank 0 on .*: on purpose$' 2 fail 0 $timeout
expect 1 1 '^pipeleaf: error: rank 1 on .*: MPI_Send at .*test_hang.c:[0-9]*: .*rank' 2 mpi-error 1 60
expect 1 1 '^pipeleaf: error: rank 1 on .*: channel 1: rank 0 sends 2 messages of 4096 bytes, rank 1 expects 1 of 4096$' 2 disagree 0 60
# The wrong launcher: MPI finds one rank where the launcher started four.
PREFIX='env OMPI_COMM_WORLD_SIZE=4'
expect 1 1 '^pipeleaf: error: rank 0 .*MPI has 1 rank, but the launcher says OMPI_COMM_WORLD_SIZE=4' 1 slow 0 $timeout
PREFIX='env SLURM_NTASKS=4 SLURM_PROCID=0'
expect 0 1 'all ranks came to the end' 1 slow 0 0.2

[ "$failures" -eq 0 ]
