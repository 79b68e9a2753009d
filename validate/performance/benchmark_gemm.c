/* The rate of the matrix product in its three forms, as a share of the FMA peak. An element of C costs 2k
 * operations. */
#include "benchmark.h"

static void product(struct device *device, void *argument)
{
    device->gemm(device, argument);
}

int main(int argument_count, char **arguments)
{
    static const size_t shapes[][3] = {
        /* m, n, k */
        { 1024, 2048, 2048 }, /* the target's */
        { 512, 3072, 1024 }, { 512, 1024, 1024 }, { 512, 4096, 1024 },
        { 512, 1024, 4096 },                             /* a layer's, hidden 1024 */
        { 1024, 4096, 512 },                             /* its weights' */
        { 64, 192, 64 }, { 64, 256, 64 }, { 16, 64, 64 } /* a tiny one's */
    };
    static const char *const names[] = { "NN", "NT", "TN" };
    const struct command command = read_command(argument_count, arguments);
    struct results results = { 0 };
    print_heading("C[m,n] = A B, chains of k");
    for (int t = 0; t < command.count; t++) {
        const struct device_request request = {
            .microbatch_size = 1, .sequence = 512, .hidden = 1024, .heads = 16, .ffn = 4096
        };
        struct device *device = open_device(request, command.threads[t]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const size_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            float *a = numbers(device, m * k), *b = numbers(device, n * k), *c = numbers(device, m * n);
            for (int form = 0; form < 3; form++) {
                struct gemm gemm = {
                    .form = (enum gemm_form)form, .m = m, .n = n, .k = k, .a = a, .b = b, .c = c
                };
                char what[64];
                snprintf(what, sizeof what, "m=%zu n=%zu k=%zu %s", m, n, k, names[form]);
                measure(&results, device, what, 2.0 * (double)m * (double)n * (double)k, product, &gemm);
            }
            device->release(device, a), device->release(device, b), device->release(device, c);
        }
        device->close(device);
    }
    write_results(&results, "gemm", command.json);
    return 0;
}
