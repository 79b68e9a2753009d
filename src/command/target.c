#include "command/target.h"
#include <math.h>
#include <stdio.h>

int targets_check(const struct deck *deck, double fom, double bubble, struct target targets[TARGETS])
{
    int count = 0;
    if (deck->target.fom > 0)
        targets[count++] = (struct target){ .name = "fom_tokens_per_second",
            .label = "FOM, tokens/s, at least",
            .bound = deck->target.fom,
            .value = fom,
            .met = fom >= deck->target.fom };
    if (deck->target.bubble_max > 0)
        targets[count++] = (struct target){ .name = "bubble_of_step",
            .label = "bubble, idle/step, at most",
            .bound = deck->target.bubble_max,
            .value = bubble,
            .met = bubble <= deck->target.bubble_max };
    return count;
}

bool targets_met(const struct target *targets, int count)
{
    for (int i = 0; i < count; i++)
        if (!targets[i].met) return false;
    return true;
}

void targets_print(struct listing *listing, const struct target *targets, int count, const char *whose)
{
    if (!count) return;
    listing_banner_differs(listing, "target");
    listing_print(listing, "%-28s %14s %14s  %s\n", "", "target", "measured", whose);
    for (int i = 0; i < count; i++) {
        char value[32] = "NOT MEASURED";
        if (!isnan(targets[i].value)) snprintf(value, sizeof value, "%.6E", targets[i].value);
        listing_print(listing, "%-28s %14.6E %14s  %s\n", targets[i].label, targets[i].bound, value,
            targets[i].met ? "met" : "MISSED");
    }
}

int first_exit_code(int a, int b)
{
    static const int order[] = { EXIT_TIMEOUT, EXIT_FAILED, EXIT_WRONG, EXIT_NOT_VERIFIED, EXIT_SLOW };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i] || b == order[i]) return order[i];
    return EXIT_DONE;
}
