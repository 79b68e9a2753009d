#!/usr/bin/env bash
# Everything that a machine with GPUs can say about this build, within 8 minutes and without network or package manager:
#
#   gpu_check.sh pack BUILD FOLDER [--with-cuda]   gathers, where it was built, what a bare GPU machine lacks: programs, decks,
#                                                  digests, MPI, HDF5 and other libraries (--with-cuda: cudart, cublasLt, NCCL too)
#   gpu_check.sh run [FOLDER]                      runs the check, from such a folder or a build folder; without FOLDER from the
#                                                  one this script was packed in, or else the current build folder
#
# run writes gpu_check.txt, and the output of each step below gpu_check.logs, into the current folder. One line a check, PASS, FAIL
# or SKIP with the reason; last GPU CHECK = PASSED (exit 0), FAILED (1), or NOT PERFORMED (3): there is no GPU, or a part
# that should have been run was not. Environment:
#
#   PIPELEAF_GPU_CHECK_SECONDS   in all, instead of 480
#   PIPELEAF_GPU_CHECK_DEVICE    host: rehearses the steps on the CPU; never ends in PASSED
#   PIPELEAF_CUDA_LIBRARIES      folders, joined by ':', in which CUDA's libraries are looked for first
set -uo pipefail
script_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit "$1"
}

# parts: places, report, steps, correctness, timings, pack
for part in "$script_folder"/gpu/*.sh; do
    # shellcheck source=/dev/null
    . "$part" || exit 1
done

case ${1:-} in
pack)
    [ $# = 3 ] || { [ $# = 4 ] && [ "$4" = --with-cuda ]; } || usage 1 >&2
    pack "${@:2}"
    ;;
run)
    [ $# -le 2 ] || usage 1 >&2
    run_check "${2:-}"
    ;;
-h | --help) usage 0 ;;
*) usage 1 >&2 ;;
esac
