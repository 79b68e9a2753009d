#!/usr/bin/env bash
# Runs a deck for every combination of ranks p, chunks a rank v, microbatches m and schedule, and makes one table of the results.
#
#   jobscripts/sweep.sh input/tiny.nml p=1,2,4 v=1,2 m=8,16 schedule=gpipe,interleaved-1f1b [group.name=value ...]
#   sbatch jobscripts/slurm.sh sweep input/tiny.nml p=1,2,4 v=1,2         the same in a batch job, whose ranks are the most p
#
# An axis left out has the deck's one value. In its own allocation (salloc, qsub -I, ...) sweep.sh launches as the job script of
# that scheduler does; elsewhere with mpirun. Values are separated by commas or colons.
#
# Each m is another computation: its reference is computed first, by one rank, and every cell is verified against it, all steps.
# verify.against=... says otherwise: 'none', 'auto' or a path. Activations and gradients are digests unless asked for in full.
#
# output=DIR (default out/sweep) gets sweep.txt, sweep.csv, a folder a cell (p2-v1-m8-gpipe), its log among it, and job/. A cell
# that failed, was refused, gave a wrong answer or no verdict says so in the table, and in the exit code: of those of the cells,
# the first of 4, 1, 2, 3, 5 that occurs. refused=skip: combinations that the program refuses, as gpipe with v=2 is, are no
# failure, as long as some cell ran.

# shellcheck disable=SC2034,SC2154 # variables pass between the files
sweep_columns=(p v m schedule exit result verification tokens/s step_s bubble/ideal bubble/step)

# --- a cell's result ------------------------------------------------------------------------------------------------------
cell_figure() { # folder, name: a figure of its result.json, "-" where it is missing or null
    local value=
    if [ -r "$1/result.json" ]; then value=$(sed -n "s/^ *\"$2\": \([^,]*\),\{0,1\}\$/\1/p" "$1/result.json" | head -n 1); fi
    case $value in
    "" | null) echo - ;;
    *) printf '%.6g\n' "$value" ;;
    esac
}
cell_verdict() { # folder: the verdict, from the listing's last line; nothing where there is none
    if [ -r "$1/listing.txt" ]; then tail -n 1 "$1/listing.txt" | sed -n 's/^VERIFICATION = \(SUCCESSFUL\|UNSUCCESSFUL\|NOT PERFORMED\)$/\1/p'; fi
}
cell_result() { # exit code, verdict: one word for the table
    case $1:$2 in
    0:SUCCESSFUL) echo right ;;
    0:"NOT PERFORMED") if [ "$sweep_verifies" = no ]; then echo "done"; else echo NOT-VERIFIED; fi ;;
    2:UNSUCCESSFUL) echo WRONG ;;
    3:*) echo NOT-VERIFIED ;;
    4:*) echo TIMEOUT ;;
    5:SUCCESSFUL) echo BELOW-TARGET ;;
    *) echo FAILED ;;
    esac
}

add_row() { # fields in the order of sweep_columns
    local field csv=
    for field; do
        case $field in *[,\"]*) field="\"${field//\"/\"\"}\"" ;; esac
        csv+=,$field
    done
    printf '%s\n' "${csv#,}" >>"$sweep_output/sweep.csv.part"
    printf '%4s %3s %5s  %-17s %4s  %-12s  %-13s %12s %12s %12s %11s\n' "$@" >>"$sweep_output/sweep.txt.part"
}

note_code() { # a cell's exit code counts for the sweep: of 4, 1, 2, 3, 5 the first
    local code=$1 known
    case $code in 0 | 2 | 3 | 4 | 5) ;; *) code=1 ;; esac # killed, or unknown
    for known in 4 1 2 3 5; do
        if [ "$code" = $known ] || [ "$sweep_code" = $known ]; then
            sweep_code=$known
            return
        fi
    done
}

