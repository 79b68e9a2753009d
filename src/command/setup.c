#include "command/setup.h"
#include "base/cpus.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool setup_deck(
    struct deck *deck, const struct words *words, const struct text *text, int mpi_size, struct text *error)
{
    return deck_read(deck, words->deck_path, text->data, text->length, words->override_count,
               words->overrides, error) &&
           deck_check(deck, mpi_size, error);
}

struct model setup_model(const struct deck *deck)
{
    return (struct model){ .layers = (int)deck->model.layers,
        .hidden = (int)deck->model.hidden,
        .heads = (int)deck->model.heads,
        .ffn = (int)deck->model.ffn,
        .sequence = (int)deck->model.sequence,
        .microbatches = (int)deck->batch.microbatches,
        .microbatch_size = (int)deck->batch.microbatch_size,
        .seed = (uint64_t)deck->run.seed,
        .bf16 = strcmp(deck->arithmetic.precision, "bf16") == 0 };
}

struct reporting setup_reporting(const struct deck *deck)
{
    const char *a = deck->output.activations, *g = deck->output.gradients;
    return (struct reporting){ .digest_activations = strcmp(a, "none") != 0,
        .digest_gradients = strcmp(g, "none") != 0,
        .activations = strcmp(a, "full") == 0       ? DATA_FULL
                       : strcmp(a, "boundary") == 0 ? DATA_BOUNDARY
                                                    : DATA_NONE,
        .gradients = strcmp(g, "full") == 0,
        .parameters = strcmp(deck->output.parameters, "full") == 0 };
}

int setup_steps(const struct deck *deck)
{
    return (int)(deck->run.warmup_steps + deck->run.steps + 1);
}

struct device_request setup_device(
    const struct deck *deck, const struct model *model, int threads, int local_rank, size_t bytes)
{
    return (struct device_request){ .kind = deck->run.device,
        .threads = threads,
        .local_rank = local_rank,
        .vendor = strcmp(deck->arithmetic.mode, "vendor") == 0,
        .precision = strcmp(deck->arithmetic.precision, "bf16") == 0   ? PRECISION_BF16
                     : strcmp(deck->arithmetic.precision, "tf32") == 0 ? PRECISION_TF32
                                                                       : PRECISION_FP32,
        .reserved_sms = 4 * (int)deck->pipeline.channel_ctas,
        .bytes = bytes,
        .microbatch_size = model->microbatch_size,
        .sequence = model->sequence,
        .hidden = model->hidden,
        .heads = model->heads,
        .ffn = model->ffn };
}

struct partition setup_partition(const struct deck *deck, int ranks)
{
    return partition_make((int)deck->model.layers, ranks * (int)deck->pipeline.chunks_per_rank,
        deck->pipeline.layers_per_chunk_count > 0 ? deck->pipeline.layers_per_chunk : NULL);
}

int setup_threads(const struct deck *deck, int otherwise)
{
    enum { MOST = 4096 }; /* as run.threads */
    const char *asked = getenv("OMP_NUM_THREADS");
    if (deck->run.threads > 0) return (int)deck->run.threads;
    if (!asked || !*asked) return otherwise;
    char *end;
    const long threads = strtol(asked, &end, 10);
    if (end == asked || (*end && *end != ',') || threads < 1 || threads > MOST)
        fail("OMP_NUM_THREADS=%s: must be a whole number from 1 to %d; the nearest is %d", asked, MOST,
            threads > MOST ? MOST : 1);
    return (int)threads;
}

void setup_path(const struct deck *deck, const char *name, struct text *path)
{
    text_add(path, "%s/%s", deck->output.directory, name);
}

