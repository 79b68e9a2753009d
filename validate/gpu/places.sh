# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# Where things are: the programs, the launcher, CUDA's libraries, the GPUs.

# Sets tree, programs, tests, data, mpirun and surroundings: what is added to the environment of the programs, and of them alone
# (the machine's own tools keep their libraries).
find_tree() { # folder or nothing
    local given=$1
    if [ -z "$given" ]; then
        if [ -x "$script_folder/bin/pipeleaf" ]; then given=$script_folder; else given=$PWD; fi
    fi
    tree=$(cd "$given" 2>/dev/null && pwd) || { echo "gpu_check.sh run: there is no folder $given" >&2; exit 1; }
    surroundings=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
        OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
        OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
        OMPI_MCA_btl_vader_single_copy_mechanism=none OMP_WAIT_POLICY=passive)
    libraries="" loader=()
    if [ -x "$tree/bin/pipeleaf" ]; then
        programs=$tree/bin tests=$tree/bin data=$tree mpirun=$tree/bin/mpirun libraries=$tree/lib
        surroundings+=("OPAL_PREFIX=$tree" "OPAL_BINDIR=$tree/bin" "OPAL_LIBDIR=$tree/lib" "OPAL_PKGLIBDIR=$tree/lib/openmpi"
            "OPAL_DATADIR=$tree/share" "OPAL_PKGDATADIR=$tree/share/openmpi" "OPAL_SYSCONFDIR=$tree/share"
            "PMIX_PREFIX=$tree" "PMIX_INSTALL_PREFIX=$tree" "PMIX_PKGDATADIR=$tree/share/pmix" "PMIX_PKGLIBDIR=$tree/lib/pmix"
            "OMPI_MCA_btl=self,vader" OMPI_MCA_pml=ob1 OMPI_MCA_plm=isolated "PATH=$tree/bin:$PATH")
        find_loader
    elif [ -x "$tree/pipeleaf" ] && [ -e "$tree/CMakeCache.txt" ]; then
        programs=$tree tests=$tree/validate/cuda
        data=$(sed -n 's/^CMAKE_HOME_DIRECTORY:[A-Z]*=//p' "$tree/CMakeCache.txt")
        mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$tree/CMakeCache.txt")
    else
        echo "gpu_check.sh run: $tree holds no program: give it a build folder, or one that 'gpu_check.sh pack' made" >&2
        exit 1
    fi
    surroundings+=("PIPELEAF_REFERENCE=$data/reference")
}

# Sets loader, the words that start a program with the packed C library where the machine's is older than it needs.
find_loader() {
    local needed own
    needed=$(cat "$tree/lib/glibc/version" 2>/dev/null)
    own=$(getconf GNU_LIBC_VERSION 2>/dev/null | tr -cd '0-9.')
    if [ -z "$needed" ] || [ "$(printf '%s\n' "$needed" "${own:-0}" | sort -V | head -n 1)" = "$needed" ]; then return; fi
    loader=("$tree/lib/glibc/loader" --library-path "$tree/lib/glibc:$tree/lib")
}

