#!/usr/bin/env bash
# Spack's own checks of the package: style, audit, and that it can be concretised. Environment: PIPELEAF_SOURCE.
set -uo pipefail

if ! command -v spack >/dev/null; then
    echo "skipped: no spack here (neither Debian nor PyPI has it)"
    exit 77
fi
repository=$PIPELEAF_SOURCE/jobscripts/harness/spack_repo/pipeleaf
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-spack.XXXXXX")
trap 'rm -rf "$work"' EXIT
export SPACK_DISABLE_LOCAL_CONFIG=1 SPACK_USER_CACHE_PATH=$work/cache
printf 'repos:\n- %s\n' "$repository" >"$work/repos.yaml"
set -e
spack -C "$work" info pipeleaf
spack -C "$work" audit packages pipeleaf
