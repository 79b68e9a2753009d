#!/usr/bin/env bash
# What `pipeleaf plan` predicts and draws, one statement a function; `plan.sh NAME` checks one.
# Environment: PIPELEAF_LAUNCH ("mpiexec -n"), PIPELEAF (the folder of the program), PIPELEAF_SOURCE (the source tree),
# PIPELEAF_SECONDS (in which the largest plan must be done).
set -uo pipefail

work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-plan.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$PIPELEAF_SOURCE" || exit 1
here=validate/plan
facts=0 false=0

check() { # text, command...
    local text=$1
    shift
    facts=$((facts + 1))
    if ! "$@"; then
        false=$((false + 1))
        printf 'false: %s (%s)\n' "$text" "$*"
        tail -n 25 "$work/output" 2>/dev/null | sed 's/^/    /'
    fi
}
plan() { # words...: of 32 small layers, a layer's F taking 1 s and its B 2 s; output in $work/output
    "$PIPELEAF/pipeleaf" plan input/textbook.nml machine.forward=1 machine.backward=2 "$@" >"$work/output" 2>&1
    code=$?
}
exits() { [ "$code" = "$1" ] || { echo "    exit code $code, not $1"; return 1; }; }
says() { grep -qF -- "$1" "$work/output"; }
says_not() { ! says "$1"; }
equal() { [ "$1" = "$2" ] || { echo "    '$1' is not '$2'"; return 1; }; }
number() { awk "BEGIN { printf \"%.4f\", $1 }"; }
row() { # schedule v: its row of the comparison, without the mark of the deck's own
    sed -n '/^-- schedules compared/,/^\* this/p' "$work/output" | sed 's/^[* ]//' | awk -v s="$1" -v v="$2" '$1 == s && $2 == v'
}
column() { row "$1" "$2" | awk -v c="$3" '{ print $c }'; } # 3 makespan; 4, 5 idle/ideal closed, simulated; 6, 7 idle/step; 8 slots
picture() { sed -n '/^time  /,$p' "$work/output"; }

gpipe_loses_p_1_of_m_p_1() {
    local p m
    for p in 1 2 4 8 16; do for m in 1 2 5 8 32; do
        plan pipeline.schedule=gpipe pipeline.ranks=$p pipeline.chunks_per_rank=1 batch.microbatches=$m
        check "plan of gpipe p=$p m=$m" exits 0
        check "idle/step, p=$p m=$m" says "bubble, idle/step            closed form $(number "($p-1)/($m+$p-1)"), simulated $(number "($p-1)/($m+$p-1)")"
    done; done
}

one_f_one_b_keeps_at_most_p_activations() {
    local p m
    for p in 2 4 8; do for m in 1 3 8 40; do
        plan pipeline.schedule=1f1b pipeline.ranks=$p pipeline.chunks_per_rank=1 batch.microbatches=$m
        check "plan of 1f1b p=$p m=$m" exits 0
        for ((r = 0; r < p; r++)); do
            local keeps=$((p - r < m ? p - r : m))
            check "rank $r keeps min(p-r, m), p=$p m=$m" equal "$keeps" \
                "$(sed -n '/^-- time/,/^-- channels/p' "$work/output" | awk -v r=$r '$1 == r && NF > 5 { print $5 }')"
        done
        check "gpipe keeps all m" equal "$m" "$(column gpipe 1 8)"
    done; done
}

chunks_divide_the_bubble() {
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 batch.microbatches=12
    check "a quarter of the ideal time is lost at v=1" equal "0.2500 0.2500" "$(column 1f1b 1 4) $(column 1f1b 1 5)"
    check "v=2 halves it" equal "0.1250 0.1250" "$(column interleaved-1f1b 2 4) $(column interleaved-1f1b 2 5)"
    check "v=4 takes 25 % to about 6 %" equal "0.0625 0.0625" "$(column interleaved-1f1b 4 4) $(column interleaved-1f1b 4 5)"
    check "v=8 takes it to about 3 %" equal "0.0312 0.0312" "$(column interleaved-1f1b 8 4) $(column interleaved-1f1b 8 5)"
    check "at v=16 some chunks would have no layer" equal "" "$(row interleaved-1f1b 16)"
    check "a schedule says why it refuses" equal "refused: needs v=1" "$(row gpipe 2 | sed 's/.*refused/refused/')"
    check "the makespan is (m v + p - 1)(f + b)" equal "$(awk 'BEGIN { printf "%.6E", (12*2+3)*4*3 }')" "$(column interleaved-1f1b 2 3)"
    # between ranks: all chunks but the last send activations, all but the first gradients
    check "every boundary sends m messages each way" equal $((2 * 12 * 7)) "$(row interleaved-1f1b 2 | awk '{ print $NF }')"
}

