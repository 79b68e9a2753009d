# shellcheck shell=bash disable=SC2034,SC2154 # variables pass between the files
# What differs between schedulers, to be sourced by body.sh.
#
# allocation SCHEDULER sets, where the job script's head left them empty:
#   ranks, nodes, ranks_per_node, cpus_per_rank, gpus_per_rank (0 or 1)
#   cpus_per_node   the CPUs that the job has on a node
#   bound           yes where every rank can have CPUs of its own; no where they are fewer than ranks times cpus_per_rank
#   wall            the job's time limit in seconds, empty where it is not known
#   launcher        srun, mpirun, jsrun or flux
#   hosts           "host ranks" lines for mpirun; empty where the launcher knows them
# The head may also set gpu_map ("3 2 1 0": GPUs by rank within a node), mpi and distribution (srun's options of those names),
# and the array launch, which then is the launch line, whatever the scheduler (the word RANKS in it becomes their number).
#
# launch_line RANKS sets the array `line`: the launcher with its flags. show_job prints what the scheduler says of the job.

# Not coreutils' nproc as it is: that obeys OMP_NUM_THREADS.
cpus_here() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

allocation() {
    scheduler=$1 hosts="" wall=""
    : "${ranks:=}" "${cpus_per_rank:=}" "${gpus_per_rank:=}" "${launcher:=}"
    case $1 in
    slurm) slurm_allocation ;;
    pbs) pbs_allocation ;;
    lsf) lsf_allocation ;;
    flux) flux_allocation ;;
    plain) plain_allocation ;;
    esac
    local name
    for name in nodes ranks cpus_per_rank cpus_per_node; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || refuse "$name=${!name}: must be a whole number from 1"
    done
    [[ $gpus_per_rank =~ ^[01]$ ]] || refuse "gpus_per_rank=$gpus_per_rank: must be 0 or 1, since one rank has one GPU; the nearest is 1"
    ranks_per_node=$(((ranks + nodes - 1) / nodes))
    bound=yes
    if [ $((ranks_per_node * cpus_per_rank)) -gt "$cpus_per_node" ]; then
        bound=no
        say "$ranks_per_node ranks a node of $cpus_per_rank CPUs each on $cpus_per_node CPUs: nothing is bound, times mean little"
    fi
    export PIPELEAF_BOUND=$bound PIPELEAF_GPUS_PER_RANK=$gpus_per_rank PIPELEAF_GPU_MAP=${gpu_map:-}
}

show_job() {
    case $scheduler in
    slurm) scontrol show job "$SLURM_JOB_ID" ;;
    pbs) qstat -f "$PBS_JOBID" ;;
    lsf) bjobs -l "$LSB_JOBID" ;;
    flux) echo "job $(flux getattr jobid) on $(flux getattr hostlist)" && flux resource list ;;
    plain) echo "no scheduler" ;;
    esac
}

# --- Slurm ----------------------------------------------------------------------------------------------------------------
slurm_allocation() {
    : "${SLURM_JOB_ID:?not in a Slurm job: sbatch jobscripts/slurm.sh}"
    nodes=${SLURM_JOB_NUM_NODES:-1}
    : "${ranks:=${SLURM_NTASKS:-$((nodes * ${SLURM_NTASKS_PER_NODE:-1}))}}"
    : "${cpus_per_rank:=${SLURM_CPUS_PER_TASK:-1}}"
    cpus_per_node=${SLURM_CPUS_ON_NODE:-$(cpus_here)}
    if [ -z "$gpus_per_rank" ]; then
        if [ "${SLURM_GPUS_ON_NODE:-0}" != 0 ]; then gpus_per_rank=1; else gpus_per_rank=0; fi
    fi
    wall=$(seconds_of "$(show_job | sed -n 's/.*TimeLimit=\([^ ]*\).*/\1/p')" || true)
    : "${launcher:=srun}"
}
# srun does not hand down sbatch's cpus-per-task (since 22.05): it is said again. The CPUs of a rank lie together, and ranks in
# ascending order of cores, so that no rank spans two sockets where it fits one; memory is then local by first touch. The ranks
# see all GPUs of the node, and rank.sh gives each its own. Where a rank has ended, the others have half a minute to follow.
srun_line() {
    line=(srun)
    local mpi=${mpi:-}
    if [ -z "$mpi" ] && srun --mpi=list 2>&1 | grep -qw pmix; then mpi=pmix; fi # what Open MPI and most others want
    if [ -n "$mpi" ]; then line+=("--mpi=$mpi"); fi
    line+=("--nodes=$line_nodes" "--ntasks=$1" "--cpus-per-task=$cpus_per_rank" --wait=30)
    if [ "$bound" = yes ]; then
        line+=(--cpu-bind=cores "--distribution=${distribution:-block:block}")
    else
        line+=(--cpu-bind=none --overcommit)
    fi
    if [ "$gpus_per_rank" = 1 ]; then line+=(--gpu-bind=none); fi
}