# --- the parts ------------------------------------------------------------------------------------------------------------
sweep_words() { # sorts the words into axes, options, deck and overrides
    local word
    sweep_p="" sweep_v="" sweep_m="" sweep_schedule="" sweep_output=out/sweep sweep_refused=fail sweep_deck="" sweep_overrides=()
    for word; do
        case $word in
        p=* | v=* | m=*)
            [[ ${word#*=} =~ ^[1-9][0-9]*([,:][1-9][0-9]*)*$ ]] || refuse "sweep: $word: must be whole numbers from 1, separated by commas"
            printf -v "sweep_${word%%=*}" %s "${word#*=}"
            ;;
        schedule=?*) sweep_schedule=${word#*=} ;;
        output=?*) sweep_output=${word#*=} ;;
        refused=skip | refused=fail) sweep_refused=${word#*=} ;;
        output.directory=*) refuse "sweep: output.directory is each cell's own: output=DIR names the folder of all" ;;
        pipeline.ranks=* | pipeline.chunks_per_rank=* | batch.microbatches=* | pipeline.schedule=*)
            refuse "sweep: ${word%%=*} is an axis: give it as p=, v=, m= or schedule="
            ;;
        *.*=* | --inject | step=*) sweep_overrides+=("$word") ;;
        *=*) refuse "sweep: $word: the axes are p, v, m and schedule; output=DIR and refused=skip are the options; overrides are group.name=value" ;;
        *)
            [ -z "$sweep_deck" ] || refuse "sweep: two decks, $sweep_deck and $word"
            sweep_deck=$word
            ;;
        esac
    done
    [ -n "$sweep_deck" ] || refuse "sweep: no deck: jobscripts/sweep.sh input/tiny.nml p=1,2,4"
    deck_words "$sweep_deck" "${sweep_overrides[@]}"
    effective=$("$program" deck "${deck_words[@]}") || exit
    check_wall
    : "${sweep_p:=$(deck_value ranks)}" "${sweep_v:=$(deck_value chunks_per_rank)}"
    : "${sweep_m:=$(deck_value microbatches)}" "${sweep_schedule:=$(deck_value schedule)}"
    if [ "$sweep_p" = 0 ]; then sweep_p=$ranks; fi
    sweep_verifies=yes sweep_reference=yes
    for word in "${sweep_overrides[@]}"; do
        case ${word,,} in
        verify.against=none | verify.against=\'none\') sweep_verifies=no sweep_reference=no ;;
        verify.against=*) sweep_reference=no ;;
        esac
    done
}

# One rank computes what all cells of this m are to reproduce.
make_reference() { # m; sets `against`
    against=()
    if [ "$sweep_reference" = no ]; then return 0; fi
    local folder=$sweep_output/reference-m$1
    mkdir -p "$folder"
    say "reference of m=$1"
    launch_line 1
    deck_words "${sweep_overrides[@]}"
    "${line[@]}" "$program" reference "$sweep_deck" output.activations=digest output.gradients=digest "${deck_words[@]}" \
        batch.microbatches="$1" verify.steps=all output.directory="$folder" </dev/null >"$folder/log.txt" 2>&1 ||
        say "the reference of m=$1 failed ($folder/log.txt): its cells cannot be verified"
    against=("verify.against=$folder")
}