messages_cost_what_is_exposed() {
    plan pipeline.ranks=2 pipeline.chunks_per_rank=1 pipeline.schedule=gpipe batch.microbatches=1 machine.latency=5
    # 16 layers a rank: F, 5 s, F, B, 5 s, B
    check "one microbatch waits for each message" says "$(awk 'BEGIN { printf "%.6E s; with free messages %.6E s", 2*16*3+10, 2*16*3 }')"
    check "what it waits is exposed" says "$(awk 'BEGIN { printf "%.6E s, %.2f %% of the step", 10, 1000/106 }')"
    check "each rank's idle time is the step less its work" equal "$(awk 'BEGIN { printf "%.6E", 106-48 }')" \
        "$(sed -n '/^-- time/,/^-- channels/p' "$work/output" | awk '$1 == 1 && NF > 5 { print $3 }')"
    plan pipeline.ranks=2 pipeline.chunks_per_rank=1 pipeline.schedule=gpipe batch.microbatches=1 machine.bandwidth=1024
    # [1, 32, 64] floats are 8 KiB: 8 s each
    check "a message takes its size over the bandwidth" says "$(awk 'BEGIN { printf "%.6E s, %.2f %% of the step", 16, 1600/112 }')"
}

every_channel_is_listed() {
    plan pipeline.ranks=16 pipeline.chunks_per_rank=2 batch.microbatches=16
    check "beyond 16 channels the table is shortened" equal 16 "$(grep -Ec '^ +[0-9]+ +[0-9]+ +[0-9]+ (activations|gradients)' "$work/output")"
    check "it says so" says "... and 16 more; --channels shows all"
    plan pipeline.ranks=16 pipeline.chunks_per_rank=2 batch.microbatches=16 --channels
    check "asked for, it is whole" equal 32 "$(grep -Ec '^ +[0-9]+ +[0-9]+ +[0-9]+ (activations|gradients)' "$work/output")"
    plan pipeline.ranks=1 pipeline.chunks_per_rank=2
    check "a hand-over is no traffic" says "handed over, not sent"
}

# Bytes of the rank that needs most, of a plan in $work/output: its "most: 58.90 GiB on rank 0".
most_bytes() {
    awk '/^most: / { unit["B"] = 1; unit["KiB"] = 1024; unit["MiB"] = 1048576; unit["GiB"] = 1073741824
        if ($3 in unit) printf "%.0f", $2 * unit[$3] }' "$work/output"
}
at_most() { [ "${1:-$(($2 + 1))}" -le "$2" ] || { echo "    '$1' bytes, more than $2"; return 1; }; }
more_than() { [ "${1:-0}" -gt "$2" ] || { echo "    '$1' bytes, not more than $2"; return 1; }; }

# Of 80 GB a tenth is left to what plan does not count: the CUDA context, NCCL, cuBLAS and its scratch memory. The plan is read
# as far as its channels: to compare all schedules at p=256 would take ten seconds more.
fits_a_device() { # ranks, deck, overrides...
    local ranks=$1 deck=$2 limit=72000000000
    shift 2
    "$PIPELEAF/pipeleaf" plan "input/$deck.nml" "$@" 2>&1 | sed '/^-- channels/q' >"$work/output"
    echo "$deck $*: $(most_bytes) bytes"
    check "plan of $deck $*" says "-- channels"
    check "it is for $ranks GPUs" says "p=$ranks v="
    check "$deck $*: no rank needs more than 80 GB less a tenth" at_most "$(most_bytes)" $limit
    check "$deck $*: nor so little that smaller devices would do" more_than "$(most_bytes)" $((limit * 3 / 4))
}
node_rack_and_machine_fit_devices_of_80_gb() {
    local bf16=(arithmetic.mode=vendor arithmetic.precision=bf16)
    fits_a_device 8 node
    fits_a_device 8 node "${bf16[@]}"
    fits_a_device 64 rack
    fits_a_device 64 rack "${bf16[@]}"
    fits_a_device 256 machine
    fits_a_device 256 machine "${bf16[@]}"
}

