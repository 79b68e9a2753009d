# Of a PTX file: each instruction that the contract does not allow, as FILE:LINE: FUNCTION: INSTRUCTION: why; and in a last line
# "counted KERNELS OPERATIONS". What is allowed is said in ptx.sh.

function wrong(why) {
    printf "%s:%s: %s: %s: %s\n", source, place ? place : "PTX " NR, name, text, why
}

# One instruction, its predicate and braces taken off.
function instruction(    operation, base, called, is_float) {
    operation = text
    sub(/[ \t].*/, "", operation)
    base = operation
    sub(/\..*/, "", base)
    is_float = operation ~ /\.(f16|bf16|tf32|f32|f64)(x2)?(\.|$)/ || operation ~ /\.(e4m3|e5m2|e2m1|e2m3|e3m2)/
    if (base == "call") {
        # Functions of the file are looked at where they stand; a failed assert computes nothing.
        called = text
        sub(/^call[.a-z]*[ \t]*(\([^)]*\)[ \t]*,)?[ \t]*/, "", called)
        sub(/[ \t,(].*/, "", called)
        if (called != "__assertfail" && (called !~ /^_Z/ || called in elsewhere)) wrong("a call of code that is not in the file")
        return
    }
    if (operation ~ /\.approx/) wrong("an approximation")
    else if (operation ~ /\.ftz/) wrong("flushes denormals (.ftz)")
    else if (!is_float) return
    else if (base ~ /^(atom|red|multimem)$/ || operation ~ /^cp\.reduce/) wrong("a float atomic")
    else if (base ~ /^(add|sub|mul|fma|mad|div|sqrt|rcp)$/) {
        operations++
        if (operation !~ /\.rn(\.|$)/) wrong("no .rn")
        else if (operation ~ /\.(sat|relu)(\.|$)/) wrong("clamps its result")
    } else if (base !~ /^(abs|copysign|cvt|ld|ldu|max|min|mov|neg|selp|set|setp|shfl|slct|st|testp)$/)
        wrong("neither exact nor correctly rounded")
}

/^[ \t]*\.loc[ \t]/ {
    place = $3
    next
}
/^[ \t]*(\.visible[ \t]+|\.weak[ \t]+|\.extern[ \t]+)*\.(entry|func)[ \t]/ {
    # ".visible .entry name(" and ".func (.param .b32 retval0) name("
    header = $0
    if (header ~ /\.entry/) kernels++
    sub(/^.*\.(entry|func)[ \t]*/, "", header)
    sub(/^\([^)]*\)[ \t]*/, "", header)
    sub(/[ \t(].*/, "", header)
    if ($0 ~ /\.extern/) {
        elsewhere[header]
    } else {
        name = header
        place = ""
    }
    next
}
!pending && /^[ \t]*(\/\/|\.)/ { next }
{
    line = pending $0
    pending = ""
    sub(/\/\/.*/, "", line)
    parts = split(line, part, ";")
    for (p = 1; p <= parts; p++) {
        text = part[p]
        sub(/^[ \t{}]+/, "", text)
        sub(/^\$?[A-Za-z_$][A-Za-z0-9_$]*:[ \t]*/, "", text)
        sub(/^@!?%?[A-Za-z0-9_]+[ \t]+/, "", text)
        sub(/[ \t]+$/, "", text)
        if (text ~ /^call/ && p == parts) pending = text " " # a call goes over several lines
        else if (text ~ /^[a-z]/) instruction()
    }
}
END { printf "counted %d %d\n", kernels, operations }
