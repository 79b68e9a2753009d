#!/usr/bin/env bash
# JUBE runs jobscripts/harness/pipeleaf.yaml on tiny, right and broken on purpose: what is broken fails, and shows how.
# Environment: as for validate/said.sh.
set -uo pipefail

if ! command -v jube >/dev/null; then
    echo "skipped: no jube here (Debian's package jube)"
    exit 77
fi
# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"
export REAL_LAUNCH=$PIPELEAF_LAUNCH PIPELEAF_LAUNCH=$PIPELEAF_SOURCE/validate/harness/launcher.sh
unset PIPELEAF_RANKS PIPELEAF_WORDS PIPELEAF_CMAKE
file=jobscripts/harness/pipeleaf.yaml

benchmark() { # how it is broken, words of pipeleaf run; JUBE's exit code in $code, the table's one row in $row
    rm -rf "$work/jube"
    BREAK=$1 PIPELEAF_BUILD=$PIPELEAF PIPELEAF_WORDS=$2 jube run -e -o "$work/jube" "$file" --hide-animation --tag tiny </dev/null >"$work/output" 2>&1
    code=$?
    jube result --style csv "$work/jube" </dev/null >"$work/table" 2>>"$work/output"
    cat "$work/table" >>"$work/output"
    row=$(grep -v '^result,' "$work/table" | grep ,)
    echo "$1 $2: jube's exit code $code, row $row"
}
row_is() { [[ $row =~ ^$1$ ]]; }
table_has_no_blank() { [ "$(grep -c , "$work/table")" = 2 ] && ! grep , "$work/table" | grep -Eq "(^|,) *(,|\$)"; }
fom_is_the_listings() { [ "$(tail -n 2 "$work"/jube/000000/*_run/work/out/listing.txt | sed -n 's/^FOM = \(.*\) tokens.*/\1/p')" = "${row##*,}" ]; }
fails_showing() { # the row
    check "jube fails" exits 1
    check "the row shows why" row_is "$1"
    check "no column is blank" table_has_no_blank
}

fom='[0-9]\.[0-9]{6}E[+-][0-9]+'
benchmark nothing ""
check "a right run passes" exits 0
check "the row shows it" row_is "PASS,tiny,4,4,SUCCESSFUL,SUCCESSFUL,0,$fom"
check "the figure is that of the listing" fom_is_the_listings
benchmark nothing "--inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3"
fails_showing "FAIL,tiny,4,4,UNSUCCESSFUL,UNSUCCESSFUL,2,$fom"
benchmark dies ""
fails_showing "FAIL,tiny,4,4,MISSING,NO REFERENCE,[1-9][0-9]*,(nan|NAN)"
benchmark half ""
fails_showing "FAIL,tiny,4,2,SUCCESSFUL,SUCCESSFUL,0,$fom"
benchmark nothing "run.seed=1"
fails_showing "FAIL,tiny,4,4,NOT PERFORMED,NO REFERENCE,0,$fom"
benchmark code ""
fails_showing "FAIL,tiny,4,4,SUCCESSFUL,SUCCESSFUL,7,$fom"
benchmark files ""
fails_showing "FAIL,tiny,4,4,SUCCESSFUL,UNSUCCESSFUL,0,$fom"

PIPELEAF_BUILD=$work/nothing jube run -e -o "$work/empty" "$file" --hide-animation </dev/null >"$work/output" 2>&1
code=$?
check "a build that is not there fails" exits 1

echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
