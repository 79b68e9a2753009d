# shellcheck shell=bash disable=SC2034,SC2154 # variables pass between the files
# What the job scripts share, to be sourced: find the build, check the job, save its circumstances, launch, exit with the
# program's code. A job script sets `root` (the checkout), sources this, and ends in `job SCHEDULER WORD...`, where the words
# are those of `pipeleaf run` or, after `sweep`, those of sweep.sh. `schedulers.sh` has what differs between schedulers.
: "${root:?the job script sets it}"

say() { printf '\n== %s\n' "$*"; }
refuse() {
    printf 'jobscripts: error: %s\n' "$*" >&2
    exit 1
}

# What Open MPI needs to start as root, and more ranks than cores, goes through its environment: MPICH refuses unknown flags.
mpi_as_root() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
}
mpi_environment() {
    mpi_as_root
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
    export OMP_WAIT_POLICY=passive # threads that wait do not take the core from a neighbour
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_sm_single_copy_mechanism=none # containers often forbid it
}

find_mpirun() { # sets `mpirun`
    mpirun=$(command -v mpirun || command -v mpiexec) || refuse "neither mpirun nor mpiexec is in PATH: load the module of the MPI that Pipeleaf was built with"
}

# PIPELEAF names the program or its folder; else the builds of this checkout in order of preference, then PATH.
find_program() { # sets `program`
    local place
    if [ -n "${PIPELEAF:-}" ]; then
        set -- "$PIPELEAF" "$PIPELEAF/pipeleaf"
    else
        set -- "$root/build/release/pipeleaf" "$root/build/local/pipeleaf" "$root/build/pipeleaf" "$(command -v pipeleaf || true)"
    fi
    for place; do
        if [ -f "$place" ] && [ -x "$place" ]; then
            program=$place
            return 0
        fi
    done
    refuse "no build of Pipeleaf: ${PIPELEAF:+PIPELEAF=$PIPELEAF is none; }on a login node with the job's modules loaded," \
        "'cmake --preset release && cmake --build --preset release' (or 'jobscripts/local.sh build') in $root makes one; or set PIPELEAF to its folder"
}

# --- the deck ---------------------------------------------------------------------------------------------------------
# The words that `pipeleaf deck` takes too: the deck and its overrides, without options and their values.
deck_words() { # words; sets the array `deck_words`
    deck_words=()
    while [ $# -gt 0 ]; do
        case $1 in
        --*) shift ;; # --inject FAULT
        *) deck_words+=("$1") ;;
        esac
        [ $# -eq 0 ] || shift
    done
}
deck_value() { # name in the effective deck $effective, quotes taken off
    sed -n "s/^ *$1 = //p" <<<"$effective" | sed "s/^'\(.*\)'\$/\1/; s/''/'/g"
}

# [days-]hours:minutes:seconds, minutes:seconds, or seconds: in seconds. Fails on anything else (UNLIMITED, nothing).
seconds_of() {
    [[ ${1:-} =~ ^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$ ]] || return 1
    awk -v time="$1" 'BEGIN {
        days = 0
        if (split(time, part, "-") == 2) { days = part[1]; time = part[2] }
        count = split(time, part, ":")
        for (i = 1; i <= count; i++) seconds = 60 * seconds + part[i]
        if (days && count < 3) seconds *= count == 2 ? 60 : 3600 # days-hours, days-hours:minutes
        print 86400 * days + seconds
    }'
}

# A scheduler that ends the job before the watchdog does leaves nobody a reason.
check_wall() { # `wall`: the job's limit in seconds, empty where the scheduler does not say
    local timeout
    timeout=$(deck_value timeout)
    if [ "$scheduler" = plain ]; then
        return 0
    elif [ -z "$wall" ]; then
        say "the job's wall time is not known: it should be above run.timeout = $timeout seconds"
    elif awk -v wall="$wall" -v timeout="$timeout" 'BEGIN { exit !(wall <= timeout) }'; then
        refuse "the job's wall time, $wall seconds, is not above run.timeout = $timeout seconds: the scheduler would end a run that hangs" \
            "before the watchdog says why; ask for more, or set run.timeout below $wall"
    fi
}

