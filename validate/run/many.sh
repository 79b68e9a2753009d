#!/usr/bin/env bash
# What a user sees of targets, of several pipelines in one job, and of the files for harnesses. One statement a function;
# `many.sh NAME` checks one. Environment: as for commands.sh.
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

digests=$(echo "$PIPELEAF_SOURCE"/reference/tiny.*.digest)
short=(output.activations=digest output.gradients=digest output.timeline=.false.)

two_by_two() { # words...: two pipelines of two ranks
    launch 4 run input/tiny.nml pipeline.ranks=2 "$@"
}
node_says() { # directory, statuses as a regular expression: of the one host that there is here
    [ "$(wc -l <"$1/nodecheck.txt")" = 1 ] && grep -Eq "^[^ ]+ ($2) " "$1/nodecheck.txt"
}
value_of() { # name, file: of the first such member of a result
    sed -n "s/^ *\"$1\": \([^,]*\),\{0,1\}\$/\1/p" "$2" | head -n 1
}

pipelines_run_side_by_side() {
    local out=$work/many k
    two_by_two output.directory="$out"
    check "two pipelines are done" exits 0
    check "the listing says how many" says "2 pipelines of 2 ranks side by side"
    check "it is what lies in listing.txt" cmp -s "$out/listing.txt" <(sed -n '/^Pipeleaf /,$p' "$work/output")
    check "its last lines have their fixed shape" two_last_lines "$out/listing.txt" SUCCESSFUL
    check "FOM is told from its minimum to its total" grep -Eq '^FOM, tokens/s +min [0-9.E+]+  median [0-9.E+]+  max [0-9.E+]+  total [0-9.E+]+$' "$out/listing.txt"
    check "the job holds nothing but its own files" test "$(cd "$out" && echo *)" = "listing.txt metrics.txt nodecheck.txt pipeline0000 pipeline0001 result.json"
    for k in 0 1; do
        check "pipeline $k is a run of its own" two_last_lines "$out/pipeline000$k/listing.txt" SUCCESSFUL
        check "its files are those of two ranks" test "$(cd "$out/pipeline000$k" && echo rank*)" = "rank00000.h5 rank00001.h5"
        validate "$out/pipeline000$k" "$digests"
        check "pipeleaf-validate passes pipeline $k" verdict_is SUCCESSFUL
    done
    check "both have the same digests" cmp -s <(grep -v '^#' "$out/pipeline0000/digest.txt") <(grep -v '^#' "$out/pipeline0001/digest.txt")
    check "they are two runs" test "$(value_of run_id "$out/pipeline0000/result.json")" != "$(value_of run_id "$out/pipeline0001/result.json")"
    check "the host does not fail" node_says "$out" "PASS|PERF-FAIL"
    validate "$out" "$digests"
    check "pipeleaf-validate takes the job's directory for no run" says "holds a job of 2 pipelines, each a run of its own: give one of them, as in '$out/pipeline0000'"
    check "and gives no verdict" exits 1
    launch 3 run input/tiny.nml pipeline.ranks=1 output.directory="$work/three" output.activations=digest
    check "three pipelines of one rank" two_last_lines "$work/three/listing.txt" SUCCESSFUL
    launch 3 run input/tiny.nml pipeline.ranks=2 output.directory="$out"
    check "a size that is no multiple is refused" errors_with "the MPI size, which is 3, must be a multiple of pipeline.ranks=2: launch 2 or 4 processes, or set pipeline.ranks=1"
    check "with exit 1" exits 1
    check "and nothing is touched" test -e "$out/pipeline0001/rank00001.h5"

    echo mine >"$out/notes.txt"
    echo mine >"$out/pipeline0001/notes.txt"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}"
    check "one pipeline after two is verified" verdict_is SUCCESSFUL
    check "their files are gone, all but foreign ones" test "$(cd "$out" && echo ./* pipeline*/*)" = "./digest.txt ./listing.txt ./metrics.txt ./nodecheck.txt ./notes.txt ./pipeline0001 ./rank00000.h5 ./rank00001.h5 ./result.json ./run.h5 pipeline0001/notes.txt"
    two_by_two output.directory="$out" "${short[@]}"
    check "two after one are verified" verdict_is SUCCESSFUL
    check "its files are gone, all but foreign ones" test "$(cd "$out" && echo ./*)" = "./listing.txt ./metrics.txt ./nodecheck.txt ./notes.txt ./pipeline0000 ./pipeline0001 ./result.json"
    single reference input/tiny.nml run.seed=5 output.directory="$out"
    two_by_two output.directory="$out" run.seed=5 "${short[@]}"
    check "a reference in the job's directory is every pipeline's" verdict_is SUCCESSFUL
}

