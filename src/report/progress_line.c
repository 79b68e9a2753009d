#include "report/progress_line.h"
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double refresh = 0.2; /* seconds, on a terminal */
enum { WIDTH = 79 };               /* of its line: the narrowest usual terminal does not break it */

void progress_line_start(struct progress_line *line, bool speaks, double interval)
{
    const double now = seconds_now();
    *line = (struct progress_line){ .speaks = speaks && interval > 0,
        .on_terminal = isatty(STDERR_FILENO),
        .interval = interval,
        .began = now,
        .last = now };
}

bool progress_line_due(const struct progress_line *line)
{
    return line->speaks &&
           seconds_now() - line->last >= (line->on_terminal ? fmin(refresh, line->interval) : line->interval);
}

const char *duration_text(double seconds, char buffer[40])
{
    const long long s = seconds < 1e12 ? llround(fmax(0, seconds)) : 999999999999;
    const int hour = (int)(s / 3600 % 24), minute = (int)(s / 60 % 60), second = (int)(s % 60);
    if (s >= 86400)
        snprintf(
            buffer, 40, "%lld day%s %02d:%02d:%02d", s / 86400, s >= 172800 ? "s" : "", hour, minute, second);
    else if (s >= 3600)
        snprintf(buffer, 40, "%d:%02d:%02d", hour, minute, second);
    else
        snprintf(buffer, 40, "%d:%02d", minute, second);
    return buffer;
}

/* All of it or, where the reader is behind, nothing. What is lost is lost: it was only for looking at. */
static void put(const char *text, size_t length)
{
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) return;
    const ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
}

void progress_line_write(struct progress_line *line, double done, const char *format, ...)
{
    char text[256] = "", all[320], left[40];
    const double now = seconds_now();
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if (length >= (int)sizeof text) length = (int)sizeof text - 1;
    if (done > 0)
        snprintf(text + length, sizeof text - (size_t)length, ", %s left",
            duration_text((now - line->began) * (1 - done) / done, left));
    line->last = now;
    if (!line->on_terminal) {
        length = snprintf(all, sizeof all, "pipeleaf: %s\n", text);
    } else {
        const int shown = (int)strnlen(text, WIDTH);
        /* The cursor stays at the beginning, so that an error that comes now has its line for itself. */
        const int blanks = line->shown > shown ? line->shown - shown : 0;
        length = snprintf(all, sizeof all, "%.*s%*s\r", shown, text, blanks, "");
        line->shown = shown;
    }
    put(all, (size_t)length);
}

void progress_line_end(struct progress_line *line)
{
    char blank[WIDTH + 2];
    if (!line->speaks || !line->on_terminal || line->shown == 0) return;
    const int length = snprintf(blank, sizeof blank, "%*s\r", line->shown, "");
    put(blank, (size_t)length);
    line->shown = 0;
}
