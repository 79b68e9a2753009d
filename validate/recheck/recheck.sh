#!/usr/bin/env bash
# `pipeleaf recheck` and verify.against='recheck': what passes, what is found and how it is named, what never passes.
# One statement a function; `recheck.sh NAME` checks one.
# Environment: as for said.sh, and PIPELEAF_HARM (the program of that name), PIPELEAF_FLIP_MESSAGE (the library).
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

small=(input/tiny.nml model.layers=7 model.hidden=24 model.heads=3 model.sequence=6 batch.microbatches=4 batch.microbatch_size=2
    run.steps=1 run.warmup_steps=0 run.threads=1 output.timeline=.false. output.directory="$work/out")

run() { # ranks, words...: the small deck, nothing verified
    local start=(launch "$1")
    if [ "$1" = 1 ]; then start=(single); fi
    "${start[@]}" run "${small[@]}" pipeline.ranks="$1" verify.against=none "${@:2}"
    check "the run is done: $*" exits 0
}
run_and_recheck() { # ranks, words...: the same with the recheck in the same job
    local start=(launch "$1")
    if [ "$1" = 1 ]; then start=(single); fi
    "${start[@]}" run "${small[@]}" pipeline.ranks="$1" verify.against=recheck "${@:2}"
}
recheck() { # ranks, words...: a launcher takes seconds over an exit code that is not 0, so 1 is without it
    if [ "$1" = 1 ]; then single recheck "$work/out" "${@:2}"; else launch "$1" recheck "$work/out" "${@:2}"; fi
}
passes() { # what
    check "$1: exit 0" exits 0
    check "$1: SUCCESSFUL" verdict_is SUCCESSFUL
}
is_wrong() { # what
    check "$1: exit 2" exits 2
    check "$1: UNSUCCESSFUL" verdict_is UNSUCCESSFUL
}
is_not_performed() { # what, exit code
    check "$1: exit $2" exits "$2"
    check "$1: NOT PERFORMED" verdict_is "NOT PERFORMED"
}
names() { # words of the first fault, wherever they stand in its lines
    local word
    for word; do
        sed -n '/first fault in dataflow order/,/computed again by\|sent by rank/p' "$work/output" | tr -s '\n ' ' ' | grep -qF -- "$word" ||
            { echo "    the first fault does not name '$word'"; return 1; }
    done
}
faults() { # how many causes, and what may follow from them
    says "in all $1 fault"
}
json_says() { grep -qF -- "$1" "$work/out/recheck.json"; }

right_runs_pass() {
    local words
    # The second word is the number of chunks a rank; 7 layers leave chunks of none where there are more.
    while read -r words; do
        # shellcheck disable=SC2086
        set -- $words
        run_and_recheck "$1" pipeline.chunks_per_rank="$2" pipeline.schedule="$3" "${@:4}"
        passes "$words"
        check "$words: all gradients" says "compared 84 of 84 gradient tensors"
        check "$words: all activations" says "compared 28 of 28 activation tensors"
        check "$words: all hand-overs" says "compared $((8 * ($1 * $2 - 1))) of $((8 * ($1 * $2 - 1))) hand-overs"
    done <<'CASES'
1 1 gpipe output.activations=boundary output.gradients=digest
1 2 zb-v output.parameters=full
1 3 interleaved-1f1b output.activations=boundary
2 1 gpipe output.gradients=digest
2 2 zb-v output.activations=boundary output.parameters=full
2 3 interleaved-1f1b output.activations=boundary output.gradients=digest
2 2 looped-bfs pipeline.layers_per_chunk=0,5,0,2
2 2 interleaved-zb pipeline.layers_per_chunk=3,0,4,0 output.activations=boundary
2 3 interleaved-1f1b pipeline.layers_per_chunk=0,0,7,0,0,0 output.activations=boundary
3 1 zb-h1
3 2 interleaved-1f1b pipeline.self_channels=.true. pipeline.overlap=.false. output.activations=boundary
3 3 interleaved-1f1b pipeline.layers_per_chunk=1,0,1,1,1,0,1,1,1 output.activations=boundary
4 1 gpipe output.activations=boundary
4 2 zb-v pipeline.layers_per_chunk=1,1,1,0,0,2,1,1 pipeline.self_channels=.true. output.activations=boundary
4 3 interleaved-1f1b pipeline.layers_per_chunk=0,1,1,0,1,1,0,1,0,1,1,0 output.activations=boundary output.parameters=full
CASES
    check "the listing names the verdict last" two_last_lines "$work/out/listing.txt" SUCCESSFUL
    check "recheck.txt does too" two_last_lines "$work/out/recheck.txt" SUCCESSFUL
    check "recheck.json says so" json_says '"verification": "SUCCESSFUL"'
    check "result.json lists them" grep -q '"recheck.json"' "$work/out/result.json"
    run 1 pipeline.schedule=1f1b pipeline.chunks_per_rank=1
    check "the next run in that directory removes an earlier recheck" test ! -e "$work/out/recheck.json" -a ! -e "$work/out/recheck.txt"
}

