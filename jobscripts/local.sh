#!/usr/bin/env bash
# Pipeleaf on this machine, from nothing to a verdict.
#
#   jobscripts/local.sh run     install what is missing, build, run the reference and the p=4 v=2 pipeline of input/tiny.nml, validate
#   jobscripts/local.sh test    install what is missing, for the tests too, build, run all tests
#   jobscripts/local.sh build   only install and build
#
# Installs on Debian and Ubuntu, with sudo when not root, and asks nothing; elsewhere it names the packages and goes on if what
# is needed is there. Builds in build/local (PIPELEAF_BUILD to change it). The exit code is that of the step that failed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${PIPELEAF_BUILD:-$root/build/local}
cd "$root"

# shellcheck source=jobscripts/body.sh
. "$root/jobscripts/body.sh" # say, find_mpirun, mpi_environment

usage() {
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit "$1"
}

# --- what is needed: a Debian package, and how to see that what it brings is there already ---------------------------
has_command() { command -v "$1" >/dev/null 2>&1; }
has_daemon() { PATH=$PATH:/usr/sbin:/sbin has_command "$1"; }
has_header() { printf '#include <%s>\n' "$1" | "${CC:-cc}" "${@:2}" -fsyntax-only -xc - 2>/dev/null; }
has_python() { /usr/bin/python3 -c "import $1" >/dev/null 2>&1; }
has_jansson() { has_command pkg-config && pkg-config --exists jansson; }
has_hdf5() { has_command h5cc || has_command h5pcc; }
has_openmp() { has_header omp.h -fopenmp; }
cmake_is_new() { has_command cmake && [ "$(printf '%s\n' 3.25 "$(cmake --version | sed -n '1s/[^0-9]*//p')" | sort -V | head -n 1)" = 3.25 ]; }

missing=()
need() { # package, then the check
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

find_missing() { # $1: run or test
    missing=()
    need build-essential has_command "${CC:-cc}"
    need build-essential has_command make
    need git has_command git
    need pkg-config has_command pkg-config
    need cmake has_command cmake
    need libhdf5-dev has_hdf5
    need librandom123-dev has_header Random123/philox.h
    need libssl-dev has_header openssl/evp.h
    need libjansson-dev has_jansson
    if ! has_command mpicc; then missing+=(libopenmpi-dev openmpi-bin); fi
    if ! has_command mpirun && ! has_command mpiexec; then missing+=(openmpi-bin); fi
    if [ "$1" = test ]; then
        need gfortran has_command gfortran
        need python3-h5py has_python h5py
        need python3-jsonschema has_python jsonschema
        need python3-matplotlib has_python matplotlib
        need nodejs has_command node
        need python3-torch has_python torch
        need hdf5-tools has_command h5dump
        need gcc-aarch64-linux-gnu has_command aarch64-linux-gnu-gcc
        need qemu-user has_command qemu-aarch64
        need clang has_command clang
        need procps has_command pgrep
        need mandoc has_command mandoc
        need bsdextrautils has_command col
        need shellcheck has_command shellcheck
        need python3-venv has_python ensurepip
        if [ "$(id -u)" = 0 ]; then # the test of slurm.sh runs as root only
            need munge has_daemon munged
            need slurmctld has_daemon slurmctld
            need slurmd has_daemon slurmd
            need slurm-client has_command sbatch
        fi
        need jube has_command jube
    fi
}

install_missing() {
    find_missing "$1"
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! has_command apt-get; then
        say "this is not Debian or Ubuntu; not found, by their Debian names: ${missing[*]}"
        return 0
    fi
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        if ! has_command sudo || ! sudo -n true 2>/dev/null; then
            say "not root, and sudo asks for a password: as root, apt-get install ${missing[*]}"
            return 0
        fi
        as_root=(sudo -n)
    fi
    say "installing ${missing[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# A CMake of 3.25 or newer: Ubuntu 22.04 has an older one, PyPI has a new one.
provide_cmake() {
    cmake_is_new && return 0
    local tools=$root/build/tools
    export PATH=$tools/bin:$PATH
    cmake_is_new && return 0
    say "CMake 3.25 or newer is needed: taking it from PyPI into build/tools"
    python3 -m venv "$tools" && "$tools/bin/pip" --quiet install 'cmake>=3.25'
}

# f90nml, which Debian has not, from PyPI into build/python: the test that uses it is skipped without it.
provide_f90nml() {
    local python=$root/build/python
    [ -x "$python/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$python" >/dev/null 2>&1 || return 0
    if ! "$python/bin/python" -c 'import f90nml' 2>/dev/null && ! "$python/bin/pip" --quiet install f90nml >/dev/null 2>&1; then
        say "f90nml cannot be had from PyPI here: its test will be skipped"
        return 0
    fi
    options+=("-DPIPELEAF_PYTHON=$python/bin/python")
}

# --- build ----------------------------------------------------------------------------------------------------------
build_all() { # $1: ON builds the tests too
    provide_cmake
    say "building in $build"
    local options=(-DCMAKE_BUILD_TYPE=Release "-DPIPELEAF_TESTS=$1")
    if [ "$1" = ON ]; then provide_f90nml; fi
    if [ "${CI:-}" = true ]; then options+=(-DPIPELEAF_WERROR=ON); fi
    if ! cmake -S "$root" -B "$build" "${options[@]}" >"$root/build/configure.log" 2>&1; then
        cat "$root/build/configure.log" >&2
        find_missing run
        if [ ${#missing[@]} -gt 0 ]; then say "still missing, by their Debian names: ${missing[*]}" >&2; fi
        return 1
    fi
    cmake --build "$build" --parallel "$(nproc)" | grep -vE '^\[ *[0-9]+%\]' || return "${PIPESTATUS[0]}"
}

mkdir -p "$root/build"
case ${1:-} in
run)
    install_missing run
    build_all OFF
    mpi_environment
    find_mpirun
    say "pipeleaf reference input/tiny.nml"
    "$build/pipeleaf" reference input/tiny.nml
    say "$mpirun -n 4 pipeleaf run input/tiny.nml"
    "$mpirun" -n 4 "$build/pipeleaf" run input/tiny.nml
    say "pipeleaf-validate out/tiny"
    "$build/pipeleaf-validate" out/tiny
    ;;
test)
    install_missing test
    build_all ON
    mpi_environment
    say "ctest"
    ctest --test-dir "$build" --output-on-failure --parallel 2
    ;;
build)
    install_missing run
    build_all OFF
    ;;
-h | --help) usage 0 ;;
*) usage 1 >&2 ;;
esac
