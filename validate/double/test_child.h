/* For tests of what ends a program, and of what the environment changes: the test runs itself as a child,
 * with a case. */
#pragma once
#include "../check.h"
#include "failure.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
    int code; /* exit code; -1: by a signal */
    std::string text;
    bool says(const char *part) const
    {
        return text.find(part) != std::string::npos;
    }
};

/* `environment`: NAME=VALUE words, or "". */
static inline outcome run_case(const std::string &environment, const std::string &name)
{
    outcome result{ -1, "" };
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return result;
    self[length] = 0;
    fflush(stdout);
    FILE *child = popen(("env " + environment + " '" + self + "' " + name + " 2>&1").c_str(), "r");
    if (!child) return result;
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, child)) > 0;) result.text.append(part, n);
    const int status = pclose(child);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

struct test_case {
    const char *name;
    int (*run)(); /* the exit code */
};

/* The case named on the command line. */
template <int N> static int run_named(const test_case (&cases)[N], const char *name)
{
    for (const test_case &it : cases)
        if (strcmp(it.name, name) == 0) return it.run();
    fprintf(stderr, "no case '%s'\n", name);
    return 127;
}

#define CHECK_ENDS(environment, name, ...)                                                                   \
    do {                                                                                                     \
        const outcome it = run_case(environment, name);                                                      \
        CHECK(                                                                                               \
            it.code == DOUBLE_EXIT, "%s %s: exit code %d: %s", environment, name, it.code, it.text.c_str()); \
        for (const char *part : { __VA_ARGS__ })                                                             \
            CHECK(it.says(part), "%s: '%s' is not in: %s", name, part, it.text.c_str());                     \
    } while (0)
