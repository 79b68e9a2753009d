#!/usr/bin/env bash
# What a user sees: the commands, their exit codes, last lines, files. One statement a function; `commands.sh NAME` checks one.
# Environment: PIPELEAF_LAUNCH ("mpiexec -n"), PIPELEAF (the folder of the programs), PIPELEAF_SOURCE (the source tree),
# PIPELEAF_WRONG_MESSAGE and PIPELEAF_COUNT_ALLOCATIONS (the libraries of those names).
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

run_and_reference_agree() {
    single reference input/tiny.nml output.directory="$work/tiny"
    check "the reference is done" exits 0
    launch 4 run input/tiny.nml output.directory="$work/tiny" verify.against="$work/tiny"
    check "the run is verified" exits 0
    check "the listing ends in its fixed shape" two_last_lines "$work/tiny/listing.txt" SUCCESSFUL
    check "all gradient tensors were compared" says "96 of 96"
    for pair in "tiny" "tiny tiny" "tiny/digest.txt tiny/reference.digest" "tiny/run.h5 tiny/reference.h5" "tiny tiny/reference.digest" "tiny/digest.txt tiny/reference.h5"; do
        # shellcheck disable=SC2086
        (cd "$work" && "$PIPELEAF/pipeleaf-validate" $pair) >"$work/output" 2>&1
        code=$?
        check "pipeleaf-validate $pair passes" exits 0
        check "pipeleaf-validate $pair says so last" verdict_is "SUCCESSFUL"
    done
    if command -v h5diff >/dev/null; then
        check "h5diff finds the files equal" h5diff --follow-symlinks "$work/tiny/run.h5" "$work/tiny/reference.h5" /layers
    fi
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/tiny" verify.against=none
    check "a run at p=2 after one at p=4 is done" exits 0
    check "the rank files of the earlier run are gone" test ! -e "$work/tiny/rank00003.h5"
    check "the reference's files are still there" test -e "$work/tiny/reference.h5"
    check "nothing half-written is left" test -z "$(find "$work/tiny" -name '*.part')"
}

shipped_digests_hold() {
    for p in 1 2 3 4; do
        launch "$p" run input/tiny.nml pipeline.ranks="$p" output.directory="$work/out" output.activations=digest output.gradients=digest
        check "tiny at p=$p has the shipped digests" exits 0
        check "tiny at p=$p says so" verdict_is "SUCCESSFUL"
    done
    for set in avx512 avx2 generic; do
        export PIPELEAF_INSTRUCTION_SET=$set
        launch 1 run input/tiny.nml pipeline.ranks=1 run.threads=1 output.directory="$work/out" output.activations=digest output.gradients=digest
        unset PIPELEAF_INSTRUCTION_SET
        if says "PIPELEAF_INSTRUCTION_SET"; then
            echo "$set: not on this CPU"
        else
            check "tiny on $set has the shipped digests" verdict_is "SUCCESSFUL"
        fi
    done
    launch 4 run input/tiny.nml batch.microbatches=4 batch.microbatch_size=4 output.directory="$work/out" output.activations=digest output.gradients=digest
    check "another split of the same sequences has the shipped digests" verdict_is "SUCCESSFUL"
    launch 3 run input/uneven.nml output.directory="$work/out" output.activations=digest output.gradients=digest
    check "uneven (p=3, v=3) has the shipped digests" verdict_is "SUCCESSFUL"
    launch 4 run input/textbook.nml output.directory="$work/out" output.activations=digest output.gradients=digest
    check "textbook has the shipped digests" verdict_is "SUCCESSFUL"
    launch 4 run input/tiny.nml run.seed=1 output.directory="$work/out" output.activations=digest output.gradients=digest
    check "another seed has no shipped digests and is not verified" verdict_is "NOT PERFORMED"
    check "which is no failure, since nothing was asked for by name" exits 0
}

a_flipped_bit_is_found() {
    single reference input/tiny.nml output.directory="$work/tiny" verify.steps=all
    launch 4 run input/tiny.nml output.directory="$work/tiny" verify.against="$work/tiny" --inject step=5,layer=3,microbatch=7,tensor=gradients/mlp.up.weight,element=77,bit=3
    check "the verdict is UNSUCCESSFUL" verdict_is "UNSUCCESSFUL"
    check "the exit code is 2" exits 2
    check "the listing says INJECTED" says "INJECTED"
    check "the tensor is named" says "layers/0003/gradients/mlp.up.weight"
    check "the element is named" says "77"
    check "the flipped bit is the XOR" says "00000008"
    check "listing.txt says so too" two_last_lines "$work/tiny/listing.txt" UNSUCCESSFUL
    validate "$work/tiny"
    check "pipeleaf-validate finds it as well" exits 2
    validate "$work/tiny/digest.txt" "$work/tiny/reference.digest"
    check "by digests alone too" exits 2
    check "digests alone name the tensor" says "layers/0003/gradients/mlp.up.weight"
    check "digests alone name the element" says "77"
    launch 4 run input/tiny.nml output.directory="$work/tiny" verify.against="$work/tiny/reference.digest" --inject step=2,layer=3,microbatch=5,tensor=activation,element=77,bit=30
    check "a flipped activation in a timed step is found" exits 2
    check "at the place it was put" says "layers/0003/activations/0005"
    check "in the step it was put" says "step 2"
}

