#!/usr/bin/env bash
# The GPU check judges as it says, shown where there is no GPU:
#
#   gpu_check_test.sh verdicts       on made-up programs that claim a GPU, good ones and ones with every fault
#   gpu_check_test.sh pack BUILD     a build, packed, runs with nothing of this machine's environment, on the CPU
# shellcheck disable=SC2317 # statements are called through check
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-gpu-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
facts=0 false=0

check() { # text, command...
    facts=$((facts + 1))
    if ! "${@:2}" >/dev/null; then
        false=$((false + 1))
        printf 'false: %s\n' "$1"
        grep -vE '^(PASS|SKIP|FIGURE)' "$work/out/gpu_check.txt" 2>/dev/null | sed 's/^/    /'
    fi
}
finish() {
    echo "$facts facts checked, $false false"
    [ "$facts" -gt 0 ] && [ "$false" = 0 ]
    exit
}
says() { grep -qE -- "$1" "$work/out/gpu_check.txt"; }
says_not() { ! says "$1"; }
last_line() { [ "$(tail -n 1 "$work/out/gpu_check.txt")" = "GPU CHECK = $1" ]; }
exits() { [ "$code" = "$1" ]; }
ends() { # text, verdict, exit code
    check "$1: $2" last_line "$2"
    check "$1: exit $3" exits "$3"
}

