#!/usr/bin/env bash
# The listing as people read and compare it, and what is said while a command runs: one statement a function;
# `listing.sh NAME` checks one. Environment: as commands.sh's, and PIPELEAF_LONG_HOST (the library of that name).
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

same_lines() { # listing: what is left of it where nothing may differ from run to run
    sed '/^-- .* differs from run to run --$/,/^$/d; /^FOM = /d' "$1"
}
has_line() { grep -Eq -- "$1" "$2"; }
keeps() { grep -qF -- "$2" <(same_lines "$1"); }
equal() { cmp -s "$1" "$2" || { diff "$1" "$2" | head -n 10; return 1; }; }
fingerprint() { # listing step
    sed -n '/^-- steps -/,/^$/p' "$1" | awk -v s="$2" '$1 == s { print $NF }'
}
fingerprint_is_of() { # listing step digest-file
    local said
    said=$(fingerprint "$1" "$2")
    [ ${#said} = 16 ] && [ "$said" = "$(grep "^$2 " "$3" | sha256sum | cut -c 1-16)" ]
}

two_runs_differ_only_where_they_say_so() {
    local i
    for i in 1 2; do
        launch 4 run input/tiny.nml output.directory="$work/out"
        check "run $i is done" exits 0
        cp "$work/out/listing.txt" "$work/listing.$i"
        same_lines "$work/listing.$i" >"$work/same.$i"
        single reference input/tiny.nml output.directory="$work/out" verify.steps=all
        check "reference $i is done" exits 0
        cp "$work/out/reference.txt" "$work/reference.$i"
        same_lines "$work/reference.$i" >"$work/reference.same.$i"
    done
    check "two runs: the same lines" equal "$work/same.1" "$work/same.2"
    check "two references: the same lines" equal "$work/reference.same.1" "$work/reference.same.2"
    check "but not without the script: the run ids" fails_to cmp -s "$work/listing.1" "$work/listing.2"
    local step
    for step in 1 2 3 4 5; do
        check "step $step: the fingerprint is that of digest.txt" fingerprint_is_of "$work/listing.1" "$step" "$work/out/digest.txt"
        check "step $step: and the reference's" [ "$(fingerprint "$work/listing.1" "$step")" = "$(fingerprint "$work/reference.1" "$step")" ]
    done
    check "steps have other fingerprints" [ "$(fingerprint "$work/listing.1" 1)" != "$(fingerprint "$work/listing.1" 2)" ]
    local kept
    for kept in "build" "effective deck" "chunks and layers of the ranks" "plan" "steps" "verification"; do
        check "what is the same has its $kept" keeps "$work/listing.1" "-- $kept ---"
    done
    for kept in "compiler  " "HDF5 " "OpenSSL " "Jansson " "OpenMP " "CUDA " "NCCL " "MPI " "VERIFICATION = SUCCESSFUL" \
        "0 4                      | 1 5" "compared 96 of 96"; do
        check "what is the same says $kept" keeps "$work/listing.1" "$kept"
    done
    check "a loss is there in decimal and as it is" has_line '^ +5 recorded +[0-9]\.[0-9]{8}E[+-][0-9]{2} +0x1\.[0-9a-f]{6}p[+-][0-9]+ +[0-9]+  [0-9a-f]{16}$' "$work/same.1"
    for kept in "F, forward" "B, backward" "compute, digests included" "waiting for messages" "rest of the step" "step"; do
        check "the timers have $kept, with ranks" has_line "^$kept +[0-9]\.[0-9]{6}E[+-][0-9]{2} @[0-3] +[0-9]\.[0-9]{6}E[+-][0-9]{2} @[0-3] +[0-9]\.[0-9]{6}E[+-][0-9]{2}\$" "$work/listing.1"
    done
    launch 2 run input/tiny.nml pipeline.ranks=2 run.seed=1 output.directory="$work/out"
    check "another seed: other fingerprints" [ "$(fingerprint "$work/listing.1" 5)" != "$(fingerprint "$work/out/listing.txt" 5)" ]
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/out"
    check "another p: the same" [ "$(fingerprint "$work/listing.1" 5)" = "$(fingerprint "$work/out/listing.txt" 5)" ]
}
fails_to() { ! "$@"; }

# Nothing but a deck and words that cannot be cut, such as paths, is over 100 columns.
fits() {
    awk '/^-- / { deck = /^-- effective deck / } length($0) > 100 && !deck {
        line = $0; sub(/^ +/, "", line)
        if (line ~ / / && line !~ /^(Pipeleaf|against) /) { print "    " length($0) " columns: " $0; bad = 1 }
    } END { exit bad }' "$1"
}

no_line_is_over_100_columns() {
    launch 4 run input/tiny.nml output.directory="$work/out" --inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3
    check "tiny with a fault has a verdict" exits 2
    check "tiny with a fault fits" fits "$work/out/listing.txt"
    check "and banners are as wide" has_line '^-- .{95}--$' "$work/out/listing.txt"
    single reference input/tiny.nml output.directory="$work/out"
    check "its reference fits" fits "$work/out/reference.txt"
    # shellcheck disable=SC2086
    ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" $PIPELEAF_LAUNCH 2 env LD_PRELOAD="$PIPELEAF_LONG_HOST" \
        "$program" run input/tiny.nml pipeline.ranks=2 pipeline.schedule=zb-v output.directory="$work/out" </dev/null >"$work/output" 2>&1
    code=$?
    check "a run on hosts with long names is done" exits 0
    check "their names are cut, and marked" has_line '^ +1 n{24}\.\.\. +[0-9]+  ' "$work/out/listing.txt"
    check "and it fits" fits "$work/out/listing.txt"
    launch 32 run input/textbook.nml pipeline.ranks=32 pipeline.chunks_per_rank=8 model.layers=256 run.device=rehearsal machine.forward=1e-6 \
        machine.backward=2e-6 run.steps=1 run.warmup_steps=0 output.directory="$work/out"
    check "a rehearsal of 32 ranks with 8 chunks each is done" exits 0
    check "and fits" fits "$work/out/listing.txt"
    check "with a row for the last rank" has_line '^ +31 .* 31 63 95 127 159 191 223 255  *\| 32 64 96' "$work/out/listing.txt"
}

progress_is_said_where_it_is_read() {
    /usr/bin/python3 validate/run/progress.py "$program" "$work" >"$work/output" 2>&1
    code=$?
    check "on a terminal and in a log" exits 0
    grep seen "$work/output"
    launch 2 run input/tiny.nml pipeline.ranks=2 run.steps=20 run.progress=1e-9 output.directory="$work/out" verify.against=none
    check "in a job of several ranks one speaks" [ "$(grep -c '^pipeleaf: step [0-9]* of 22, .* left$' "$work/output")" = 21 ]
    check "up to the step before the recorded one" says "pipeleaf: step 21 of 22, "
    launch 2 run input/tiny.nml pipeline.ranks=2 run.quiet=.true. run.progress=1e-9 output.directory="$work/out"
    check "a quiet run is done" exits 0
    check "and says nothing" [ ! -s "$work/output" ]
    check "but its listing is written" two_last_lines "$work/out/listing.txt" SUCCESSFUL
    launch 3 run input/tiny.nml run.quiet=.true. output.directory="$work/out"
    check "an error is said nevertheless" errors_with "ranks"
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
