/* The one table of parameters, and what can be said from it alone. */
#include "deck/parameter.h"
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define FIELD(group, name) #group, #name
#define INTEGER(group, name, initial, least, most, help)                                                     \
    {                                                                                                        \
        FIELD(group, name), DECK_INTEGER, offsetof(struct deck, group.name), initial, least, most, 0, 0,     \
            { 0 }, help                                                                                      \
    }
#define INTEGERS(group, name, least, most, help)                                                             \
    {                                                                                                        \
        FIELD(group, name), DECK_INTEGERS, offsetof(struct deck, group.name), "", least, most, 0, 0, { 0 },  \
            help                                                                                             \
    }
#define REAL(group, name, initial, lowest, highest, help)                                                    \
    {                                                                                                        \
        FIELD(group, name), DECK_REAL, offsetof(struct deck, group.name), initial, 0, 0, lowest, highest,    \
            { 0 }, help                                                                                      \
    }
#define LOGICAL(group, name, initial, help)                                                                  \
    {                                                                                                        \
        FIELD(group, name), DECK_LOGICAL, offsetof(struct deck, group.name), initial, 0, 0, 0, 0, { 0 },     \
            help                                                                                             \
    }
#define TEXT(group, name, initial, help)                                                                     \
    {                                                                                                        \
        FIELD(group, name), DECK_WORD, offsetof(struct deck, group.name), initial, 0, 0, 0, 0, { 0 }, help   \
    }
#define CHOICE(group, name, help, ...)                                                                       \
    {                                                                                                        \
        FIELD(group, name), DECK_WORD, offsetof(struct deck, group.name), FIRST(__VA_ARGS__, 0), 0, 0, 0, 0, \
            { __VA_ARGS__ }, help                                                                            \
    }
#define FIRST(first, ...) first

/* Parameters of a group stand together, groups in the order of deck_groups. A CHOICE's first word is its
   default. The upper limits keep every count within an int; what must hold of products is in check.c. */
/* clang-format off */
const struct deck_parameter deck_parameters[] = {
    INTEGER(model, layers, "8", 1, 65536, "transformer layers of the whole model"),
    INTEGER(model, hidden, "64", 1, 1048576, "width of the residual stream; a multiple of heads"),
    INTEGER(model, heads, "4", 1, 65536, "attention heads"),
    INTEGER(model, ffn, "0", 0, 4194304, "inner width of the MLP; 0: 4*hidden"),
    INTEGER(model, sequence, "32", 1, 1048576, "tokens of a sequence"),

    INTEGER(batch, microbatches, "8", 1, 1048576, "microbatches a step"),
    INTEGER(batch, microbatch_size, "2", 1, 65536, "sequences of a microbatch"),

    INTEGER(pipeline, ranks, "0", 0, 65536, "ranks of a pipeline; k times as many run k side by side; 0: the MPI size"),
    INTEGER(pipeline, chunks_per_rank, "2", 1, 65536, "chunks of layers that a rank holds"),
    CHOICE(pipeline, schedule, "order of computes; gpipe, 1f1b, zb-h1 need chunks_per_rank=1, zb-v needs 2",
        "interleaved-1f1b", "1f1b", "gpipe", "looped-bfs", "zb-h1", "interleaved-zb", "zb-v", "file"),
    TEXT(pipeline, schedule_file, "none", "of schedule='file': path of a CSV as PyTorch writes them, one row a rank"),
    CHOICE(pipeline, schedule_dialect, "of schedule_file; older: B and W are the halves, BW the whole backward",
        "current", "older"),
    INTEGER(pipeline, group, "0", 0, 1048576, "microbatches of a group when interleaved; 0: chosen by the schedule"),
    LOGICAL(pipeline, overlap, ".true.", "transfers run beside computation; .false.: each is waited for on the spot"),
    LOGICAL(pipeline, self_channels, ".false.", "hand-overs on one rank are sent and received too, not written in place"),
    INTEGER(pipeline, channel_ctas, "2", 1, 64, "NCCL: thread blocks (CTAs) of a channel; cuBLAS leaves 4 times as many SMs free"),
    INTEGERS(pipeline, layers_per_chunk, 0, 65536, "layers of each chunk, zeros allowed; not given: equal shares"),

    CHOICE(arithmetic, mode, "same bits on any machine, or the vendor's GEMM on one kind of GPU", "portable", "vendor"),
    CHOICE(arithmetic, precision, "of GEMM operands; tf32 and bf16 need mode='vendor'", "fp32", "tf32", "bf16"),

    INTEGER(run, steps, "3", 1, 1000000, "timed steps"),
    INTEGER(run, warmup_steps, "1", 0, 1000000, "steps before the timed ones"),
    INTEGER(run, seed, "20250101", 0, INT64_MAX, "of weights, inputs and targets"),
    INTEGER(run, threads, "0", 0, 4096, "CPU threads a rank; 0: its share of the CPUs"),
    CHOICE(run, device, "auto: CUDA where a GPU is visible, else the host; rehearsal waits &machine's times",
        "auto", "host", "cuda", "definition", "rehearsal"),
    CHOICE(run, transport, "what carries tensors between ranks", "auto", "mpi", "nccl"),
    LOGICAL(run, share_device, ".false.", "NCCL between ranks that share a GPU: for correctness, never for time"),
    REAL(run, timeout, "300.0", 0.001, 1e9, "seconds without progress after which the run is stopped"),
    REAL(run, progress, "30.0", 0, 1e9, "seconds from one line of progress on stderr to the next; 0: none"),
    LOGICAL(run, quiet, ".false.", "no listing on stdout, no progress on stderr; files are written all the same"),

    REAL(machine, forward, "0.0", 0, 1e6, "seconds of a layer's F for one microbatch; 0: derived from flop_rate"),
    REAL(machine, backward, "0.0", 0, 1e6, "seconds of its B, the whole backward; 0: derived from flop_rate"),
    REAL(machine, input, "0.0", 0, 1e6, "seconds of its I, the input's gradient; 0: derived from flop_rate"),
    REAL(machine, weight, "0.0", 0, 1e6, "seconds of its W, the weights' gradients; 0: derived from flop_rate"),
    REAL(machine, flop_rate, "1e14", 1, 1e30, "FLOP/s of a device in a layer's computes"),
    REAL(machine, latency, "0.0", 0, 1e6, "seconds from a message's start to its arrival, beyond size/bandwidth"),
    REAL(machine, bandwidth, "0.0", 0, 1e30, "bytes/s of a channel; 0: infinite"),

    TEXT(verify, against, "auto", "what to compare with: 'auto', 'none', a path, or 'recheck' (pipeleaf recheck)"),
    CHOICE(verify, steps, "the steps that `pipeleaf reference` computes", "recorded", "all"),

    REAL(target, fom, "0.0", 0, 1e30, "tokens/s that a pipeline must reach, else exit code 5; 0: no target"),
    REAL(target, bubble_max, "0.0", 0, 1, "most idle/step, waiting included, else exit code 5; 0: no target"),

    TEXT(output, directory, "out", "where the results go"),
    CHOICE(output, activations, "what is kept of layer outputs and their gradients", "full", "boundary", "digest", "none"),
    CHOICE(output, gradients, "what is kept of parameter gradients", "full", "digest", "none"),
    CHOICE(output, parameters, "what is kept of parameters, inputs and targets", "none", "full"),
    LOGICAL(output, timeline, ".true.", "write timeline.json, which Perfetto opens"),
};
/* clang-format on */
const size_t deck_parameter_count = sizeof deck_parameters / sizeof *deck_parameters;

