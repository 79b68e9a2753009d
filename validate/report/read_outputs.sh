#!/bin/sh
# read_outputs.sh h5py|h5diff|json DIRECTORY: other programs read the files that the tests wrote. Exit 77: the program is missing.
what=$1 directory=$2
python=${PIPELEAF_PYTHON:-/usr/bin/python3}

need() {
    command -v "$1" > /dev/null || { echo "skipped: $1 is not installed"; exit 77; }
}

false_is() {
    echo "false: $*" >&2
    exit 1
}

case $what in
h5py)
    need "$python"
    "$python" -c 'import h5py' 2> /dev/null || { echo "skipped: $python has no h5py"; exit 77; }
    "$python" "$(dirname "$0")/read_hdf5.py" "$directory" || exit 1
    need h5dump
    h5dump -a run_id "$directory/rank00001.h5" | grep -q '"run-1"' || false_is "h5dump shows the run id"
    h5dump -H "$directory/rank00001.h5" | grep -q 'H5T_ENUM' || false_is "h5dump shows kinds as an enumeration"
    h5dump -d /timings/actions "$directory/rank00001.h5" | grep -qw B || false_is "h5dump shows kind B"
    ;;
h5diff)
    need h5diff
    h5diff --follow-symlinks "$directory/run.h5" "$directory/reference.h5" /layers || false_is "equal layers are equal through the links"
    copy=$directory/moved
    rm -rf "$copy"
    mkdir "$copy"
    cp "$directory"/*.h5 "$copy"
    h5diff --follow-symlinks "$copy/run.h5" "$directory/reference.h5" /layers || false_is "links hold in a moved directory"
    rm "$copy/rank00001.h5"
    h5diff --follow-symlinks "$copy/run.h5" "$copy/reference.h5" /layers > /dev/null 2>&1 && false_is "a missing rank file shows"
    rm -rf "$copy"
    ;;
json)
    need "$python"
    "$python" "$(dirname "$0")/read_json.py" "$directory" || exit 1
    ;;
*)
    false_is "unknown: $what"
    ;;
esac
