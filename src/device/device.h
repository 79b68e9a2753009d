/* Where it is computed: one table of functions that every device fills in. Memory, one stream of compute and
   events on it, and the kernels of the transformer layer. model/layer.c, run/ and channel/ know a device
   through this table alone.

   All tensors are fp32, row-major and dense, 256-byte aligned, in device memory. Kernels are enqueued on the
   device's compute stream and return at once where the device is asynchronous; the host device computes
   before it returns. Every result is that of definition.c, to the bit, in mode 'portable'; in mode 'vendor'
   the matrix products (attention's included) are cuBLAS's, and the rest is that of definition.c. No kernel
   allocates. n is the number of tokens of a microbatch. */
#pragma once
#include "base/base.h"

struct event; /* a point in a stream's work; its time, once reached, is on the host's monotonic clock */

/* What products read: fp32; fp32 rounded to tf32 inside the product; bf16, made of the fp32 tensors. In bf16
   boundary tensors (the residual stream and its gradient, at every layer's boundary) hold bf16 values, and
   messages carry them in 2 bytes. Accumulators, gradients of parameters and all other tensors are fp32. */
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16 };

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
    /* cuda: products by cuBLAS. reserved_sms: SMs left to messages, which its algorithms do not count on. */
    bool vendor;
    enum precision precision;
    int reserved_sms;
    size_t bytes; /* that will be allocated: refused at once where the device has not so many; 0: not known */
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
    const void *b_operand; /* B as operand_make left it, or NULL: then the product makes its own */
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
    const char *variant; /* "avx512", "avx2", "generic", "sm_90" */
    int threads;
    enum precision precision;
    /* Whether memory of allocate() is ordinary memory, that the process and MPI can read and write, and work
       is done when the call that enqueues it returns. Else functions marked (*) must be used. */
    bool is_host;
    char uuid[48];        /* of a GPU: "GPU-8d24a7a6-...", else "" */
    char place[160];      /* of a GPU: PCI address, SMs, clocks, else "" */
    char arithmetic[256]; /* what bits depend on beyond the deck: "portable", or GPU, library, driver,
                             algorithms */
    size_t scratch;       /* device bytes that the device keeps for its own use, beside those held */

    /* Called by the host device after each kernel and between the blocks of products and attention, if set,
       in the thread that asked for it: for what must be looked at while a rank computes. Set and taken back
       by open channels over MPI; NULL else. */
    void (*meanwhile)(void *argument);
    void *meanwhile_argument;

    void (*close)(struct device *device);
    /* Appends, one line each, what there is to say of how products are made; nothing where nothing is. */
    void (*describe)(const struct device *device, struct text *lines);

    /* Memory. allocate: zeroed (and so touched), or failure of the job. held: bytes allocated now. */
    void *(*allocate)(struct device *device, size_t bytes);
    void (*release)(struct device *device, void *memory);
    size_t (*held)(const struct device *device);
    void (*copy)(struct device *device, void *to, const void *from, size_t bytes);       /* on the device */
    void (*download)(struct device *device, void *host, const void *from, size_t bytes); /* waits for it */
    void (*upload)(struct device *device, void *to, const void *host, size_t bytes);     /* waits for it */
    void (*zero)(struct device *device, void *memory, size_t bytes);
    /* Host memory, zeroed, that the device copies from and to at full speed and beside its computation. */
    void *(*allocate_pinned)(struct device *device, size_t bytes);
    void (*release_pinned)(struct device *device, void *memory);
    /* (*) Starts a copy between device and pinned memory on a stream beside the compute stream, once `after`
       is reached (NULL: at once), and records `done` behind it. From any thread. NULL where is_host. */
    void (*copy_beside)(struct device *device, void *to, const void *from, size_t bytes, struct event *after,
        struct event *done);

    /* Order and time. An event is recorded at the end of the compute stream's work so far. */
    struct event *(*event_create)(struct device *device);
    void (*event_destroy)(struct device *device, struct event *event);
    void (*event_record)(struct device *device, struct event *event);
    bool (*event_reached)(struct device *device, struct event *event);
    double (*event_seconds)(struct device *device, struct event *event); /* once reached */
    void (*synchronize)(struct device *device);                          /* all work so far is done */
    /* (*) What is enqueued from now on waits for the event, of any stream of this device. NULL where is_host.
     */
    void (*event_await)(struct device *device, struct event *event);
    /* Event times are measured from here on, which is now on the host's clock: at the beginning of each step,
       when all work is done. */
    void (*start_clock)(struct device *device);
    /* *word, in pinned memory, becomes `value` once all work so far is done; other threads read it
     * atomically. */
    void (*store_word)(struct device *device, int *word, int value);
    /* Names what is enqueued in between, for profilers. The name must outlive the device. */
    void (*range_push)(struct device *device, const char *name);
    void (*range_pop)(struct device *device);

    /* Fails the job where a computing thread's control register flushes denormals or does not round to
     * nearest. */
    void (*check_arithmetic)(struct device *device);

    /* Reduced precision. operand_bytes: of what a block of `count` weights is read from by products; 0 where
       they read the weights themselves. operand_make: makes it, after the weights changed; element i of the
       block lies at (char *)operand + i * operand_bytes / count. */
    size_t (*operand_bytes)(const struct device *device, size_t count);
    void (*operand_make)(struct device *device, size_t count, const float *weights, void *operand);
    /* In bf16 each element becomes the nearest bf16 value, ties to even; else nothing is done. */
    void (*round_boundary)(struct device *device, size_t count, float *x);
    /* A boundary tensor into a message and back: 2 bytes an element in bf16, else 4. Exact. */
    void (*pack_message)(struct device *device, size_t count, const float *x, void *message);
    void (*unpack_message)(struct device *device, size_t count, const void *message, float *x);

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

    /* Measured now, over all threads: fp32 FMA operations at peak, in FLOP/s (an FMA is 2), in mode 'vendor'
       the rate of a large product by cuBLAS; and the rate of a copy in bytes/s (read plus written). Takes
       about 0.1 s each. */
    double (*measure_peak)(struct device *device);
    double (*measure_copy)(struct device *device);
    /* The peak during about `seconds`, disturbed or not: what is measured beside a step. NULL: the device has
       measure_peak alone. */
    double (*measure_now)(struct device *device, double seconds);
};

/* Opens a device. False with one line in *error where there is none of that kind or it is unusable. */
bool device_open(const struct device_request *request, struct device **device, struct text *error);

/* Appends which libraries devices compute with, with their versions, each followed by "; ". Needs no GPU. */
void device_libraries(struct text *list);

/* Digests of two disjoint shards make that of both. */
struct digest digest_add(struct digest a, struct digest b);
bool digest_equal(struct digest a, struct digest b); /* false where either holds a NaN */