verdicts_are_never_given_for_nothing() {
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/out" verify.against="$work/nothing"
    check "a reference that is not there: NOT PERFORMED" verdict_is "NOT PERFORMED"
    check "asked for by name: exit 3" exits 3
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/out" output.gradients=none verify.against=reference
    check "no gradients: never SUCCESSFUL" says_not "VERIFICATION = SUCCESSFUL"
    check "no gradients: exit 3" exits 3
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/out"
    rm -f "$work/out/rank00001.h5"
    single reference input/tiny.nml output.directory="$work/out"
    validate "$work/out"
    check "a missing rank file: never SUCCESSFUL" says_not "VERIFICATION = SUCCESSFUL"
    check "a missing rank file: not exit 0" fails
}

threads_bound_by_openmp_are_counted_right() {
    if [ "$(env -u OMP_NUM_THREADS nproc)" -lt 2 ]; then echo "needs two CPUs"; exit 77; fi
    local small=(model.layers=4 run.steps=2 output.directory="$work/out" verify.against=none)
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none OMP_PROC_BIND=close OMP_PLACES=cores
    launch 1 run input/tiny.nml pipeline.ranks=1 run.threads=2 "${small[@]}"
    check "a run of two threads, bound by OpenMP, is done" exits 0
    check "each has a CPU" says_not "OVERSUBSCRIBED"
    check "the share of the peak is measured" says_not "share of FMA peak NOT MEASURED"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.threads=1 "${small[@]}"
    check "a run of two ranks, bound by OpenMP alone, is done" exits 0
    check "both are on the first CPU" says "OVERSUBSCRIBED"
}

refusals_are_one_line() {
    launch 3 run input/tiny.nml output.directory="$work/out"
    check "ranks=4 on 3 processes: exit 1" exits 1
    check "ranks=4 on 3 processes: one line with rule and values" errors_with "ranks"
    launch 2 run input/tiny.nml pipeline.ranks=2 model.hiden=64
    check "an unknown name suggests the nearest" errors_with "hidden"
    launch 2 run "$work/no.nml"
    check "a missing deck is named" errors_with "$work/no.nml"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory=/proc/nothing
    check "a directory that cannot be made: exit 1" exits 1
    launch 2 run input/tiny.nml pipeline.ranks=2 --inject step=1,layer=99,microbatch=0,tensor=activation,element=0,bit=0
    check "an injection outside the model gives the nearest legal value" errors_with "nearest is 7"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.device=cuda
    check "device cuda without CUDA" exits 1
    single plan input/tiny.nml pipeline.schedule=gpipe
    check "gpipe with v=2 names looped-bfs" errors_with "looped-bfs"
    single plan input/tiny.nml pipeline.schedule=1f1b
    check "1f1b with v=2 names interleaved-1f1b" errors_with "interleaved-1f1b"
    single reference
    check "reference without a deck" errors_with "deck"
    OMP_NUM_THREADS=9999999 single reference input/tiny.nml output.directory="$work/out"
    check "threads that no machine has" errors_with "OMP_NUM_THREADS=9999999: must be a whole number from 1 to 4096"
    single frobnicate
    check "an unknown command" errors_with "unknown command"
    single run
    check "run without a deck" errors_with "deck"
}

a_stopped_rank_ends_the_job() {
    mkfifo "$work/pipe"
    local start
    start=$(date +%s)
    local launcher victim
    start_and_find 3 '^-- plan' "$work/hang" run input/tiny.nml pipeline.ranks=3 run.steps=200000 run.timeout=2.0 output.activations=none output.gradients=none
    sleep 1
    kill -STOP "$victim"
    wait "$launcher"
    code=$?
    kill -KILL "$victim" 2>/dev/null
    check "the job ends with exit 4" exits 4
    check "a rank says what it waited for" says "last done"
    check "within the timeout and little more" test $(($(date +%s) - start)) -lt 30
    check "no file bears a final name" test -z "$(find "$work/hang" -name 'rank*.h5' -o -name digest.txt -o -name listing.txt)"
    check "result.json says that nothing was verified" grep -q '"verification": "NOT PERFORMED"' "$work/hang/result.json"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/hang"
    check "the next run in that directory removes what was left" test -z "$(find "$work/hang" -name '*.part' -o -name rank00002.h5)"
    check "and is verified" verdict_is SUCCESSFUL
}