any_number_of_ranks_rechecks() {
    run 3 pipeline.chunks_per_rank=2 output.activations=boundary output.gradients=digest
    (cd "$work/out" && sha256sum -- * >"$work/sums")
    for q in 1 2 3 4; do
        recheck "$q"
        passes "a run of 3 ranks, rechecked by $q"
    done
    check "the run's own files are as they were" bash -c "cd '$work/out' && sha256sum --check --quiet '$work/sums'"
    recheck 1
    check "one rank says which chunks were its own number's" says "2 of 6 chunks were computed again by the device"
    recheck 3
    check "three say nothing of the kind" says_not "computed again by the device"
    recheck 2 run.device=definition run.threads=1
    passes "on another device"
    validate "$work/out/digest.txt" "$work/out/digest.txt"
    check "pipeleaf-validate still reads the run" says "NOT PERFORMED"
    rm -f "$work/out/run.h5" # what the rank files hold is all that is computed from, but the run listed it
    recheck 1
    is_wrong "a file that result.json lists is gone"
    check "it is named" says "run.h5 is missing"
}

injected_faults_are_named() { # four chunks, of layers 0-1, 2-3, 4-5, 6; the recorded step is the second
    local ranks kind layer microbatch words
    while read -r ranks kind layer microbatch words; do
        # shellcheck disable=SC2086
        run_and_recheck "$ranks" pipeline.chunks_per_rank=$((4 / ranks)) $words \
            --inject "step=2,layer=$layer,microbatch=$microbatch,tensor=$kind,element=13,bit=21"
        is_wrong "$kind of layer $layer, p=$ranks $words"
        local chunk=$((layer / 2)) name
        local rank=$((chunk % ranks))
        case $words in *zb-v*) rank=$((chunk < 2 ? chunk : 3 - chunk)) ;; esac
        case $kind in
        activation) name=$(printf 'layers/%04d/activations/%04d' "$layer" "$microbatch") ;;
        activation_gradient) name=$(printf 'layers/%04d/activation_gradients/%04d' "$layer" "$microbatch") ;;
        *) name=$(printf 'layers/%04d/%s' "$layer" "$kind") ;;
        esac
        check "$kind of layer $layer: named with its chunk, rank and host" names "$name" "chunk $chunk " \
            "computed by rank $rank on $(uname -n)" "computed again by rank $(((rank + 1) % ranks)) on"
        case $kind in activation*) check "$kind of layer $layer: and its microbatch" names "microbatch $microbatch" ;; esac
        check "$kind of layer $layer: it is one fault" faults 1
        check "$kind of layer $layer: recheck.json has it" json_says "\"tensor\": \"$name\""
    done <<'CASES'
2 activation 3 2 output.activations=boundary output.gradients=digest
2 gradients/attention.qkv.weight 0 3 pipeline.schedule=zb-v
1 activation 2 1 output.activations=boundary
1 activation 6 3
1 activation_gradient 4 0 output.activations=boundary output.gradients=digest
1 activation_gradient 0 3 output.activations=boundary
1 activation_gradient 5 1 output.activations=full
1 gradients/attention.norm.gain 1 2 output.gradients=digest
1 gradients/mlp.up.bias 3 0 pipeline.schedule=interleaved-zb output.activations=boundary
1 gradients/mlp.down.weight 5 3 output.activations=boundary output.gradients=digest
CASES
    recheck 1
    is_wrong "a recheck afterwards finds it in the files"
    check "which bit it was is said by digest" says "bit 21, if one bit flipped"
    run_and_recheck 1 --inject step=1,layer=3,microbatch=0,tensor=activation,element=13,bit=21
    passes "a fault in a step that is not recorded is not seen"
}

