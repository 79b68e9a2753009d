/* Where it is computed: one table of functions that every device fills in. Memory, one stream of compute and
   events on it, and the kernels of the transformer layer. model/layer.c, run/ and channel/ know a device
   through this table alone.

   All tensors are fp32, row-major and dense, 256-byte aligned, in device memory. Kernels are enqueued on the
   device's compute stream and return at once where the device is asynchronous; the host device computes
   before it returns. Every result is that of definition.c, to the bit, in mode 'portable'. No kernel
   allocates. n is the number of tokens of a microbatch. */
#pragma once
#include "base/base.h"

struct event; /* a point in a stream's work; its time, once reached, is on the host's monotonic clock */

/* What is wanted of a device, and the largest sizes its kernels will see (scratch memory is allocated when it
 * is opened). */
struct device_request {
    /* "auto", "host", "cuda", "definition" (the plain loops of definition.c, slow: for tests), "rehearsal"
       (memory and events, no kernel) */
    const char *kind;
    int threads; /* host: OpenMP threads, at least 1 */
    /* host: elements of a row kernel that a thread is worth starting for, an FMA of a GEMM counting 1/64; 0:
       the device's choice */
    int grain;
    int local_rank; /* cuda: which of the visible devices, modulo their number */
    int microbatch_size, sequence, hidden, heads, ffn;
};

enum gemm_form {
    GEMM_NN, /* C[m,n] = A[m,k] B[k,n]     forward */
    GEMM_NT, /* C[m,n] = A[m,k] B[n,k]^T   input gradient */
    GEMM_TN  /* C[m,n] = A[k,m]^T B[k,n]   weight gradient */
};

/* Each element of C is one chain: acc = accumulate ? C : +0; acc = fma(a, b, acc) for k ascending; then,
   where given, acc + bias[column]; then residual[row, column] + that. C may be the residual; it overlaps
   neither A nor B. */
struct gemm {
    enum gemm_form form;
    size_t m, n, k;
    const float *a, *b;
    float *c;
    const float *bias;     /* [n] or NULL */
    const float *residual; /* [m, n] or NULL */
    bool accumulate;
};

/* Causal self-attention over `batch` sequences. hidden = heads * head size; qkv is [batch, sequence,
 * 3*hidden]: q | k | v. */
struct attention {
    size_t batch, sequence, hidden, heads;
    const float *qkv;
    float *out;               /* [batch, sequence, hidden]; written by forward, read by backward */
    float *maximum, *inverse; /* [batch, heads, sequence]: max of the scaled scores, 1 / denominator; written
                                 by forward */
    const float *dout;        /* backward: [batch, sequence, hidden] */
    float *row_dot;           /* backward: D, [batch, heads, sequence], scratch */
    float *dqkv;              /* backward: [batch, sequence, 3*hidden], all of it written */
};

/* What a random number is for; part of the key, with the seed. */
enum random_purpose { RANDOM_PARAMETER = 0 /* + enum parameter */, RANDOM_INPUT = 256, RANDOM_TARGET = 257 };

struct random {
    uint64_t seed;
    uint32_t purpose, layer, step;
    uint64_t first_index;    /* of element 0, in the tensor of the whole model or batch */
    float centre, deviation; /* uniform about centre with this standard deviation */
};

/* A fingerprint of a tensor: two sums modulo 2^64 over the bits u of element i: u, and u * (2*mix(i) + 1).
   NaNs count as the canonical 0x7fc00000. Sums over disjoint shards add up (digest_add). absmax is over the
   elements that are no NaN. */
struct digest {
    uint64_t sum, weighted, nan;
    float absmax;
    uint32_t reserved; /* 0 */
};

struct device {
    char name[160];      /* "host, AVX-512, 2 threads" */
    const char *kind;    /* "host" */
    const char *variant; /* "avx512", "avx2", "generic" */
    int threads;

    void (*close)(struct device *device);

