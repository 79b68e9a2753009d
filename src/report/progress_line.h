/* How far a long command is, on standard error while it runs: on a terminal one line, written over again and
   gone at the end; elsewhere, in a batch log, a line at fixed intervals. Nothing here allocates, and nothing
   waits for whoever reads: a line that cannot be written at once is left out. */
#pragma once
#include "base/base.h"

struct progress_line {
    bool speaks, on_terminal;
    double interval;    /* seconds */
    double began, last; /* seconds_now() of the start and of the last line */
    int shown;          /* characters that stand on the terminal's line */
};

/* Begins now. speaks: false for every rank but one, and where nothing is wanted. interval: of lines in a log,
   in seconds; 0: nothing is wanted. A terminal's line is written over up to five times a second. */
void progress_line_start(struct progress_line *line, bool speaks, double interval);

/* Whether it is time for a line: to be asked before the text is made. */
bool progress_line_due(const struct progress_line *line);

/* Writes what `format` says, and with it, where done > 0, the seconds that the whole will take on if the rest
   goes as the share `done` (0 to 1) went. */
void progress_line_write(struct progress_line *line, double done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Removes what stands on the terminal. */
void progress_line_end(struct progress_line *line);

/* "0:07", "12:34", "1:02:03", "3 days 04:05:06" into a buffer of the caller's. */
const char *duration_text(double seconds, char buffer[40]);