# --- what is saved beside the output -------------------------------------------------------------------------------------
# Values of variables that are named like secrets are withheld: results are handed on.
save_environment() {
    local name
    while IFS= read -r name; do
        case ${name^^} in
        *TOKEN* | *SECRET* | *PASSW* | *CREDENTIAL* | *APIKEY* | *API_KEY* | *PRIVATE_KEY* | *ACCESS_KEY*) printf '%s=(withheld)\n' "$name" ;;
        *) printf '%s=%q\n' "$name" "${!name}" ;;
        esac
    done < <(compgen -e | LC_ALL=C sort)
}
save_modules() {
    if declare -F module >/dev/null || command -v modulecmd >/dev/null || [ -n "${LMOD_CMD:-}" ]; then
        module -t list 2>&1 || echo "module list failed" # from the set-up scripts of the shell; it prints to stderr
    elif [ -n "${LOADEDMODULES:-}" ]; then
        tr : '\n' <<<"$LOADEDMODULES"
    else
        echo "no environment modules here"
    fi
}
save_libraries() { ldd "$program" || echo "ldd says nothing of $program: it is static, or not for this machine"; }

# By the same launch line as the run, so of the same binding. Where the launch itself fails the run says so better.
save_affinity() {
    local code=0
    "${line[@]}" "$root/jobscripts/rank.sh" --show </dev/null >"$records/affinity.part" 2>&1 || code=$?
    LC_ALL=C sort -s -n "$records/affinity.part" >"$records/affinity.txt" # by rank
    rm -f "$records/affinity.part"
    if [ "$code" != 0 ]; then echo "the launcher failed: exit code $code" >>"$records/affinity.txt"; fi
}

save_records() { # directory
    records=$1
    mkdir -p "$records" || refuse "'$records' cannot be made: the records of the job go there"
    save_environment >"$records/environment.txt"
    save_modules >"$records/modules.txt"
    save_libraries >"$records/ldd.txt" 2>&1
    show_job >"$records/job.txt" 2>&1 || true
    { printf '%q ' "${line[@]}" && printf '\n'; } >"$records/launch.txt"
    save_affinity
    if grep -q 'SPANS\|FAR' "$records/affinity.txt"; then
        say "binding is not as it should be ($records/affinity.txt):"
        grep 'SPANS\|FAR' "$records/affinity.txt"
    fi
}

# --- the job --------------------------------------------------------------------------------------------------------------
job() { # scheduler (slurm, pbs, lsf, flux, plain), then words: DECK [override ...], or sweep DECK [axis or override ...]
    local scheduler=$1 code=0
    shift
    cd "$root" || exit
    # shellcheck source=jobscripts/schedulers.sh
    . "$root/jobscripts/schedulers.sh"
    find_program
    allocation "$scheduler"
    export OMP_NUM_THREADS=$cpus_per_rank
    if [ "$(id -u)" = 0 ]; then mpi_as_root; fi
    if [ "$bound" = no ]; then mpi_environment; else export OMP_PLACES=cores OMP_PROC_BIND=close; fi
    if [ "${1:-}" = sweep ]; then
        # shellcheck source=jobscripts/sweep.sh
        . "$root/jobscripts/sweep.sh"
        shift
        sweep "$@"
    fi
    deck_words "$@"
    effective=$("$program" deck "${deck_words[@]}") || exit
    check_wall
    launch_line "$ranks"
    save_records "$(deck_value directory)/job"
    say "${line[*]} pipeleaf run $*"
    # Neither a pipe nor a background: the code is the program's.
    "${line[@]}" "$program" run "$@" </dev/null || code=$?
    say "pipeleaf's exit code is $code; the job's circumstances are in $records"
    exit "$code"
}