run_cell() { # p, v, m, schedule
    local folder=$sweep_output/p$1-v$2-m$3-$4 code=0 verdict result
    local settings=("pipeline.ranks=$1" "pipeline.chunks_per_rank=$2" "batch.microbatches=$3" "pipeline.schedule=$4" "output.directory=$folder")
    rm -rf "$folder" # a cell never shows an earlier one's result
    mkdir -p "$folder"
    deck_words "$sweep_deck" "${sweep_overrides[@]}" "${settings[@]}"
    if [ "$1" -gt "$ranks" ]; then
        echo "p=$1: the job has $ranks ranks" >"$folder/log.txt"
        note_code 1
        add_row "$@" - FAILED - - - - -
    elif ! "$program" plan "${deck_words[@]}" >"$folder/log.txt" 2>&1; then
        if [ "$sweep_refused" = fail ]; then note_code 1; fi
        add_row "$@" - REFUSED - - - - -
    else
        launch_line "$1"
        "${line[@]}" "$program" run "$sweep_deck" output.activations=digest output.gradients=digest output.timeline=.false. \
            "${against[@]}" "${sweep_overrides[@]}" "${settings[@]}" </dev/null >"$folder/log.txt" 2>&1 || code=$?
        verdict=$(cell_verdict "$folder")
        result=$(cell_result "$code" "$verdict")
        case $result in FAILED) if [ "$code" = 0 ]; then note_code 1; fi ;; NOT-VERIFIED) note_code 3 ;; esac # exit 0 without a verdict
        note_code "$code"
        sweep_ran=$((sweep_ran + 1))
        add_row "$@" "$code" "$result" "${verdict:-none}" "$(cell_figure "$folder" fom_tokens_per_second)" "$(cell_figure "$folder" median_step_seconds)" \
            "$(cell_figure "$folder" bubble_over_ideal)" "$(cell_figure "$folder" bubble_of_step)"
    fi
    tail -n 1 "$sweep_output/sweep.txt.part"
    if ! tail -n 1 "$sweep_output/sweep.txt.part" | grep -q ' right \| done '; then
        { grep -h -m 1 'error:' "$folder/log.txt" || grep -m 1 '[[:alnum:]]' "$folder/log.txt" || true; } | cut -c 1-200 | sed 's/^/      /'
    fi
}

sweep() { # words; ends the job
    local p v m schedule against=()
    sweep_words "$@"
    sweep_code=0 sweep_ran=0
    mkdir -p "$sweep_output" || refuse "'$sweep_output' cannot be made: the table goes there"
    rm -f "$sweep_output/sweep.csv" "$sweep_output/sweep.txt"
    launch_line "$ranks"
    save_records "$sweep_output/job"
    : >"$sweep_output/sweep.csv.part"
    : >"$sweep_output/sweep.txt.part"
    add_row "${sweep_columns[@]}"
    local m_values p_values v_values schedules
    IFS=,: read -r -a m_values <<<"$sweep_m"
    IFS=,: read -r -a p_values <<<"$sweep_p"
    IFS=,: read -r -a v_values <<<"$sweep_v"
    IFS=,: read -r -a schedules <<<"$sweep_schedule"
    for m in "${m_values[@]}"; do
        make_reference "$m"
        say "m=$m"
        head -n 1 "$sweep_output/sweep.txt.part"
        for schedule in "${schedules[@]}"; do
            for p in "${p_values[@]}"; do
                for v in "${v_values[@]}"; do run_cell "$p" "$v" "$m" "$schedule"; done
            done
        done
    done
    if [ "$sweep_ran" = 0 ]; then note_code 1; fi # a table of nothing is no pass
    mv "$sweep_output/sweep.csv.part" "$sweep_output/sweep.csv"
    mv "$sweep_output/sweep.txt.part" "$sweep_output/sweep.txt"
    say "$sweep_ran cells run; exit code $sweep_code; the table is $sweep_output/sweep.txt and .csv"
    exit "$sweep_code"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -euo pipefail
    case ${1:-} in -h | --help | "")
        sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        [ -n "${1:-}" ]
        exit
        ;;
    esac
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    # shellcheck source=jobscripts/body.sh
    . "$root/jobscripts/body.sh"
    if [ -n "${SLURM_JOB_ID:-}" ]; then
        scheduler=slurm
    elif [ -n "${PBS_NODEFILE:-}" ]; then
        scheduler=pbs
    elif [ -n "${LSB_JOBID:-}" ]; then
        scheduler=lsf
    elif [ -n "${FLUX_URI:-}" ]; then
        scheduler=flux
    else
        scheduler=plain
        # As many ranks as the largest p asks for; on fewer CPUs, unbound.
        for word; do
            case $word in p=[1-9]*) ranks=$(tr -s ',:' '\n' <<<"${word#p=}" | sort -n | tail -n 1) ;; esac
        done
    fi
    job "$scheduler" sweep "$@"
fi
