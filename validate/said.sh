# shellcheck shell=bash
# What tests of whole commands share: run one, and check its exit code and what it said. To be sourced.
# Environment: PIPELEAF_LAUNCH ("mpiexec -n"), PIPELEAF (the folder of the programs), PIPELEAF_SOURCE (the source tree),
# PIPELEAF_PROGRAM (the program, where it is not pipeleaf in that folder).
program=${PIPELEAF_PROGRAM:-$PIPELEAF/pipeleaf}
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-commands.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$PIPELEAF_SOURCE" || exit 1
facts=0 false=0

check() { # text, command...
    local text=$1
    shift
    facts=$((facts + 1))
    if ! "$@"; then
        false=$((false + 1))
        printf 'false: %s (%s)\n' "$text" "$*"
        tail -n 25 "$work/output" 2>/dev/null | sed 's/^/    /'
    fi
}
launch() { # ranks, words...; output in $work/output, exit code in $code
    local ranks=$1
    shift
    # shellcheck disable=SC2086
    $PIPELEAF_LAUNCH "$ranks" "$program" "$@" </dev/null >"$work/output" 2>&1
    code=$?
}
single() { # words...
    "$program" "$@" >"$work/output" 2>&1
    code=$?
}
validate() {
    "$PIPELEAF/pipeleaf-validate" "$@" >"$work/output" 2>&1
    code=$?
}
fails() { [ "$code" != 0 ]; }
exits() { [ "$code" = "$1" ] || { echo "    exit code $code, not $1"; return 1; }; }
unfolded() { tr -s '\n ' ' ' <"$work/output"; } # the listing breaks lines between words
says() { grep -qF -- "$1" "$work/output" || grep -qF -- "$1" <(unfolded); }
says_not() { ! says "$1"; }
verdict_is() { [ "$(grep '^VERIFICATION = ' "$work/output")" = "VERIFICATION = $1" ]; } # the launcher may say more after it
two_last_lines() { # the fixed shape of the listing's end, in listing.txt $1 with verdict $2
    [ "$(tail -n 1 "$1")" = "VERIFICATION = $2" ] && tail -n 2 "$1" | head -n 1 | grep -Eqx 'FOM = ([0-9]\.[0-9]{6}E[+-][0-9]{2} tokens/s|NOT MEASURED)'
}
start_and_find() { # ranks, pattern, directory, words...: starts them; $launcher, and in $victim the last rank once the output has the pattern
    local ranks=$1 pattern=$2 directory=$3
    shift 3
    # shellcheck disable=SC2086
    $PIPELEAF_LAUNCH "$ranks" "$PIPELEAF/pipeleaf" "$@" output.directory="$directory" </dev/null >"$work/output" 2>&1 &
    launcher=$! victim=
    for _ in $(seq 100); do
        victim=$(pgrep -f "output.directory=$directory" | while read -r pid; do [ "$(ps -o comm= -p "$pid")" = pipeleaf ] && echo "$pid"; done | tail -n 1)
        if [ -n "$victim" ] && grep -q -- "$pattern" "$work/output"; then break; fi
        sleep 0.1
    done
}

one_error_line() { [ "$(grep -c '^pipeleaf: error:' "$work/output")" = 1 ]; }
errors_with() { one_error_line && grep '^pipeleaf: error:' "$work/output" | grep -qF -- "$1"; }

