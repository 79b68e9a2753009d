#pragma once
#include <stddef.h>

#define PROBE(variant)                                                                                       \
    float probe_scalar_##variant(float a, float b, float c);                                                 \
    void probe_loop_##variant(size_t count, const float *a, const float *b, float *c);
PROBE(generic)
PROBE(avx2)
PROBE(avx512)
