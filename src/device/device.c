#include "device/kinds.h"
#include <assert.h>
#include <dirent.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

/* 'auto' and 'cuda' have no function here: the one is resolved first, the other is not in this build. */
static const struct kind {
    const char *name;
    bool (*open)(const struct device_request *request, struct device **device, struct text *error);
} kinds[] = { { "auto", NULL }, { "host", host_device_open }, { "cuda", NULL },
    { "definition", definition_device_open }, { "rehearsal", rehearsal_device_open } };

enum { KINDS = sizeof kinds / sizeof kinds[0] };

bool gpu_visible(const char *root)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/dev/nvidia0", root);
    if (access(path, F_OK) == 0) return true;
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
    DIR *folder = opendir(path);
    if (!folder) return false;
    bool found = false;
    for (const struct dirent *entry; !found && (entry = readdir(folder));) found = entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

const char *auto_kind(bool gpu, struct text *error)
{
    if (!gpu) return "host";
    text_add(error,
        "device 'auto': a GPU is visible but this build has no CUDA; device='host' computes on the CPUs");
    return NULL;
}

bool device_open(const struct device_request *request, struct device **device, struct text *error)
{
    assert(request->threads >= 1);
    const char *name = request->kind;
    if (strcmp(name, "auto") == 0 && !(name = auto_kind(gpu_visible(""), error))) return false;
    const char *names[KINDS];
    for (int i = 0; i < KINDS; i++) {
        names[i] = kinds[i].name;
        if (strcmp(name, kinds[i].name) != 0) continue;
        if (kinds[i].open) return kinds[i].open(request, device, error);
        text_add(error, "device '%s': this build has no CUDA; device='host' computes on the CPUs", name);
        return false;
    }
    const char *nearest = nearest_name(name, names, KINDS);
    text_add(error, "device '%s': must be 'auto', 'host', 'cuda', 'definition' or 'rehearsal'", name);
    if (nearest) text_add(error, "; did you mean '%s'?", nearest);
    return false;
}

struct digest digest_add(struct digest a, struct digest b)
{
    return (struct digest){ .sum = a.sum + b.sum,
        .weighted = a.weighted + b.weighted,
        .nan = a.nan + b.nan,
        .absmax = a.absmax > b.absmax ? a.absmax : b.absmax };
}

bool digest_equal(struct digest a, struct digest b)
{
    return a.nan == 0 && b.nan == 0 && a.sum == b.sum && a.weighted == b.weighted && a.absmax == b.absmax;
}
