/* What the commands share: from a deck to the model, its partition, the schedule and the checked program. */
#pragma once
#include "channel/job.h"
#include "deck/deck.h"
#include "run/pipeline.h"
#include "run/reference.h"
#include "report/listing.h"
#include "report/result.h"
#include <sched.h>

/* The words after the command: DECK, overrides, and the command's own options. */
struct words {
    const char *deck_path;
    char **overrides; /* owned array of borrowed words */
    int override_count;
    const char *inject;           /* run: --inject FAULT, or NULL */
    const char *export_csv, *svg; /* plan: --export-csv FILE, --svg FILE, or NULL */
    const char *from;             /* plan, and run where it rehearses: --from DIR, or NULL */
    bool with_communication, picture, all_channels; /* plan: --with-communication, --picture, --channels */
};
/* The words of `command`: "run", "recheck" (whose deck_path is the directory), "reference", "plan" or "deck".
 * False with one line in *error. */
bool words_parse(int count, char **word, const char *command, struct words *words, struct text *error);
void words_free(struct words *words);

/* Reads, overrides and checks the deck, mpi_size as in deck_check. */
bool setup_deck(
    struct deck *deck, const struct words *words, const struct text *text, int mpi_size, struct text *error);

struct model setup_model(const struct deck *deck);
struct reporting setup_reporting(const struct deck *deck);
int setup_steps(const struct deck *deck); /* all: warm-up, timed, recorded; the last is the recorded one */
struct device_request setup_device(
    const struct deck *deck, const struct model *model, int threads, int local_rank, size_t bytes);
struct partition setup_partition(const struct deck *deck, int ranks);

/* Threads of this process: the deck's, else those of OMP_NUM_THREADS (the first of its list), else
   `otherwise`. Fails the job where OMP_NUM_THREADS is no number that a deck could give. */
int setup_threads(const struct deck *deck, int otherwise);

/* Appends the path of a file in the output directory. */
void setup_path(const struct deck *deck, const char *name, struct text *path);

/* The schedule, generated or (schedule='file') read from its file, lowered and proved. Every rank reads the
   file. False with a message in *error; then there is no program to free. */
bool setup_program(const struct deck *deck, int ranks, struct program *program, struct text *error);

/* "step=1,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3" against this model and these
   steps; with "pipeline=1" it is that one's of several pipelines, else the first one's. Active on the ranks
   of `pipeline`, of so many pipelines, where it is this one that is meant. */
bool setup_injection(const char *text, const struct model *model, int steps, int pipeline, int pipelines,
    struct injection *injection, struct text *error);

/* Device bytes of this process's share, against the memory that this host has: false with one line where it
 * cannot fit. */
bool setup_fits(double bytes_on_host, const char *what, struct text *error);

/* What both files and listing say of this process. Owns its strings. */
struct identity_card {
    struct facts facts;
    struct text deck, libraries, cpus;
    char deck_sha256[65], identity[65], run_id[80];
};
void identity_card_fill(struct identity_card *card, const struct deck *deck, const struct model *model,
    const char *kind, const char *mpi_library);
void identity_card_free(struct identity_card *card);

/* CPUs, as "0-3,8"; those of this process's affinity mask, and how many. */
void cpu_set_text(const cpu_set_t *set, struct text *text);
int cpus_text(struct text *text);

/* The verdict of a run against what &verify names; `directory` is where 'auto' looks for a reference that is
   not shipped. *asked: a verification was asked for by name. *rank: whose tensor differs first, -1: none's,
   or not known. Explanation appended to *out. */
enum verdict setup_verify(const struct deck *deck, const char *directory, const struct identity_card *card,
    const struct tensor_digest *lines, size_t count, struct text *out, bool *asked, int *rank);