plan_explains_what_run_refuses() {
    local deck
    for deck in 175b 120b; do
        "$PIPELEAF/pipeleaf" plan input/$deck.nml >"$work/output" 2>&1
        code=$?
        check "plan of $deck" exits 0
        if [ "$(awk '/^MemTotal/ { print int($2 / 1024 / 1024) }' /proc/meminfo)" -lt 100 ]; then
            check "$deck: a rank of it is too large for this host" says "refuses even one rank"
        fi
    done
    large=(pipeline.ranks=1 model.sequence=8192 batch.microbatch_size=65536 output.directory="$work/out")
    plan "${large[@]}"
    check "plan of what is too large for any host" exits 0
    check "it says that run refuses it" says "refuses even one rank"
    $PIPELEAF_LAUNCH 1 "$PIPELEAF/pipeleaf" run input/textbook.nml "${large[@]}" >"$work/output" 2>&1
    code=$?
    check "run refuses it" exits 1
    check "for its size" says "are needed on this host"
}

the_largest_pipeline_is_planned_in_seconds() {
    local begin
    begin=$(date +%s%N)
    "$PIPELEAF/pipeleaf" plan input/120b.nml model.layers=1024 pipeline.chunks_per_rank=4 >"$work/output" 2>&1
    code=$?
    check "plan of p=256 m=1024 v=4" exits 0
    local took=$((($(date +%s%N) - begin) / 1000000))
    echo "$took ms"
    check "in $PIPELEAF_SECONDS s" [ "$took" -lt $((PIPELEAF_SECONDS * 1000)) ]
    check "its bubble is (p-1)/(m v)" equal "0.0623 0.0623" "$(column interleaved-1f1b 4 4) $(column interleaved-1f1b 4 5)"
}

pictures_are_those_drawn_by_hand() {
    plan pipeline.ranks=2 pipeline.chunks_per_rank=1 pipeline.schedule=1f1b batch.microbatches=4
    check "1f1b, p=2 m=4" diff <(picture) $here/expected/1f1b_p2_m4.txt
    plan pipeline.ranks=2 pipeline.chunks_per_rank=2 batch.microbatches=4
    check "interleaved, p=2 v=2 m=4" diff <(picture) $here/expected/interleaved_p2_v2_m4.txt
    plan pipeline.ranks=2 pipeline.chunks_per_rank=1 pipeline.schedule=zb-h1 batch.microbatches=3
    check "zb-h1, p=2 m=3, the backward in its halves" diff <(picture) $here/expected/zb_h1_p2_m3.txt
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 batch.microbatches=8
    check "too wide a picture is named, not printed" says "--picture prints it"
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 batch.microbatches=8 --picture
    check "--picture prints it" equal 4 "$(picture | grep -c '^rank')"
    /usr/bin/python3 $here/terminal.py "$PIPELEAF/pipeleaf" plan input/tiny.nml pipeline.ranks=2 batch.microbatches=2 >"$work/output" 2>&1
    code=$?
    check "colour on a terminal, none elsewhere or where NO_COLOR is set" exits 0
}