a_message_that_changes_on_its_way_is_named() { # of p=4, gpipe: rank 1 sends 4 activations and 4 gradients a step
    local message tensor to
    for message in "10 layers/0003/activations/0001 2" "15 layers/0002/activation_gradients/0002 0"; do
        # shellcheck disable=SC2086
        set -- $message
        tensor=$2 to=$3
        # shellcheck disable=SC2086
        ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" $PIPELEAF_LAUNCH 4 env LD_PRELOAD="$PIPELEAF_FLIP_MESSAGE" \
            PIPELEAF_FLIP="1 $1 7 20" "$program" run "${small[@]}" pipeline.ranks=4 pipeline.chunks_per_rank=1 pipeline.schedule=gpipe \
            output.activations=boundary verify.against=recheck </dev/null >"$work/output" 2>&1
        code=$?
        is_wrong "message $1 of rank 1"
        check "what arrived is not what was sent" names "$tensor: what arrived is not what was sent" "received by rank $to on" "sent by rank 1 on"
        check "the element is named" says "index 7 = [0,0,7] of [2,6,24]"
        check "it is one fault, and the rest may follow" says "in all 1 fault; "
    done
}

harmed() { # what, then harm's words: a copy of the run is harmed and rechecked
    local what=$1
    shift
    rm -rf "$work/out"
    cp -r "$work/good" "$work/out"
    "$PIPELEAF_HARM" "$@" || check "$what: the file can be harmed" false
    recheck 1
    is_wrong "$what"
}

good_run() { # words...: in $work/good, p=2 v=2: chunks of layers 0-1, 2-3, 4-5, 6
    run 2 "$@"
    mv "$work/out" "$work/good"
}

files_that_changed_are_named() {
    local file=$work/out/rank00001.h5 stored="what lies in the file does not have the digest"
    good_run output.parameters=full
    harmed "an output of a chunk" flip "$file" layers/0003/activations/0002 5 3
    check "it is named" names "layers/0003/activations/0002: $stored" "chunk 1 (layers 2 to 3), microbatch 2" "computed by rank 1 on"
    check "the element is named" says "index 5 = [0,0,5] of [2,6,24]"
    check "and nothing else is a cause" faults 1
    harmed "an output inside a chunk" flip "$file" layers/0002/activations/0000 0 31
    check "it is named" names "layers/0002/activations/0000: $stored"
    harmed "a gradient of an input" flip "$file" layers/0002/activation_gradients/0003 5 0
    check "it is named" names "layers/0002/activation_gradients/0003: $stored"
    harmed "a parameter's gradient" flip "$file" layers/0006/gradients/mlp.down.bias 23 30
    check "it is named" names "layers/0006/gradients/mlp.down.bias: $stored" "chunk 3 (layer 6)"
    harmed "a parameter" flip "$file" layers/0002/parameters/attention.qkv.weight 1 1
    check "it is named" names "layers/0002/parameters/attention.qkv.weight"
    harmed "an input of the step" flip "$work/out/rank00000.h5" inputs/0002 3 7
    check "it is named" names "inputs/0002"
    harmed "a target of the step" flip "$file" targets/0001 3 7
    check "it is named" names "targets/0001"
    harmed "what arrived" arrival "$file" 3
    check "it is named" names "what arrived is not what was sent"
    harmed "a NaN" nan "$file" layers/0003/activations/0002 5
    check "it is named" names "layers/0003/activations/0002: holds a NaN"
    rm -rf "$work/out"
    cp -r "$work/good" "$work/out"
    awk '/^2 loss / { $5 = ($5 ~ /0$/) ? substr($5, 1, 15) "1" : substr($5, 1, 15) "0" } { print }' "$work/good/digest.txt" >"$work/out/digest.txt"
    recheck 1
    is_wrong "a digest's line, of the loss"
    check "it is named" names "step 2, loss: "
}

