#include "report/listing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void listing_print(struct listing *listing, const char *format, ...)
{
    if (!listing->speaks) return;
    const size_t before = listing->text.length;
    va_list arguments;
    va_start(arguments, format);
    text_add_list(&listing->text, format, arguments);
    va_end(arguments);
    if (listing->only_kept) return;
    fputs(listing->text.data + before, stdout);
    fflush(stdout);
}

void listing_banner(struct listing *listing, const char *name)
{
    char rule[100];
    const int dashes = 96 - (int)strlen(name);
    memset(rule, '-', sizeof rule);
    listing_print(listing, "\n-- %s %.*s\n", name, dashes > 0 ? dashes : 0, rule);
}

void listing_block(struct listing *listing, const char *text)
{
    while (text && *text) {
        const size_t length = strcspn(text, "\n");
        listing_print(listing, "  %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void listing_end(struct listing *listing, double fom, const char *verdict)
{
    listing_print(listing, "\n");
    if (isnan(fom))
        listing_print(listing, "FOM = NOT MEASURED\n");
    else
        listing_print(listing, "FOM = %.6E tokens/s\n", fom);
    listing_print(listing, "VERIFICATION = %s\n", verdict);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(double *values, size_t count)
{
    if (count == 0) return (struct spread){ NAN, NAN, NAN, NAN };
    qsort(values, count, sizeof *values, compare);
    const double middle = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    const size_t rank = (size_t)ceil(0.95 * (double)count);
    return (struct spread){ values[0], middle, values[rank - 1], values[count - 1] };
}

const char *bytes_text(double bytes, char buffer[32])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t u = 0;
    while (bytes >= 1024 && u + 1 < sizeof unit / sizeof *unit) {
        bytes /= 1024;
        u++;
    }
    snprintf(buffer, 32, u == 0 ? "%.0f %s" : "%.2f %s", bytes, unit[u]);
    return buffer;
}
