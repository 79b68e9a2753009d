/* What the OLCF test harness reads beside a program's exit code: metrics.txt and nodecheck.txt. The forms are
   those of its extensions (github.com/olcf/olcf-test-harness, doc-sphinx/source/user_guide/extensions.rst,
   and _get_metrics and _get_node_health of harness/libraries/apptest.py, at commit 1890f2d): in metrics.txt
   lines NAME=VALUE with one equals sign, in nodecheck.txt lines NODE STATUS MESSAGE, one a node; # begins a
   comment. */
#pragma once
#include "report/result.h"

/* NAME=VALUE of each figure; one that is not measured (NaN) has a comment in the place of a value, for the
   harness knows no number that means that. The verdict has _ for its blank, as the harness would write it. */
void metrics_write(
    const char *path, const char *verdict, int exit_code, const struct figure *figures, int count);

/* From the best to the worst: a node with several is given the last. */
enum node_status { NODE_PASS, NODE_PERF_FAIL, NODE_FAIL, NODE_HW_FAIL };
extern const char *const node_status_text[]; /* "PASS", ... */

struct node {
    const char *host;
    enum node_status status;
    struct text
        message; /* one line; a double quote would end a field of the harness's database: there are none */
};
void nodecheck_write(const char *path, const struct node *nodes, int count);