what_is_missing_never_passes() {
    local file=$work/out/rank00001.h5
    good_run output.activations=boundary output.gradients=digest
    harmed "a tensor that the next chunk needs" remove "$file" layers/0003/activations/0002
    check "it is named" names "layers/0003/activations/0002: is missing in the file of its rank"
    harmed "a gradient of an input" remove "$work/out/rank00000.h5" layers/0004/activation_gradients/0000
    check "it is named" names "layers/0004/activation_gradients/0000: is missing"
    harmed "all that arrived at a rank" remove "$file" received
    check "it is named" names "is missing among what its rank's file says has arrived"
    harmed "a file of another run" text "$file" run_id another
    check "it is named" says "files of different runs"
    check "and nothing is computed" says "nothing was computed again"
    rm "$file"
    recheck 1
    is_wrong "a rank's file"
    check "it is named" says "rank00001.h5 is missing"
    rm -rf "$work/out"
    cp -r "$work/good" "$work/out"
    rm "$work/out/digest.txt"
    recheck 1
    is_wrong "digest.txt"
    check "it is named" says "digest.txt is missing"
    rm -rf "$work/out"
    cp -r "$work/good" "$work/out"
    awk '/^2 layers\/0005\/gradients\/mlp.up.bias / { next } /^# end / { $3-- } { print }' "$work/good/digest.txt" >"$work/out/digest.txt"
    recheck 1
    is_wrong "a line of digest.txt"
    check "it is named" names "layers/0005/gradients/mlp.up.bias: is missing in digest.txt"
    : >"$file"
    recheck 2
    is_not_performed "a rank's file that is none" 1
    check "it is named" errors_with "rank00001.h5"
    check "exactly one of ranks speaks" one_error_line
}

runs_that_recorded_too_little_are_not_performed() {
    run 2 output.activations=digest
    recheck 2
    is_not_performed "no boundaries" 3
    check "what to set is said" says "output.activations='digest'; it must be 'boundary' or 'full', the nearest is 'boundary'"
    check "recheck.json says so" json_says '"verification": "NOT PERFORMED"'
    run 1 output.gradients=none
    recheck 1
    is_not_performed "no gradients" 3
    run 1 run.device=rehearsal
    recheck 1
    is_not_performed "a rehearsal" 3
    check "a rehearsal computed nothing" says "the run was a rehearsal"
    run 1 pipeline.chunks_per_rank=1 pipeline.schedule=gpipe output.activations=boundary
    "$PIPELEAF_HARM" text "$work/out/rank00000.h5" arithmetic "portable of another kind"
    recheck 1
    check "other arithmetic: never SUCCESSFUL" says_not "VERIFICATION = SUCCESSFUL"
    check "other arithmetic: not exit 0" fails
}

refusals_are_one_line() {
    single recheck
    check "without a directory" errors_with "output directory of a run"
    launch 2 recheck "$work/nothing"
    check "a directory that is not there" errors_with "$work/nothing"
    check "exit 1" exits 1
    check "it ends with the verdict" verdict_is "NOT PERFORMED"
    check "and nothing was made" test ! -e "$work/nothing"
    mkdir "$work/empty"
    single recheck "$work/empty"
    check "a directory without a run" errors_with "holds no output of pipeleaf"
    check "nothing was written to it" test -z "$(ls "$work/empty")"
    single recheck "$work/empty" model.layers=3
    check "an override of what was computed" errors_with "recheck takes run.device, run.threads and run.timeout"
    single recheck "$work/empty" run.devise=host
    check "the nearest is named" errors_with "nearest is run.device"
    single recheck "$work/empty" "$work/empty"
    check "two directories" errors_with "one directory only"
    single plan "${small[@]}" pipeline.ranks=2 verify.against=recheck output.activations=none
    check "a deck without boundaries" errors_with "verify.against='recheck' must have output.activations='boundary' or 'full', not 'none'"
    single plan "${small[@]}" pipeline.ranks=2 verify.against=recheck output.gradients=none
    check "a deck without gradients" errors_with "nearest output.gradients='digest'"
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