# The folders that CUDA's libraries may be in, most wanted first.
cuda_folders() {
    tr ':' '\n' <<<"${PIPELEAF_CUDA_LIBRARIES:-}"
    echo "$tree/lib/cuda"
    tr ':' '\n' <<<"${LD_LIBRARY_PATH:-}"
    local folder
    for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 /usr/local/cuda*/lib64 /usr/local/cuda*/lib /usr/local/cuda*/targets/*/lib \
        /opt/nvidia/hpc_sdk/*/*/{cuda,math_libs,comm_libs/nccl}/lib64 /opt/nvidia/hpc_sdk/*/*/comm_libs/nccl/lib \
        {/usr/lib,/usr/local/lib,/opt/*/lib,/opt/*/*/lib,"${VIRTUAL_ENV:-/nowhere}/lib","${CONDA_PREFIX:-/nowhere}/lib","${HOME:-/root}/.local/lib","${HOME:-/root}/*/lib"}/python3*/{dist,site}-packages/nvidia/*/lib; do
        [ ! -d "$folder" ] || echo "$folder"
    done
}

# Adds to `libraries` the folders of CUDA's libraries that the loader does not find by itself. False, with the reason in `reason`,
# where one is nowhere, or where the build has none.
find_cuda() {
    local name folder path known missing=""
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null)
    cuda_found=()
    for name in $(cuda_names); do
        folder=$(cuda_folders | while read -r folder; do
            if [ -n "$folder" ] && [ -e "$folder/$name" ]; then echo "$folder"; break; fi
        done)
        if [ -n "$folder" ]; then
            case ":$libraries:" in *":$folder:"*) ;; *) libraries+=${libraries:+:}$folder ;; esac
            cuda_found+=("$folder/$name")
        elif path=$(awk -v name="$name" '$1 == name { print $NF; exit }' <<<"$known") && [ -n "$path" ]; then
            cuda_found+=("$path")
        elif path=$(ldd "$programs/pipeleaf" 2>/dev/null | awk -v name="$name" '$1 == name && $3 ~ /^\// { print $3; exit }') && [ -n "$path" ]; then
            cuda_found+=("$path") # by the build's own path
        else
            missing+=" $name"
        fi
    done
    if [ -n "$missing" ]; then
        reason="not found:$missing; name their folder in PIPELEAF_CUDA_LIBRARIES, or pack --with-cuda"
        return 1
    fi
}

# The CUDA libraries that the program was linked with.
cuda_names() {
    { ldd "$programs/pipeleaf" || objdump -p "$programs/pipeleaf"; } 2>/dev/null |
        grep -oE '\b(libcudart|libcublasLt|libcublas|libnccl)\.so\.[0-9]+' | sort -u
}

is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

# Sets gpus, how many there are to be used, and first_gpu, the first of them as CUDA_VISIBLE_DEVICES has it.
find_gpus() {
    local node
    gpus=0 first_gpu=0
    if command -v nvidia-smi >/dev/null; then gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU '); fi
    if [ "$gpus" = 0 ]; then
        for node in /dev/nvidia[0-9]*; do [ ! -c "$node" ] || gpus=$((gpus + 1)); done
    fi
    if [ "$gpus" != 0 ] && [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
        gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c '[^ ]')
        first_gpu=${CUDA_VISIBLE_DEVICES%%,*}
    fi
}

# Says what this machine is, one fact a line.
describe_machine() {
    local library node
    echo "date        $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "machine     $(hostname 2>/dev/null || cat /proc/sys/kernel/hostname), $(uname -srm), $(nproc) CPUs,$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1)"
    echo "build       $("${with[@]}" "${pipeleaf[@]}" --version 2>&1 | head -n 1)"
    if [ ${#loader[@]} -gt 0 ]; then echo "C library   the packed one: this machine's is older"; fi
    if [ "$device" != cuda ]; then
        echo "device      $device: a rehearsal of the check, which says nothing about GPUs"
        return
    fi
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=index,name,uuid,memory.total,clocks.max.sm,power.limit,driver_version --format=csv,noheader 2>/dev/null |
            sed 's/^/GPU         /'
        echo "driver      $(nvidia-smi 2>/dev/null | grep -o 'CUDA Version: [0-9.]*' | head -n 1)"
    else
        sed -n '1s/^/driver      /p' /proc/driver/nvidia/version 2>/dev/null
        for node in /proc/driver/nvidia/gpus/*/information; do
            [ ! -r "$node" ] || echo "GPU        $(sed -n 's/^Model:[[:space:]]*/ /p' "$node")"
        done
    fi
    for library in "${cuda_found[@]}"; do
        case $library in
        *libnccl*) echo "library     $library $(grep -aoE 'NCCL version [0-9.]+\+cuda[0-9.]+' "$library" | head -n 1)" ;;
        *) echo "library     $library $(readlink -f "$library" | sed -n 's/.*\.so\./version /p')" ;;
        esac
    done
}
