# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# Are the bits right: kernels against the definition, runs against the shipped digests, vendor mode against its own reference.

needs_gpu() { # name: true where there is one; else says that the step was not possible
    [ "$device" = cuda ] && return 0
    skip "$1" "needs a GPU"
    return 1
}

check_kernels() {
    local part
    for part in gpu_test_cuda_digest gpu_test_cuda_rows gpu_test_cuda_gemm gpu_test_cuda_attention gpu_test_cuda_device gpu_test_vendor; do
        needs_gpu "kernels.${part#gpu_test_}" || continue
        if program "$part"; then
            step "kernels.${part#gpu_test_}" 40 0 '^[1-9][0-9]* facts checked, 0 false' "${loader[@]}" "$tests/$part"
        else
            not_run "kernels.${part#gpu_test_}" "$part is not here"
        fi
    done
    for part in 1 2; do
        needs_gpu "schedules.p$part" || continue
        if program gpu_test_schedules; then
                    launch "$part"
            step "schedules.p$part" 40 0 'facts checked, 0 false' "${ranks[@]}" "$tests/gpu_test_schedules"
        else
            not_run "schedules.p$part" "gpu_test_schedules is not here"
        fi
    done
}

# The shipped digests, which every machine must reproduce; on the CPU, where small takes a minute, textbook's in its place.
check_digests() {
    local second=small p
    [ "$device" = cuda ] || second=textbook
    for chunks in 1 2 8; do
        run_deck "tiny.p1.v$chunks" 30 1 0 SUCCESSFUL tiny pipeline.chunks_per_rank="$chunks"
    done
    run_deck "$second.p1.v2" 60 1 0 SUCCESSFUL "$second"
    for p in 2 4; do
        run_deck "tiny.p$p.mpi" 30 "$p" 0 SUCCESSFUL tiny run.transport=mpi
        run_deck "$second.p$p.mpi" 60 "$p" 0 SUCCESSFUL "$second" run.transport=mpi
    done
    run_deck tiny.p2.mpi.zb-v 30 2 0 SUCCESSFUL tiny run.transport=mpi pipeline.schedule=zb-v
    run_deck tiny.p2.mpi.no-overlap 30 2 0 SUCCESSFUL tiny run.transport=mpi pipeline.overlap=.false.
}

check_nccl() {
    local p self=(run.transport=nccl pipeline.self_channels=.true.) shared=(run.transport=nccl run.share_device=.true.)
    needs_gpu nccl.self && {
        run_deck tiny.p1.v4.nccl-self 30 1 0 SUCCESSFUL tiny pipeline.chunks_per_rank=4 "${self[@]}"
        run_deck small.p1.v2.nccl-self 60 1 0 SUCCESSFUL small "${self[@]}"
    }
    # One GPU for all: for correctness only, and the one way that a single GPU tests receives posted ahead.
    needs_gpu nccl.shared && {
        with+=("CUDA_VISIBLE_DEVICES=$first_gpu")
        for p in 2 4; do run_deck "tiny.p$p.nccl-shared" 40 "$p" 0 SUCCESSFUL tiny "${shared[@]}"; done
        run_deck tiny.p2.nccl-shared.no-overlap 40 2 0 SUCCESSFUL tiny "${shared[@]}" pipeline.overlap=.false.
        run_deck small.p2.nccl-shared 60 2 0 SUCCESSFUL small "${shared[@]}"
        unset 'with[-1]'
    }
    if [ "$gpus" -lt 2 ] || [ "$device" != cuda ]; then
        skip nccl.several-gpus "needs two GPUs; here: $gpus"
        return
    fi
    for p in 2 4 8; do
        if [ "$p" -gt "$gpus" ]; then continue; fi
        if [ "$p" -le 4 ]; then run_deck "tiny.p$p.nccl" 30 "$p" 0 SUCCESSFUL tiny run.transport=nccl; fi
        run_deck "small.p$p.nccl" 60 "$p" 0 SUCCESSFUL small run.transport=nccl pipeline.chunks_per_rank=1
    done
}

# A wrong answer must be found, and the files must say what the run said.
check_verdicts() {
    run_deck injected.p2 30 2 2 UNSUCCESSFUL tiny run.transport=mpi \
        --inject step=5,layer=3,microbatch=7,tensor=gradients/mlp.up.weight,element=77,bit=3
    local folder=$work/files
    if step files.reference 40 0 '^VERIFICATION = NOT PERFORMED$' "${pipeleaf[@]}" reference input/tiny.nml run.device="$device" output.directory="$folder"; then
        keep_output=yes
        run_full files.run "$folder"
        keep_output=no
        step files.validate 30 0 '^VERIFICATION = SUCCESSFUL$' "${loader[@]}" "$programs/pipeleaf-validate" "$folder"
    else
        not_run files.run "there is no reference"
    fi
    rm -rf "$folder"
}

run_full() { # name, folder that holds the reference
    launch 2
    step "$1" 40 0 '^VERIFICATION = SUCCESSFUL$' "${ranks[@]}" "$programs/pipeleaf" run input/tiny.nml pipeline.ranks=2 run.device="$device" \
        run.transport=mpi run.timeout=60 output.directory="$2" verify.against="$2"
}

check_vendor() {
    local precision folder words p
    needs_gpu vendor || return
    for precision in fp32 tf32 bf16; do
        folder=$work/vendor.$precision
        words=(run.device=cuda arithmetic.mode=vendor arithmetic.precision="$precision" run.steps=2 run.warmup_steps=1
            output.activations=digest output.gradients=digest)
        if ! step "vendor.$precision.reference" 40 0 '^VERIFICATION = NOT PERFORMED$' "${pipeleaf[@]}" reference input/small.nml \
            output.directory="$folder" verify.steps=all "${words[@]}"; then
            not_run "vendor.$precision" "there is no reference"
            continue
        fi
        for p in 1 2; do
            run_deck "vendor.$precision.p$p" 40 "$p" 0 SUCCESSFUL small "${words[@]}" run.transport="$([ "$p" = 1 ] && echo auto || echo mpi)" \
                verify.against="$folder/reference.digest"
        done
        rm -rf "$folder"
    done
}

check_sanitizer() {
    local tool sanitizer="" file
    for file in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
        if [ -z "$sanitizer" ] && [ -x "$file" ]; then sanitizer=$file; fi
    done
    needs_gpu sanitizer || return
    if [ -z "$sanitizer" ]; then
        skip sanitizer "compute-sanitizer is not on this machine"
        return
    fi
    for tool in memcheck racecheck; do
            step "sanitizer.$tool" 45 0 '(ERROR|RACECHECK) SUMMARY: 0 (errors|hazards)' "${loader[@]}" "$mpirun" -n 1 "$sanitizer" --tool "$tool" \
            --error-exitcode 9 "${pipeleaf[@]}" run input/tiny.nml pipeline.ranks=1 run.device=cuda run.steps=1 run.warmup_steps=0 verify.against=none \
            output.directory="$work/sanitizer"
    done
}

check_correctness() {
    phase_end=$((began + (check_end - began) * 5 / 8))
    check_kernels
    check_digests
    check_nccl
    check_verdicts
    check_vendor
    check_sanitizer
}
