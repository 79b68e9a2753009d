/* How fast portable attention is, as a share of what fused multiply-adds on registers reach here: a line for
   each sequence and head size. `tiny`: shapes that show only that this program runs. FLOPs are those of the
   products that cannot be done without, two forward and five backward (the scores again; dP, dV, dK, dQ),
   over keys <= query: an FMA is 2, as in model/layer.c. The kernels make four and seven, so even at full rate
   the shares would be 1/2 and 5/7. */
#include "device/cuda/kernels.h"
#include "on_gpu.h"

enum { FMAS = 1 << 16, TINY_FMAS = 1 << 8 };

struct setting {
    size_t batch, sequence, heads, size;
};

static void wait(void)
{
    CUDA_CALL(cudaStreamSynchronize(gpu_stream()));
}

/* FLOP/s of the best of five. */
static double peak_rate(int fmas)
{
    int device, sms;
    CUDA_CALL(cudaGetDevice(&device));
    CUDA_CALL(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    float *sink = gpu_floats(NULL, 1), host;
    double best = 0.0;
    for (int i = 0; i < 5; i++) {
        wait();
        const double begin = seconds_now();
        const size_t threads = cuda_fma_loop(gpu_stream(), sms, fmas, sink);
        wait();
        const double rate = 2.0 * fmas * (double)threads / (seconds_now() - begin);
        if (rate > best) best = rate;
    }
    gpu_take(sink, &host, 1);
    return best;
}

/* Seconds of one call: of as many as take `seconds`, after two to get warm. */
static double time_of(
    void (*call)(cudaStream_t, const struct attention *), const struct attention *a, double seconds)
{
    double begin = 0.0, one = 0.0;
    for (int i = 0; i < 2; i++) {
        begin = seconds_now();
        call(gpu_stream(), a);
        wait();
        one = seconds_now() - begin;
    }
    const int calls = one < seconds ? (int)(seconds / one) + 1 : 1;
    begin = seconds_now();
    for (int i = 0; i < calls; i++) call(gpu_stream(), a);
    wait();
    return (seconds_now() - begin) / calls;
}

static void measure(struct setting s, double seconds, double peak)
{
    const size_t hidden = s.heads * s.size, tokens = s.batch * s.sequence, rows = tokens * s.heads;
    float *host = allocate(3 * tokens * hidden, sizeof *host);
    uint64_t state = 1;
    fill(host, 3 * tokens * hidden, TAME, &state);
    float *qkv = gpu_floats(host, 3 * tokens * hidden), *dout = gpu_floats(host, tokens * hidden);
    struct attention a = {
        .batch = s.batch, .sequence = s.sequence, .hidden = hidden, .heads = s.heads, .qkv = qkv, .dout = dout
    };
    a.out = gpu_floats(NULL, tokens * hidden), a.dqkv = gpu_floats(NULL, 3 * tokens * hidden);
    a.maximum = gpu_floats(NULL, rows), a.inverse = gpu_floats(NULL, rows),
    a.row_dot = gpu_floats(NULL, rows);
    const double product = (double)hidden * (double)tokens * (double)(s.sequence + 1);
    const double forward = 2 * product / time_of(cuda_attention_forward, &a, seconds);
    const double backward = 5 * product / time_of(cuda_attention_backward, &a, seconds);
    printf("sequence %5zu, head size %3zu: forward %8.3f TFLOP/s, %5.3f of peak; backward %8.3f TFLOP/s, "
           "%5.3f of "
           "peak\n",
        s.sequence, s.size, forward * 1e-12, forward / peak, backward * 1e-12, backward / peak);
    gpu_take(qkv, host, 3 * tokens * hidden), gpu_take(dout, host, tokens * hidden);
    gpu_take(a.out, host, tokens * hidden), gpu_take(a.dqkv, host, 3 * tokens * hidden);
    gpu_take(a.maximum, host, rows), gpu_take(a.inverse, host, rows), gpu_take(a.row_dot, host, rows);
    free(host);
}

int main(int count, char **arguments)
{
    const bool tiny = count > 1 && strcmp(arguments[1], "tiny") == 0;
    cuda_attention_prepare();
    const double peak = peak_rate(tiny ? TINY_FMAS : FMAS);
    printf("fused multiply-adds alone: %.3f TFLOP/s\n", peak * 1e-12);
    const size_t sequences[] = { 512, 2048, 4096 };
    for (int size = 64; size <= 128; size += 64) {
        for (int i = 0; i < 3; i++) {
            struct setting s = { 16384 / sequences[i], sequences[i], 16, (size_t)size };
            if (tiny) s = (struct setting){ 1, sequences[i] / 16, 1, (size_t)size };
            measure(s, tiny ? 0.0 : 0.3, peak);
        }
    }
    return check_result();
}