a_killed_rank_ends_the_job() {
    local launcher victim
    start_and_find 3 '^-- plan' "$work/kill" run input/tiny.nml pipeline.ranks=3 run.steps=200000 output.activations=none output.gradients=none
    kill -KILL "$victim"
    wait "$launcher"
    code=$?
    check "the job fails" fails
    sleep 0.5
    check "no rank is left" test -z "$(pgrep -f "output.directory=$work/kill")"
}

rehearse() { # ranks, chunks a rank, schedule, milliseconds of a chunk's F and B, words...
    local p=$1 v=$2 schedule=$3 forward backward
    forward=$(awk "BEGIN { print $4 / 3000 }") backward=$(awk "BEGIN { print $4 / 1500 }")
    shift 4
    launch "$p" run input/tiny.nml pipeline.ranks="$p" pipeline.chunks_per_rank="$v" model.layers=$((p * v)) pipeline.schedule="$schedule" \
        batch.microbatches=16 run.device=rehearsal machine.forward="$forward" machine.backward="$backward" output.directory="$work/rehearsal" "$@"
}
bubble_is() { # idle/step of the rehearsal, to within 0.02
    local measured
    measured=$(sed -n 's/.*"bubble_of_step": \([0-9.eE+-]*\).*/\1/p' "$work/rehearsal/result.json")
    echo "    bubble $measured, closed form $1"
    awk "BEGIN { exit !($measured > 0 && $measured - $1 < 0.02 && $1 - $measured < 0.02) }"
}

a_rehearsal_keeps_its_times() {
    # Five steps, whose median counts: eight ranks take turns on perhaps two cores, where a hop takes up to half a millisecond.
    rehearse 8 2 interleaved-1f1b 50 run.steps=5
    check "a rehearsal is done" exits 0
    check "every message was right" says "REHEARSAL: 3360 of 3360 messages right" # 7 steps * 16 microbatches * 15 hand-overs * 2
    check "nothing was verified" two_last_lines "$work/rehearsal/listing.txt" "NOT PERFORMED"
    check "there is no figure of merit" says "FOM = NOT MEASURED"
    check "there are no digests" test ! -e "$work/rehearsal/digest.txt"
    check "interleaved, p=8 v=2 m=16, 50 ms a chunk: the bubble is that of the closed form" bubble_is 0.179487
    rehearse 8 1 1f1b 100 run.steps=3 run.warmup_steps=0
    check "1f1b, p=8 m=16, 100 ms a chunk: the bubble is that of the closed form" bubble_is 0.304348
    rehearse 4 2 zb-v 1 run.steps=1
    check "a schedule of I and W, with hand-overs on a rank, is rehearsed" says "REHEARSAL: 672 of 672 messages right"
    rehearse 4 2 interleaved-1f1b 1 verify.against="$work"
    check "asked for a verdict by name: exit 3" exits 3
    rehearse 4 2 interleaved-1f1b 1 --inject step=1,layer=0,microbatch=0,tensor=activation,element=0,bit=0
    check "a fault cannot be injected" errors_with "computes nothing"
    rehearse 2 1 1f1b 1 model.hidden=1 model.heads=1 model.sequence=2 batch.microbatch_size=2
    check "a message too small for a stamp is refused" errors_with "a message of 16 bytes"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/measured"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.device=rehearsal --from "$work/measured" output.directory="$work/rehearsal"
    check "a measured run is rehearsed" says "REHEARSAL: 240 of 240 messages right"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.device=rehearsal --from "$work/nothing" output.directory="$work/rehearsal"
    check "a measured run that is not there is named" errors_with "$work/nothing"
    launch 2 run input/tiny.nml pipeline.ranks=2 --from "$work/measured" output.directory="$work/rehearsal"
    check "what computes takes no times from elsewhere" errors_with "only run.device='rehearsal'"
    launch 2 run input/175b.nml pipeline.ranks=2 pipeline.chunks_per_rank=1 batch.microbatches=2 run.device=rehearsal run.transport=mpi run.steps=1 run.warmup_steps=0 machine.flop_rate=1e18 output.directory="$work/rehearsal"
    check "the messages of the 175b deck are bf16" says "in messages of 48.00 MiB"
    check "and arrive" says "REHEARSAL: 8 of 8 messages right"
    single reference input/tiny.nml run.device=rehearsal output.directory="$work/rehearsal"
    check "a reference is no rehearsal" errors_with "computes nothing"
}

