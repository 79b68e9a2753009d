#!/usr/bin/env bash
# The Apptainer definition has the headers and sections it needs and no others, and shellcheck finds nothing in those that are shell.
# Nothing is built: that takes Apptainer and a base image. Environment: PIPELEAF_SOURCE.
set -euo pipefail

if ! command -v shellcheck >/dev/null; then
    echo "skipped: no shellcheck here"
    exit 77
fi
if [ ! -e "$PIPELEAF_SOURCE/.git" ]; then
    echo "skipped: not a checkout, and the definition builds what is committed in one"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-apptainer.XXXXXX")
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 "$PIPELEAF_SOURCE/validate/harness/apptainer.py" "$PIPELEAF_SOURCE/jobscripts/harness/pipeleaf.def" "$work"
shellcheck --shell=sh "$work"/*.sh
