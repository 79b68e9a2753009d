#!/usr/bin/env bash
# The CUDA kernels' PTX computes what the contract allows and nothing else:
#
#   ptx.sh SOURCE NVCC BUILD [ARCHITECTURE]   every src/device/cuda/*.cu of the tree SOURCE, for sm_90 or ARCHITECTURE (sm_80, ...)
#   ptx.sh --self-test NVCC                   small kernels that break each rule are found, and good ones are not
#
# The flags are the product's: where BUILD/compile_commands.json compiles a file, they are looked for in its command line too.
# Legal on fp32, fp64 and the 16-bit types: add, sub, mul, fma, mad, div, sqrt, rcp with .rn, which are correctly rounded and never
# fused; cvt with any rounding, for it is written down; and what is exact: moves, loads, comparisons, min, max, neg, abs. No .approx,
# no .ftz, no float atomics, no tensor cores, no call of code that is not in the file. sinf, log1pf and their like may expand to legal
# instructions whose bits are the toolkit's, so calls of them are looked for in the sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
flags=(-std=c++17 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -O3)
bits=(-fmad=false -ftz=false -prec-div=true -prec-sqrt=true)

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 1
}

work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-ptx.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What is not allowed in a PTX file, one line each; the last line counts kernels and floating-point operations.
look() { # PTX file, name of its source
    awk -v source="$2" -f "$here/ptx.awk" "$1" | if command -v c++filt >/dev/null; then c++filt; else cat; fi
}

# Comments blanked out, lines kept.
without_comments() {
    awk '{
        line = $0; kept = ""
        while (line != "") {
            if (inside) {
                at = index(line, "*/")
                if (!at) break
                line = substr(line, at + 2); inside = 0
            } else {
                block = index(line, "/*"); rest = index(line, "//")
                if (rest && (!block || rest < block)) { kept = kept substr(line, 1, rest - 1); break }
                if (!block) { kept = kept line; break }
                kept = kept substr(line, 1, block - 1) " "; line = substr(line, block + 2); inside = 1
            }
        }
        print kept
    }' "$1"
}

# Calls of functions whose bits are not IEEE-754'"'"'s.
library_calls() { # source file
    local names='acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|cos|cosh|cospi|erf|erfc|erfcinv|erfcx|erfinv|exp|exp10|exp2|expm1|hypot'
    names="$names|lgamma|log|log10|log1p|log2|logb|norm3d|norm4d|normcdf|pow|powi|rcbrt|rhypot|rnorm3d|rsqrt|sin|sincos|sinh|sinpi|tan|tanh|tgamma"
    local intrinsics='__(cosf|exp10f|expf|fdividef|frsqrt_rn|log10f|log2f|logf|powf|saturatef|sincosf|sinf|tanf|tanhf)'
    without_comments "$1" | grep -nE "(^|[^A-Za-z0-9_.>])(($names)f?|$intrinsics)[[:space:]]*\(" |
        sed "s|^\([0-9]*\):[[:space:]]*|$(basename "$1"):\1: calls a function whose bits are the toolkit's: |" || true
}

# nvcc's command line for a source in a build (which may compile it for the CPU too), or nothing.
build_command() { # source file, compile_commands.json
    grep -E '"command": "[^ ]*nvcc[^ ]* ' "$2" | grep -E "[ /]$(basename "$1" | sed 's/\./\\./g')[ \"]" | head -n 1
}

# What is wrong with the flags of a command line, as to bits.
build_flags() { # source file, command line
    for flag in "${bits[@]}"; do
        case " $2 " in *" $flag "*) ;; *) echo "$(basename "$1"): the build compiles it without $flag" ;; esac
    done
    for flag in -use_fast_math --use_fast_math -fmad=true -ftz=true -prec-div=false -prec-sqrt=false; do
        case " $2 " in *" $flag "*) echo "$(basename "$1"): the build compiles it with $flag" ;; esac
    done
}

compile() { # nvcc, source, PTX file, architecture, flag...
    "$1" -ptx -lineinfo -arch="$4" "${@:5}" -o "$3" "$2"
}

