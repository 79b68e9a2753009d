#!/usr/bin/env bash
# The job scripts under stand-ins for PBS, LSF and Flux, which set what those set and write down how they are called.
# One statement a function; `stand_in.sh NAME` checks one. Environment: as said.sh.
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"

# --- the stand-ins --------------------------------------------------------------------------------------------------------
mkdir -p "$work/bin" "$work/pals/bin"
for name in mpirun nproc qstat bjobs flux; do ln -s "$PIPELEAF_SOURCE/validate/jobscripts/stand_in/scheduler" "$work/bin/$name"; done
cp "$PIPELEAF_SOURCE/validate/jobscripts/stand_in/scheduler" "$work/pals/bin/mpirun"
export PATH=$work/bin:$PATH STAND_IN_LOG=$work/launches

# A machine of two NUMA domains of 8 cores, whose GPUs 0 and 1 are on domain 1, 2 and 3 on domain 0.
export PIPELEAF_SYSFS=$work/sys
mkdir -p "$work/sys/devices/system/"{node/node0,node/node1,cpu/cpu0/topology}
echo 0-7 >"$work/sys/devices/system/node/node0/cpulist"
echo 8-15 >"$work/sys/devices/system/node/node1/cpulist"
echo 0 >"$work/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"
for gpu in 81:1 c1:1 01:0 41:0; do
    mkdir -p "$work/sys/bus/pci/devices/0000:${gpu%:*}:00.0"
    echo "${gpu#*:}" >"$work/sys/bus/pci/devices/0000:${gpu%:*}:00.0/numa_node"
done

open_mpi="mpirun (Open MPI) 4.1.4"
hydra="HYDRA build details:"
# What mpirun is told to hand down; the test's own environment must not add to it.
unset "${!OMP_@}" "${!CUDA_@}" "${!NCCL_@}" "${!UCX_@}" LD_LIBRARY_PATH
unset "${!SLURM_@}" "${!PBS_@}" "${!LSB_@}" "${!FLUX_@}" 2>/dev/null

submit() { # script, [variable=value ...], --, words: as the scheduler would; output in $work/output, code in $code
    local script=$1 settings=()
    shift
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    rm -f "$STAND_IN_LOG"
    cp "$PIPELEAF_SOURCE/jobscripts/$script.sh" "$work/spooled" # schedulers run a copy
    env PIPELEAF_ROOT="$PIPELEAF_SOURCE" "${settings[@]}" "$work/spooled" "$@" </dev/null >"$work/output" 2>&1
    code=$?
}
pbs() { # a line of nodes, ompthreads, wall time, then settings -- words
    tr ' ' '\n' <<<"$1" >"$work/nodes"
    submit pbs PBS_JOBID=7.server "PBS_NODEFILE=$work/nodes" "PBS_O_WORKDIR=$PIPELEAF_SOURCE" "OMP_NUM_THREADS=$2" "STAND_IN_WALL=$3" "${@:4}"
}
lsf() { # LSB_MCPU_HOSTS, wall time, then settings -- words
    submit lsf LSB_JOBID=7 "LSB_MCPU_HOSTS=$1" "LS_SUBCWD=$PIPELEAF_SOURCE" "STAND_IN_WALL=$2" "${@:3}"
}
flux() { # nodes, cores, GPUs, seconds, then settings -- words
    submit flux FLUX_URI=local:///stand-in "STAND_IN_NODES=$1" "STAND_IN_CORES=$2" "STAND_IN_GPUS=$3" "STAND_IN_WALL=$4" "${@:5}"
}
launched() { # the launch line of the run, without the variables handed down and what varies
    local seen
    seen=$(tail -n 1 "$STAND_IN_LOG" | sed -E "s/ -x [A-Z_]+//g; s#(--hostfile|-f) [^ ]*pipeleaf-hosts[^ ]*#\1 HOSTS#; s#$PIPELEAF/##; s#$PIPELEAF_SOURCE/##g; s/ run input.*//")
    [ "$seen" = "$1" ] || { printf '    launched: %s\n    wanted:   %s\n' "$seen" "$1"; return 1; }
}
launched_with() { tail -n 1 "$STAND_IN_LOG" | grep -qF -- "$1"; }
launches() { [ "$(grep -sc . "$STAND_IN_LOG")" = "$1" ] || { [ "$1" = 0 ] && [ ! -e "$STAND_IN_LOG" ]; }; }
refused() { [ "$(grep -c 'error:' "$work/output")" = 1 ] && grep 'error:' "$work/output" | grep -qF -- "$1"; }
dry=(STAND_IN_EXIT=0 STAND_IN_CPUS=16)
words=(input/tiny.nml "output.directory=$work/out" pipeline.ranks=4)
saved() { grep -q -- "$2" "$work/out/job/$1"; }

