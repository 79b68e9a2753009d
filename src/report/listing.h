/* The listing: what rank 0 prints, kept so that it can be written to the output directory when the run is
   over.

   Two runs of one deck by one build give the same listing but for times, hosts and what else no deck says.
   That stands in blocks whose banner says "differs from run to run" and which end, as every block, with an
   empty line or the listing; and in the line of the FOM. So what is left is compared after

       sed '/^-- .* differs from run to run --$/,/^$/d; /^FOM = /d' listing.txt

   No line is longer than LISTING_WIDTH but those of the effective deck and those whose one word, a path, is.
 */
#pragma once
#include "base/base.h"

struct listing {
    bool speaks;    /* rank 0 */
    bool only_kept; /* not printed: where several pipelines run, that of the job is */
    struct text text;
};
void listing_print(struct listing *listing, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum { LISTING_WIDTH = 100 };
/* "-- NAME ------..." across the listing, after an empty line; of a block that is the same in every run of a
 * deck, */
void listing_banner(struct listing *listing, const char *name);
/* and of one that is not. Neither block may hold an empty line. */
void listing_banner_differs(struct listing *listing, const char *name);
/* Text of several lines, each indented by two blanks; the end of one that is too long goes on below. */
void listing_block(struct listing *listing, const char *text);
/* The same, but no line is broken: for a deck, which must be the same deck when it is copied. */
void listing_verbatim(struct listing *listing, const char *text);
/* One line, without its line feed; what does not fit goes on below, `indent` blanks from the left. */
void listing_line(struct listing *listing, int indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The block of the verdict, from what verify explained; its lines "run: ..." and "reference: ...", which name
   the runs that are compared, go before it, into a block of what differs from run to run. */
void listing_verification(struct listing *listing, const char *explanation);
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
/* `text`, or as much of it as fits a column, with "..." to say that there is more. width: at least 3;
   buffer: the caller's, of width + 1. */
const char *cut_text(const char *text, size_t width, char *buffer);