/* What the deck's file says; the number of stages must be that of the deck's chunks. */
static bool schedule_of_file(
    const struct deck *deck, int ranks, struct schedule *schedule, struct text *error)
{
    const char *path = deck->pipeline.schedule_file;
    const int a_rank = (int)deck->pipeline.chunks_per_rank;
    const enum csv_dialect dialect =
        strcmp(deck->pipeline.schedule_dialect, "older") == 0 ? CSV_OLDER : CSV_CURRENT;
    struct text text = { 0 };
    const bool read =
        text_read_file(&text, path, error) && schedule_read_csv(schedule, path, text.data, text.length,
                                                  dialect, ranks, (int)deck->batch.microbatches, error);
    text_free(&text);
    if (!read || schedule->chunks == ranks * a_rank) return read;
    text_add(error, "%s: has %d stages: must have pipeline.ranks=%d * pipeline.chunks_per_rank=%d", path,
        schedule->chunks, ranks, a_rank);
    if (schedule->chunks % ranks == 0)
        text_add(error, "; nearest pipeline.chunks_per_rank=%d", schedule->chunks / ranks);
    schedule_free(schedule);
    return false;
}

bool setup_program(const struct deck *deck, int ranks, struct program *program, struct text *error)
{
    struct schedule schedule;
    const bool from_file = strcmp(deck->pipeline.schedule, "file") == 0;
    if (from_file
            ? !schedule_of_file(deck, ranks, &schedule, error)
            : !schedule_make(&schedule, deck->pipeline.schedule, ranks, (int)deck->pipeline.chunks_per_rank,
                  (int)deck->batch.microbatches, (int)deck->pipeline.group, error))
        return false;
    program_make(program, &schedule, 2, 0, deck->pipeline.self_channels);
    schedule_free(&schedule);
    struct text why = { 0 };
    const bool sound = program_check(program, &why);
    if (!sound) {
        text_add(
            error, "%s%s%s", from_file ? deck->pipeline.schedule_file : "", from_file ? ": " : "", why.data);
        program_free(program);
    }
    text_free(&why);
    return sound;
}

/* --- this process --- */

bool setup_fits(double bytes_on_host, const char *what, struct text *error)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (bytes_on_host <= memory) return true;
    char need[32], have[32];
    text_add(error,
        "%s: %s are needed on this host, which has %s: take fewer layers a rank, a smaller "
        "batch.microbatch_size, or more hosts (pipeleaf plan shows each rank's share)",
        what, bytes_text(bytes_on_host, need), bytes_text(memory, have));
    return false;
}

void cpu_set_text(const cpu_set_t *set, struct text *text)
{
    int first = -1;
    const char *comma = "";
    for (int cpu = 0; cpu <= CPU_SETSIZE; cpu++) {
        const bool in = cpu < CPU_SETSIZE && CPU_ISSET(cpu, set);
        if (in && first < 0) first = cpu;
        if (!in && first >= 0) {
            text_add(text, cpu - 1 > first ? "%s%d-%d" : "%s%d", comma, first, cpu - 1);
            comma = ",";
            first = -1;
        }
    }
}

int cpus_text(struct text *text)
{
    cpu_set_t set;
    if (!process_cpus(&set)) {
        text_add(text, "unknown");
        return 1;
    }
    cpu_set_text(&set, text);
    return CPU_COUNT(&set);
}

void identity_card_fill(struct identity_card *card, const struct deck *deck, const struct model *model,
    const char *kind, const char *mpi_library)
{
    memset(card, 0, sizeof *card);
    deck_echo(deck, &card->deck);
    sha256_hex(card->deck.data, card->deck.length, card->deck_sha256);
    deck_identity(deck, card->identity);
    run_id_make(card->run_id);
    device_libraries(&card->libraries);
    channels_libraries(&card->libraries);
    text_add(&card->libraries, "%s; %s; %s", output_library(), json_library(), sha256_library());
    if (mpi_library) text_add(&card->libraries, "; %s", mpi_library);
    cpus_text(&card->cpus);
    card->facts = (struct facts){ .kind = kind,
        .run_id = card->run_id,
        .identity = card->identity,
        .deck = card->deck.data,
        .deck_sha256 = card->deck_sha256,
        .host = "",
        .device = "",
        .device_uuid = "",
        .cpus = card->cpus.data,
        .compiler = PIPELEAF_COMPILER,
        .libraries = card->libraries.data,
        .ranks = 1,
        .chunks_per_rank = 1,
        .threads = 1,
        .recorded_step = setup_steps(deck),
        .model = *model };
}

void identity_card_free(struct identity_card *card)
{
    text_free(&card->deck);
    text_free(&card->libraries);
    text_free(&card->cpus);
}
