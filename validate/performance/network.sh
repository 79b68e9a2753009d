#!/usr/bin/env bash
# Runs two MPI ranks with a slow network between them: two network namespaces on this machine, joined by a veth pair that a
# token bucket (tc tbf) limits each way, and Open MPI over TCP. Each namespace has a host name of its own, so that the ranks
# do not share memory, and each rank has a core.
#
# usage: network.sh MBIT COMMAND [WORD ...]     MBIT: of each direction, 1000 for 1 Gbit/s
#        network.sh --check                     says whether it can be done here
#
# Needs root, ip and tc (Debian: iproute2) and Open MPI's mpirun; where one is missing it says so and exits 77. It takes away
# what it made, and first whatever an earlier call that was killed may have left.
set -euo pipefail

near=pipeleaf-near far=pipeleaf-far
near_address=10.77.0.1 far_address=10.77.0.2 subnet=10.77.0.0/24

cannot() {
    echo "network.sh: $1"
    exit 77
}
check() {
    [ "$(id -u)" = 0 ] || cannot "network namespaces need root"
    local tool
    for tool in ip tc; do command -v "$tool" >/dev/null || cannot "$tool is missing: install iproute2"; done
    for tool in unshare flock python3; do command -v "$tool" >/dev/null || cannot "$tool is missing"; done
    command -v mpirun >/dev/null || cannot "mpirun is missing: install Open MPI"
    mpirun --version 2>/dev/null | grep -q 'Open MPI' || cannot "mpirun is not Open MPI's, whose options this needs"
    [ "$(nproc)" -ge 2 ] || cannot "two cores are needed"
}
down() {
    ip netns delete "$near" 2>/dev/null || true # its end of the pair goes with it, and so does the other
    ip netns delete "$far" 2>/dev/null || true
}
up() { # MBIT
    down
    local side device address
    # Frames of a third of a millisecond: each costs a timer's interrupt, on the cores that compute, for want of a network card.
    local frame=$(($1 * 40 < 1500 ? 1500 : $1 * 40 > 64000 ? 64000 : $1 * 40))
    for side in "$near" "$far"; do
        ip netns add "$side" 2>/dev/null || cannot "network namespaces cannot be made here"
    done
    ip -n "$near" link add to-far type veth peer name to-near netns "$far" 2>/dev/null || cannot "a veth pair cannot be made here"
    for side in "$near to-far $near_address" "$far to-near $far_address"; do
        read -r side device address <<<"$side"
        ip -n "$side" address add "$address/24" dev "$device"
        ip -n "$side" link set lo up
        ip -n "$side" link set "$device" mtu "$frame" up
        # A small bucket: what it holds of a message after a pause travels at no cost of time.
        tc -n "$side" qdisc add dev "$device" root tbf rate "$1mbit" burst "$((frame + 1000))" latency 100ms 2>/dev/null ||
            cannot "tc cannot limit a rate here"
    done
}

check
exec 9>"${TMPDIR:-/tmp}/pipeleaf-network.lock" # one at a time: the namespaces have fixed names
flock 9
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeleaf-network.XXXXXX")
trap 'down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

if [ "${1-}" = --check ]; then
    up 1000
    echo "network.sh: two namespaces can be joined here"
    exit 0
fi
if [ $# -lt 2 ] || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
    echo "network.sh: usage: network.sh MBIT COMMAND [WORD ...]" >&2
    exit 1
fi
up "$1"
shift

# What mpirun calls in the place of ssh: agent HOST WORD..., to be run by a shell there.
cat >"$work/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec $far unshare -u sh -c 'hostname $far; exec sh -c "\$0"' "\$*"
AGENT
chmod +x "$work/agent"

here=$(cd "$(dirname "$0")" && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export network_work=$work network_near=$near
# shellcheck disable=SC2016  # the inner shell's own words
ip netns exec "$near" unshare -u sh -c 'hostname "$network_near"; exec "$@"' sh \
    mpirun --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include "$subnet" \
    --mca oob_tcp_if_include "$subnet" --mca hwloc_base_binding_policy none --host "$near_address:1,$far_address:1" -n 2 \
    python3 "$here/own_core.py" "$@" 9>&-
