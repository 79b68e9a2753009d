#!/bin/sh
# Fortran's own READ(NML=) gives every deck, and the echo of every deck, the values that Pipeleaf gives it.
#
#     compare_fortran.sh DUMP_DECK READ_DECKS DECK...
set -eu
dump=$1 reader=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compared=0
differ=0
for deck in "$@"; do
    "$dump" --echo "$deck" >"$work/echo.nml"
    "$dump" "$deck" >"$work/ours"
    for text in "$deck" "$work/echo.nml"; do
        "$reader" "$text" >"$work/theirs" 2>&1 || true
        compared=$((compared + 1))
        if ! diff "$work/ours" "$work/theirs" >"$work/diff"; then
            differ=$((differ + 1))
            echo "$deck: read by Pipeleaf (<) and by Fortran (>)${text#"$deck"}:"
            cat "$work/diff"
        fi
    done
done
echo "$compared texts compared, $differ differ"
[ "$compared" -gt 0 ] && [ "$differ" -eq 0 ]
