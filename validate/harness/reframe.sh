#!/usr/bin/env bash
# ReFrame runs jobscripts/harness/pipeleaf_reframe.py on tiny, right and broken on purpose: what is broken fails, and says how.
# Environment: as for validate/said.sh, and PIPELEAF_PYTHON_FOLDER (where ReFrame is installed).
set -uo pipefail

# shellcheck source=validate/harness/python.sh
. "$PIPELEAF_SOURCE/validate/harness/python.sh"
provide reframe-hpc "$PIPELEAF_PYTHON_FOLDER"
# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"
export REAL_LAUNCH=$PIPELEAF_LAUNCH
real=${REAL_LAUNCH%% *}
mkdir "$work/bin"
ln -s "$PIPELEAF_SOURCE/validate/harness/launcher.sh" "$work/bin/mpirun"
[ "$(command -v "$real")" != "$work/bin/mpirun" ] || exit 1

reframe() { # how it is broken, words of pipeleaf run, more options; ReFrame's exit code in $code
    local break=$1 words=$2
    shift 2
    rm -rf "$work/reframe"
    BREAK=$break TMPDIR=$work PATH=$work/bin:$PATH "$programs/reframe" -C jobscripts/harness/reframe_local.py -c jobscripts/harness/pipeleaf_reframe.py \
        --prefix "$work/reframe" --report-file "$work/report.json" --nocolor --tag '^tiny$' -S pipeleaf_build.existing="$PIPELEAF" \
        -S pipeleaf_test.words="$words" "$@" -r </dev/null >"$work/output" 2>&1
    code=$?
    echo "$break $words $*: reframe's exit code $code, $(grep -E 'Reason:|^P: fom' "$work/output" | tail -n 1)"
}
fails_saying() { # words...
    check "reframe fails" fails
    check "it was the run" says "FAIL ] (2/2) pipeleaf_test %scale=tiny"
    for words in "$@"; do check "it says $words" says "$words"; done
}

reframe nothing ""
check "a right run passes" exits 0
check "the build and the run were tests, and no other" says "Ran 2/2 test case(s) from 2 check(s) (0 failure(s)"
listed=$(tail -n 2 "$work"/reframe/output/*/*/*/pipeleaf_test_*/listing.txt | sed -n 's/^FOM = \(.*\) tokens.*/\1/p')
check "the listing's figure of merit is its performance" says "P: fom: $(printf '%.7g' "$listed" 2>/dev/null || echo none)"
reframe nothing "--inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3"
fails_saying "VERIFICATION = UNSUCCESSFUL, exit code = 2, FILES = UNSUCCESSFUL"
reframe dies ""
fails_saying "VERIFICATION = MISSING"
reframe half ""
fails_saying "2 ranks reported, 4 asked for"
reframe nothing "run.seed=1"
fails_saying "VERIFICATION = NOT PERFORMED, exit code = 0"
reframe code ""
fails_saying "exit code = 7, though VERIFICATION = SUCCESSFUL"
reframe files ""
fails_saying "the files left behind are not the run's"
reframe nothing "" -S pipeleaf_test.wanted_fom=1e12
fails_saying "performance"

echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
