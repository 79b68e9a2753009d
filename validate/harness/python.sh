# shellcheck shell=bash
# Python packages from PyPI for one test, in an environment of its own under the build folder; to be sourced.
provide() { # package, folder; leaves the folder's programs in $programs, or skips the test
    programs=$2/bin
    [ -e "$2/ready" ] && return 0
    rm -rf "$2"
    if ! /usr/bin/python3 -m venv "$2" || ! "$programs/pip" --quiet --disable-pip-version-check install "$1" || ! touch "$2/ready"; then
        echo "skipped: $1 cannot be had from PyPI here"
        exit 77
    fi
}
