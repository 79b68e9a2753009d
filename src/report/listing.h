/* The listing: what rank 0 prints, kept so that it can be written to the output directory when the run is
 * over. */
#pragma once
#include "base/base.h"

struct listing {
    bool speaks;    /* rank 0 */
    bool only_kept; /* not printed: where several pipelines run, that of the job is */
    struct text text;
};
void listing_print(struct listing *listing, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "-- NAME ------..." to 100 columns. */
void listing_banner(struct listing *listing, const char *name);
/* Text of several lines, each indented by two blanks. */
void listing_block(struct listing *listing, const char *text);
/* The last two lines, in their fixed shape. fom: tokens/s, or NaN for NOT MEASURED. verdict: as in
 * verdict_text. */
void listing_end(struct listing *listing, double fom, const char *verdict);

/* Least, middle, 95th percentile (nearest rank) of `count` values; sorts them in place. NaN where there are
 * none. */
struct spread {
    double min, median, p95, max;
};
struct spread spread_of(double *values, size_t count);

/* "1.25 GiB", into a buffer of the caller's. */
const char *bytes_text(double bytes, char buffer[32]);
