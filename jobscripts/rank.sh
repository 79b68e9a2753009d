#!/usr/bin/env bash
# One rank of a job: gives it its GPU, then becomes the program. `rank.sh PROGRAM WORD...`, started by the launcher.
# `rank.sh --show` says in one line what this rank has: rank, host, CPUs, their NUMA domains, GPU.
#
# The i-th rank of a host gets the i-th of the GPUs it sees, in order of their NUMA domains: ranks are placed in ascending order
# of cores, so rank and GPU are neighbours. PIPELEAF_GPU_MAP="3 2 1 0" names them instead. Where the launcher has given the
# rank exactly one GPU already (Flux, jsrun), it keeps it. Only CUDA_VISIBLE_DEVICES is set: NCCL still reaches its peers,
# which it would not where a control group hid them.
# PIPELEAF_GPUS_PER_RANK: 0 or 1. PIPELEAF_BOUND: yes where the launcher was told to bind. For tests: PIPELEAF_SYSFS instead of
# /sys, PIPELEAF_CPUS instead of this process's mask.
set -euo pipefail

first_of() { # names of variables: the first that is set
    local name
    for name; do
        if [ -n "${!name:-}" ]; then
            echo "${!name}"
            return
        fi
    done
    echo "?"
}
rank=$(first_of OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK FLUX_TASK_RANK JSM_NAMESPACE_RANK PALS_RANKID SLURM_PROCID)
local_rank=$(first_of OMPI_COMM_WORLD_LOCAL_RANK FLUX_TASK_LOCAL_ID JSM_NAMESPACE_LOCAL_RANK MPI_LOCALRANKID PALS_LOCAL_RANKID SLURM_LOCALID)
nodes=${PIPELEAF_SYSFS:-/sys}/devices/system/node

in_list() { # number, list such as 0-3,8
    local part
    for part in ${2//,/ }; do
        if [ "$1" -ge "${part%-*}" ] && [ "$1" -le "${part#*-}" ]; then return 0; fi
    done
    return 1
}
numa_of_cpus() { # list of CPUs: the NUMA domains that hold them, comma-separated
    local part cpu node found=""
    for node in "$nodes"/node[0-9]*; do
        [ -r "$node/cpulist" ] || continue
        for part in ${1//,/ }; do
            for ((cpu = ${part%-*}; cpu <= ${part#*-}; cpu++)); do
                if in_list "$cpu" "$(<"$node/cpulist")"; then
                    found+=,${node##*/node}
                    continue 3
                fi
            done
        done
    done
    echo "${found#,}"
}
widest_numa() { # how many CPUs the largest NUMA domain has
    local node part most=0 count
    for node in "$nodes"/node[0-9]*; do
        [ -r "$node/cpulist" ] || continue
        count=0
        for part in $(tr , ' ' <"$node/cpulist"); do count=$((count + ${part#*-} - ${part%-*} + 1)); done
        if [ "$count" -gt "$most" ]; then most=$count; fi
    done
    echo "$most"
}
numa_of_gpu() { # PCI address as nvidia-smi gives it, 00000000:3B:00.0: its NUMA domain; -1 where the machine does not say
    local address=${1,,}
    cat "${PIPELEAF_SYSFS:-/sys}/bus/pci/devices/${address:4}/numa_node" 2>/dev/null || echo -1
}
gpus_by_numa() { # a line a visible GPU: NUMA domain, index, UUID, in ascending order of the domain
    local index uuid address
    nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader | while IFS=', ' read -r index uuid address; do
        if [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || [[ ,$CUDA_VISIBLE_DEVICES, == *,$index,* || ,$CUDA_VISIBLE_DEVICES, == *,$uuid,* ]]; then
            echo "$(numa_of_gpu "$address") $index $uuid"
        fi
    done | LC_ALL=C sort -s -n -k 1,1
}

gpu="" gpu_numa=""
if [ "${PIPELEAF_GPUS_PER_RANK:-0}" != 0 ]; then
    if [ "$local_rank" = "?" ]; then
        echo "rank.sh: error: no launcher's variable gives the rank within its host: set run.device=cuda and PIPELEAF_GPUS_PER_RANK=0, the program then chooses" >&2
        exit 1
    fi
    if [ -n "${PIPELEAF_GPU_MAP:-}" ]; then
        read -r -a map <<<"$PIPELEAF_GPU_MAP"
        gpu=${map[local_rank % ${#map[@]}]}
    elif [[ -n ${CUDA_VISIBLE_DEVICES:-} && $CUDA_VISIBLE_DEVICES != *,* ]]; then
        gpu=$CUDA_VISIBLE_DEVICES
    elif command -v nvidia-smi >/dev/null && mapfile -t gpus < <(gpus_by_numa) && [ ${#gpus[@]} -gt 0 ]; then
        read -r gpu_numa _ gpu <<<"${gpus[local_rank % ${#gpus[@]}]}"
    else
        echo "rank.sh: error: a GPU a rank was asked for, but nvidia-smi shows none on $(hostname)" >&2
        exit 1
    fi
    export CUDA_VISIBLE_DEVICES=$gpu CUDA_DEVICE_ORDER=PCI_BUS_ID
fi

if [ "${1:-}" != --show ]; then exec "$@"; fi

cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
memory=$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' /proc/self/status)
cpus=${PIPELEAF_CPUS:-$cpus}
numa=$(numa_of_cpus "$cpus")
note=
if [[ ${PIPELEAF_BOUND:-} = yes && $numa == *,* && ${OMP_NUM_THREADS:-1} -le $(widest_numa) ]]; then note+="  SPANS several NUMA domains though ${OMP_NUM_THREADS:-1} CPUs fit one"; fi
if [[ -n $gpu_numa && $gpu_numa != -1 && ,$numa, != *,$gpu_numa,* ]]; then note+="  FAR: its GPU is on NUMA domain $gpu_numa"; fi
printf '%6s  host %s  CPUs %s  NUMA %s  memory of %s  GPU %s%s\n' "$rank" "$(hostname)" "$cpus" "${numa:-?}" "$memory" "${gpu:-none}" "$note"
