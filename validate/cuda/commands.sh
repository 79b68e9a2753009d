#!/usr/bin/env bash
# The CUDA build as a user sees it, on the CPU double of a GPU (validate/double): `commands.sh NAME` checks one statement.
# Environment: that of validate/said.sh, and DOUBLE_* as validate/double/README.md says.
set -uo pipefail
# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

digests=(output.activations=digest output.gradients=digest)
nccl=(run.device=cuda run.transport=nccl run.share_device=.true.)

# Tiny at ranks $1 with the words $2...: the digests that every machine has.
golden() {
    local ranks=$1
    shift
    launch "$ranks" run input/tiny.nml pipeline.ranks="$ranks" output.directory="$work/out" "${digests[@]}" "$@"
    check "tiny at p=$ranks, $*: exit 0 (DOUBLE_ORDER=${DOUBLE_ORDER:-})" exits 0
    check "tiny at p=$ranks, $*: SUCCESSFUL" verdict_is SUCCESSFUL
}

# A smaller model for what needs many runs, compared with the host's reference of it, made once.
mini=(model.hidden=32 model.heads=2 model.sequence=16 batch.microbatch_size=1 run.steps=2 "${digests[@]}")
against_host() { # ranks, word...: leaves the exit code in $code
    if [ ! -e "$work/host/reference.digest" ]; then
        "$program" reference input/tiny.nml "${mini[@]}" verify.steps=all run.device=host output.directory="$work/host" >"$work/output" 2>&1 || exit 1
    fi
    local ranks=$1
    shift
    launch "$ranks" run input/tiny.nml "${mini[@]}" pipeline.ranks="$ranks" run.device=cuda run.timeout=60 verify.against="$work/host/reference.digest" output.directory="$work/out" "$@"
}
has_the_hosts_bits() {
    against_host "$@"
    check "p=$*: the host's bits (DOUBLE_ORDER=${DOUBLE_ORDER:-})" exits 0
}

tiny_has_the_golden_digests() {
    for p in 1 2 4; do golden "$p" "${nccl[@]}"; done
    check "all gradients were compared" says "96 of 96"
    check "the ranks' GPUs are named" says "GPU-"
    golden 4 "${nccl[@]}" pipeline.overlap=.false.
    golden 2 run.device=cuda run.transport=mpi
    golden 1 "${nccl[@]}" pipeline.self_channels=.true. pipeline.chunks_per_rank=4
    golden 2 "${nccl[@]}" pipeline.schedule=zb-v
}

shared=(run.transport=nccl run.share_device=.true.)
self=(run.transport=nccl pipeline.self_channels=.true. pipeline.chunks_per_rank=4)

order_of_streams_does_not_show() {
    for order in lazy eager random:2 random:3; do
        export DOUBLE_ORDER=$order
        has_the_hosts_bits 2 "${shared[@]}"
        has_the_hosts_bits 1 "${self[@]}"
        has_the_hosts_bits 2 run.transport=mpi
        has_the_hosts_bits 2 "${shared[@]}" pipeline.overlap=.false.
    done
    export DOUBLE_ORDER=random:4 DOUBLE_LAUNCH_LIMIT=32 # operations of a stream: more than those of all receives posted ahead
    has_the_hosts_bits 3 "${shared[@]}"
    unset DOUBLE_LAUNCH_LIMIT
    export DOUBLE_QUEUES=32
    has_the_hosts_bits 4 "${shared[@]}"
}

vendor_mode_agrees_with_its_own_reference() {
    local precision
    for precision in fp32 tf32 bf16; do
        local words=("${mini[@]}" run.device=cuda arithmetic.mode=vendor arithmetic.precision="$precision" output.directory="$work/$precision")
        single reference input/tiny.nml verify.steps=all "${words[@]}"
        check "$precision: the reference is done" exits 0
        check "$precision: the listing names the algorithms" says "split-k"
        for p in 1 2; do
            launch "$p" run input/tiny.nml pipeline.ranks="$p" "${words[@]}" run.transport=nccl run.share_device=.true. verify.against="$work/$precision/reference.digest"
            check "$precision at p=$p has its reference's bits" exits 0
        done
        launch 2 run input/tiny.nml pipeline.ranks=2 "${words[@]}" run.transport=mpi pipeline.schedule=interleaved-zb verify.against="$work/$precision/reference.digest"
        check "$precision: over MPI, backward in halves, the same bits" exits 0
        cp -r "$work/$precision/reference.digest" "$work/$precision.digest"
    done
    check "fp32 and bf16 have other gradients" test "$(grep -c . "$work/fp32.digest")" = "$(grep -c . "$work/bf16.digest")" -a \
        "$(grep gradients/mlp.up.weight "$work/fp32.digest" | md5sum)" != "$(grep gradients/mlp.up.weight "$work/bf16.digest" | md5sum)"
    launch 1 run input/tiny.nml pipeline.ranks=1 "${mini[@]}" run.device=cuda arithmetic.mode=vendor output.directory="$work/other" pipeline.channel_ctas=1 verify.against="$work/fp32.digest"
    check "other SMs left free: no verdict, for the bits may differ" test "$code" != 0
    check "which is said" says "different computations"
    sed 's/^# arithmetic vendor/& of another machine/' "$work/fp32.digest" >"$work/elsewhere.digest"
    launch 1 run input/tiny.nml pipeline.ranks=1 "${mini[@]}" run.device=cuda arithmetic.mode=vendor output.directory="$work/other" verify.against="$work/elsewhere.digest"
    check "a reference of another GPU or library: no verdict" test "$code" != 0
    check "which is said, too" says "different arithmetic"
}

