/* The GPU's digest is the definition's: any count, any first index, wherever the tensor begins, and whatever
   stood in the scratch memory before. With the argument "small" only small tensors. */
#include "on_gpu.h"

static uint64_t state = 7;
static struct digest *partial, *result;

static struct digest digest_on_gpu(const float *x, size_t count, uint64_t first_index)
{
    struct digest digests[2];
    const cudaStream_t s = gpu_stream();
    CUDA_CALL(cudaMemsetAsync(partial, 0x7f, CUDA_DIGEST_PARTS * sizeof *partial, s));
    CUDA_CALL(cudaMemsetAsync(result, 0x55, sizeof digests, s));
    cuda_digest(s, count, x, first_index, partial, result);
    CUDA_CALL(cudaMemcpyAsync(digests, result, sizeof digests, cudaMemcpyDeviceToHost, s));
    CUDA_CALL(cudaStreamSynchronize(s));
    CHECK(digests[1].sum == 0x5555555555555555u, "%zu elements: written past the result", count);
    return digests[0];
}

/* First indices: with upper halves that differ, from one to the next and within a tensor. */
static const uint64_t first[] = { (5ull << 32) - 2, 0, 5, (1ull << 32) - 13, (1ull << 32) - 700, 3ull << 33 };
enum { FIRSTS = sizeof first / sizeof first[0] };

/* The tensor begins `shift` elements past a multiple of 256 bytes; the first few of `first`. */
static void is_as_defined(size_t count, size_t shift, enum wildness wildness, size_t firsts)
{
    float *x = allocate(shift + count + 1, sizeof *x);
    fill(x, shift + count, wildness, &state);
    float *gx = gpu_floats(x, shift + count);
    for (size_t f = 0; f < firsts; f++) {
        struct digest expected;
        definition_digest(count, x + shift, first[f], &expected);
        const struct digest made = digest_on_gpu(gx + shift, count, first[f]);
        CHECK(memcmp(&made, &expected, sizeof made) == 0,
            "%zu elements at %zu from index %llu: %016llx %016llx nan=%llu absmax=%a, defined as %016llx "
            "%016llx "
            "nan=%llu absmax=%a",
            count, shift, (unsigned long long)first[f], (unsigned long long)made.sum,
            (unsigned long long)made.weighted, (unsigned long long)made.nan, (double)made.absmax,
            (unsigned long long)expected.sum, (unsigned long long)expected.weighted,
            (unsigned long long)expected.nan, (double)expected.absmax);
    }
    gpu_take(gx, x, shift + count);
    free(x);
}

/* Each NaN is one, and counted, wherever it is among elements read together. */
static void every_nan_is_counted(void)
{
    enum { COUNT = 37 };
    float x[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        fill(x, COUNT, TAME, &state);
        x[i] = pl_float(i % 2 ? 0xffc12345u : 0x7f800001u);
        struct digest expected;
        definition_digest(COUNT, x, 0, &expected);
        float *gx = gpu_floats(x, COUNT);
        const struct digest made = digest_on_gpu(gx, COUNT, 0);
        gpu_take(gx, x, COUNT);
        CHECK(made.nan == 1 && !digest_equal(made, made), "NaN at %zu: %llu counted", i,
            (unsigned long long)made.nan);
        CHECK(memcmp(&made, &expected, sizeof made) == 0, "NaN at %zu", i);
    }
}

/* A flipped bit anywhere shows, and two shards make the whole. */
static void flips_show_and_shards_add_up(void)
{
    enum { COUNT = 1500, CUT = 601 };
    float *x = allocate(COUNT, sizeof *x);
    fill(x, COUNT, WILD, &state);
    float *gx = gpu_floats(x, COUNT);
    const struct digest whole = digest_on_gpu(gx, COUNT, 1ull << 33);
    for (size_t i = 0; i < COUNT; i += 113) {
        const int bit = (int)(i % 32);
        cuda_flip_bit(gpu_stream(), gx, i, bit);
        CHECK(!digest_equal(whole, digest_on_gpu(gx, COUNT, 1ull << 33)), "bit %d of element %zu", bit, i);
        cuda_flip_bit(gpu_stream(), gx, i, bit);
    }
    const struct digest sum = digest_add(
        digest_on_gpu(gx, CUT, 1ull << 33), digest_on_gpu(gx + CUT, COUNT - CUT, (1ull << 33) + CUT));
    CHECK(digest_equal(whole, sum), "shards of %d and %d", CUT, COUNT - CUT);
    gpu_take(gx, x, COUNT);
    free(x);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = { 0, 1, 2, 3, 4, 5, 31, 1000, 1024, 4099, 100003 };
    const bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    CUDA_CALL(cudaMalloc((void **)&partial, CUDA_DIGEST_PARTS * sizeof *partial));
    CUDA_CALL(cudaMalloc((void **)&result, 2 * sizeof *result));
    for (size_t c = 0; c < sizeof counts / sizeof counts[0] - small; c++)
        for (size_t shift = 0; shift < 4; shift++)
            for (enum wildness wildness = TAME; wildness <= BROKEN; wildness++)
                is_as_defined(counts[c], shift, wildness, counts[c] > 10000 ? 2 : FIRSTS);
    /* All parts, and several rounds of loads in each thread. */
    if (!small) is_as_defined((size_t)CUDA_DIGEST_PARTS * 1024 * 5 + 4097, 1, WILD, 1);
    every_nan_is_counted();
    flips_show_and_shards_add_up();
    CUDA_CALL(cudaFree(partial));
    CUDA_CALL(cudaFree(result));
    return check_result();
}