a_fault_in_one_pipeline_is_named() {
    local out=$work/many fault=step=4,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3
    two_by_two output.directory="$out" "${short[@]}" --inject "$fault,pipeline=1"
    check "the job is wrong" exits 2
    check "and says so" two_last_lines "$out/listing.txt" UNSUCCESSFUL
    check "the pipeline is named, and the rank" grep -q '^pipeline 1 is WRONG (INJECTED), the first difference on rank 3 of the job, its rank 1; pipeline0001/listing.txt says more$' "$work/output"
    check "with its hosts and devices" test "$(grep -c '^    rank [23] on ' "$work/output")" -ge 2
    check "and no other" says_not "pipeline 0 is WRONG"
    check "the other is right" two_last_lines "$out/pipeline0000/listing.txt" SUCCESSFUL
    check "and not told to be injected" test -z "$(grep -l INJECTED "$out/pipeline0000/listing.txt")"
    check "the wrong one tells the element" grep -q "index 77" "$out/pipeline0001/listing.txt"
    check "the host fails" node_says "$out" FAIL
    check "for the fault" grep -q "pipeline 1 is wrong (INJECTED), first on rank 3 here" "$out/nodecheck.txt"
    check "the wrong pipeline's own file says so" node_says "$out/pipeline0001" FAIL
    check "and the right one's does not" node_says "$out/pipeline0000" PASS
    two_by_two output.directory="$out" "${short[@]}" --inject "$fault"
    check "a fault that names no pipeline is the first one's" says "pipeline 0 is WRONG"
    check "alone" says_not "pipeline 1 is WRONG"
    two_by_two output.directory="$out" --inject "$fault,pipeline=2"
    check "a pipeline that is not there is refused" errors_with "--inject: pipeline=2: must be a whole number from 0 to 1; the nearest is 1"
    two_by_two output.directory="$out" "${short[@]}" verify.against="$work/nothing"
    check "a reference that is not there: exit 3" exits 3
    check "and no pass" two_last_lines "$out/listing.txt" "NOT PERFORMED"
    check "of any host" node_says "$out" FAIL
}

a_slow_pipeline_is_named() {
    local words=(input/tiny.nml pipeline.ranks=2 run.steps=9 model.hidden=128 output.directory="$work/slow" "${short[@]}")
    single reference "${words[@]}"
    program=validate/run/slow_rank.sh launch 4 3 "$PIPELEAF/pipeleaf" run "${words[@]}"
    if [ "$code" = 77 ]; then cat "$work/output"; exit 77; fi
    check "a slow pipeline is no wrong one" exits 0
    check "it is named" grep -Eq '^pipeline 1 is SLOW: [0-9.]+ % below the median' "$work/output"
    check "with its hosts and devices" test "$(grep -c '^    rank [23] on ' "$work/output")" = 2
    check "the other is not" says_not "pipeline 0 is SLOW"
    check "the host is slow, and not wrong" node_says "$work/slow" PERF-FAIL
    check "the metrics count it" grep -qx 'pipelines_slow=1' "$work/slow/metrics.txt"
    grep -E '^ +[01]  ' "$work/output"
}

targets_are_kept() {
    local out=$work/out
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1.0 target.bubble_max=1.0
    check "targets that are met: exit 0" exits 0
    check "each is told" test "$(grep -Ec '^(FOM, tokens/s, at least|bubble, idle/step, at most) .* met$' "$work/output")" = 2
    check "the host passes" node_says "$out" PASS
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1e20
    check "a missed FOM: exit 5" exits 5
    check "though the answer is right" two_last_lines "$out/listing.txt" SUCCESSFUL
    check "target and value are told" grep -Eq '^FOM, tokens/s, at least +1\.000000E\+20 +[0-9.]+E\+[0-9]+  MISSED$' "$work/output"
    check "the host is slow, and not wrong" node_says "$out" PERF-FAIL
    check "the metrics have the exit code" grep -qx 'exit_code=5' "$out/metrics.txt"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1.0 target.bubble_max=1e-9
    check "a missed bubble: exit 5" exits 5
    check "the other target is met" test "$(grep -Ec '(met|MISSED)$' "$work/output")" = 2
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1e20 --inject step=2,layer=3,microbatch=5,tensor=activation,element=7,bit=3
    check "wrong and slow: exit 2" exits 2
    check "the target is told all the same" says "MISSED"
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1e20 verify.against="$work/nothing"
    check "not verified and slow: exit 3" exits 3
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1e20 verify.against=none
    check "slow, and no verdict asked for: exit 5" exits 5
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$out" run.device=rehearsal machine.forward=1e-4 machine.backward=2e-4 target.fom=1.0
    check "a target that cannot be measured: exit 5" exits 5
    check "and said" grep -Eq '^FOM, tokens/s, at least +1\.000000E\+00 +NOT MEASURED  MISSED$' "$work/output"
    launch 4 run input/tiny.nml pipeline.ranks=2 output.directory="$out" "${short[@]}" target.fom=1e20
    check "one that several pipelines miss: exit 5" exits 5
    check "is held against the worst" says "of the worst pipeline"
    launch 2 run input/tiny.nml pipeline.ranks=2 target.fom=-1
    check "a target below nothing is refused" errors_with "target.fom=-1: must be"
}

