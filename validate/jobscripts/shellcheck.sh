#!/usr/bin/env bash
# The linter has nothing to say of the job scripts and of their tests.
set -euo pipefail
cd "$1"
if ! command -v shellcheck >/dev/null; then
    echo "skipped: no shellcheck"
    exit 77
fi
shellcheck -x jobscripts/*.sh validate/jobscripts/*.sh validate/jobscripts/stand_in/scheduler
