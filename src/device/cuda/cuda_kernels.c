/* The kernels behind device.h's table: each is enqueued on the compute stream; matrix products and attention
   go to cuBLAS in mode 'vendor'. */
#include "device/cuda/cuda_parts.h"
#include "device/cuda/kernels.h"
#include <assert.h>

static bool is_half(const struct device *device)
{
    return device->precision == PRECISION_BF16;
}

static cudaStream_t stream(struct device *device)
{
    return cuda_of(device)->compute;
}

static size_t operand_bytes(const struct device *device, size_t count)
{
    return is_half(device) ? count * sizeof(uint16_t) : 0;
}

static void operand_make(struct device *device, size_t count, const float *weights, void *operand)
{
    if (is_half(device)) cuda_to_bf16(stream(device), count, weights, operand);
}

static void round_boundary(struct device *device, size_t count, float *x)
{
    if (is_half(device)) cuda_round_bf16(stream(device), count, x);
}

static void pack_message(struct device *device, size_t count, const float *x, void *message)
{
    if (is_half(device))
        cuda_to_bf16(stream(device), count, x, message);
    else
        device->copy(device, message, x, count * sizeof *x);
}

static void unpack_message(struct device *device, size_t count, const void *message, float *x)
{
    if (is_half(device))
        cuda_from_bf16(stream(device), count, message, x);
    else
        device->copy(device, x, message, count * sizeof *x);
}

static void gemm(struct device *device, const struct gemm *g)
{
    const struct cuda_device *self = cuda_of(device);
    if (self->vendor)
        vendor_gemm(self->vendor, g);
    else
        cuda_gemm(self->compute, g);
}

static void attention_forward(struct device *device, const struct attention *a)
{
    const struct cuda_device *self = cuda_of(device);
    if (self->vendor)
        vendor_attention_forward(self->vendor, a);
    else
        cuda_attention_forward(self->compute, a);
}

static void attention_backward(struct device *device, const struct attention *a)
{
    const struct cuda_device *self = cuda_of(device);
    if (self->vendor)
        vendor_attention_backward(self->vendor, a);
    else
        cuda_attention_backward(self->compute, a);
}

static void norm_forward(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd)
{
    cuda_norm_forward(stream(device), n, h, x, gain, bias, y, mean, rstd);
}

static void norm_again(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y)
{
    cuda_norm_again(stream(device), n, h, x, gain, bias, mean, rstd, y);
}

static void norm_backward(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx)
{
    cuda_norm_backward(stream(device), n, h, dy, x, gain, mean, rstd, residual, dx);
}

static void norm_columns(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    cuda_norm_columns(stream(device), n, h, dy, x, mean, rstd, dgain, dbias, accumulate);
}

static void column_sum(
    struct device *device, size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    cuda_column_sum(stream(device), n, columns, x, sum, accumulate);
}

static void gelu_forward(struct device *device, size_t count, const float *u, float *g)
{
    cuda_gelu_forward(stream(device), count, u, g);
}

static void gelu_backward(
    struct device *device, size_t count, const float *u, const float *dg, float *g, float *du)
{
    cuda_gelu_backward(stream(device), count, u, dg, g, du);
}

static void loss(struct device *device, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *sum, bool accumulate)
{
    const struct cuda_device *self = cuda_of(device);
    assert(n <= (size_t)self->request.microbatch_size * (size_t)self->request.sequence); /* of row_loss */
    cuda_loss(self->compute, n, h, out, target, inverse_count, dout, self->row_loss, sum, accumulate);
}

static void random_numbers(struct device *device, const struct random *key, size_t count, float *x)
{
    cuda_random(stream(device), key, count, x);
}

static void digest(
    struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    const struct cuda_device *self = cuda_of(device);
    cuda_digest(self->compute, count, x, first_index, self->partial, result);
}

static void flip_bit(struct device *device, float *x, uint64_t element, int bit)
{
    assert(bit >= 0 && bit < 32);
    cuda_flip_bit(stream(device), x, element, bit);
}

void cuda_kernel_functions(struct device *device)
{
    device->operand_bytes = operand_bytes;
    device->operand_make = operand_make;
    device->round_boundary = round_boundary;
    device->pack_message = pack_message;
    device->unpack_message = unpack_message;
    device->gemm = gemm;
    device->attention_forward = attention_forward;
    device->attention_backward = attention_backward;
    device->norm_forward = norm_forward;
    device->norm_again = norm_again;
    device->norm_backward = norm_backward;
    device->norm_columns = norm_columns;
    device->column_sum = column_sum;
    device->gelu_forward = gelu_forward;
    device->gelu_backward = gelu_backward;
    device->loss = loss;
    device->random = random_numbers;
    device->digest = digest;
    device->flip_bit = flip_bit;
}