the_svg_is_the_same_picture() {
    local words=(pipeline.ranks=2 pipeline.chunks_per_rank=2 batch.microbatches=4)
    cp input/textbook.nml "$work/a<&>.nml"
    "$PIPELEAF/pipeleaf" plan "$work/a<&>.nml" machine.forward=1 machine.backward=2 "${words[@]}" --svg "$work/a.svg" >"$work/output" 2>&1
    code=$?
    check "plan with --svg" exits 0
    /usr/bin/python3 $here/check_svg.py "$work/a.svg" 2 27 "$(picture | grep -oE '[FBIW][0-9]+[a-z]' | sort | tr '\n' ' ')" >"$work/output" 2>&1
    code=$?
    check "it is well-formed, with each action where it is in the text" exits 0
    check "nothing half-written is left" equal "a.svg a<&>.nml output" "$(cd "$work" && ls | LC_ALL=C sort | paste -sd ' ')"
    plan "${words[@]}" --svg "$work/none/a.svg"
    check "a file that cannot be written is one line" exits 1
    check "it names it" says "pipeleaf: error: cannot create"
    plan pipeline.ranks=32 pipeline.chunks_per_rank=1 batch.microbatches=2000 --svg "$work/b.svg"
    check "more boxes than a viewer shows are refused" says "--svg: the picture would have 128000 boxes"
}

an_exported_schedule_is_the_same_schedule() {
    local makespan
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 pipeline.schedule=zb-v batch.microbatches=8 --export-csv "$work/zbv.csv"
    check "plan with --export-csv" exits 0
    makespan=$(grep '^makespan' "$work/output")
    check "a row a rank" equal 4 "$(wc -l <"$work/zbv.csv")"
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 pipeline.schedule=file pipeline.schedule_file="$work/zbv.csv" batch.microbatches=8
    check "read back it takes as long" equal "$makespan" "$(grep '^makespan' "$work/output")"
    check "and is in the comparison once" equal 1 "$(row file 2 | wc -l)"
    plan pipeline.ranks=4 pipeline.chunks_per_rank=2 pipeline.schedule=zb-v batch.microbatches=8 --export-csv "$work/messages.csv" --with-communication
    check "with communication it has more cells" [ "$(tr -cd , <"$work/messages.csv" | wc -c)" -gt "$(tr -cd , <"$work/zbv.csv" | wc -c)" ]
}

a_measured_run_is_predicted_to_10_percent() {
    # Two ranks of one thread, on two cores; other work on the machine slows now one rank and now the other, which means
    # over steps do not show: hence more than one try.
    local try off=none
    cat >"$work/deck.nml" <<'DECK'
&model layers=4 hidden=256 heads=4 sequence=128 /
&batch microbatches=8 microbatch_size=1 /
&pipeline ranks=2 chunks_per_rank=2 /
&run steps=9 warmup_steps=2 threads=1 device='host' /
&output activations='none' gradients='digest' timeline=.false. /
DECK
    for try in 1 2 3 4; do
        $PIPELEAF_LAUNCH 2 "$PIPELEAF/pipeleaf" run "$work/deck.nml" output.directory="$work/run" >"$work/output" 2>&1
        code=$?
        check "try $try runs" exits 0
        check "its listing has planned against measured" says "-- planned against measured"
        "$PIPELEAF/pipeleaf" plan "$work/deck.nml" --from "$work/run" >"$work/output" 2>&1
        code=$?
        check "plan with --from" exits 0
        off=$(awk '/^predicted less measured/ { print $4 }' "$work/output")
        echo "predicted less measured: $off % of the measured step"
        awk "BEGIN { exit !($off > -10 && $off < 10) }" && break
    done
    check "the predicted step is within 10 % of the measured one" awk "BEGIN { exit !($off > -10 && $off < 10) }"
    check "the message's time is the run's" says "the run's median"
    "$PIPELEAF/pipeleaf" plan "$work/deck.nml" --from "$work/run" pipeline.chunks_per_rank=1 pipeline.schedule=1f1b >"$work/output" 2>&1
    code=$?
    check "another schedule is planned with the run's times" exits 0
    check "and not compared" says "the run had another pipeline.chunks_per_rank"
    "$PIPELEAF/pipeleaf" plan "$work/deck.nml" --from "$work/run" model.hidden=512 >"$work/output" 2>&1
    code=$?
    check "a run of another model is refused" exits 1
    check "for its shape" says "model.hidden is 256 there and 512 here"
    "$PIPELEAF/pipeleaf" plan "$work/deck.nml" --from "$work" >"$work/output" 2>&1
    code=$?
    check "a folder without a run is one line" exits 1
    check "which names the file" says "rank00000.h5"
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
