#include "device/kinds.h"
#include <assert.h>
#include <dirent.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

/* 'auto' has no function here: it is resolved first. */
static const struct kind {
    const char *name;
    bool (*open)(const struct device_request *request, struct device **device, struct text *error);
} kinds[] = { { "auto", NULL }, { "host", host_device_open }, { "cuda", cuda_device_open },
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

const char *auto_kind(bool gpu, bool has_cuda, struct text *error)
{
    if (!gpu) return "host";
    if (has_cuda) return "cuda";
    text_add(error,
        "device 'auto': a GPU is visible but this build has no CUDA; device='host' computes on the CPUs");
    return NULL;
}

void device_libraries(struct text *list)
{
    text_add(list, "OpenMP %d; ", _OPENMP);
    cuda_libraries(list);
}

bool device_open(const struct device_request *request, struct device **device, struct text *error)
{
    assert(request->threads >= 1);
    const char *name = request->kind;
    if (strcmp(name, "auto") == 0 && !(name = auto_kind(gpu_visible(""), cuda_is_built, error))) return false;
    const char *names[KINDS];
    for (int i = 0; i < KINDS; i++) {
        names[i] = kinds[i].name;
        if (strcmp(name, kinds[i].name) != 0) continue;
        return kinds[i].open(request, device, error);
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
