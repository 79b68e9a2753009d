# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# gpu_check.sh pack: one folder that runs on a machine with nothing but its C library, a GPU driver and CUDA's libraries.
#
#   gpu_check.sh, gpu/      the check itself        bin/           programs, mpirun, orted
#   input/, reference/      decks and digests       lib/           libraries; lib/openmpi: MPI's plugins
#   share/openmpi           MPI's messages          lib/cuda       CUDA's libraries, where asked for
#                                                   lib/glibc      the C library, for machines whose own is older

pack_programs='gpu_test_cuda_gemm gpu_test_cuda_attention gpu_test_cuda_rows gpu_test_cuda_digest gpu_test_cuda_device gpu_test_vendor
    gpu_test_schedules gpu_benchmark_cuda_gemm gpu_benchmark_cuda_attention gpu_benchmark_cuda_rows gpu_benchmark_vendor'

# The plugins of Open MPI that ranks on one machine need: no network hardware, no file access, no one-sided messages.
pack_plugins='allocator_.* bml_r2 btl_self btl_sm btl_tcp btl_vader coll_basic coll_inter coll_libnbc coll_self coll_sync coll_tuned errmgr_.*
    ess_.* filem_raw grpcomm_direct iof_.* mpool_hugepage odls_default oob_tcp op_avx patcher_overwrite plm_isolated plm_rsh pmix_ext3x
    pmix_isolated pmix_pmix3x pml_ob1 pstat_linux rcache_grdma reachable_.* regx_.* rmaps_ppr rmaps_round_robin rml_oob routed_.* rtc_hwloc
    schizo_ompi schizo_orte shmem_.* state_.* topo_basic'

# Libraries that must be the machine's own (C library, driver), and CUDA's, which are looked for there.
pack_glibc='libc libm libpthread libdl librt libresolv libutil'
pack_system='^(linux-vdso|ld-linux.*|libc|libm|libpthread|libdl|librt|libresolv|libutil|libnsl|libanl|libcuda|libnvidia-.*)\.so'
pack_cuda='^(libcudart|libcublas|libcublasLt|libnccl|libnvJitLink)\.so'

pack_fail() {
    echo "gpu_check.sh pack: $*" >&2
    exit 1
}

cached() { # build folder, variable of its CMakeCache.txt
    sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt" | head -n 1
}

# The paths of the libraries that files need, those they need in turn included.
needed_libraries() {
    local file
    for file in "$@"; do ldd "$file" 2>/dev/null; done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u
}

# Which Open MPI mpirun belongs to: its plugins, its messages.
openmpi_folder() { # mpirun, what (pkglibdir, pkgdatadir)
    local info
    info=$(dirname "$1")/ompi_info
    [ -x "$info" ] || info=$(command -v ompi_info) || return 1
    "$info" --path "$2" --parsable 2>/dev/null | sed -n "s/^path:$2://p"
}

