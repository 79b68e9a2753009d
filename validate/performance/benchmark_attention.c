/* The rate of attention, forward and backward, as a share of the FMA peak. Counted are the multiply-adds that
   are done: forward has 2 products over the pairs key <= query of each head, backward 7 (5, and the scores
   and dP once more). A pair's exponential is not counted. */
#include "benchmark.h"

static void forward(struct device *device, void *argument)
{
    device->attention_forward(device, argument);
}

static void backward(struct device *device, void *argument)
{
    device->attention_backward(device, argument);
}

int main(int argument_count, char **arguments)
{
    static const size_t shapes[][3] = { /* sequence, heads, head size */
        { 512, 16, 64 }, { 1024, 8, 64 }, { 4096, 1, 64 }, { 2048, 2, 128 }, { 512, 4, 24 }, { 32, 4, 16 }
    };
    const struct command command = read_command(argument_count, arguments);
    struct results results = { 0 };
    print_heading("Causal attention, one sequence", "GFLOP/s", "FMA peak");
    for (int t = 0; t < command.count; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const size_t sequence = shapes[i][0], heads = shapes[i][1], size = shapes[i][2],
                         hidden = heads * size;
            const struct device_request request = { .microbatch_size = 1,
                .sequence = (int)sequence,
                .hidden = (int)hidden,
                .heads = (int)heads,
                .ffn = (int)(4 * hidden) };
            struct device *device = open_device(request, command.threads[t]);
            struct attention a = { .batch = 1, .sequence = sequence, .hidden = hidden, .heads = heads };
            float *const qkv = numbers(device, sequence * hidden * 3), *const dout =
                                                                           numbers(device, sequence * hidden);
            a.qkv = qkv;
            a.out = numbers(device, sequence * hidden);
            a.dqkv = numbers(device, sequence * hidden * 3);
            a.maximum = numbers(device, heads * sequence);
            a.inverse = numbers(device, heads * sequence);
            a.row_dot = numbers(device, heads * sequence);
            const double pairs = (double)heads * (double)sequence * (double)(sequence + 1) / 2;
            char what[64];
            snprintf(what, sizeof what, "s=%zu heads=%zu of %zu forward", sequence, heads, size);
            measure(&results, device, what, 2 * 2 * pairs * (double)size, forward, &a);
            a.dout = dout;
            snprintf(what, sizeof what, "s=%zu heads=%zu of %zu backward", sequence, heads, size);
            measure(&results, device, what, 7 * 2 * pairs * (double)size, backward, &a);
            float *const all[] = { qkv, dout, a.out, a.dqkv, a.maximum, a.inverse, a.row_dot };
            for (size_t x = 0; x < sizeof all / sizeof *all; x++) device->release(device, all[x]);
            device->close(device);
        }
    }
    write_results(&results, "attention", command.json);
    return 0;
}