# --- the statements --------------------------------------------------------------------------------------------------------
launch_lines_are_those_of_the_scheduler() {
    pbs "n1 n1 n2 n2" 8 00:30:00 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- "${words[@]}"
    check "PBS, Open MPI: a rank in each NUMA domain" launched "mpirun -n 4 --hostfile HOSTS --map-by ppr:1:numa:PE=8 --bind-to core pipeleaf"
    check "PBS, Open MPI: the threads are handed down" launched_with "-x OMP_NUM_THREADS"
    check "PBS: the ranks are shown by the same line before" launches 2
    check "PBS: all ranks are shown, in order" test "$(awk '{ print $1 }' "$work/out/job/affinity.txt" | tr '\n' ' ')" = "0 1 2 3 "
    check "PBS: the launch line is saved" saved launch.txt "ppr:1:numa:PE=8"
    check "PBS: the scheduler's view is saved" saved job.txt "Job Id: 7.server"
    pbs "n1 n1 n1" 8 00:30:00 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=3
    check "PBS: more CPUs than there are: unbound" launched "mpirun -n 3 --hostfile HOSTS --bind-to none pipeleaf"
    pbs "n1 n1 n1" 4 00:30:00 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=3
    check "PBS: ranks that do not divide over the domains: core after core" launched "mpirun -n 3 --hostfile HOSTS --map-by slot:PE=4 --bind-to core pipeleaf"
    pbs "n1 n1 n2 n2" 4 00:30:00 STAND_IN_VERSION="$hydra" "${dry[@]}" -- "${words[@]}"
    check "PBS, MPICH" launched "mpirun -n 4 -f HOSTS -ppn 2 -bind-to core:4 -map-by core:4 pipeleaf"
    pbs "n1 n1 n2 n2" 4 00:30:00 "PATH=$work/pals/bin:$PATH" STAND_IN_VERSION="mpiexec" "${dry[@]}" -- "${words[@]}"
    check "PBS, HPE Cray" launched "mpirun -n 4 --ppn 2 --depth 4 --cpu-bind depth pipeleaf"

    lsf "h1 2 h2 2" 30.0/h1 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- "${words[@]}"
    check "LSF, Open MPI" launched "mpirun -n 4 --hostfile HOSTS --map-by ppr:1:numa:PE=1 --bind-to core pipeleaf"
    check "LSF: the scheduler's view is saved" saved job.txt "Job <7>"
    printf 'h1\nh1\nh2\nh2\n' >"$work/ranks"
    lsf "" 30.0 LSB_DJOB_RANKFILE="$work/ranks" STAND_IN_VERSION="$hydra" "${dry[@]}" -- "${words[@]}"
    check "LSF, MPICH, hosts from the rank file" launched "mpirun -n 4 -f HOSTS -ppn 2 -bind-to core:1 -map-by core:1 pipeleaf"
    ln -s "$PIPELEAF_SOURCE/validate/jobscripts/stand_in/scheduler" "$work/bin/jsrun"
    lsf "launch 1 h1 42 h2 42" 30.0 "${dry[@]}" -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=8 model.layers=16
    check "LSF, jsrun: the launch node has no ranks" launched "jsrun --nrs=8 --tasks_per_rs=1 --cpu_per_rs=1 --gpu_per_rs=0 --rs_per_host=4 --launch_distribution=packed --bind=packed:1 pipeleaf"

    flux 2 32 0 1800 "${dry[@]}" -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=32 model.layers=64
    check "Flux" launched "flux run --nodes=2 --ntasks=32 --cores-per-task=1 --setopt=exit-timeout=30s --setopt=cpu-affinity=per-task pipeleaf"
    ln -s "$PIPELEAF_SOURCE/validate/jobscripts/stand_in/scheduler" "$work/bin/nvidia-smi"
    flux 1 16 4 1800 "${dry[@]}" -- "${words[@]}"
    check "Flux with GPUs: a GPU a rank" launched "flux run --nodes=1 --ntasks=4 --cores-per-task=1 --setopt=exit-timeout=30s --setopt=cpu-affinity=per-task --gpus-per-task=1 --setopt=gpu-affinity=per-task jobscripts/rank.sh pipeleaf"
    check "Flux: the scheduler's view is saved" saved job.txt "ƒstand-in"
}

the_exit_code_is_the_programs() {
    pbs "n1 n1" 1 00:30:00 STAND_IN_VERSION="$open_mpi" STAND_IN_CPUS=2 SITE_TOKEN=hidden -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=2
    check "a run under PBS passes" exits 0
    check "and says so" verdict_is SUCCESSFUL
    check "the libraries are saved" saved ldd.txt libmpi
    check "the environment is saved" saved environment.txt "^PBS_JOBID=7.server"
    check "secrets are not" saved environment.txt "^SITE_TOKEN=(withheld)"
    check "the modules are saved" test -s "$work/out/job/modules.txt"
    lsf "h1 2" 30.0 STAND_IN_VERSION="$open_mpi" STAND_IN_CPUS=2 -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=2 \
        --inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3
    check "a wrong run under LSF ends in 2" exits 2
    check "and says so" verdict_is UNSUCCESSFUL
    for code_wanted in 0 3 4 137; do
        flux 1 2 0 1800 STAND_IN_CPUS=2 STAND_IN_EXIT=$code_wanted -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=2
        check "the launcher's $code_wanted is the job's" exits $code_wanted
    done
    flux 1 2 0 1800 STAND_IN_CPUS=2 WORDS= -- input/tiny.nml "output.directory=$work/out" pipeline.ranks=3
    check "a deck for more ranks than the job's ends in 1" exits 1
}

