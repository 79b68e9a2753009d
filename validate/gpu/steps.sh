# shellcheck shell=bash disable=SC2034,SC2154 # the parts share their variables
# One step: a command with a time limit, what it must exit with, what it must say.

# Runs a command within `limit` seconds and what is left of the phase; its output goes to $log, its exit code to $code, its
# seconds to $took. False where there is no time left.
attempt() { # name, limit, command...
    local limit=$2 left=$((phase_end - SECONDS)) start
    log=$logs/$1.txt took=0 code=124
    if [ "$left" -lt 3 ]; then return 1; fi
    [ "$limit" -le "$left" ] || limit=$left
    start=$SECONDS
    (cd "$data" && timeout -k 5 "$limit" "${with[@]}" "${@:3}") >"$log" 2>&1
    code=$? took=$((SECONDS - start)) allowed=$limit
    return 0
}

why() { # in a line, why the last attempt ended as it did
    case $code in
    124 | 137) echo "stopped after $allowed s" ;;
    *) echo "exit $code after $took s" ;;
    esac
    grep -m 1 -E '^pipeleaf: error:|: false: |^false: |error while loading|not found|^first difference|VERIFICATION = |out of memory|Segmentation|CUDA error|NCCL WARN' "$log" |
        cut -c 1-200 || tail -n 1 "$log" | cut -c 1-200
}

# PASS where the command exits as expected and its output has a line that fits the pattern.
step() { # name, limit, exit code, pattern, command...
    if ! attempt "$1" "$2" "${@:5}"; then
        not_run "$1" "no time left"
        return 1
    fi
    if [ "$code" = 77 ] && [ "$3" != 77 ]; then
        not_run "$1" "$(tail -n 1 "$log")"
    elif [ "$code" != "$3" ] || ! grep -qE -- "$4" "$log"; then
        fails "$1" "$(why | tr '\n' ' ') ($log)"
    else
        pass "$1" "$took s, exit $code, $(grep -m 1 -oE -- "$4" "$log")"
        return 0
    fi
    return 1
}

program() { [ -x "$tests/$1" ]; }

launch() { ranks=("${loader[@]}" "$mpirun" -n "$1" "${loader[@]}"); } # the words to put before a program

# pipeleaf run, which must exit so and say so; tensors are compared by digest, unless the words say otherwise.
run_deck() { # name, limit, ranks, exit code, verdict, deck, group.name=value...
    local folder=$work/$1 outcome
    launch "$3"
    step "$1" "$2" "$4" "^VERIFICATION = $5\$" "${ranks[@]}" "$programs/pipeleaf" run "input/$6.nml" pipeline.ranks="$3" run.device="$device" \
        run.timeout=60 output.directory="$folder" output.activations=digest output.gradients=digest output.timeline=.false. "${@:7}"
    outcome=$?
    keep_listing "$1" "$folder"
    return "$outcome"
}

keep_listing() { # name, output folder
    [ ! -e "$2/result.json" ] || cp "$2/result.json" "$logs/$1.json"
    [ "${keep_output:-no}" = yes ] || rm -rf "$2"
}

# A number of a run's result.json.
value_of() { # name of the run, name of the number
    sed -n "s/^ *\"$2\": \([-0-9.eE+]*\),\{0,1\}\$/\1/p" "$logs/$1.json" 2>/dev/null | head -n 1
}

ratio() { # a, b: a/b with four digits, nothing where one is missing
    [ -z "$1" ] || [ -z "$2" ] || awk -v a="$1" -v b="$2" 'BEGIN { if (b + 0 > 0) printf "%.4f\n", a / b }'
}

# --- all of it ---
run_check() { # folder or nothing
    began=$SECONDS
    device=${PIPELEAF_GPU_CHECK_DEVICE:-cuda}
    result=$PWD/gpu_check.txt logs=$PWD/gpu_check.logs reason=""
    [ "$device" = cuda ] || [ "$device" = host ] || { echo "PIPELEAF_GPU_CHECK_DEVICE=$device: must be cuda or host" >&2; exit 1; }
    find_tree "$1"
    find_gpus
    rm -rf "$logs"
    mkdir -p "$logs" && : >"$result" || exit 1
    work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-gpu.XXXXXX")
    trap 'rm -rf "$work"' EXIT

    local total=${PIPELEAF_GPU_CHECK_SECONDS:-480}
    check_end=$((began + total))
    cuda_found=()
    if [ "$device" = cuda ] && [ "$gpus" = 0 ]; then reason="the driver shows no GPU here"; fi
    if [ "$device" = cuda ] && [ -z "$reason" ] && is_elf "$programs/pipeleaf"; then
        if [ -z "$(cuda_names)" ]; then reason="this build has no CUDA"; else find_cuda; fi
    fi
    # Its search path stands before LD_LIBRARY_PATH.
    if [ ${#loader[@]} -gt 0 ]; then loader[2]=$tree/lib/glibc:$libraries; fi
    pipeleaf=("${loader[@]}" "$programs/pipeleaf")
    with=(env "${surroundings[@]}" "LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
    say "Pipeleaf GPU check"
    describe_machine | tee -a "$result"
    launch 1
    if [ -n "$reason" ]; then
        :
    elif ! "${with[@]}" "${pipeleaf[@]}" --version >"$logs/version.txt" 2>&1; then
        reason="pipeleaf does not start: $(head -n 1 "$logs/version.txt")"
    elif ! timeout -k 5 30 "${with[@]}" "${ranks[@]}" "$programs/pipeleaf" --version >"$logs/mpirun.txt" 2>&1; then
        reason="mpirun does not start: $(grep -m 1 '[a-z]' "$logs/mpirun.txt")"
    fi
    say ""
    if [ -n "$reason" ]; then
        say "nothing was run: $reason"
        conclude
    fi
    check_correctness # until 5/8 of the time
    check_timings     # the rest
    conclude
}
