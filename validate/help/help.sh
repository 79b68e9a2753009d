#!/usr/bin/env bash
# --help and the manual pages say everything that the programs know: one statement a function; `help.sh NAME` checks one.
# Environment: PIPELEAF_LAUNCH, PIPELEAF (the folder of the programs), PIPELEAF_SOURCE (the source tree).
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

commands() { # the program's own list of them
    "$program" no-such-command 2>&1 | sed -n 's/.*the commands are \(.*\); the nearest.*/\1/p' | sed 's/,//g; s/ and / /'
}
options_of() { # command: those that it reads
    "$program" "$1" --no-such-option-of-any-command 2>&1 | sed -n 's/.*it has //p' | grep -oE -- '--[a-z-]+'
}
parameters() { # group.name
    "$program" deck | sed -n 's/^&\(.*\)/\1/p; s/^  \([a-z_][a-z_]*\) .*/ \1/p' | awk '/^[^ ]/ { group = $1; next } { print group "." $1 }'
}
exit_codes() { sed -n 's/^ *EXIT_[A-Z_]* = \([0-9]*\).*/\1/p' src/base/base.h; }
variables() { # of the environment, that the sources read: named in the call, or in a list or a constant of that file
    grep -rlE 'getenv\(' src --include='*.c' | xargs grep -ohE '"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+"|getenv\("[A-Z]+"' |
        grep -oE '[A-Z][A-Z0-9_]+' | grep -vxE 'RTLD_.*' | sort -u
}
says_word() { grep -qwF -- "$1" <(unfolded); } # as a whole word
has_row() { grep -Eq -- "^ +$1( |\$)" "$work/output"; } # a term of a plain page
page() { # the manual page as its readers see it, without overstrikes and line breaks, in $work/output
    mandoc -T ascii -O width=900 "$PIPELEAF/man/$1" | col -bx >"$work/output"
}

everything_is_said() {
    local command option parameter number name
    check "there are commands" [ "$(commands | wc -w)" -ge 4 ]
    single --help
    check "help is printed" exits 0
    cp "$work/output" "$work/help"
    for command in $(commands); do
        cp "$work/help" "$work/output"
        check "help names $command" says "pipeleaf $command"
        for option in $(options_of "$command"); do check "help names $option of $command" has_row "$option"; done
        single "$command" --help
        check "help of $command" exits 0
        check "is of $command" says "pipeleaf $command: "
        for option in $(options_of "$command"); do check "$command --help names $option" has_row "$option"; done
        check "$command --help has no other command's words" [ -z "$(grep -E '^  pipeleaf [a-z]+ ' "$work/output" | grep -v "^  pipeleaf $command ")" ]
    done
    cp "$work/help" "$work/output"
    check "there are exit codes" [ "$(exit_codes | wc -w)" -ge 6 ]
    for number in $(exit_codes); do check "help has exit code $number" has_row "$number"; done
    check "there are variables" [ "$(variables | wc -w)" -ge 10 ]
    for name in $(variables); do check "help has the variable $name" says_word "$name"; done
    launch 2 run input/tiny.nml pipeline.ranks=2 output.directory="$work/out"
    single reference input/tiny.nml output.directory="$work/out"
    cp "$work/help" "$work/output"
    for name in "$work"/out/*; do
        name=${name##*/}
        [[ $name == rank0* ]] || check "help has the file $name" says_word "$name"
    done
    check "no line of help is over 80 columns, but commands to type and words that cannot be cut" \
        [ -z "$(sed '/^EXAMPLES/,/^$/d' "$work/help" | awk 'length($0) > 80 && $0 ~ /[^ ] +[^ ]/')" ]
    single run --hlep
    check "a mistyped option is refused" errors_with "no such option"
    single
    check "no command: one line says which there are" errors_with "the commands are"
    check "and exit 1" exits 1
    single --man no-such-page
    check "an unknown page is refused" errors_with "pipeleaf-deck.5"
    "$PIPELEAF/pipeleaf-validate" --help >"$work/output" 2>&1
    for number in 0 1 2 3; do check "pipeleaf-validate's help has exit code $number" has_row "$number"; done
    for option in --help --version --man; do check "and $option" says "$option"; done
}

manual_pages_are_clean_and_whole() {
    if ! command -v mandoc >/dev/null || ! command -v col >/dev/null; then
        echo "mandoc and col, which check manual pages, are not installed"
        exit 77
    fi
    local name option command parameter number
    for name in pipeleaf.1 pipeleaf-validate.1 pipeleaf-deck.5; do
        mandoc -T lint -W warning "$PIPELEAF/man/$name" >"$work/output" 2>&1
        code=$?
        check "$name has no warning" exits 0
        page "$name"
        check "$name has a title" says "${name%.*}(${name##*.})"
    done
    page pipeleaf-deck.5
    check "there are parameters" [ "$(parameters | wc -w)" -ge 40 ]
    for parameter in $(parameters); do
        check "the page has &${parameter%.*}" has_row "&${parameter%.*}"
        check "the page has $parameter" has_row "${parameter#*.}"
    done
    page pipeleaf.1
    for command in $(commands); do
        check "the page has $command" says "pipeleaf $command:"
        for option in $(options_of "$command"); do check "the page has $option" has_row "$option"; done
    done
    for number in $(exit_codes); do check "the page has exit code $number" has_row "$number"; done
    for name in $(variables); do check "the page has $name" says_word "$name"; done
    check "what is to be typed is as it must be typed" says "sed '/^-- .* differs from run to run --\$/,/^\$/d; /^FOM = /d' out/tiny/listing.txt"
    page pipeleaf-validate.1
    for number in 0 1 2 3; do check "pipeleaf-validate's page has exit code $number" has_row "$number"; done
}

an_installation_has_all_of_it() {
    cmake --install "$PIPELEAF" --prefix "$work/prefix" >"$work/output" 2>&1
    code=$?
    check "it is installed" exits 0
    local file
    for file in bin/pipeleaf bin/pipeleaf-validate share/man/man1/pipeleaf.1 share/man/man1/pipeleaf-validate.1 share/man/man5/pipeleaf-deck.5 \
        share/pipeleaf/input/tiny.nml; do
        check "$file is there" test -s "$work/prefix/$file"
    done
    program=$work/prefix/bin/pipeleaf single plan input/tiny.nml
    check "the installed program runs" exits 0
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
