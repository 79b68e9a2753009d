/* The rate of the matrix product in its three forms and continuing, as a share of the FMA peak. An element of
 * C costs 2k operations. */
#include "benchmark.h"
#include "gemm_shapes.h"

static void product(struct device *device, void *argument)
{
    device->gemm(device, argument);
}

int main(int argument_count, char **arguments)
{
    struct gemm_case cases[MOST_CASES];
    const int count = gemm_cases(cases, TOKENS, 0, SIZE_MAX);
    const struct command command = read_command(argument_count, arguments);
    struct results results = { 0 };
    print_heading("C[m,n] = A B, chains of k; +: continued", "GFLOP/s", "FMA peak");
    for (int t = 0; t < command.count; t++) {
        const struct device_request request = {
            .microbatch_size = 1, .sequence = 512, .hidden = 1024, .heads = 16, .ffn = 4096
        };
        struct device *device = open_device(request, command.threads[t]);
        for (int i = 0; i < count; i++) {
            const size_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
            float *a = numbers(device, m * k), *b = numbers(device, n * k), *c = numbers(device, m * n);
            struct gemm gemm = { .form = cases[i].form,
                .m = m,
                .n = n,
                .k = k,
                .a = a,
                .b = b,
                .c = c,
                .accumulate = cases[i].accumulate };
            char what[64];
            gemm_case_name(&cases[i], what, sizeof what);
            measure(&results, device, what, 2.0 * (double)m * (double)n * (double)k, product, &gemm);
            device->release(device, a), device->release(device, b), device->release(device, c);
        }
        device->close(device);
    }
    write_results(&results, "gemm", command.json);
    return 0;
}
