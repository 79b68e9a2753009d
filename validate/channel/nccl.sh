#!/bin/sh
# nccl.sh PROGRAM: on the double of validate/double, the NCCL channels fail where they must. In too few in-order hardware
# queues the probe at the start finds that streams hold each other up, and ends the job with one line; in enough it does
# not. Each wait between streams is missed when it is left out, in one order of the streams or another.
# PIPELEAF_LAUNCH holds the launcher up to its number of ranks.
program=$1
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
failures=0

complain() {
    echo "FALSE: $*"
    sed 's/^/    /' "$output"
    failures=$((failures + 1))
}

# run RANKS NAME=VALUE... -- ARGUMENT...: leaves the exit code in $code
run() {
    ranks=$1
    settings=
    shift
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # the launcher and the settings are words
    $PIPELEAF_LAUNCH "$ranks" env $settings "$program" "$@" >"$output" 2>&1 </dev/null
    code=$?
}

for queues in 2 6 8 10; do
    run 2 DOUBLE_DEVICES=2 DOUBLE_QUEUES=$queues -- probe
    lines=$(grep -c "^pipeleaf: error: rank [01] .*holds up computation or other channels: .* set run.transport='mpi'" "$output")
    echo "$queues hardware queues: exit code $code"
    { [ $code -eq 1 ] && [ "$lines" -eq 1 ]; } || complain "$queues queues: exit code $code, $lines lines"
done
for queues in 12 32; do
    run 2 DOUBLE_DEVICES=2 DOUBLE_QUEUES=$queues -- probe
    echo "$queues hardware queues: exit code $code"
    [ $code -eq 0 ] || complain "$queues queues: exit code $code"
done

for order in eager lazy random:3; do
    run 2 DOUBLE_DEVICES=2 DOUBLE_ORDER=$order DOUBLE_LAUNCH_LIMIT=16 -- traffic
    echo "streams in order '$order', 16 launches at a time: exit code $code"
    [ $code -eq 0 ] || complain "order $order: exit code $code"
done

for wait in receive_waits_for_free_buffer send_waits_for_producer compute_waits_for_message compute_waits_for_sent; do
    seen=
    for order in lazy eager random:1 random:2 random:3 random:4 random:5; do
        run 2 DOUBLE_DEVICES=2 DOUBLE_ORDER=$order DOUBLE_DROP_WAIT=$wait -- traffic
        [ $code -eq 0 ] || { seen=$order && break; }
    done
    [ "$seen" ] || complain "without $wait nothing is wrong"
    echo "without $wait: seen in order '$seen'"
done

# An error that NCCL reports by itself ends the step in which it is found.
run 2 DOUBLE_DEVICES=2 -- error
lines=$(grep -c "^pipeleaf: error: rank 1 on .*: channel 0: NCCL reports: " "$output")
{ [ $code -eq 1 ] && [ "$lines" -eq 1 ]; } || complain "an asynchronous error: exit code $code, $lines lines"

# Ranks that share a GPU: refused by NCCL itself where it is not told otherwise.
run 2 DOUBLE_DEVICES=1 -- share
[ $code -eq 0 ] || complain "a shared GPU: exit code $code"

[ "$failures" -eq 0 ]
