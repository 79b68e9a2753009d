#!/bin/sh
# The same bits from gcc -O0, gcc -O3, clang -O3, each instruction set, and on AArch64 (cross-compiled, under qemu):
#   portable.sh SOURCE_FOLDER SCRATCH_FOLDER RANDOM123_INCLUDE_FOLDER
# What is missing on this machine is skipped, and said. Exit code 77 where nothing could be compared.
set -eu
source=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/include"
# Only Random123 of the machine's headers: /usr/include would mix with those of the cross compiler.
ln -s "$3/Random123" "$scratch/include/Random123"
compared=0

# build_and_run NAME RUNNER COMPILER FLAGS...: compares what the program prints with the first one's.
build_and_run() {
  name=$1 runner=$2 compiler=$3
  shift 3
  if ! command -v "$compiler" >/dev/null; then
    echo "skipped: $name ($compiler is not installed)"
    return 0
  fi
  if [ -n "$runner" ] && ! command -v "$runner" >/dev/null; then
    echo "skipped: $name ($runner is not installed)"
    return 0
  fi
  if ! echo 'int main(void) { return 0; }' | "$compiler" -x c -fopenmp "$@" -o "$scratch/nothing" - 2>"$scratch/log"; then
    echo "skipped: $name ($compiler cannot build OpenMP programs with $*: $(tail -n 1 "$scratch/log"))"
    return 0
  fi
  device=$source/src/device
  "$compiler" -std=c17 -D_GNU_SOURCE -fopenmp -ffp-contract=off -fno-fast-math -fno-math-errno "$@" \
    -I"$source/src" -isystem "$scratch/include" "$source/validate/device/portable.c" "$device/definition.c" \
    "$device/definition_attention.c" "$device/host/table.c" "$device/host/rows.c" "$device/host/columns.c" \
    "$device/host/elements.c" "$device/host/digest.c" "$device/host/gemm.c" "$device/host/attention.c" \
    "$device/host/peak.c" -lm -o "$scratch/$name"
  $runner "$scratch/$name" >"$scratch/$name.txt"
  if [ ! -e "$scratch/first.txt" ]; then
    cp "$scratch/$name.txt" "$scratch/first.txt"
    first=$name
    return 0
  fi
  if ! diff "$scratch/first.txt" "$scratch/$name.txt"; then
    echo "false: $name has the bits of $first"
    exit 1
  fi
  echo "$name has the bits of $first"
  compared=$((compared + 1))
}

has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }

build_and_run gcc-O3 "" gcc -O3 -DVARIANT=generic
build_and_run gcc-O0 "" gcc -O0 -DVARIANT=generic
build_and_run clang-O3 "" clang -O3 -DVARIANT=generic
if has avx2 && has fma; then
  build_and_run gcc-avx2 "" gcc -O3 -mavx2 -mfma -DVARIANT=avx2
  build_and_run clang-avx2 "" clang -O3 -mavx2 -mfma -DVARIANT=avx2
fi
if has avx512f && has avx512vl && has avx512bw && has avx512dq; then
  build_and_run gcc-avx512 "" gcc -O3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -DVARIANT=avx512
fi
if [ "$(uname -m)" != aarch64 ]; then
  build_and_run aarch64 qemu-aarch64 aarch64-linux-gnu-gcc -O2 -static -DVARIANT=generic
fi

# With fast mathematics there is no program at all.
for compiler in gcc clang; do
  command -v $compiler >/dev/null || continue
  if $compiler -std=c17 -ffast-math -fsyntax-only -I"$source/src" -isystem "$scratch/include" \
    "$source/src/device/definition.c" 2>"$scratch/log"; then
    echo "false: $compiler -ffast-math does not compile the definition"
    exit 1
  fi
  grep -q 'build it without -ffast-math' "$scratch/log"
done

# Within one program, the kernels have the bits of the definition.
sed -n 's/ definition / /p' "$scratch/first.txt" >"$scratch/definition"
sed -n 's/ kernel / /p' "$scratch/first.txt" >"$scratch/kernel"
if ! [ -s "$scratch/definition" ] || ! diff "$scratch/definition" "$scratch/kernel"; then
  echo "false: the kernels have the bits of the definition"
  exit 1
fi
echo "$compared comparisons of $(grep -c . "$scratch/first.txt") digests"
[ "$compared" -gt 0 ] || exit 77