# --- PBS: a line of PBS_NODEFILE a rank (mpiprocs); PBS sets OMP_NUM_THREADS to ompthreads ----------------------------------
pbs_allocation() {
    : "${PBS_JOBID:?not in a PBS job: qsub jobscripts/pbs.sh}" "${PBS_NODEFILE:?}"
    hosts=$(count_hosts <"$PBS_NODEFILE")
    nodes=$(wc -l <<<"$hosts")
    : "${ranks:=$(grep -c . "$PBS_NODEFILE")}"
    : "${cpus_per_rank:=${OMP_NUM_THREADS:-1}}"
    : "${gpus_per_rank:=0}"
    cpus_per_node=$(cpus_here)
    wall=$(seconds_of "$(show_job 2>/dev/null | sed -n 's/^ *Resource_List.walltime = //p')" || true)
    : "${launcher:=mpirun}"
}
count_hosts() { # hosts, one a line: "host count", in order of first appearance
    awk 'NF { if (!count[$1]++) order[++hosts] = $1 } END { for (i = 1; i <= hosts; i++) print order[i], count[order[i]] }'
}

# --- LSF: LSB_MCPU_HOSTS is "host slots host slots ...", LSB_DJOB_RANKFILE a line a slot --------------------------------------
lsf_allocation() {
    : "${LSB_JOBID:?not in an LSF job: bsub < jobscripts/lsf.sh}"
    if [ -n "${LSB_MCPU_HOSTS:-}" ]; then
        # shellcheck disable=SC2086
        hosts=$(printf '%s %s\n' $LSB_MCPU_HOSTS)
    else
        hosts=$(count_hosts <"${LSB_DJOB_RANKFILE:?neither LSB_MCPU_HOSTS nor LSB_DJOB_RANKFILE is set}")
    fi
    if [ -z "$launcher" ]; then launcher=$(command -v jsrun >/dev/null && echo jsrun || echo mpirun); fi
    : "${cpus_per_rank:=1}" "${gpus_per_rank:=0}"
    wall=$(bjobs -noheader -o runtimelimit "$LSB_JOBID" 2>/dev/null | awk -F/ '$1 ~ /^[0-9.]+$/ { print int(60 * $1) }' || true)
    if [ "$launcher" = jsrun ]; then # the first host is the launch node, where no rank runs, and slots are all CPUs
        nodes=$(($(wc -l <<<"$hosts") - 1))
        cpus_per_node=$(awk 'NR == 2 { print $2 }' <<<"$hosts")
        hosts=""
        : "${ranks:=$((nodes * ${ranks_per_node:-1}))}"
    else
        nodes=$(wc -l <<<"$hosts")
        cpus_per_node=$(cpus_here)
        : "${ranks:=$(awk '{ slots += $2 } END { print slots }' <<<"$hosts")}"
    fi
}
jsrun_line() {
    line=(jsrun "--nrs=$1" --tasks_per_rs=1 "--cpu_per_rs=$cpus_per_rank" "--gpu_per_rs=$gpus_per_rank"
        "--rs_per_host=$line_ranks_per_node" --launch_distribution=packed)
    if [ "$gpus_per_rank" = 1 ]; then line+=(--latency_priority=gpu-cpu); fi
    if [ "$bound" = yes ]; then line+=("--bind=packed:$cpus_per_rank"); else line+=(--bind=none); fi
}

# --- Flux: the batch script is the first program of an instance of its own, whose resources are the job's --------------------
flux_allocation() {
    : "${FLUX_URI:?not in a Flux instance: flux batch jobscripts/flux.sh}"
    local gpus
    nodes=$(flux resource list -n -s up -o '{nnodes}')
    cpus_per_node=$(($(flux resource list -n -s up -o '{ncores}') / nodes))
    gpus=$(flux resource list -n -s up -o '{ngpus}')
    : "${cpus_per_rank:=1}"
    if [ -z "$gpus_per_rank" ]; then
        if [ "$gpus" != 0 ]; then gpus_per_rank=1; else gpus_per_rank=0; fi
    fi
    if [ -z "$ranks" ]; then
        if [ "$gpus_per_rank" = 1 ]; then ranks=$gpus; else ranks=$((nodes * (cpus_per_node / cpus_per_rank))); fi
    fi
    : "${launcher:=flux}"
    wall=$(flux job timeleft 2>/dev/null | awk '/^[0-9.]+$/ && $1 > 0 { print int($1) }' || true) # "infinity": none
}
flux_line() {
    line=(flux run "--nodes=$line_nodes" "--ntasks=$1" "--cores-per-task=$cpus_per_rank" --setopt=exit-timeout=30s)
    if [ "$bound" = yes ]; then line+=(--setopt=cpu-affinity=per-task); else line+=(--setopt=cpu-affinity=off); fi
    if [ "$gpus_per_rank" = 1 ]; then line+=(--gpus-per-task=1 --setopt=gpu-affinity=per-task); fi
}