check_tree() { # source tree, nvcc, build folder, architecture
    local count=0 built=0 found="" kernels=0 operations=0 told name wrong line
    for file in "$1"/src/device/cuda/*.cu; do
        [ -e "$file" ] || { echo "ptx.sh: $1/src/device/cuda holds no .cu file" >&2; return 1; }
        name=$(basename "$file" .cu)
        compile "$2" "$file" "$work/$name.ptx" "$4" "${flags[@]}" -I "$1/src" ${RANDOM123_INCLUDE_DIR:+-I "$RANDOM123_INCLUDE_DIR"} ||
            { echo "false: $name.cu compiles for $4"; return 1; }
        told=$(look "$work/$name.ptx" "$name.cu")
        wrong=$(sed '$d' <<<"$told"; library_calls "$file")
        line=$(build_command "$file" "$3/compile_commands.json" 2>/dev/null || true)
        if [ -n "$line" ]; then wrong+=$'\n'$(build_flags "$file" "$line") built=$((built + 1)); fi
        wrong=$(sed '/^$/d' <<<"$wrong")
        if [ -n "$wrong" ]; then found+=$wrong$'\n'; fi
        read -r _ kernels_here operations_here <<<"$(tail -n 1 <<<"$told")"
        [ "$kernels_here" -gt 0 ] || found+="$name.cu: its PTX has no kernel"$'\n'
        count=$((count + 1)) kernels=$((kernels + kernels_here)) operations=$((operations + operations_here))
    done
    for file in "$1"/src/device/cuda/*.h "$1"/src/device/cuda/*.cuh; do
        [ ! -e "$file" ] || found+=$(library_calls "$file")
    done
    if [ -n "$found" ]; then
        echo "false: the kernels' PTX for $4 holds only what the contract allows:"
        printf '%s' "$found" | head -n 60
        return 1
    fi
    [ "$operations" -gt 0 ] || { echo "false: the kernels compute with floating-point numbers"; return 1; }
    echo "$count files for $4: $kernels kernels, $operations floating-point operations, all of them correctly rounded; no approximation, no float atomic; the build's own flags are right for $built of them"
}

# --- the self-test --------------------------------------------------------------------------------------------------
facts=0 false=0
expect() { # what is looked for ("": nothing is wrong), text, what was told
    facts=$((facts + 1))
    if [ -z "$1" ] && [ -z "$3" ]; then return; fi
    if [ -n "$1" ] && grep -qF -- "$1" <<<"$3"; then return; fi
    false=$((false + 1))
    echo "false: $2; told: ${3:-nothing}"
}

sample() { # name, body: a kernel over x, y, i; told: what look says, without its count
    printf '__global__ void sample(float *x, const float *y, double *z)\n{\n    const int i = threadIdx.x;\n    %s\n}\n' "$2" >"$work/$1.cu"
    compile "$nvcc" "$work/$1.cu" "$work/$1.ptx" sm_90 "${@:3}"
    told=$(look "$work/$1.ptx" "$1.cu" | sed '$d')
}

instruction() { # one PTX instruction, as it would stand in a kernel
    printf '.visible .entry sample(\n)\n{\n    @%%p1 %s\n}\n' "$1" >"$work/instruction.ptx"
    told=$(look "$work/instruction.ptx" instruction.cu | sed '$d')
}

self_test() {
    local good='x[i] = __fmaf_rn(x[i], y[i], 1.0f) / (x[i] + y[i]) - x[i] * y[i]; z[i] = sqrt(z[i]) * 3; if (x[i] > y[i]) atomicAdd((int *)y, 1);'
    sample good "$good" "${flags[@]}"
    expect "" "correctly rounded operations, a comparison and an integer atomic are legal" "$told"
    sample expf 'x[i] = expf(y[i]);' "${flags[@]}"
    expect "ex2.approx" "expf is found" "$told"
    expect "expf.cu:4: sample" "with its line and kernel" "$told"
    expect "calls a function" "and in the source" "$(library_calls "$work/expf.cu")"
    sample fused "$good" -std=c++17 -fmad=true -O3
    expect "no .rn" "-fmad=true is found" "$told"
    sample atomic 'atomicAdd(x, y[i]);' "${flags[@]}"
    expect "float atomic" "a float atomicAdd is found" "$told"
    sample fast "$good" -std=c++17 -use_fast_math -O3
    expect ".ftz" "-use_fast_math is found by its .ftz" "$told"
    expect ".approx" "and by its approximate division" "$told"
    sample pow 'z[i] = pow(z[i], 1.7);' "${flags[@]}"
    expect "__internal_accurate_pow" "a call of the toolkit's functions is found" "$told"
    printf '__device__ float f(float x);\n__global__ void sample(float *x) { *x = f(*x); }\n' >"$work/elsewhere.cu"
    compile "$nvcc" "$work/elsewhere.cu" "$work/elsewhere.ptx" sm_90 -rdc=true "${flags[@]}"
    expect "not in the file" "and of a function of another file" "$(look "$work/elsewhere.ptx" elsewhere.cu | sed '$d')"
    for legal in 'add.rn.f32 %f1, %f2, %f3;' 'fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;' 'cvt.rni.s32.f32 %r1, %f1;' 'cvt.rn.bf16.f32 %rs1, %f1;' \
        'max.f32 %f1, %f2, %f3;' 'atom.global.add.u32 %r1, [%rd1], 1;' 'red.global.add.u64 [%rd1], %rd2;' 'ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];' \
        'cp.async.cg.shared.global [%r1], [%rd1], 16;' 'add.s32 %r1, %r2, 1;'; do
        instruction "$legal"
        expect "" "$legal is legal" "$told"
    done
    for wrong in 'add.f32 %f1, %f2, %f3;' 'sub.f64 %fd1, %fd2, %fd3;' 'mul.rz.f32 %f1, %f2, %f3;' 'fma.rm.f32 %f1, %f2, %f3, %f4;' 'div.full.f32 %f1, %f2, %f3;' \
        'sqrt.approx.f32 %f1, %f2;' 'rsqrt.approx.f64 %fd1, %fd2;' 'tanh.approx.f32 %f1, %f2;' 'add.rn.ftz.f32 %f1, %f2, %f3;' 'mul.f16x2 %r1, %r2, %r3;' \
        'red.global.add.f32 [%rd1], %f1;' 'atom.global.add.noftz.bf16x2 %r1, [%rd1], %r2;' 'red.global.add.v2.f32 [%rd1], {%f1, %f2};' \
        'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2};' 'call.uni (retval0), __internal_accurate_pow, (param0);' 'call (retval0), %rd1, (param0), prototype_0;' \
        '{ add.rn.f32 %f1, %f2, %f3; mul.f32 %f4, %f1, %f1; }'; do
        instruction "$wrong"
        expect "instruction.cu" "$wrong is found" "$told"
    done
    printf '// exp(x)\n/* sinf(x) and\n logf(x) */ y = pl_exp(x); z = row.log(x);\n' >"$work/comments.cu"
    expect "" "names in comments and the project's own functions are legal" "$(library_calls "$work/comments.cu")"
    printf '\nfloat f(float x) { return 1 + log1pf (x); }\n' >"$work/log1pf.cu"
    expect "log1pf.cu:2: " "a call in the source is found at its line" "$(library_calls "$work/log1pf.cu")"
    line='"command": "g++ -x c++ -c /s/a.cu",'$'\n''"command": "/cuda/bin/nvcc -ftz=false -prec-div=true -prec-sqrt=true -use_fast_math -x cu -c /s/a.cu",'
    printf '%s\n' "$line" >"$work/compile_commands.json"
    line=$(build_command /s/a.cu "$work/compile_commands.json")
    expect "nvcc" "a build's command line is found, and it is nvcc's" "$line"
    expect "without -fmad=false" "a flag that the build forgot is found" "$(build_flags /s/a.cu "$line")"
    expect "with -use_fast_math" "and one that it should not have" "$(build_flags /s/a.cu "$line")"
    expect "" "the product's flags are right" "$(build_flags /s/a.cu "${flags[*]}")"
    echo "$facts facts checked, $false false"
    [ "$false" = 0 ]
}

case ${1:-} in
--self-test)
    [ $# = 2 ] || usage
    nvcc=$2
    self_test
    ;;
-* | "") usage ;;
*)
    [ $# = 3 ] || [ $# = 4 ] || usage
    check_tree "$1" "$2" "$3" "${4:-sm_90}"
    ;;
esac
