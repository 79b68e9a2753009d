/* How the double ends a program that does what no GPU allows: one line on standard error, exit code 70. */
#pragma once

enum { DOUBLE_EXIT = 70 };

__attribute__((noreturn, format(printf, 1, 2))) void failure(const char *format, ...);
/* The same line, for a call that is refused and goes on. */
__attribute__((format(printf, 1, 2))) void complaint(const char *format, ...);
