/* The rate of cublasLt's products on numbers of the usual kind (zeros would draw less power, and so clock
 * higher). */
#include "device/cuda/vendor.h"
#include "device/cuda/cuda_parts.h"
#include "device/cuda/kernels.h"
#include <math.h>

enum { SMALLEST = 256, LARGEST = 8192, MOST_TIMES = 200 };

struct operands {
    void *a, *b;
    float *c;
};

static bool has_room(size_t size)
{
    size_t left, total;
    CUDA_CALL(cudaMemGetInfo(&left, &total));
    return left / 2 >= 3 * size * size * sizeof(float);
}

static void fill(struct vendor *vendor, size_t count, float *made, void *operand)
{
    const struct random key = { .seed = 1, .purpose = RANDOM_INPUT, .deviation = 1.0f };
    const cudaStream_t stream = vendor->device->compute;
    cuda_random(stream, &key, count, vendor->a_operand ? made : operand);
    if (vendor->a_operand) cuda_to_bf16(stream, count, made, operand);
}

static struct operands make(struct vendor *vendor, size_t count)
{
    const size_t read = vendor->a_operand ? sizeof(uint16_t) : sizeof(float);
    const struct operands made = { cuda_scratch(count * read), cuda_scratch(count * read),
        cuda_scratch(count * sizeof(float)) };
    fill(vendor, count, made.c, made.a);
    fill(vendor, count, made.c, made.b);
    return made;
}

/* Of one product, the mean of `times` in a row. */
static double seconds_of(struct vendor *vendor, const struct plan *plan, const struct operands *on, int times)
{
    CUDA_CALL(cudaStreamSynchronize(vendor->device->compute));
    const double begin = seconds_now();
    for (int i = 0; i < times; i++) vendor_run(vendor, plan, on->a, on->b, NULL, NULL, on->c);
    CUDA_CALL(cudaStreamSynchronize(vendor->device->compute));
    return fmax((seconds_now() - begin) / times, 1e-9);
}

/* Of C = A B with m = n = k = size. Its plan is not one of the run's: it is not listed among them. */
static double measure(struct vendor *vendor, size_t size)
{
    const struct product shape = vendor_dense(GEMM_NN, size, size, size, vendor->a_operand != NULL);
    struct plan plan = vendor_plan(vendor, &shape);
    struct operands on = make(vendor, size * size);
    seconds_of(vendor, &plan, &on, 1); /* loads the kernel */
    const double once = seconds_of(vendor, &plan, &on, 1);
    const double times = fmin(fmax(0.1 / once, 1.0), MOST_TIMES);
    const double seconds = seconds_of(vendor, &plan, &on, (int)times);
    CUDA_CALL(cudaFree(on.a));
    CUDA_CALL(cudaFree(on.b));
    CUDA_CALL(cudaFree(on.c));
    vendor_plan_free(&plan);
    return seconds;
}

/* Of the first size whose product takes 5 ms, or the largest that there is memory for; without memory, NaN.
 */
double vendor_rate(struct vendor *vendor)
{
    double seconds = 0.0, rate = NAN;
    for (size_t size = SMALLEST; size <= LARGEST && seconds < 5e-3 && has_room(size); size *= 2) {
        seconds = measure(vendor, size);
        rate = 2.0 * pow((double)size, 3.0) / seconds;
    }
    return rate;
}
