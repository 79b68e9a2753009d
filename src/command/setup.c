#include "command/setup.h"
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options of each command: where the value goes; those without one are set to true. */
static const struct option {
    const char *command, *name, *value; /* value: what it is, for messages; NULL: it has none */
    size_t offset;
} options[] = {
    { "run", "--inject", "step=...,layer=...", offsetof(struct words, inject) },
    { "plan", "--export-csv", "FILE", offsetof(struct words, export_csv) },
    { "plan", "--with-communication", NULL, offsetof(struct words, with_communication) },
    { "plan", "--svg", "FILE", offsetof(struct words, svg) },
    { "run", "--from", "DIR", offsetof(struct words, from) },
    { "plan", "--from", "DIR", offsetof(struct words, from) },
    { "plan", "--picture", NULL, offsetof(struct words, picture) },
    { "plan", "--channels", NULL, offsetof(struct words, all_channels) },
};
enum { OPTIONS = sizeof options / sizeof *options };

static bool unknown_option(const char *command, const char *name, size_t length, struct text *error)
{
    const char *names[OPTIONS];
    size_t count = 0;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].command, command) == 0) names[count++] = options[i].name;
    text_add(error, "'%.*s': pipeleaf %s has no such option", (int)length, name, command);
    const char *nearest = nearest_name(name, names, count);
    if (nearest) text_add(error, "; nearest %s", nearest);
    const char *before = "; it has ";
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(options[i].command, command) != 0) continue;
        text_add(error, "%s%s%s%s", before, options[i].name, options[i].value ? " " : "",
            options[i].value ? options[i].value : "");
        before = ", ";
    }
    return false;
}

/* word[*at] begins with --: takes it, and its value, which is the next word or stands after a =. */
static bool parse_option(
    int count, char **word, int *at, const char *command, struct words *words, struct text *error)
{
    const char *name = word[*at], *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option *option = NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].command, command) == 0 && strlen(options[i].name) == length &&
            strncmp(options[i].name, name, length) == 0)
            option = &options[i];
    if (!option) return unknown_option(command, name, length, error);
    void *field = (char *)words + option->offset;
    const char **text = field;
    bool *flag = field;
    const char *value = equals ? equals + 1 : *at + 1 < count ? word[*at + 1] : "";
    if (option->value ? *text != NULL : *flag) {
        text_add(error, "%s is given twice", option->name);
    } else if (!option->value && equals) {
        text_add(error, "%s takes no value, and '%s' is one", option->name, value);
    } else if (option->value && (*value == 0 || (!equals && strncmp(value, "--", 2) == 0))) {
        text_add(error, "%s needs a value after it: %s %s", option->name, option->name, option->value);
    } else if (option->value) {
        *text = value;
        if (!equals) ++*at;
        return true;
    } else {
        return *flag = true;
    }
    return false;
}

bool words_parse(int count, char **word, const char *command, struct words *words, struct text *error)
{
    *words = (struct words){ .overrides = allocate((size_t)count, sizeof *words->overrides) };
    for (int i = 0; i < count; i++) {
        if (strncmp(word[i], "--", 2) == 0) {
            if (!parse_option(count, word, &i, command, words, error)) return false;
        } else if (strchr(word[i], '=')) {
            words->overrides[words->override_count++] = word[i];
        } else if (!words->deck_path) {
            words->deck_path = word[i];
        } else {
            text_add(error,
                "'%s': one deck only, and '%s' is it already; an override has the form group.name=value",
                word[i], words->deck_path);
            return false;
        }
    }
    if (words->with_communication && !words->export_csv) {
        text_add(
            error, "--with-communication is of the file that --export-csv FILE writes, which is missing");
        return false;
    }
    return true;
}

