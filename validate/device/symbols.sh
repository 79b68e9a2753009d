#!/bin/sh
# The kernels' objects call no mathematical function of a library: symbols.sh generic|other OBJECT...
# fmaf alone is allowed, and only in the generic variant, whose instruction set may lack fma.
set -eu
variant=$1
shift
names='acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|erf|erfc|exp|exp10|exp2|expm1|fabs|fdim|floor'
names="$names|fma|fmax|fmin|fmod|frexp|hypot|ilogb|ldexp|lgamma|llrint|llround|log|log10|log1p|log2|logb|lrint|lround"
names="$names|modf|nearbyint|pow|remainder|rint|round|scalbln|scalbn|sin|sincos|sinh|sqrt|tan|tanh|tgamma|trunc"
found=$(nm -u "$@" | awk '$1 == "U" { print $2 }' | sort -u |
  grep -E "^(_*($names)[fl]?(_finite)?|_ZGV.*|__sv?ml.*)(@.*)?$" || true)
[ "$variant" != generic ] || found=$(echo "$found" | grep -vx fmaf || true)
if [ -n "$found" ]; then
  echo "false: the $variant objects call no mathematical function; they call:" $found
  exit 1
fi
[ "$(nm "$@" | grep -c ' T ')" -ge 10 ] || { echo "false: these are the kernels' objects"; exit 1; }
echo "$# objects of the $variant variant call no mathematical function"