# --- made-up programs -----------------------------------------------------------------------------------------------
# They know their part from the words they get, and their faults from FAULTS.
make_tree() {
    tree=$work/tree
    mkdir -p "$tree/bin" "$tree/lib" "$tree/gpu" "$work/bin" "$work/out"
    cp "$here/gpu_check.sh" "$tree/"
    cp "$here"/gpu/*.sh "$tree/gpu/"
    # The words at which a fault is due: wrong=PATTERN lies, late=PATTERN hangs, and so on.
    cat >"$work/bin/fault" <<'END'
#!/bin/sh
# fault KIND WORDS...: whether FAULTS (KIND=PATTERN, joined by blanks) has this kind and the words fit its pattern
kind=$1
shift
for fault in $FAULTS; do
    case $fault in "$kind="*) echo "$*" | grep -qE -- "${fault#*=}" && exit 0 ;; esac
done
exit 1
END
    cat >"$tree/bin/mpirun" <<'END'
#!/bin/sh
shift 2
exec "$@"
END
    cat >"$tree/bin/pipeleaf" <<'END'
#!/bin/sh
for word in "$@"; do case $word in output.directory=*) folder=${word#*=} ;; esac; done
end() { echo "VERIFICATION = $1"; exit "$2"; }
if fault late "$@"; then sleep 60; fi
case "$*" in
--version) fault start "$@" && { echo "libhdf5.so: not found"; exit 127; }; echo "pipeleaf 0"; exit 0 ;;
reference*) mkdir -p "$folder"; touch "$folder/reference.digest"; end "NOT PERFORMED" 0 ;;
esac
mkdir -p "$folder"
step=0.5 exposed=0.009
case "$*" in *overlap=.false.*) step=0.6 exposed=0.1 ;; esac
if fault exposed "$@"; then exposed=0.011; fi
if fault overlap "$@"; then step=0.7; fi
rate=6.5e+14
if fault rate "$@"; then rate=6.4e+14; fi
printf '{\n    "median_step_seconds": %s,\n    "exposed_seconds": %s,\n    "flop_per_second": %s\n}\n' $step $exposed $rate >"$folder/result.json"
case "$*" in
*--inject*) fault blind "$@" && end SUCCESSFUL 0; end UNSUCCESSFUL 2 ;;
*against=none*) end "NOT PERFORMED" 0 ;;
esac
if fault wrong "$@"; then echo "first difference in dataflow order: step 5"; end UNSUCCESSFUL 2; fi
if fault crash "$@"; then echo "pipeleaf: error: out of memory"; echo "VERIFICATION = SUCCESSFUL"; exit 1; fi
if fault silent "$@"; then exit 0; fi
if fault unmade "$@"; then end "NOT PERFORMED" 0; fi
end SUCCESSFUL 0
END
    cat >"$tree/bin/pipeleaf-validate" <<'END'
#!/bin/sh
echo "VERIFICATION = SUCCESSFUL"
END
    local part
    for part in cuda_gemm cuda_attention cuda_rows cuda_digest cuda_device vendor schedules; do
        cat >"$tree/bin/gpu_test_$part" <<'END'
#!/bin/sh
if fault false "$0"; then echo "test.c:7: false: c == d: 3 differ"; echo "9 facts checked, 1 false"; exit 1; fi
if fault empty "$0"; then echo "0 facts checked, 0 false"; exit 0; fi
echo "9 facts checked, 0 false"
END
    done
    cat >"$tree/bin/gpu_benchmark_cuda_gemm" <<'END'
#!/bin/sh
share=0.550
if fault slow "$0"; then share=0.549; fi
if fault nan "$0"; then share=nan; fi
printf 'peak.fma 6e13 FLOP/s 1.000\ngemm.8192.NN.chosen 3e13 FLOP/s 0.6\ngemm.8192.NT.chosen 3e13 FLOP/s %s\ngemm.8192.TN.chosen 3e13 FLOP/s 0.7\n' $share
END
    cat >"$tree/bin/gpu_benchmark_cuda_rows" <<'END'
#!/bin/sh
share=0.81
if fault slow "$0"; then share=0.79; fi
printf 'digest.1024 1e11 B/s 0.2\ndigest.67108864 3e12 B/s %s\nnorm 3e12 B/s 0.9\n' $share
END
    printf '#!/bin/sh\necho "attention.forward 1e13 FLOP/s 0.3"\n' >"$tree/bin/gpu_benchmark_cuda_attention"
    cat >"$tree/bin/gpu_benchmark_vendor" <<'END'
#!/bin/sh
share=0.91
if fault slow "$0"; then share=0.89; fi
printf 'cublas.best.bf16 1e15 FLOP/s 1.000\nlayer.gemms.bf16 9e14 FLOP/s %s\nlayer.forward_backward.bf16 8e14 FLOP/s 0.8\n' $share
END
    cat >"$work/bin/nvidia-smi" <<'END'
#!/bin/sh
case $1 in
-L) for gpu in $GPUS; do echo "GPU $gpu: made up"; done ;;
--query*) echo "0, made up" ;;
*) echo "| CUDA Version: 0.0 |" ;;
esac
END
    cat >"$work/bin/compute-sanitizer" <<'END'
#!/bin/sh
if fault race "$*"; then echo "========= RACECHECK SUMMARY: 2 hazards"; exit 9; fi
echo "========= ERROR SUMMARY: 0 errors"
END
    chmod +x "$tree"/bin/* "$work"/bin/*
    mkdir -p "$tree/input" "$tree/reference"
}

judge() { # faults, what else is to be in the environment...
    (cd "$work/out" && env -u CUDA_VISIBLE_DEVICES PATH="$work/bin:$PATH" GPUS=0 FAULTS="$1" "${@:2}" "$tree/gpu_check.sh" run >"$work/printed" 2>&1)
    code=$?
    cp "$work/printed" "$work/out/printed"
}

verdicts() {
    make_tree
    judge ""
    ends "good programs and one GPU" PASSED 0
    check "the second GPU that is not there is no failure" says '^SKIP +nccl.several-gpus +needs two GPUs; here: 1$'
    check "what was printed is in the file" cmp "$work/printed" "$work/out/gpu_check.txt"
    check "a benchmark's largest share counts" says '^PASS +digest +0.81 '
    check "a figure may be exactly what is wanted" says '^PASS +portable gemm 8192 NT +0.55'

    # Each fault is one line, and the rest goes on.
    judge 'false=cuda_rows empty=cuda_digest wrong=small.*ranks=4.*mpi crash=ranks=2.*zb-v silent=chunks_per_rank=8 unmade=share_device.*overlap blind=inject race=racecheck slow=cuda_gemm slow=cuda_rows slow=vendor rate=hidden=8192 exposed=self_channels' GPUS="0 1 2 3"
    ends "programs with every fault" FAILED 1
    for name in kernels.cuda_rows kernels.cuda_digest small.p4.mpi tiny.p2.mpi.zb-v tiny.p1.v8 tiny.p2.nccl-shared.no-overlap injected.p2 sanitizer.racecheck \
        'portable gemm 8192 NT' digest 'vendor bf16 gemms alone' 'vendor bf16 step' 'exposed communication with overlap'; do
        check "$name fails" says "^FAIL +$name "
    done
    check "and nothing else does" test "$(grep -c '^FAIL' "$work/out/gpu_check.txt")" = 13
    check "a failure says what was false" says '^FAIL +kernels.cuda_rows .*test.c:7: false: c == d'
    check "a crash says why" says '^FAIL +tiny.p2.mpi.zb-v .*out of memory'
    check "several GPUs are used where they are there" says '^PASS +small.p4.nccl '
    check "but not more than are there" says_not 'small.p8.nccl'

    judge 'nan=cuda_gemm overlap=self_channels=.true.$'
    ends "a share that is no number" FAILED 1
    check "a share that is no number fails" says '^FAIL +portable gemm 8192 NT +nan'
    check "overlap that costs time fails" says '^FAIL +step with overlap +1.1667'

    mv "$tree/bin/gpu_test_cuda_attention" "$work/"
    judge ""
    ends "a part that is not there" "NOT PERFORMED" 3
    check "which is said" says '^SKIP +kernels.cuda_attention +NOT RUN: gpu_test_cuda_attention is not here'
    mv "$work/gpu_test_cuda_attention" "$tree/bin/"

    judge "" PIPELEAF_GPU_CHECK_SECONDS=1
    ends "no time" "NOT PERFORMED" 3
    judge "late=chunks_per_rank=1$" PIPELEAF_GPU_CHECK_SECONDS=16
    ends "a run that hangs" FAILED 1
    check "is stopped" says '^FAIL +tiny.p1.v1 +stopped after [0-9]+ s'
    check "what has no time left is said not to be run" says '^SKIP +vendor.fp32.reference +NOT RUN: no time left'

    judge "" CUDA_VISIBLE_DEVICES=
    ends "no visible GPU" "NOT PERFORMED" 3
    check "which is said" says '^nothing was run: the driver shows no GPU'
    judge "start=version"
    ends "a program that does not start" "NOT PERFORMED" 3
    check "for the reason it gave" says 'does not start: libhdf5.so: not found'
    judge "" PIPELEAF_GPU_CHECK_DEVICE=host
    ends "a rehearsal on the CPU, however good" "NOT PERFORMED" 3
    check "which says that it was one" says 'nothing was checked on a GPU'
    finish
}

# --- a real build ---------------------------------------------------------------------------------------------------
rehearse() { # seconds: the packed folder's check on the CPU, with an empty environment
    (cd "$work/out" && env -i PATH=/usr/bin:/bin PIPELEAF_GPU_CHECK_DEVICE=host PIPELEAF_GPU_CHECK_SECONDS="$1" "$work/packed/gpu_check.sh" run >"$work/printed" 2>&1)
    code=$?
}

packed() { # build folder
    mkdir -p "$work/out"
    if ! "$here/gpu_check.sh" pack "$1" "$work/packed" >"$work/printed" 2>&1; then
        if grep -q 'is not Open MPI' "$work/printed"; then cat "$work/printed"; exit 77; fi
        cat "$work/printed"
        echo "false: the build can be packed"
        exit 1
    fi
    check "it says how large it is" grep -qE ': [0-9]+ MiB' "$work/printed"
    check "what it takes along beside the programs is small" test "$(du -sm "$work/packed/lib" | cut -f1)" -le 60
    rehearse 480
    ends "a build packed and rehearsed" "NOT PERFORMED" 3
    check "no step fails" says_not '^FAIL'
    for name in tiny.p1.v8 textbook.p4.mpi injected.p2 files.validate; do check "$name passes" says "^PASS +$name "; done
    sed -i '/gradients\/mlp.up.weight/s/ [0-9a-f]\{16\} / 0123456789abcdef /' "$work/packed"/reference/tiny.*.digest
    rehearse 16
    ends "with another reference" FAILED 1
    check "the difference is said" says '^FAIL +tiny.p1.v1 .*VERIFICATION = UNSUCCESSFUL'
    finish
}

case ${1:-} in
verdicts) verdicts ;;
pack) packed "$2" ;;
*)
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 1
    ;;
esac
