#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct reporting all = { .digest_activations = true, .digest_gradients = true };

static int by_step_and_tensor(const void *a, const void *b)
{
    const struct tensor_digest *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return tensor_compare(x->tensor, y->tensor);
}

static struct digests sorted(struct tensor_digest *line, size_t count)
{
    qsort(line, count, sizeof *line, by_step_and_tensor);
    return (struct digests){ line, count };
}

static struct device *open_device(const struct test_case *test)
{
    const struct model *m = &test->model;
    const char *instead = getenv("PIPELEAF_TEST_DEVICE");
    const struct device_request request = { .kind = instead && !strcmp(test->device, "host") ? instead
                                                                                             : test->device,
        .threads = test->threads,
        .grain = 1,
        .microbatch_size = m->microbatch_size,
        .sequence = m->sequence,
        .hidden = m->hidden,
        .heads = m->heads,
        .ffn = m->ffn };
    struct text error = { 0 };
    struct device *device;
    if (!device_open(&request, &device, &error)) fail("%s", error.data);
    return device;
}

bool case_is_refused(const struct test_case *test, int ranks)
{
    struct text error = { 0 };
    struct schedule schedule;
    const bool made = schedule_make(&schedule, test->schedule, ranks, test->chunks_per_rank,
        test->model.microbatches, test->group, &error);
    if (made) schedule_free(&schedule);
    text_free(&error);
    return !made;
}

struct digests run_case(struct job *job, const struct test_case *test)
{
    struct text error = { 0 };
    struct schedule schedule;
    struct program program;
    if (!schedule_make(&schedule, test->schedule, job->size, test->chunks_per_rank, test->model.microbatches,
            test->group, &error))
        fail("%s", error.data);
    program_make(&program, &schedule, 2, 0, test->self_channels);
    schedule_free(&schedule);
    if (!program_check(&program, &error)) fail("%s", error.data);
    struct partition partition = partition_make(test->model.layers, program.chunks, NULL);
    struct device *device = open_device(test);
    struct progress progress = { 0 };
    struct channels *channels;
    const struct channels_request request = { .transport = "auto",
        .job = job,
        .device = device,
        .plan = program.channels,
        .count = program.channel_count,
        .message_bytes = boundary_size(&test->model) * sizeof(float),
        .overlap = test->overlap,
        .channel_ctas = 1,
        .share_device = true,
        .probe_seconds = 20,
        .transfers_a_step = program.rank[job->rank].count };
    if (!channels_open(&request, &channels, &error)) fail("%s", error.data);
    struct pipeline *pipeline = pipeline_create(&(struct pipeline_request){ .model = &test->model,
        .partition = &partition,
        .program = &program,
        .rank = job->rank,
        .device = device,
        .channels = channels,
        .reporting = all,
        .injection = test->injection,
        .progress = &progress,
        .steps = test->steps });

    const size_t held = device->held(device),
                 planned = memory_plan_of(&test->model, &partition, &program, job->rank, &all).total;
    if (held != planned) fail("the device holds %zu bytes where %zu are planned", held, planned);
    for (int step = 1; step <= test->steps; step++) {
        if (test->before_step) test->before_step(step);
        pipeline_step(pipeline, step, true, NULL);
    }
    if (test->before_step) test->before_step(test->steps + 1);

    size_t actions, transfers, count, bytes;
    const struct action_record *action = pipeline_actions(pipeline, &actions);
    const struct transfer_record *transfer = pipeline_transfers(pipeline, &transfers);
    if (!trace_check(&program, job->rank, action, actions, transfer, transfers, &error))
        fail("%s", error.data);
    const struct tensor_digest *line = pipeline_digests(pipeline, &count);
    struct tensor_digest *gathered = job_gather(job, line, count * sizeof *line, &bytes, NULL);
    pipeline_close(pipeline);
    channels_close(channels);
    device->close(device);
    partition_free(&partition);
    program_free(&program);
    return gathered ? sorted(gathered, bytes / sizeof *gathered) : (struct digests){ 0 };
}

/* Layer boundaries in memory, for models small enough for a test. */
struct shelf {
    const struct model *model;
    float *memory[2];
};

static float *place(struct shelf *shelf, struct tensor tensor)
{
    const size_t at = ((size_t)tensor.layer * (size_t)shelf->model->microbatches + (size_t)tensor.index) *
                      boundary_size(shelf->model);
    return shelf->memory[tensor.class == TENSOR_ACTIVATION_GRADIENT] + at;
}

static void shelf_write(void *context, struct tensor tensor, const float *data)
{
    struct shelf *shelf = context;
    memcpy(place(shelf, tensor), data, boundary_size(shelf->model) * sizeof *data);
}

static void shelf_read(void *context, struct tensor tensor, float *data)
{
    struct shelf *shelf = context;
    memcpy(data, place(shelf, tensor), boundary_size(shelf->model) * sizeof *data);
}

struct digests reference_case(const struct test_case *test)
{
    const struct model *model = &test->model;
    struct device *device = open_device(test);
    bool *begins_chunk = allocate((size_t)model->layers + 1, sizeof *begins_chunk);
    struct shelf shelf = { .model = model };
    for (int k = 0; k < 2; k++)
        shelf.memory[k] = allocate(
            (size_t)(model->layers + 1) * (size_t)model->microbatches * boundary_size(model), sizeof(float));
    struct reference *reference = reference_create(&(struct reference_request){ .model = model,
        .begins_chunk = begins_chunk,
        .device = device,
        .reporting = all,
        .steps = test->steps });
    const struct spill spill = { shelf_write, shelf_read, &shelf };
    for (int step = 1; step <= test->steps; step++) reference_step(reference, step, &spill, NULL);
    struct model larger = *model; /* the reference's memory grows with neither layers nor microbatches */
    larger.layers *= 10;
    larger.microbatches *= 10;
    if (device->held(device) != reference_memory(&larger))
        fail("the reference holds %zu bytes where %zu are planned", device->held(device),
            reference_memory(&larger));
    size_t count;
    const struct tensor_digest *line = reference_digests(reference, &count);
    struct tensor_digest *copy = allocate(count, sizeof *copy);
    memcpy(copy, line, count * sizeof *copy);
    reference_close(reference);
    device->close(device);
    free(begins_chunk);
    for (int k = 0; k < 2; k++) free(shelf.memory[k]);
    return sorted(copy, count);
}

size_t digests_differ(const struct digests *a, const struct digests *b)
{
    size_t i = 0, j = 0, differ = 0;
    while (i < a->count || j < b->count) {
        const int order = i == a->count   ? 1
                          : j == b->count ? -1
                                          : by_step_and_tensor(&a->line[i], &b->line[j]);
        if (order == 0) {
            differ += !digest_equal(a->line[i].digest, b->line[j].digest);
            i++, j++;
        } else {
            differ++;
            order < 0 ? i++ : j++;
        }
    }
    return differ;
}

const char *case_text(const struct test_case *t, int ranks, char text[256])
{
    snprintf(text, 256, "%s p=%d v=%d m=%d b=%d L=%d hidden=%d sequence=%d overlap=%d device=%s threads=%d",
        t->schedule, ranks, t->chunks_per_rank, t->model.microbatches, t->model.microbatch_size,
        t->model.layers, t->model.hidden, t->model.sequence, t->overlap, t->device, t->threads);
    return text;
}
