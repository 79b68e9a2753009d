#include "report/idle.h"
#include <math.h>

const char *const idle_name[IDLE_CAUSES] = { "bubble", "late input", "other", "message wait" };

void idle_split(const struct gap *gap, double cut[IDLE_CAUSES + 1])
{
    const double made = fmin(fmax(gap->made, gap->from), gap->to);
    cut[IDLE_BUBBLE] = gap->from;
    cut[IDLE_LATE] = fmin(gap->from + fmax(gap->planned, 0), made);
    cut[IDLE_OTHER] = made;
    cut[IDLE_MESSAGE] = fmax(made, gap->to - fmax(gap->waited, 0));
    cut[IDLE_CAUSES] = gap->to;
}
