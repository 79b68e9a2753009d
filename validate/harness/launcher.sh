#!/usr/bin/env bash
# Stands where a harness looks for its launcher, and breaks the run in the way that BREAK names. REAL_LAUNCH: the launcher
# itself, as in "mpiexec -n".
set -euo pipefail
if [[ $1 == -* ]]; then shift; fi # -n or -np
ranks=$1
shift
launch() { # ranks, words...; REAL_LAUNCH is words
    # shellcheck disable=SC2086
    $REAL_LAUNCH "$@"
}
case ${BREAK:-nothing} in
nothing) launch "$ranks" "$@" ;;
dies) # in the middle of its steps
    # shellcheck disable=SC2086
    timeout --signal=TERM 2 $REAL_LAUNCH "$ranks" "$@" run.steps=200000 output.activations=none output.gradients=none ;;
half) launch $((ranks / 2)) "$@" pipeline.ranks=$((ranks / 2)) ;;
code) launch "$ranks" "$@" && exit 7 ;;
files) # one sum of one gradient, after the verdict was given
    launch "$ranks" "$@"
    sed -i 's/^\(5 layers\/0003\/gradients\/mlp.up.weight f32 [^ ]* \)[0-9a-f]*/\10123456789abcdef/' out/digest.txt
    ;;
*) echo "launcher.sh: BREAK=$BREAK: no such break" >&2 && exit 99 ;;
esac