steps_allocate_nothing() {
    if ldd "$PIPELEAF/pipeleaf" | grep -qE 'lib[at]san'; then echo "the sanitizer's allocator comes first"; exit 77; fi
    local steps=20 words rank
    for words in "run.threads=1" "run.threads=2" "pipeline.overlap=.false." "pipeline.schedule=1f1b pipeline.chunks_per_rank=1" \
        "run.progress=1e-6"; do
        rm -f "$work"/allocations.*
        # shellcheck disable=SC2086
        $PIPELEAF_LAUNCH 2 env LD_PRELOAD="$PIPELEAF_COUNT_ALLOCATIONS" PIPELEAF_ALLOCATIONS="$work/allocations" \
            "$PIPELEAF/pipeleaf" run input/tiny.nml pipeline.ranks=2 run.steps=$steps verify.against=none output.directory="$work/out" \
            $words >"$work/output" 2>&1
        code=$?
        check "$words: a run under the counter is done" exits 0
        for rank in 0 1; do
            cp "$work/allocations.$rank" "$work/output"
            check "$words: rank $rank's counter saw set-up allocate" grep -q '^program main .*/pipeleaf ' "$work/output"
            check "$words: and had room for all" says "unnoted 0"
            # shellcheck disable=SC2016 # awk's own dollars
            check "$words: the program allocates nothing from its first step to its last" \
                awk -v steps=$steps '$1 == "stretch" { exit !($2 >= steps) }' "$work/output"
            check "$words: nor does GCC's OpenMP" says_not /libgomp
            grep -E '^(mpi|openmp)' "$work/output" | sed "s/^/    $words, rank $rank, $steps steps: /"
        done
    done
}

a_wrong_message_is_found() {
    local words="model.layers=8 output.directory=$work/wrong"
    # shellcheck disable=SC2086
    ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" $PIPELEAF_LAUNCH 4 env LD_PRELOAD="$PIPELEAF_WRONG_MESSAGE" "$PIPELEAF/pipeleaf" run input/tiny.nml run.device=rehearsal $words >"$work/output" 2>&1
    code=$?
    check "a rehearsal counts it" says "REHEARSAL: 559 of 560 messages right"
    check "the listing names rank, channel and both messages" grep -Eq 'rank [0-3]: channel [0-9]+ \((activations|gradients), rank 1 to rank [0-3]\): expected .* microbatch [0-9]+ of step 1, found .* microbatch [0-9]+ of step 1' <(unfolded)
    check "nothing was verified" verdict_is "NOT PERFORMED"
    check "the exit code is 2" exits 2
    # shellcheck disable=SC2086
    ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" $PIPELEAF_LAUNCH 4 env LD_PRELOAD="$PIPELEAF_WRONG_MESSAGE" "$PIPELEAF/pipeleaf" run input/tiny.nml $words >"$work/output" 2>&1
    code=$?
    check "the run itself finds it by its bits" verdict_is "UNSUCCESSFUL"
    check "and ends with exit 2" exits 2
}

plan_needs_no_launch() {
    single plan input/textbook.nml
    check "plan is done" exits 0
    for layers in "1-4 17-20" "5-8 21-24" "9-12 25-28" "13-16 29-32"; do check "a rank holds layers $layers" says "$layers"; done
    for deck in 13b 175b 120b tiny small uneven; do
        single plan "input/$deck.nml"
        check "plan of $deck" exits 0
    done
    single deck input/tiny.nml
    cp "$work/output" "$work/effective.nml"
    single deck "$work/effective.nml"
    check "the effective deck is a deck and reads to itself" cmp -s "$work/output" "$work/effective.nml"
    single --help
    for command in run reference plan deck; do check "help names $command" says "pipeleaf $command"; done
}

gradients_are_those_of_autograd() {
    launch 3 run input/uneven.nml output.directory="$work/out" output.parameters=full output.activations=full output.gradients=full
    check "uneven runs" exits 0
    /usr/bin/python3 validate/run/compare_torch.py "$work/out" >"$work/output" 2>&1
    code=$?
    if [ "$code" = 77 ]; then cat "$work/output"; exit 77; fi
    check "uneven: gradients are those of PyTorch in float64" exits 0
    grep compared "$work/output"
    launch 2 run input/tiny.nml pipeline.ranks=2 model.hidden=512 model.heads=8 batch.microbatches=2 batch.microbatch_size=1 output.directory="$work/out" output.parameters=full
    /usr/bin/python3 validate/run/compare_torch.py "$work/out" >"$work/output" 2>&1
    code=$?
    check "hidden 512, depth 8: gradients are those of PyTorch in float64" exits 0
    grep compared "$work/output"
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
