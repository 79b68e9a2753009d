#!/usr/bin/env bash
# The tests of label `double` in a build under a sanitizer: sanitized.sh SOURCE BUILD address|thread GENERATOR [cmake argument...]
# There every stream and every GPU thread is a thread to ThreadSanitizer: a missing barrier or event wait is a report.
# Takes half of the cores: there are two such tests, run at the same time.
set -euo pipefail
source=$1 build=$2 sanitizer=$3 generator=$4
shift 4
cores=$((($(nproc) + 1) / 2))
# What is watched is each access that the source makes. With -O1 none is missing that -O2 has, and it is compiled in a third of the
# time; assertions hold, too. Lines in a report need no more than -g1.
flags="-O1 -g1"
mkdir -p "$build"
cmake -S "$source" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DPIPELEAF_SANITIZE=$sanitizer" \
    "-DCMAKE_C_FLAGS_RELWITHDEBINFO=$flags" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=$flags" "$@" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
}
cmake --build "$build" --target double_tests --parallel "$cores" >"$build/build.log" 2>&1 || {
    grep -E 'error|warning|undefined' "$build/build.log" | head -n 40
    exit 1
}
ctest --test-dir "$build" --label-regex '^double$' --output-on-failure --parallel "$cores"