a_flipped_bit_is_found() {
    launch 2 run input/tiny.nml pipeline.ranks=2 "${nccl[@]}" "${digests[@]}" output.directory="$work/out" --inject step=5,layer=5,microbatch=3,tensor=gradients/mlp.up.weight,element=77,bit=20
    check "a flipped bit: exit 2" exits 2
    check "its tensor is named" says "mlp.up.weight"
}

a_run_is_computed_again() {
    local boundaries=(output.activations=boundary output.gradients=digest output.directory="$work/out" run.timeout=60) words
    for words in "" "arithmetic.mode=vendor arithmetic.precision=bf16"; do
        # shellcheck disable=SC2086 # words
        launch 2 run input/tiny.nml pipeline.ranks=2 "${mini[@]:0:5}" "${nccl[@]}" "${boundaries[@]}" $words verify.against=recheck
        check "$words: the recheck finds nothing" verdict_is SUCCESSFUL
        # shellcheck disable=SC2086 # words
        launch 2 run input/tiny.nml pipeline.ranks=2 "${mini[@]:0:5}" "${nccl[@]}" "${boundaries[@]}" $words verify.against=recheck \
            --inject step=4,layer=5,microbatch=3,tensor=activation_gradient,element=77,bit=22
        check "$words: a flipped bit: exit 2" exits 2
        check "$words: it is named" says "layers/0005/activation_gradients/0003"
        launch 2 recheck "$work/out"
        check "$words: by the files alone too" exits 2
    done
    launch 2 recheck "$work/out" run.device=host
    check "vendor's bits are not computed again on a host" test "$code" != 0
    launch 2 run input/tiny.nml pipeline.ranks=2 "${mini[@]:0:5}" "${nccl[@]}" "${boundaries[@]}" verify.against=none
    launch 3 recheck "$work/out" run.device=host
    check "portable ones are" verdict_is SUCCESSFUL
}

every_dropped_wait_is_caught() { # the bits are wrong, or the run ends otherwise, in one order of the streams or another
    export DOUBLE_LIST_WAITS=$work/waits DOUBLE_ORDER=lazy
    has_the_hosts_bits 2 "${shared[@]}"
    has_the_hosts_bits 1 "${self[@]}"
    has_the_hosts_bits 2 run.transport=mpi
    has_the_hosts_bits 2 "${shared[@]}" pipeline.overlap=.false.
    unset DOUBLE_LIST_WAITS
    # What nothing can come of: the probe only gets weaker without compute_waits_for_channel, and a copy to ordinary memory,
    # which all downloads are, is over when it returns.
    sed 's/:.*//' "$work/waits" | sort -u | grep -vx -e compute_waits_for_channel -e download >"$work/functions"
    check "there are waits" test "$(grep -c . "$work/functions")" -ge 8
    local name caught order
    while read -r name; do
        caught=no
        for order in lazy eager random:1 random:2 random:3; do
            export DOUBLE_DROP_WAIT=$name DOUBLE_ORDER=$order
            for words in "2 ${shared[*]}" "2 run.transport=mpi" "2 ${shared[*]} pipeline.overlap=.false." "1 ${self[*]}"; do
                # shellcheck disable=SC2086 # words
                against_host $words
                if [ "$code" != 0 ]; then caught="p=$words in order $order: exit $code"; break 2; fi
            done
        done
        unset DOUBLE_DROP_WAIT DOUBLE_ORDER
        echo "without the waits of $name: $caught"
        check "a dropped wait of $name is caught" test "$caught" != no
    done <"$work/functions"
}

gpus_are_refused_in_one_line() {
    launch 2 run input/tiny.nml pipeline.ranks=2 run.device=cuda run.transport=nccl output.directory="$work/out"
    check "NCCL on a shared GPU: exit 1" exits 1
    check "which is said once" errors_with "GPU"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.device=cuda "${digests[@]}" output.directory="$work/out"
    check "auto then stages over MPI" exits 0
    DOUBLE_DEVICES=0 launch 1 run input/tiny.nml pipeline.ranks=1 run.device=cuda output.directory="$work/out"
    check "no GPU: exit 1" exits 1
    check "no GPU: one line" one_error_line
    DOUBLE_DEVICES=2 launch 2 run input/tiny.nml pipeline.ranks=2 run.device=cuda run.transport=nccl output.directory="$work/out"
    check "a GPU a rank: NCCL runs" exits 0
    for word in NVIDIA_TF32_OVERRIDE=1 CUBLAS_EMULATION_STRATEGY=eager CUBLASLT_HEURISTICS_LUT_FILE=/x; do
        export "${word?}"
        launch 1 run input/tiny.nml pipeline.ranks=1 run.device=cuda arithmetic.mode=vendor output.directory="$work/out"
        check "$word: exit 1" exits 1
        check "$word is named" errors_with "${word%%=*}"
        unset "${word%%=*}"
    done
    CUDA_DEVICE_MAX_CONNECTIONS=1 launch 2 run input/tiny.nml pipeline.ranks=2 "${nccl[@]}" output.directory="$work/out"
    check "one hardware queue: exit 1" exits 1
    check "which is said" errors_with CUDA_DEVICE_MAX_CONNECTIONS
    launch 1 run input/tiny.nml pipeline.ranks=1 run.device=cuda model.hidden=65536 model.sequence=4096 model.heads=512 output.directory="$work/out"
    check "more memory than the GPU has: exit 1" exits 1
    check "more memory than the GPU has: one line" one_error_line
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
