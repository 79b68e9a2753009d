# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# The result file: one line a check, figures, the verdict.

passed=0 failed=0 unmade=0 skipped=0

say() { printf '%s\n' "$*" | tee -a "$result"; }
line() { say "$(printf '%-6s %-44s %s' "$1" "$2" "$3")"; }
pass() { passed=$((passed + 1)); line PASS "$1" "$2"; }
fails() { failed=$((failed + 1)); line FAIL "$1" "$2"; }
skip() { skipped=$((skipped + 1)); line SKIP "$1" "$2"; } # what this machine cannot do
not_run() { unmade=$((unmade + 1)); line SKIP "$1" "NOT RUN: $2"; } # what should have been done: no pass without it
note() { line FIGURE "$1" "$2"; } # of which nothing is wanted

# A figure that has to reach a value, or stay below it.
figure() { # name, value, >= or <, wanted, what it is
    if [ -z "$2" ]; then
        not_run "$1" "no figure"
    elif awk -v value="$2" -v sign="$3" -v wanted="$4" 'BEGIN {
            number = value ~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/
            exit !(number && (sign == ">=" ? value + 0 >= wanted + 0 : value + 0 < wanted + 0)) }'; then
        pass "$1" "$2 $5 (wanted $3 $4)"
    else
        fails "$1" "$2 $5 (wanted $3 $4)"
    fi
}

# What is written last, whatever happened; leaves with its exit code.
conclude() {
    local verdict=PASSED code=0
    if [ "$failed" != 0 ]; then
        verdict=FAILED code=1
    elif [ "$passed" = 0 ] || [ "$unmade" != 0 ] || [ "$device" != cuda ]; then
        verdict="NOT PERFORMED" code=3
    fi
    say ""
    say "$passed passed, $failed failed, $skipped not possible here, $unmade not run; $((SECONDS - began)) s"
    if [ "$device" != cuda ] && [ "$failed" = 0 ]; then say "rehearsed on device '$device': nothing was checked on a GPU"; fi
    say "GPU CHECK = $verdict"
    exit "$code"
}