pipelines_are_rehearsed() {
    two_by_two output.directory="$work/many" run.device=rehearsal machine.forward=1e-3 machine.backward=2e-3
    check "a rehearsal of two pipelines is done" exits 0
    check "all their messages were right" says "REHEARSAL: 480 of 480 messages right"
    check "there is no verdict" two_last_lines "$work/many/listing.txt" "NOT PERFORMED"
    check "no FOM" says "FOM = NOT MEASURED"
    check "and no pass for the host" node_says "$work/many" FAIL
    check "each has its own files" test -e "$work/many/pipeline0001/rank00001.h5"
}

two_that_run_on() { # directory, words...: two pipelines of two ranks that do not end by themselves
    local directory=$1
    shift
    start_and_find 4 '^-- pipelines' "$directory" run input/tiny.nml pipeline.ranks=2 run.steps=200000 output.activations=none output.gradients=none "$@"
    sleep 0.5
}

one_pipeline_ends_the_job() {
    local launcher victim
    two_that_run_on "$work/hang" run.timeout=1.5
    kill -STOP "$victim"
    wait "$launcher"
    code=$?
    kill -KILL "$victim" 2>/dev/null
    check "a rank of one pipeline hangs: exit 4" exits 4
    check "a rank of the other says what it waits for" grep -Eq '^pipeleaf: timeout: rank [01] on [^ ]+: no action completed anywhere for .*pipeline 0 rank [01]: last done' "$work/output"
    check "the job has no verdict" grep -q '"verification": "NOT PERFORMED"' "$work/hang/result.json"
    check "and no pass" node_says "$work/hang" FAIL
    check "nor has a pipeline" node_says "$work/hang/pipeline0000" FAIL
    two_by_two output.directory="$work/hang" "${short[@]}"
    check "the next job there is verified" verdict_is SUCCESSFUL
    check "and leaves nothing half-written" test -z "$(find "$work/hang" -name '*.part')"
    two_that_run_on "$work/kill"
    kill -KILL "$victim"
    wait "$launcher"
    code=$?
    check "a rank of one pipeline dies: the job fails" fails
    sleep 0.5
    check "no rank is left" test -z "$(pgrep -f "output.directory=$work/kill")"
}

results_follow_the_schema() {
    local launcher victim
    /usr/bin/python3 -c 'import jsonschema' 2>/dev/null || { echo "skipped: no python3-jsonschema"; exit 77; }
    single reference input/tiny.nml output.directory="$work/run" verify.steps=all
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/run" "${short[@]}" target.fom=1e20
    check "a run that misses its target" exits 5
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/wrong" "${short[@]}" --inject step=2,layer=3,microbatch=5,tensor=activation,element=7,bit=3
    check "a wrong run" exits 2
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/unasked" "${short[@]}" run.seed=3
    check "a run that is not verified" exits 0
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/rehearsal" run.device=rehearsal machine.forward=1e-4 machine.backward=2e-4
    check "a rehearsal" exits 0
    two_by_two output.directory="$work/many" "${short[@]}" target.bubble_max=1.0 --inject step=2,layer=3,microbatch=5,tensor=activation,element=7,bit=3,pipeline=1
    check "two pipelines, one wrong" exits 2
    two_by_two output.directory="$work/several" run.device=rehearsal machine.forward=1e-4 machine.backward=2e-4 target.fom=1.0
    check "a rehearsal of two pipelines" exits 5
    two_that_run_on "$work/ended"
    kill -TERM "$launcher"
    wait "$launcher"
    code=$?
    check "a job that is ended from outside" fails
    /usr/bin/python3 validate/run/check_results.py validate/result.schema.json "$work"/{run,wrong,unasked,rehearsal,many,many/pipeline0000,many/pipeline0001,several,several/pipeline0001,ended,ended/pipeline0001} >"$work/output" 2>&1
    code=$?
    cat "$work/output"
    [ "$code" != 77 ] || exit 77
    check "all follow the schema, and their files say the same" exits 0
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