    /* Memory. allocate: zeroed (and so touched), or failure of the job. held: bytes allocated now. */
    void *(*allocate)(struct device *device, size_t bytes);
    void (*release)(struct device *device, void *memory);
    size_t (*held)(const struct device *device);
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);       /* on the device */
    void (*download)(struct device *device, void *host, const void *from, size_t bytes); /* waits for it */
    void (*upload)(struct device *device, void *to, const void *host, size_t bytes);     /* waits for it */
    void (*zero)(struct device *device, void *memory, size_t bytes);

    /* Order and time. An event is recorded at the end of the compute stream's work so far. */
    struct event *(*event_create)(struct device *device);
    void (*event_destroy)(struct device *device, struct event *event);
    void (*event_record)(struct device *device, struct event *event);
    bool (*event_reached)(struct device *device, struct event *event);
    double (*event_seconds)(struct device *device, struct event *event); /* once reached */
    void (*synchronize)(struct device *device);                          /* all work so far is done */

    /* Fails the job where a computing thread's control register flushes denormals or does not round to
     * nearest. */
    void (*check_arithmetic)(struct device *device);

    /* Kernels. */
    void (*gemm)(struct device *device, const struct gemm *gemm);
    void (*attention_forward)(struct device *device, const struct attention *attention);
    void (*attention_backward)(struct device *device, const struct attention *attention);
    /* y[n,h] = (x - mean) * rstd * gain + bias; mean, rstd: [n]. */
    void (*norm_forward)(struct device *device, size_t n, size_t h, const float *x, const float *gain,
        const float *bias, float *y, float *mean, float *rstd);
    /* The same y again, from the saved mean and rstd. */
    void (*norm_again)(struct device *device, size_t n, size_t h, const float *x, const float *gain,
        const float *bias, const float *mean, const float *rstd, float *y);
    /* dx = residual + gradient of the norm's input. dx may be dy or residual. */
    void (*norm_backward)(struct device *device, size_t n, size_t h, const float *dy, const float *x,
        const float *gain, const float *mean, const float *rstd, const float *residual, float *dx);
    /* dgain, dbias [h]: chains down the tokens; continue them where accumulate, else begin at +0. */
    void (*norm_columns)(struct device *device, size_t n, size_t h, const float *dy, const float *x,
        const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate);
    /* sum [columns]: one chain down the n rows of x. */
    void (*column_sum)(
        struct device *device, size_t n, size_t columns, const float *x, float *sum, bool accumulate);
    void (*gelu_forward)(struct device *device, size_t count, const float *u, float *g);
    /* g = gelu(u) again, and du = dg * gelu'(u). du may be dg. */
    void (*gelu_backward)(
        struct device *device, size_t count, const float *u, const float *dg, float *g, float *du);
    /* dout = (out - target) * inverse_count; *loss continues the chain over tokens of the row sums of (out -
     * target)^2 / 2. */
    void (*loss)(struct device *device, size_t n, size_t h, const float *out, const float *target,
        float inverse_count, float *dout, float *loss, bool accumulate);
    void (*random)(struct device *device, const struct random *key, size_t count, float *x);
    /* *result (in device memory) = digest of x, whose element 0 has index first_index. */
    void (*digest)(
        struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result);
    /* x[element] has its bit flipped: a fault to be found. */
    void (*flip_bit)(struct device *device, float *x, uint64_t element, int bit);

    /* Measured now, over all threads: fp32 FMA operations at peak, in FLOP/s (an FMA is 2), and the rate of a
       copy in bytes/s (read plus written). Takes about 0.1 s each. */
    double (*measure_peak)(struct device *device);
    double (*measure_copy)(struct device *device);
};

/* Opens a device. False with one line in *error where there is none of that kind or it is unusable. */
bool device_open(const struct device_request *request, struct device **device, struct text *error);

/* Digests of two disjoint shards make that of both. */
struct digest digest_add(struct digest a, struct digest b);
bool digest_equal(struct digest a, struct digest b); /* false where either holds a NaN */
