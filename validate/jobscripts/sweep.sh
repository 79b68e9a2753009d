#!/usr/bin/env bash
# A sweep is one table: what is right, what is refused, what is wrong, what failed; and its exit code. Environment: as said.sh.
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"
unset "${!SLURM_@}" "${!PBS_@}" "${!LSB_@}" "${!FLUX_@}" 2>/dev/null

sweep() { # words
    jobscripts/sweep.sh input/tiny.nml output="$work/sweep" run.steps=1 "$@" </dev/null >"$work/output" 2>&1
    code=$?
}
csv_row() { grep -q "^$1" "$work/sweep/sweep.csv"; }
rows() { [ "$(tail -n +2 "$work/sweep/sweep.csv" | wc -l)" = "$1" ]; }
text_row() { grep -Eq "^ *$1 " "$work/sweep/sweep.txt"; }

sweep p=2 v=1:2 m=2,1 schedule=gpipe,interleaved-1f1b
check "gpipe with v=2 is refused, and that is a failure" exits 1
check "p=2 v=1 m=1 gpipe is right" csv_row '2,1,1,gpipe,0,right,SUCCESSFUL,[0-9]'
check "p=2 v=2 interleaved is right" csv_row '2,2,2,interleaved-1f1b,0,right,SUCCESSFUL,[0-9]'
check "p=2 v=2 gpipe is refused" csv_row '2,2,2,gpipe,-,REFUSED'
check "all eight cells are in the table" rows 8
check "the text has them too" text_row '2 +2 +2 +interleaved-1f1b +0 +right +SUCCESSFUL'
check "the reason of the refusal is told" says "must have pipeline.chunks_per_rank=1"
check "the launch is saved" test -s "$work/sweep/job/launch.txt"
sweep p=2 v=1,2 m=2 schedule=gpipe refused=skip
check "refused=skip: no failure" exits 0
check "but still in the table" csv_row '2,2,2,gpipe,-,REFUSED'
sweep p=2 v=2 m=2 schedule=gpipe refused=skip
check "where no cell ran at all, it is one" exits 1
sweep p=2 v=1 m=2 --inject step=2,layer=3,microbatch=1,tensor=gradients/mlp.up.weight,element=77,bit=3
check "a wrong cell: exit 2" exits 2
check "and WRONG in the table" csv_row '2,1,2,interleaved-1f1b,2,WRONG,UNSUCCESSFUL'
sweep p=1 v=1 m=2 verify.against="$work/nothing"
check "no reference where one was named: exit 3" exits 3
check "and NOT-VERIFIED" csv_row '1,1,2,interleaved-1f1b,3,NOT-VERIFIED,NOT PERFORMED'
sweep p=1 v=1 m=2 verify.against=none
check "verification not wanted: exit 0" exits 0
check "and never right" csv_row '1,1,2,interleaved-1f1b,0,done,NOT PERFORMED'
sweep p=2 v=1 m=2 verify.against=none run.device=cuda
check "no such device: exit 1" exits 1
check "and FAILED, without a figure" csv_row '2,1,2,interleaved-1f1b,1,FAILED,none,-,-,-,-$'
check "an earlier sweep's result is not shown" test ! -e "$work/sweep/p2-v1-m2-interleaved-1f1b/result.json"
sweep p=2,x
check "a value that is no number" says "p=2,x: must be whole numbers"
sweep q=3
check "an unknown axis" says "the axes are p, v, m and schedule"
sweep p=2 pipeline.ranks=4
check "an axis by its deck name" says "pipeline.ranks is an axis"

echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