bad_jobs_are_refused_in_one_line() {
    pbs "n1" 1 00:05:00 STAND_IN_VERSION="$open_mpi" STAND_IN_CPUS=2 -- "${words[@]}"
    check "wall time no longer than the watchdog's: exit 1" exits 1
    check "saying both and what to do" refused "the job's wall time, 300 seconds, is not above run.timeout = 300.0 seconds"
    check "and nothing is launched" launches 0
    pbs "n1" 1 00:05:01 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- "${words[@]}"
    check "a second more will do" exits 0
    pbs "n1" 1 1:00:00:00 STAND_IN_VERSION="$open_mpi" "${dry[@]}" -- "${words[@]}"
    check "a time that cannot be read is said" says "wall time is not known"
    lsf "h1 2" 4.0/h1 STAND_IN_VERSION="$open_mpi" STAND_IN_CPUS=2 -- "${words[@]}"
    check "the same under LSF, in minutes" refused "wall time, 240 seconds"
    flux 1 2 0 299 STAND_IN_CPUS=2 -- "${words[@]}"
    check "the same under Flux" refused "wall time, 299 seconds"
    flux 1 2 0 299 STAND_IN_CPUS=2 STAND_IN_EXIT=0 -- "${words[@]}" run.timeout=200.0
    check "a shorter watchdog will do" exits 0
    flux 1 2 0 1800 STAND_IN_CPUS=2 PIPELEAF=/nowhere -- "${words[@]}"
    check "no build: how to make one" refused "cmake --preset release"
    check "no build: exit 1" exits 1
    flux 1 2 0 1800 STAND_IN_CPUS=2 -- input/none.nml
    check "no deck: exit 1" exits 1
    check "no deck: named" refused "input/none.nml"
    check "no deck: nothing is launched" launches 0
    submit pbs PBS_JOBID=7 PIPELEAF_ROOT=/nowhere -- "${words[@]}"
    check "not the checkout" refused "/nowhere is not the checkout"
    submit pbs -- "${words[@]}"
    check "not in a job" says "not in a PBS job"
    check "not in a job: fails" fails
}

a_rank_gets_the_gpu_beside_it() {
    ln -s "$PIPELEAF_SOURCE/validate/jobscripts/stand_in/scheduler" "$work/bin/nvidia-smi"
    gpu_of() { # local rank, CPUs, settings
        env OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_LOCAL_RANK="$1" PIPELEAF_CPUS="$2" PIPELEAF_BOUND=yes PIPELEAF_GPUS_PER_RANK=1 OMP_NUM_THREADS=4 "${@:3}" \
            "$PIPELEAF_SOURCE/jobscripts/rank.sh" --show >"$work/output" 2>&1
        code=$?
    }
    gpu_of 0 0-3
    check "the first rank has the first GPU of domain 0" says "CPUs 0-3  NUMA 0 "
    check "which is c" says "GPU GPU-c"
    gpu_of 2 8-11
    check "the third, on domain 1, has the first of that" says "GPU GPU-a"
    check "none is far" says_not FAR
    gpu_of 3 4-7
    check "a rank whose GPU is on the other domain is told" says "FAR: its GPU is on NUMA domain 1"
    gpu_of 0 6-9
    check "a rank across two domains is told" says "SPANS"
    gpu_of 0 0-15 OMP_NUM_THREADS=16
    check "unless it is larger than one" says_not "SPANS"
    gpu_of 0 0-3 PIPELEAF_GPU_MAP="3 2 1 0"
    check "a map is obeyed" says "GPU 3"
    gpu_of 1 0-3 CUDA_VISIBLE_DEVICES=2
    check "one GPU given by the launcher is kept" says "GPU 2"
    gpu_of 1 0-3 CUDA_VISIBLE_DEVICES=0,1
    check "of those the job has alone" says "GPU GPU-b"
    env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 PIPELEAF_GPUS_PER_RANK=1 "$PIPELEAF_SOURCE/jobscripts/rank.sh" printenv CUDA_VISIBLE_DEVICES >"$work/output" 2>&1
    check "the program sees that one" says "GPU-d"
    rm "$work/bin/nvidia-smi"
    PATH=$work/bin:/usr/bin:/bin gpu_of 0 0-3
    if ! command -v nvidia-smi >/dev/null; then check "no GPU where one was asked for: exit 1" exits 1; fi
}

"$1"
printf '%s: %d facts checked, %d false\n' "$1" "$facts" "$false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
