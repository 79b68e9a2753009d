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

static void banner(struct listing *listing, const char *name, const char *end)
{
    char rule[LISTING_WIDTH];
    const int dashes = LISTING_WIDTH - 4 - (int)strlen(name) - (int)strlen(end);
    memset(rule, '-', sizeof rule);
    listing_print(listing, "\n-- %s %.*s%s\n", name, dashes > 0 ? dashes : 0, rule, end);
}

void listing_banner(struct listing *listing, const char *name)
{
    banner(listing, name, "");
}

void listing_banner_differs(struct listing *listing, const char *name)
{
    banner(listing, name, " differs from run to run --");
}

enum { DEEPEST = 40 }; /* blanks before a line that its further lines keep */

/* One line without its line feed, its end on further lines, indented, where it would get too long. A word
   that fits no line, such as a path, is not cut. */
static void print_wrapped(struct listing *listing, const char *line, size_t length, int indent)
{
    int before = 0;
    while (before + (int)length > LISTING_WIDTH) {
        const size_t room = (size_t)(LISTING_WIDTH - before), margin = strspn(line, " ");
        size_t at = room;
        while (at > margin && line[at] != ' ') at--;
        if (at <= margin) /* the first word alone is too long */
            for (at = room; at < length && line[at] != ' ';) at++;
        if (at >= length) break;
        size_t end = at;
        while (end > 0 && line[end - 1] == ' ') end--;
        listing_print(listing, "%*s%.*s\n", before, "", (int)end, line);
        while (at < length && line[at] == ' ') at++;
        line += at;
        length -= at;
        before = indent;
    }
    listing_print(listing, "%*s%.*s\n", before, "", (int)length, line);
}

void listing_block(struct listing *listing, const char *text)
{
    while (text && *text) {
        const size_t length = strcspn(text, "\n");
        const int margin = (int)strspn(text, " ");
        struct text line = { 0 };
        text_add(&line, "  %.*s", (int)length, text);
        print_wrapped(listing, line.data, line.length, (margin < DEEPEST ? margin : DEEPEST) + 6);
        text_free(&line);
        text += length + (text[length] == '\n');
    }
}

void listing_verbatim(struct listing *listing, const char *text)
{
    while (text && *text) {
        const size_t length = strcspn(text, "\n");
        listing_print(listing, "  %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void listing_line(struct listing *listing, int indent, const char *format, ...)
{
    struct text line = { 0 };
    va_list arguments;
    va_start(arguments, format);
    text_add_list(&line, format, arguments);
    va_end(arguments);
    print_wrapped(listing, line.data, line.length, indent);
    text_free(&line);
}

void listing_verification(struct listing *listing, const char *explanation)
{
    struct text sides = { 0 }, rest = { 0 };
    while (explanation && *explanation) {
        const size_t length = strcspn(explanation, "\n");
        const bool side = !strncmp(explanation, "run: ", 5) || !strncmp(explanation, "reference: ", 11);
        text_add(side ? &sides : &rest, "%.*s\n", (int)length, explanation);
        explanation += length + (explanation[length] == '\n');
    }
    if (sides.length) {
        listing_banner_differs(listing, "what is compared");
        listing_block(listing, sides.data);
    }
    listing_banner(listing, "verification");
    listing_block(listing, rest.data);
    text_free(&sides);
    text_free(&rest);
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

const char *cut_text(const char *text, size_t width, char *buffer)
{
    if (strlen(text) <= width)
        strcpy(buffer, text);
    else
        sprintf(buffer, "%.*s...", (int)width - 3, text);
    return buffer;
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