pack_mpi() { # mpirun
    local launcher plugins messages name pattern
    launcher=$(readlink -f "$1")
    plugins=$(openmpi_folder "$1" pkglibdir)
    [ -d "$plugins" ] || pack_fail "$1 is not Open MPI's 4.x, whose plugins are known how to pack"
    messages=$(openmpi_folder "$1" pkgdatadir)
    cp "$launcher" "$folder/bin/mpirun"
    launcher=$(dirname "$1")/orted
    [ ! -x "$launcher" ] || cp -L "$launcher" "$folder/bin/orted"
    mkdir -p "$folder/lib/openmpi" "$folder/share/openmpi"
    for pattern in $pack_plugins; do
        for name in "$plugins"/mca_*.so; do
            [[ $(basename "$name") =~ ^mca_$pattern\.so$ ]] && cp -L "$name" "$folder/lib/openmpi/"
        done
    done
    ls "$folder"/lib/openmpi/mca_pml_ob1.so >/dev/null || pack_fail "no plugins in $plugins"
    cp -L "$messages"/help-*.txt "$folder/share/openmpi/" 2>/dev/null
    # PMIx, where it is a library of its own with plugins of its own.
    local pmix
    pmix=$(needed_libraries "$folder"/lib/openmpi/*.so | grep '/libpmix\.so' | head -n 1)
    if [ -n "$pmix" ]; then
        mkdir -p "$folder/lib/pmix"
        for name in "$(dirname "$(readlink -f "$pmix")")"/pmix/*.so "$(dirname "$(readlink -f "$pmix")")"/lib/pmix/*.so; do
            [ ! -e "$name" ] || cp -L "$name" "$folder/lib/pmix/"
        done
    fi
}

pack_libraries() {
    local path name
    # Plugins are not found by a program's list of libraries: each is asked for its own.
    local files=("$folder"/bin/* "$folder"/lib/openmpi/*.so)
    for path in "$folder"/lib/pmix/*.so; do [ ! -e "$path" ] || files+=("$path"); done
    while read -r path; do
        name=$(basename "$path")
        if [[ $name =~ $pack_system ]]; then continue; fi
        if [[ $name =~ $pack_cuda ]]; then
            [ "$with_cuda" = yes ] || continue
            mkdir -p "$folder/lib/cuda"
            cp -L "$path" "$folder/lib/cuda/$name"
        else
            cp -L "$path" "$folder/lib/$name"
        fi
    done < <(needed_libraries "${files[@]}")
}

# Used where the machine's own is older than `version`, through its own loader and for the packed programs alone.
pack_c_library() {
    local loader name path
    loader=$(ldd "$folder/bin/pipeleaf" | awk '$1 ~ /^\/.*\/ld-linux/ { print $1 }')
    [ -n "$loader" ] || return 0
    mkdir -p "$folder/lib/glibc"
    cp -L "$loader" "$folder/lib/glibc/loader"
    for name in $pack_glibc; do
        for path in "$(dirname "$(readlink -f "$loader")")/$name".so.[0-9]; do
            [ ! -e "$path" ] || cp -L "$path" "$folder/lib/glibc/"
        done
    done
    newest_glibc >"$folder/lib/glibc/version"
}

pack() { # build folder, folder to make, [--with-cuda]
    local build=$1 source mpirun program size missing=""
    folder=$2 with_cuda=no
    [ "${3:-}" != --with-cuda ] || with_cuda=yes
    [ -e "$build/CMakeCache.txt" ] || pack_fail "$build is no build folder (it has no CMakeCache.txt)"
    [ -x "$build/pipeleaf" ] || pack_fail "$build holds no pipeleaf: build it first"
    [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || pack_fail "$folder exists and is not empty"
    source=$(cached "$build" CMAKE_HOME_DIRECTORY)
    mpirun=$(cached "$build" MPIEXEC_EXECUTABLE)
    [ -x "$mpirun" ] || pack_fail "the build knows no MPI launcher (MPIEXEC_EXECUTABLE='$mpirun')"
    mkdir -p "$folder/bin" "$folder/lib" || exit 1
    folder=$(cd "$folder" && pwd)

    cp -r "$source/input" "$source/reference" "$folder/"
    mkdir "$folder/gpu"
    cp "$script_folder/gpu_check.sh" "$folder/"
    cp "$script_folder"/gpu/*.sh "$folder/gpu/"
    cp "$build/pipeleaf" "$build/pipeleaf-validate" "$folder/bin/"
    for program in $pack_programs; do
        if [ -x "$build/validate/cuda/$program" ]; then cp "$build/validate/cuda/$program" "$folder/bin/"; else missing+=" $program"; fi
    done
    pack_mpi "$mpirun"
    pack_libraries
    pack_c_library
    find "$folder/bin" "$folder/lib" -path "$folder/lib/cuda" -prune -o -type f -exec chmod u+w {} + -exec strip --strip-unneeded {} + 2>/dev/null
    check_complete || exit 1
    size=$(du -sm --exclude=cuda "$folder" | cut -f1)
    echo "$folder: $size MiB$([ "$with_cuda" = no ] || echo " and $(du -sm "$folder/lib/cuda" 2>/dev/null | cut -f1) MiB of CUDA's libraries")"
    [ -z "$missing" ] || echo "not in the build, so not in the check:$missing"
    [ "$size" -le 96 ] || echo "more than 96 MiB: it is smaller from a build for the GPU's architecture alone (-DCMAKE_CUDA_ARCHITECTURES=90)"
}

# Of the versions of the C library that the packed files ask for, the newest.
newest_glibc() {
    find "$folder/bin" "$folder/lib" -path "$folder/lib/glibc" -prune -o -type f -exec objdump -T {} + 2>/dev/null | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1 | tr -d 'A-Z_'
}

# With the packed folder's libraries alone, no library is missing and none but the system's comes from elsewhere.
check_complete() {
    local file name path wrong=""
    for file in "$folder"/bin/* "$folder"/lib/openmpi/*.so "$folder"/lib/*.so*; do
        while read -r name _ path _; do
            [[ $name == */* || $name =~ $pack_system || $name =~ $pack_cuda || $path == "$folder"/* ]] || wrong+="${file#"$folder"/} takes $name from $path"$'\n'
        done < <(LD_LIBRARY_PATH="$folder/lib" ldd "$file" 2>/dev/null | grep '=>\|^[[:space:]]*/')
    done
    [ -z "$wrong" ] || { echo "gpu_check.sh pack: not complete:"; printf '%s' "$wrong" | sort | uniq | head -n 20; return 1; } >&2
}
