#include "model/model.h"
#include <assert.h>
#include <stdlib.h>

struct partition partition_make(int layers, int chunks, const int32_t *layers_per_chunk)
{
    assert(layers >= 0 && chunks >= 1);
    struct partition partition = { .chunks = chunks, .first = allocate((size_t)chunks + 1, sizeof(int)) };
    const int share = layers / chunks, with_one_more = layers % chunks;
    for (int s = 0; s < chunks; s++) {
        const int here = layers_per_chunk ? layers_per_chunk[s] : share + (s < with_one_more);
        assert(here >= 0);
        partition.first[s + 1] = partition.first[s] + here;
    }
    assert(partition.first[chunks] == layers);
    return partition;
}

int partition_layers(const struct partition *partition, int chunk)
{
    assert(chunk >= 0 && chunk < partition->chunks);
    return partition->first[chunk + 1] - partition->first[chunk];
}

void partition_free(struct partition *partition)
{
    free(partition->first);
    *partition = (struct partition){ 0 };
}
