# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# Is it fast: shares of what the GPU itself can do. Benchmarks print "name value unit share" a line.

# The largest share of a benchmark's lines whose name fits; which line it was goes to $best.
best_share() { # benchmark, pattern of names
    best=$(awk -v pattern="$2" '$1 ~ pattern && NF == 4 && (found == "" || $4 + 0 > share) { share = $4 + 0; found = $0 } END { print found }' "$logs/$1.txt" 2>/dev/null)
    share=${best##* }
}

# True where the benchmark ran to its end. It is not one check: each figure of it is.
benchmark() { # program, limit, argument...
    if [ "$device" != cuda ]; then
        skip "${1#gpu_}" "needs a GPU"
    elif ! program "$1"; then
        not_run "${1#gpu_}" "$1 is not here"
    elif ! attempt "$1" "$2" "${loader[@]}" "$tests/$1" "${@:3}"; then
        not_run "${1#gpu_}" "no time left"
    elif [ "$code" != 0 ]; then
        fails "${1#gpu_}" "$(why | tr '\n' ' ') ($log)"
    else
        return 0
    fi
    return 1
}

time_kernels() {
    local form
    if benchmark gpu_benchmark_cuda_gemm 30; then
        for form in NN NT TN; do
            best_share gpu_benchmark_cuda_gemm "^gemm\\.8192\\.$form\\.chosen\$"
            figure "portable gemm 8192 $form" "$share" ">=" 0.55 "of the fp32 peak"
        done
    fi
    if benchmark gpu_benchmark_cuda_rows 30; then
        best_share gpu_benchmark_cuda_rows 'digest'
        figure "digest" "$share" ">=" 0.8 "of the copy bandwidth (${best% *})"
    fi
    if benchmark gpu_benchmark_cuda_attention 30; then
        while read -r best; do note "${best%% *}" "${best#* }"; done < <(awk 'NF == 4' "$logs/gpu_benchmark_cuda_attention.txt")
    fi
}

time_vendor() {
    cublas=""
    benchmark gpu_benchmark_vendor 45 bf16 || return
    cublas=$(awk '$1 == "cublas.best.bf16" { print $2 }' "$logs/gpu_benchmark_vendor.txt")
    note "cublas.best.bf16" "$cublas FLOP/s"
    best_share gpu_benchmark_vendor '^layer\.gemms\.bf16$'
    figure "vendor bf16 gemms alone" "$share" ">=" 0.9 "of cuBLAS's own rate"
    while read -r best; do note "${best%% *}" "${best#* } of cuBLAS's own rate"; done < <(grep -E '^(layer\.forward_backward|gemm\.)' "$logs/gpu_benchmark_vendor.txt")
}

# A few layers of a large model, the messages through NCCL to self, which is what overlap can hide on one GPU.
time_steps() {
    local words=(model.layers=4 model.hidden=8192 model.heads=64 model.sequence=2048 pipeline.chunks_per_rank=4 batch.microbatches=8
        arithmetic.mode=vendor arithmetic.precision=bf16 run.steps=5 run.warmup_steps=2 verify.against=none output.activations=none output.gradients=none)
    local self=(run.transport=nccl pipeline.self_channels=.true.) on off
    if [ "$device" != cuda ]; then
        skip "vendor bf16 step" "needs a GPU"
        skip "exposed communication" "needs a GPU"
        return
    fi
    run_deck step.local 50 1 0 'NOT PERFORMED' small "${words[@]}" &&
        figure "vendor bf16 step" "$(ratio "$(value_of step.local flop_per_second)" "$cublas")" ">=" 0.65 "of cuBLAS's own rate"
    run_deck step.overlap 50 1 0 'NOT PERFORMED' small "${words[@]}" "${self[@]}"
    run_deck step.no-overlap 50 1 0 'NOT PERFORMED' small "${words[@]}" "${self[@]}" pipeline.overlap=.false.
    on=$(value_of step.overlap median_step_seconds) off=$(value_of step.no-overlap median_step_seconds)
    figure "exposed communication with overlap" "$(ratio "$(value_of step.overlap exposed_seconds)" "$on")" "<" 0.02 "of the step, p=1 v=4, NCCL to self"
    note "exposed communication without overlap" "$(ratio "$(value_of step.no-overlap exposed_seconds)" "$off") of the step"
    figure "step with overlap" "$(ratio "$on" "$off")" "<" 1.02 "of the step without (${on:-?} s, ${off:-?} s)"
}

check_timings() {
    phase_end=$check_end
    time_kernels
    time_vendor
    time_steps
}