# --- no scheduler: this machine ----------------------------------------------------------------------------------------------
plain_allocation() {
    nodes=1
    : "${cpus_per_rank:=1}" "${gpus_per_rank:=0}" "${launcher:=mpirun}"
    cpus_per_node=$(cpus_here)
    : "${ranks:=$((cpus_per_node / cpus_per_rank))}"
}

# --- mpirun, as its maker has it -----------------------------------------------------------------------------------------------
mpirun_line() {
    find_mpirun
    line=("$mpirun" -n "$1")
    local version name
    version=$("$mpirun" --version 2>&1 || true)
    case $(readlink -f "$mpirun")$version in
    *"Open MPI"* | *OpenRTE* | *PRRTE*)
        if [ -n "$hosts" ]; then
            host_file "%s slots=%s\n"
            line+=(--hostfile "$host_file")
        fi
        if [ "$bound" = yes ]; then line+=(--map-by "$(open_mpi_map)" --bind-to core); else line+=(--bind-to none); fi
        # It hands down its own variables alone.
        for name in PATH LD_LIBRARY_PATH ${!OMP_*} ${!PIPELEAF_*} ${!CUDA_*} ${!NCCL_*} ${!UCX_*}; do
            if [ -n "${!name:-}" ] && [[ $(declare -p "$name") == declare\ -*x* ]]; then line+=(-x "$name"); fi
        done
        ;;
    */pals/*) # HPE Cray
        line+=(--ppn "$line_ranks_per_node" --depth "$cpus_per_rank" --cpu-bind "$(if [ "$bound" = yes ]; then echo depth; else echo none; fi)")
        ;;
    *HYDRA* | *"Intel(R) MPI"*)
        if [ -n "$hosts" ]; then
            host_file "%s:%s\n"
            line+=(-f "$host_file")
        fi
        line+=(-ppn "$line_ranks_per_node")
        if [ "$bound" = no ]; then
            line+=(-bind-to none)
        else
            line+=(-bind-to "core:$cpus_per_rank" -map-by "core:$cpus_per_rank")
            export I_MPI_PIN_DOMAIN=omp I_MPI_PIN_ORDER=compact
        fi
        ;;
    *) say "$mpirun is neither Open MPI's, Hydra's nor PALS's: hosts and binding are left to it" ;;
    esac
}
host_file() { # form of a line; sets `host_file`, made once
    local host count
    [ -z "${host_file:-}" ] || return 0
    host_file=$(mktemp "${TMPDIR:-/tmp}/pipeleaf-hosts.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -f '$host_file'" EXIT
    # shellcheck disable=SC2059
    while read -r host count; do printf "$1" "$host" "$count"; done <<<"$hosts" >"$host_file"
}

# As many ranks in each NUMA domain, in ascending order of cores, where they divide and fit; else core after core, which puts no
# rank across two domains where a rank's CPUs divide a domain's.
open_mpi_map() {
    local node domains=0 cores=0 threads
    local sys=${PIPELEAF_SYSFS:-/sys}/devices/system
    threads=$(tr -s ',-' '\n' <"$sys/cpu/cpu0/topology/thread_siblings_list" 2>/dev/null | wc -l)
    if [ "$threads" -lt 1 ]; then threads=1; fi
    for node in "$sys"/node/node[0-9]*; do
        if ! grep -q '[0-9]' "$node/cpulist" 2>/dev/null; then continue; fi # memory without CPUs
        domains=$((domains + 1))
        cores=$((cores + $(tr , '\n' <"$node/cpulist" | awk -F- '{ n += (NF > 1 ? $2 : $1) - $1 + 1 } END { print n }') / threads))
    done
    if [ "$domains" -gt 1 ] && [ $((line_ranks_per_node % domains)) = 0 ] &&
        [ $((line_ranks_per_node * cpus_per_rank)) -le "$cores" ]; then
        echo "ppr:$((line_ranks_per_node / domains)):numa:PE=$cpus_per_rank"
    else
        echo "slot:PE=$cpus_per_rank"
    fi
}

# --- the line ------------------------------------------------------------------------------------------------------------------
launch_line() { # ranks: those of the job, or fewer, on as few nodes as they need
    [ "$1" -le "$ranks" ] || refuse "$1 ranks asked for, but the job has $ranks"
    line_nodes=$((($1 + ranks_per_node - 1) / ranks_per_node))
    line_ranks_per_node=$((($1 + line_nodes - 1) / line_nodes))
    if [ "${launch+set}" = set ]; then
        line=("${launch[@]//RANKS/$1}")
    else
        "${launcher}_line" "$1"
    fi
    if [ "$gpus_per_rank" = 1 ]; then line+=("$root/jobscripts/rank.sh"); fi
}
