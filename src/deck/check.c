/* The rules that bind several parameters. Each message says the rule, the values and the nearest legal
 * setting. */
#include "deck/deck.h"
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* What keeps every count of the run comfortably within its type. */
static const int64_t most_tokens = INT_MAX; /* of a microbatch: rows of a matrix, an int */
static const int64_t most_elements = (int64_t)1
                                     << 53; /* of a step's output: the loss's denominator, a double */
static const int64_t most_work = (int64_t)1
                                 << 26; /* pairs of chunk and microbatch: lengths of programs, ints */

static bool is(const char *word, const char *value)
{
    return strcmp(word, value) == 0;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool check_heads(const struct deck *deck, struct text *error)
{
    const int64_t hidden = deck->model.hidden, heads = deck->model.heads;
    if (hidden % heads == 0) return true;
    int64_t divisor = 0;
    for (int64_t away = 1; !divisor; away++) {
        if (heads - away >= 1 && hidden % (heads - away) == 0)
            divisor = heads - away;
        else if (heads + away <= hidden && hidden % (heads + away) == 0)
            divisor = heads + away;
    }
    int64_t multiple = hidden / heads * heads;
    if (multiple == 0 || (hidden - multiple > heads / 2 && multiple + heads <= 1048576)) multiple += heads;
    text_add(error,
        "model.hidden=%" PRId64 " must be a multiple of model.heads=%" PRId64 "; nearest model.heads=%" PRId64
        " or model.hidden=%" PRId64,
        hidden, heads, divisor, multiple);
    return false;
}

static bool check_sizes(const struct deck *deck, struct text *error)
{
    const int64_t sequence = deck->model.sequence, hidden = deck->model.hidden;
    const int64_t size = deck->batch.microbatch_size, microbatches = deck->batch.microbatches;
    if (size > most_tokens / sequence) {
        text_add(error,
            "a microbatch must have at most %" PRId64 " tokens: batch.microbatch_size=%" PRId64
            " sequences of model.sequence=%" PRId64 " are more; nearest batch.microbatch_size=%" PRId64,
            most_tokens, size, sequence, most_tokens / sequence);
        return false;
    }
    const int64_t elements = size * sequence; /* fits: both are below 2^31 */
    const int64_t most = most_elements / (elements * hidden);
    if (microbatches > most) {
        text_add(error,
            "a step must have at most 2^53 output elements: batch.microbatches=%" PRId64
            " of batch.microbatch_size=%" PRId64 " * model.sequence=%" PRId64 " * model.hidden=%" PRId64
            " are more; nearest batch.microbatches=%" PRId64,
            microbatches, size, sequence, hidden, most);
        return false;
    }
    return true;
}

/* The divisor of size that is nearest to ranks, the smaller of two equally near. */
static int64_t nearest_divisor(int64_t size, int64_t ranks)
{
    if (ranks >= size) return size;
    for (int64_t away = 0;; away++) {
        if (ranks - away >= 1 && size % (ranks - away) == 0) return ranks - away;
        if (size % (ranks + away) == 0) return ranks + away;
    }
}

/* As many pipelines as fit the MPI size run side by side. */
static bool check_ranks(struct deck *deck, int mpi_size, struct text *error)
{
    if (mpi_size && deck->pipeline.ranks == 0) deck->pipeline.ranks = mpi_size;
    const int64_t ranks = deck->pipeline.ranks;
    if (!mpi_size || mpi_size % ranks == 0) return true;
    const int64_t below = mpi_size / ranks * ranks, above = below + ranks;
    text_add(error, "the MPI size, which is %d, must be a multiple of pipeline.ranks=%" PRId64 ": launch ",
        mpi_size, ranks);
    if (below) text_add(error, "%" PRId64 " or ", below);
    text_add(error, "%" PRId64 " processes, or set pipeline.ranks=%" PRId64 " (0 takes the MPI size)", above,
        nearest_divisor(mpi_size, ranks));
    return false;
}

/* The sum and the count of pipeline.layers_per_chunk. Where ranks is 0 the count need only suit some number
 * of ranks. */
static bool check_list(const struct deck *deck, struct text *error)
{
    const int64_t ranks = deck->pipeline.ranks, a_rank = deck->pipeline.chunks_per_rank;
    const int64_t count = deck->pipeline.layers_per_chunk_count;
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += deck->pipeline.layers_per_chunk[i];
    if (ranks ? count != ranks * a_rank : count % a_rank != 0) {
        const int64_t need = ranks ? ranks * a_rank : (count + a_rank - 1) / a_rank * a_rank;
        text_add(error, "pipeline.layers_per_chunk must have ");
        if (ranks)
            text_add(error, "pipeline.ranks=%" PRId64 " * pipeline.chunks_per_rank=%" PRId64 " numbers",
                ranks, a_rank);
        else
            text_add(error, "a multiple of pipeline.chunks_per_rank=%" PRId64 " numbers", a_rank);
        text_add(error, ", not %" PRId64 "; nearest %" PRId64, count, need);
        return false;
    }
    if (sum != deck->model.layers) {
        text_add(error,
            "pipeline.layers_per_chunk must sum to model.layers=%" PRId64 ", not %" PRId64
            "; nearest model.layers=%" PRId64 ", or %" PRId64 " layers %s in the list",
            deck->model.layers, sum, sum < 1 ? 1 : sum,
            sum < deck->model.layers ? deck->model.layers - sum : sum - deck->model.layers,
            sum < deck->model.layers ? "more" : "fewer");
        return false;
    }
    return true;
}

/* What a schedule asks of the deck, where that is not "any number of chunks, no groups". */
static const struct schedule_rule {
    const char *name;
    int64_t chunks_per_rank; /* 0: any */
    const char *relative;    /* its nearest relative that takes any number */
    bool has_groups;
} schedule_rules[] = {
    { "gpipe", 1, "looped-bfs", false },
    { "1f1b", 1, "interleaved-1f1b", false },
    { "zb-h1", 1, "interleaved-zb", false },
    { "zb-v", 2, "interleaved-zb", false },
    { "interleaved-1f1b", 0, NULL, true },
    { "interleaved-zb", 0, NULL, true },
};

static const struct schedule_rule *rule_of(const char *schedule)
{
    static const struct schedule_rule none = { NULL, 0, NULL, false };
    for (size_t i = 0; i < sizeof schedule_rules / sizeof *schedule_rules; i++)
        if (is(schedule_rules[i].name, schedule)) return &schedule_rules[i];
    return &none;
}

/* A schedule from a file, and a file for that schedule alone: one that is named and not read would mislead.
 */
static bool check_file(const struct deck *deck, struct text *error)
{
    const bool from_file = is(deck->pipeline.schedule, "file"),
               named = !is(deck->pipeline.schedule_file, "none");
    const bool older = !is(deck->pipeline.schedule_dialect, "current");
    if (from_file && !named)
        text_add(error,
            "pipeline.schedule='file' must have pipeline.schedule_file='PATH', which is not given; "
            "nearest pipeline.schedule='interleaved-1f1b'");
    else if (!from_file && (named || older))
        text_add(error,
            "pipeline.%s='%s' is for pipeline.schedule='file', not '%s'; nearest pipeline.%s='%s'",
            named ? "schedule_file" : "schedule_dialect",
            named ? deck->pipeline.schedule_file : deck->pipeline.schedule_dialect, deck->pipeline.schedule,
            named ? "schedule_file" : "schedule_dialect", named ? "none" : "current");
    return from_file ? named : !named && !older;
}

static bool check_chunks(const struct deck *deck, struct text *error)
{
    const int64_t ranks = deck->pipeline.ranks, a_rank = deck->pipeline.chunks_per_rank,
                  layers = deck->model.layers;
    const int64_t chunks = (ranks ? ranks : 1) * a_rank; /* ranks not known: one at least */
    const struct schedule_rule *rule = rule_of(deck->pipeline.schedule);
    if (rule->chunks_per_rank && rule->chunks_per_rank != a_rank) {
        text_add(error,
            "pipeline.schedule='%s' must have pipeline.chunks_per_rank=%" PRId64 ", not %" PRId64
            "; nearest pipeline.chunks_per_rank=%" PRId64 ", or pipeline.schedule='%s'",
            rule->name, rule->chunks_per_rank, a_rank, rule->chunks_per_rank, rule->relative);
        return false;
    }
    if (deck->pipeline.layers_per_chunk_count) {
        if (!check_list(deck, error)) return false;
    } else if (layers < chunks) {
        text_add(error, "model.layers=%" PRId64 " must be at least one for each of ", layers);
        if (ranks) text_add(error, "pipeline.ranks=%" PRId64 " * ", ranks);
        text_add(error, "pipeline.chunks_per_rank=%" PRId64 " chunks; nearest ", a_rank);
        if (ranks && layers >= ranks)
            text_add(error, "pipeline.chunks_per_rank=%" PRId64 " or ", layers / ranks);
        if (!ranks) text_add(error, "pipeline.chunks_per_rank=%" PRId64 " or ", layers);
        if (ranks && layers >= a_rank) text_add(error, "pipeline.ranks=%" PRId64 " or ", layers / a_rank);
        if (ranks && layers < ranks && layers < a_rank)
            text_add(error, "pipeline.ranks=1 with pipeline.chunks_per_rank=%" PRId64 " or ", layers);
        text_add(error, "model.layers=%" PRId64 "; pipeline.layers_per_chunk may hold zeros", chunks);
        return false;
    }
    const int64_t work = most_work / chunks;
    if (deck->batch.microbatches > work) {
        text_add(error,
            "batch.microbatches=%" PRId64 " times %" PRId64 " chunks must be at most %" PRId64
            "; nearest batch.microbatches=%" PRId64,
            deck->batch.microbatches, chunks, most_work, work);
        return false;
    }
    return true;
}

/* The size N of the interleaved schedule's groups: all groups full, or the last one no smaller than the
   pipeline is long. Otherwise F and B can wait for each other in a ring. With fewer microbatches than ranks
   there is one group. */
static bool legal_group(int64_t group, int64_t ranks, int64_t microbatches)
{
    return group >= least_of(ranks, microbatches) && group <= microbatches &&
           (microbatches % group == 0 || microbatches % group >= ranks);
}

static bool check_group(const struct deck *deck, struct text *error)
{
    const int64_t group = deck->pipeline.group, ranks = deck->pipeline.ranks,
                  microbatches = deck->batch.microbatches;
    if (group == 0) return true;
    if (!rule_of(deck->pipeline.schedule)->has_groups) {
        text_add(error,
            "pipeline.group=%" PRId64
            " is for pipeline.schedule='interleaved-1f1b' or 'interleaved-zb', not '%s'; nearest "
            "pipeline.group=0",
            group, deck->pipeline.schedule);
        return false;
    }
    if (ranks == 0 || legal_group(group, ranks, microbatches)) return true;
    int64_t nearest = microbatches; /* always legal: one group */
    for (int64_t away = 1; away < microbatches; away++) {
        const int64_t below = group - away, above = group + away;
        if (below >= 1 && legal_group(below, ranks, microbatches))
            nearest = below;
        else if (legal_group(above, ranks, microbatches))
            nearest = above;
        else
            continue;
        break;
    }
    text_add(error,
        "pipeline.group=%" PRId64 " must be %" PRId64 " to %" PRId64 " and leave batch.microbatches=%" PRId64
        " a remainder of 0 or at least pipeline.ranks=%" PRId64 "; nearest pipeline.group=%" PRId64
        " (0: chosen by the schedule)",
        group, least_of(ranks, microbatches), microbatches, microbatches, ranks, nearest);
    return false;
}

/* What only CUDA can do. */
static bool check_device(const struct deck *deck, struct text *error)
{
    const bool vendor = is(deck->arithmetic.mode, "vendor"), fp32 = is(deck->arithmetic.precision, "fp32");
    const bool cuda = is(deck->run.device, "cuda");
    const bool computes =
        !is(deck->run.device, "rehearsal"); /* which only sends messages, of any precision */
    if (!fp32 && !vendor) {
        text_add(error,
            "arithmetic.precision='%s' must have arithmetic.mode='vendor', not 'portable'; nearest "
            "arithmetic.precision='fp32'",
            deck->arithmetic.precision);
    } else if (vendor && !cuda && computes) {
        text_add(error,
            "arithmetic.mode='vendor'%s%s%s must have run.device='cuda', not '%s'; nearest "
            "arithmetic.mode='portable'%s",
            fp32 ? "" : " with precision='", fp32 ? "" : deck->arithmetic.precision, fp32 ? "" : "'",
            deck->run.device, fp32 ? "" : " with arithmetic.precision='fp32'");
    } else if (is(deck->run.transport, "nccl") && !cuda) {
        text_add(error,
            "run.transport='nccl' must have run.device='cuda', not '%s'; nearest run.transport='auto'",
            deck->run.device);
    } else if (deck->run.share_device && (!cuda || is(deck->run.transport, "mpi"))) {
        text_add(error,
            "run.share_device=.true. is for NCCL: run.device='cuda' with run.transport='nccl' or 'auto', not "
            "'%s' with "
            "'%s'; nearest run.share_device=.false.",
            deck->run.device, deck->run.transport);
    } else {
        return true;
    }
    return false;
}

/* A recheck needs what lies at the chunks' boundaries, and something of the gradients. */
static bool check_verify(const struct deck *deck, struct text *error)
{
    if (!is(deck->verify.against, "recheck")) return true;
    const char *activations = deck->output.activations;
    if (!is(activations, "boundary") && !is(activations, "full"))
        text_add(error,
            "verify.against='recheck' must have output.activations='boundary' or 'full', not '%s'; nearest "
            "output.activations='boundary'",
            activations);
    else if (is(deck->output.gradients, "none"))
        text_add(error,
            "verify.against='recheck' must have output.gradients='digest' or 'full', not 'none'; nearest "
            "output.gradients='digest'");
    else
        return true;
    return false;
}

bool deck_check(struct deck *deck, int mpi_size, struct text *error)
{
    assert(mpi_size >= 0);
    if (deck->model.ffn == 0) deck->model.ffn = 4 * deck->model.hidden;
    return check_heads(deck, error) && check_sizes(deck, error) && check_ranks(deck, mpi_size, error) &&
           check_file(deck, error) && check_chunks(deck, error) && check_group(deck, error) &&
           check_device(deck, error) && check_verify(deck, error);
}