void words_free(struct words *words)
{
    free(words->overrides);
}

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
        .half_messages = strcmp(deck->arithmetic.precision, "bf16") == 0 };
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
    const struct deck *deck, const struct model *model, int threads, int local_rank)
{
    return (struct device_request){ .kind = deck->run.device,
        .threads = threads,
        .local_rank = local_rank,
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
    program_make(program, &schedule, 2, 0);
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

/* --- the injected fault --- */

static bool whole_number(
    const char *text, long least, long most, const char *what, long *value, struct text *error)
{
    char *end;
    *value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || *value < least || *value > most) {
        const bool below = *text == 0 || *end != 0 || *value < least;
        text_add(error, "--inject: %s=%s: must be a whole number from %ld to %ld; the nearest is %ld", what,
            text, least, most, below ? least : most);
        return false;
    }
    return true;
}

static bool injected_tensor(const char *name, struct tensor *tensor, struct text *error)
{
    if (strcmp(name, "activation") == 0) {
        *tensor = (struct tensor){ .class = TENSOR_ACTIVATION };
        return true;
    }
    if (strcmp(name, "activation_gradient") == 0) {
        *tensor = (struct tensor){ .class = TENSOR_ACTIVATION_GRADIENT };
        return true;
    }
    if (strncmp(name, "gradients/", 10) == 0)
        for (int p = 0; p < PARAMETERS; p++)
            if (strcmp(name + 10, parameter_name[p]) == 0) {
                *tensor = (struct tensor){ .class = TENSOR_GRADIENT, .index = p };
                return true;
            }
    const char *bare = strncmp(name, "gradients/", 10) == 0 ? name + 10 : name;
    const char *near = nearest_name(bare, parameter_name, PARAMETERS);
    text_add(error,
        "--inject: tensor=%s: must be activation, activation_gradient or gradients/NAME; the nearest is "
        "gradients/%s",
        name, near ? near : parameter_name[0]);
    return false;
}

bool setup_injection(
    const char *text, const struct model *model, int steps, struct injection *injection, struct text *error)
{
    enum { STEP, LAYER, MICROBATCH, TENSOR, ELEMENT, BIT, KEYS };
    static const char *const key[KEYS] = { "step", "layer", "microbatch", "tensor", "element", "bit" };
    char *value[KEYS] = { 0 };
    char *copy = strdup(text), *rest = copy;
    if (!copy) fail("out of memory");
    bool good = true;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL;) {
        char *equals = strchr(item, '=');
        if (equals) *equals = 0;
        int k = 0;
        while (k < KEYS && strcmp(item, key[k]) != 0) k++;
        if (!equals || k == KEYS || value[k]) {
            const char *near = nearest_name(item, key, KEYS);
            text_add(error,
                "--inject: '%s': must be step=,layer=,microbatch=,tensor=,element=,bit=, each once; the "
                "nearest is %s=",
                item, near ? near : key[0]);
            good = false;
        } else {
            value[k] = equals + 1;
        }
    }
    for (int k = 0; good && k < KEYS; k++)
        if (!value[k]) {
            text_add(error,
                "--inject: %s= is missing: step, layer, microbatch, tensor, element and bit must all be "
                "given",
                key[k]);
            good = false;
        }
    long n = 0;
    *injection = (struct injection){ .active = true };
    if (good && (good = whole_number(value[STEP], 1, steps, key[STEP], &n, error))) injection->step = (int)n;
    if (good && (good = whole_number(value[LAYER], 0, model->layers - 1, key[LAYER], &n, error)))
        injection->layer = (int)n;
    if (good &&
        (good = whole_number(value[MICROBATCH], 0, model->microbatches - 1, key[MICROBATCH], &n, error)))
        injection->microbatch = (int)n;
    if (good) good = injected_tensor(value[TENSOR], &injection->tensor, error);
    if (good) {
        const long elements = (long)tensor_elements(model, injection->tensor);
        if ((good = whole_number(value[ELEMENT], 0, elements - 1, key[ELEMENT], &n, error)))
            injection->element = (uint64_t)n;
    }
    if (good && (good = whole_number(value[BIT], 0, 31, key[BIT], &n, error))) injection->bit = (int)n;
    free(copy);
    return good;
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

int cpus_text(struct text *text)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        text_add(text, "unknown");
        return 1;
    }
    int first = -1;
    const char *comma = "";
    for (int cpu = 0; cpu <= CPU_SETSIZE; cpu++) {
        const bool in = cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set);
        if (in && first < 0) first = cpu;
        if (!in && first >= 0) {
            text_add(text, cpu - 1 > first ? "%s%d-%d" : "%s%d", comma, first, cpu - 1);
            comma = ",";
            first = -1;
        }
    }
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
    text_add(&card->libraries, "%s%s%s", output_library(), mpi_library ? "; " : "",
        mpi_library ? mpi_library : "");
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

/* --- the verdict --- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The reference that 'auto' stands for: a shipped digest file, else one that `pipeleaf reference` left in
 * this run's directory. */
static bool automatic_reference(const struct deck *deck, const struct identity_card *card, struct text *path)
{
    if (reference_find(card->identity, path)) return true;
    struct text digest = { 0 }, error = { 0 };
    struct digest_file file = { 0 };
    text_add(&digest, "%s/reference.digest", deck->output.directory);
    bool found = access(digest.data, R_OK) == 0 && digest_file_read(digest.data, &file, &error);
    if (found) {
        found = strcmp(file.identity, card->identity) == 0;
        digest_file_free(&file);
    }
    if (found) text_add(path, "%s", deck->output.directory);
    text_free(&digest);
    text_free(&error);
    return found;
}

enum verdict setup_verify(const struct deck *deck, const struct identity_card *card,
    const struct tensor_digest *lines, size_t count, struct text *out, bool *asked)
{
    const char *against = deck->verify.against;
    struct text path = { 0 }, error = { 0 };
    struct side *run = NULL, *reference = NULL;
    enum verdict verdict = NOT_PERFORMED;
    *asked = strcmp(against, "auto") != 0 && strcmp(against, "none") != 0;

    if (strcmp(against, "none") == 0) {
        text_add(out, "not asked for: verify.against='none'\n");
        return NOT_PERFORMED;
    }
    if (*asked) text_add(&path, "%s", against);
    if (!*asked && !automatic_reference(deck, card, &path)) {
        text_add(out,
            "no reference for this computation: neither a shipped digest file (identity %.16s) nor one in "
            "'%s';\n",
            card->identity, deck->output.directory);
        text_add(out, "run `pipeleaf reference` with this deck first\n");
    } else if (strcmp(deck->output.gradients, "none") == 0) {
        text_add(out, "this run has no gradients to compare: output.gradients='none'\n");
    } else if (!side_open(&reference, path.data, "reference", &error)) {
        text_add(out, "%s\n", error.data);
    } else {
        text_add(out, "against %s\n", path.data);
        /* Digests in memory are enough against digests; against files with tensors, what lies on the disk is
         * compared. */
        if (ends_with(path.data, ".digest"))
            run = side_of_lines(&card->facts, lines, count, "this run");
        else if (!side_open(&run, deck->output.directory, "run", &error))
            text_add(out, "%s\n", error.data);
        if (run) verdict = verify(run, reference, out);
    }
    if (run) side_close(run);
    if (reference) side_close(reference);
    text_free(&path);
    text_free(&error);
    return verdict;
}
