#!/usr/bin/env bash
# jobscripts/slurm.sh under Slurm itself: munged, slurmctld and slurmd on the loopback interface, their configuration, state and
# socket in a folder of the test, in the foreground as its children, ended when it ends. Every wait is bounded.
# The job that is to meet its time limit starts first; Slurm looks at limits twice a minute, and the others run meanwhile.
# Environment: as said.sh.
set -uo pipefail

skip() {
    echo "skipped: $*"
    exit 77
}
for command in munged slurmctld slurmd sbatch srun scontrol; do
    command -v "$command" >/dev/null || PATH=$PATH:/usr/sbin command -v "$command" >/dev/null ||
        skip "$command is not installed (Debian: munge, slurmctld, slurmd, slurm-client)"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
PATH=$PATH:/usr/sbin

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"
unset "${!SLURM_@}" "${!OMPI_@}" "${!PRTE_@}" "${!OMP_@}" 2>/dev/null # a job must do without the tests' own settings

# --- Slurm, for the length of this test -------------------------------------------------------------------------------------
slurm=$(mktemp -d /tmp/pipeleaf-slurm.XXXXXX) # a short name: socket addresses have 108 bytes
chmod 711 "$slurm"                            # munged wants its socket reachable
daemons=()
# shellcheck disable=SC2317,SC2329
finish() {
    scancel --user=root >/dev/null 2>&1 &
    wait_for 3 no_job_is_left
    local pid
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null; done
    for pid in "${daemons[@]}"; do wait_for 5 gone "$pid" || kill -KILL "$pid" 2>/dev/null; done
    rm -rf "$slurm" "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

wait_for() { # seconds, command...: true as soon as the command is
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}
gone() { ! kill -0 "$1" 2>/dev/null; }
daemon() { # name, command...
    "${@:2}" >"$slurm/$1.log" 2>&1 </dev/null &
    daemons+=($!)
}

host=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir "$slurm/state" "$slurm/spool"
(umask 077 && head -c 1024 /dev/urandom >"$slurm/munge.key")
cat >"$slurm/slurm.conf" <<END
ClusterName=pipeleaf
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
END
export SLURM_CONF=$slurm/slurm.conf
daemon munged munged --foreground --socket="$slurm/munge.socket" --key-file="$slurm/munge.key" --pid-file="$slurm/munged.pid" \
    --seed-file="$slurm/munged.seed" --num-threads=10
wait_for 5 test -S "$slurm/munge.socket"
daemon slurmctld slurmctld -D
daemon slurmd slurmd -D -N "$host"
# shellcheck disable=SC2317,SC2329
idle() { [ "$(timeout 5 sinfo --noheader --format=%T 2>/dev/null)" = idle ]; }
if ! wait_for 20 idle; then
    echo "Slurm does not start:"
    tail -n 20 "$slurm"/*.log
    exit 1
fi

# --- jobs -----------------------------------------------------------------------------------------------------------------------
submit() { # name, sbatch option..., --, words: the job's number
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    timeout 10 sbatch --parsable --output="$work/$name.log" "${options[@]}" jobscripts/slurm.sh "${@:2}"
}
# shellcheck disable=SC2317,SC2329
ended() { [[ $(field "$1" JobState) =~ ^(COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL|OUT_OF_MEMORY|BOOT_FAIL|DEADLINE)$ ]]; }
# shellcheck disable=SC2317,SC2329
running() { [ "$(field "$1" JobState)" = RUNNING ]; }
# shellcheck disable=SC2317,SC2329
no_job_is_left() { [ -z "$(timeout 5 squeue --noheader 2>/dev/null)" ]; }
# shellcheck disable=SC2317,SC2329
stepping() { grep -qs '^steps ' "$work/limit.log"; }
field() { timeout 5 scontrol show job "$1" 2>/dev/null | sed -n "s/.*\b$2=\([^ ]*\).*/\1/p" | head -n 1; }
is() { [ "$(field "$job" "$1")" = "$2" ] || { printf '    %s=%s, not %s\n' "$1" "$(field "$job" "$1")" "$2"; return 1; }; }
of() { # name, number: the job that the next facts are about
    job=$2
    wait_for "$3" ended "$job"
    cp "$work/$1.log" "$work/output" 2>/dev/null || : >"$work/output"
}

# Slurm's least limit is a minute; the administrator sets an earlier end.
limit=$(submit limit --ntasks=1 --time=1 -- input/tiny.nml output.directory="$work/limit" pipeline.ranks=1 run.timeout=20.0 run.steps=200000 output.activations=none output.gradients=none)
wait_for 20 running "$limit"
right=$(submit right --ntasks=4 --overcommit -- input/tiny.nml output.directory="$work/right")
wrong=$(submit wrong --ntasks=4 --overcommit --dependency=afterany:"$right" -- input/tiny.nml output.directory="$work/wrong" \
    --inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3)
table=$(submit table --ntasks=2 --overcommit --dependency=afterany:"$wrong" -- sweep input/tiny.nml p=1,2 v=1 m=2 run.steps=1 output="$work/table")
wait_for 20 stepping
timeout 5 scontrol update jobid="$limit" endtime=now+1

of right "$right" 40
check "a right run: the job is COMPLETED" is JobState COMPLETED
check "with exit code 0" is ExitCode 0:0
check "and SUCCESSFUL in its log" verdict_is SUCCESSFUL
check "launched by srun with CPUs a task" grep -q "^srun --mpi=pmix --nodes=1 --ntasks=4 --cpus-per-task=1 " "$work/right/job/launch.txt"
check "the environment is saved" grep -q "^SLURM_JOB_ID=$right" "$work/right/job/environment.txt"
check "the libraries are saved" grep -q libmpi "$work/right/job/ldd.txt"
check "the modules are saved" test -s "$work/right/job/modules.txt"
check "the affinity of four ranks is saved" test "$(grep -c 'CPUs [0-9]' "$work/right/job/affinity.txt")" = 4
check "Slurm's view is saved" grep -q "JobId=$right" "$work/right/job/job.txt"

of wrong "$wrong" 40
check "a wrong run: the job is FAILED" is JobState FAILED
check "with exit code 2" is ExitCode 2:0
check "and UNSUCCESSFUL in its log" verdict_is UNSUCCESSFUL

of table "$table" 40
check "a sweep in a job: COMPLETED" is JobState COMPLETED
check "its cells are right" test "$(grep -c ',right,SUCCESSFUL,' "$work/table/sweep.csv")" = 2
check "their launch is srun's" grep -q "^srun " "$work/table/job/launch.txt"

refused=$(submit refused --ntasks=1 --time=1 -- input/tiny.nml output.directory="$work/refused" pipeline.ranks=1)
of refused "$refused" 20
check "a time limit below the watchdog's: FAILED" is JobState FAILED
check "for that reason" says "wall time, 60 seconds, is not above run.timeout"

of limit "$limit" 75
check "a run that meets its time limit: TIMEOUT" is JobState TIMEOUT
check "it was running" says "200000"
check "no verdict is given" says_not "VERIFICATION ="

if [ "$false" != 0 ]; then tail -n 20 "$slurm"/*.log; fi
echo "$facts facts checked, $false false, $SECONDS seconds"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
