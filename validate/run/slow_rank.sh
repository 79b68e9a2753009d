#!/usr/bin/env bash
# slow_rank.sh RANK program words...: the program, and on that rank of the launch it is stopped most of the time, as on a host
# where something else has the processor: 60 ms of every 80 or so.
set -euo pipefail
slow=$1
shift
rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-${PMIX_RANK-}}}
[ -n "$rank" ] || { echo "slow_rank.sh: the launcher does not say which rank this is" >&2; exit 77; }
if [ "$rank" = "$slow" ]; then
    (
        exec >/dev/null 2>&1
        while kill -STOP $$; do
            sleep 0.06
            kill -CONT $$ || exit 0
            sleep 0.02
        done
    ) &
fi
exec "$@"