const char *const deck_groups[DECK_GROUPS] = { "model", "batch", "pipeline", "arithmetic", "run", "machine",
    "verify", "target", "output" };

const char *const deck_type_name[] = { "integer", "real", "logical", "string", "integers" };

static bool same_name(const char *a, const char *name, size_t length)
{
    return strlen(a) == length && strncasecmp(a, name, length) == 0;
}

int deck_find_group(const char *name, size_t length)
{
    for (int i = 0; i < DECK_GROUPS; i++)
        if (same_name(deck_groups[i], name, length)) return i;
    return -1;
}

int deck_find_parameter(int group, const char *name, size_t length)
{
    for (size_t i = 0; i < deck_parameter_count; i++)
        if (strcmp(deck_parameters[i].group, deck_groups[group]) == 0 &&
            same_name(deck_parameters[i].name, name, length))
            return (int)i;
    return -1;
}

const char *deck_nearest_parameter(int group, const char *name)
{
    const char *names[sizeof deck_parameters / sizeof *deck_parameters];
    size_t count = 0;
    for (size_t i = 0; i < deck_parameter_count; i++)
        if (strcmp(deck_parameters[i].group, deck_groups[group]) == 0)
            names[count++] = deck_parameters[i].name;
    return nearest_name(name, names, count);
}

void deck_show(struct text *out, const char *bytes, size_t length)
{
    const size_t most = 60;
    for (size_t i = 0; i < length && i < most; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        text_add(out, c < 32 || c == 127 ? "\\x%02x" : "%c", c);
    }
    if (length > most) text_add(out, "...");
}

void deck_range(struct text *out, const struct deck_parameter *p)
{
    switch (p->type) {
    case DECK_INTEGER:
    case DECK_INTEGERS: text_add(out, "%" PRId64 " to %" PRId64, p->least, p->most); break;
    case DECK_REAL: text_add(out, "%g to %g", p->lowest, p->highest); break;
    case DECK_LOGICAL: text_add(out, ".true. or .false."); break;
    case DECK_WORD:
        if (!p->allowed[0]) text_add(out, "1 to %d characters", DECK_STRING - 1);
        for (int i = 0; p->allowed[i]; i++) text_add(out, "%s'%s'", i ? " " : "", p->allowed[i]);
        break;
    }
}

/* Appends the phrase, its end on further lines, indented, where a line would get too long. */
static void add_wrapped(struct text *out, const char *phrase, int indent)
{
    const size_t most = (size_t)(110 - indent);
    while (strlen(phrase) > most) {
        size_t length = most;
        while (length > 1 && phrase[length] != ' ') length--;
        text_add(out, "%.*s\n%*s", (int)length, phrase, indent, "");
        phrase += length + (phrase[length] == ' ');
    }
    text_add(out, "%s\n", phrase);
}

void deck_document(struct text *out)
{
    text_add(out, "The parameters of a deck, a Fortran namelist file: name, type, default, legal values.\n");
    for (size_t i = 0; i < deck_parameter_count; i++) {
        const struct deck_parameter *p = &deck_parameters[i];
        if (i == 0 || strcmp(p->group, p[-1].group) != 0) text_add(out, "\n&%s\n", p->group);
        struct text range = { 0 };
        deck_range(&range, p);
        const char *const quote = p->type == DECK_WORD ? "'" : "";
        const int rest = 19 - (int)strlen(p->initial) - 2 * (int)strlen(quote);
        text_add(out, "  %-17s %-8s %s%s%s%*s ", p->name, deck_type_name[p->type], quote,
            p->type == DECK_INTEGERS ? "-" : p->initial, quote, p->type == DECK_INTEGERS ? rest - 1 : rest,
            "");
        add_wrapped(out, range.data, 49);
        text_add(out, "%27s %s\n", "", p->help);
        text_free(&range);
    }
}
