#include "report/harness.h"
#include <math.h>

const char *const node_status_text[] = { "PASS", "PERF-FAIL", "FAIL", "HW-FAIL" };

void metrics_write(
    const char *path, const char *verdict, int exit_code, const struct figure *figures, int count)
{
    struct text lines = { 0 };
    text_add(&lines, "verification=");
    for (const char *c = verdict; *c; c++) text_add(&lines, "%c", *c == ' ' ? '_' : *c);
    text_add(&lines, "\nexit_code=%d\n", exit_code);
    for (int i = 0; i < count; i++)
        if (isfinite(figures[i].value))
            text_add(&lines, "%s=%.17g\n", figures[i].name, figures[i].value);
        else
            text_add(&lines, "# %s: NOT MEASURED\n", figures[i].name);
    write_whole_file(path, lines.data, lines.length);
    text_free(&lines);
}

void nodecheck_write(const char *path, const struct node *nodes, int count)
{
    struct text lines = { 0 };
    for (int i = 0; i < count; i++) {
        const struct text *message = &nodes[i].message;
        text_add(&lines, "%s %s", nodes[i].host, node_status_text[nodes[i].status]);
        if (message->length) text_add(&lines, " %s", message->data);
        text_add(&lines, "\n");
    }
    write_whole_file(path, lines.data, lines.length);
    text_free(&lines);
}
