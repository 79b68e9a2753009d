/* What the user asked for: a Fortran namelist file, read against one table of parameters.
   The table (parameters.c) is the only place that knows a parameter's group, name, type, default, range and
   help; the reader, the checks, the echo, `pipeleaf deck` and the overrides all come from it. */
#pragma once
#include "base/base.h"

enum { DECK_STRING = 1024, DECK_CHUNKS = 65536 };

/* One field a parameter, named as in the deck. Integers are int64_t, logicals bool, reals double. */
struct deck {
    struct {
        int64_t layers, hidden, heads, ffn,
            sequence; /* ffn 0 means 4*hidden: deck_check puts the number here */
    } model;
    struct {
        int64_t microbatches, microbatch_size;
    } batch;
    struct {
        int64_t ranks, chunks_per_rank, group; /* ranks 0: the MPI size; group 0: the schedule's own rule */
        char schedule[DECK_STRING];
        char schedule_file[DECK_STRING]; /* of schedule 'file': its path; else 'none' */
        char schedule_dialect[DECK_STRING];
        bool overlap;
        bool self_channels;        /* what a rank hands to itself is sent and received too */
        int64_t channel_ctas;      /* NCCL: thread blocks of a channel */
        int32_t *layers_per_chunk; /* layers_per_chunk_count of them; owned by the deck; none: shared out
                                      equally */
        int64_t layers_per_chunk_count;
    } pipeline;
    struct {
        char mode[DECK_STRING], precision[DECK_STRING];
    } arithmetic;
    struct {
        int64_t steps, warmup_steps, seed,
            threads; /* steps: the timed ones, after the warm-up; threads 0: CPUs / ranks here */
        char device[DECK_STRING], transport[DECK_STRING];
        bool share_device; /* NCCL between ranks on one GPU */
        double timeout;    /* seconds */
        double progress;   /* seconds between lines that say how far the run is; 0: none */
        bool quiet;        /* nothing is printed but errors */
    } run;
    struct {
        double forward, backward, input,
            weight; /* seconds of one layer's F, B, I, W for one microbatch; 0: derived from flop_rate */
        double flop_rate; /* FLOP/s */
        double latency;   /* seconds */
        double bandwidth; /* bytes/s; 0: infinite */
    } machine;            /* what plan and the device 'rehearsal' take a machine for */
    struct {
        char against[DECK_STRING]; /* 'auto', 'none', 'recheck' or a path */
        char steps[DECK_STRING];   /* which steps `pipeleaf reference` computes: 'recorded' or 'all' */
    } verify;
    struct {
        double fom;        /* tokens/s, at least; 0: no target */
        double bubble_max; /* idle/step, at most; 0: no target */
    } target;
    struct {
        char directory[DECK_STRING];
        char activations[DECK_STRING], gradients[DECK_STRING], parameters[DECK_STRING];
        bool timeline;
    } output;
};

/* Reads `length` bytes of text (the content of the file PATH, which may hold zero bytes: refused) and then
   the overrides "group.name=value" into *deck, every parameter that neither names at its default. False with
   one line in *error, "PATH:LINE:COLUMN: ..." or "override 'x': ...", which says what is wrong, the value,
   the rule and the nearest legal name or value. Free with deck_free. */
bool deck_read(struct deck *deck, const char *path, const char *text, size_t length, int overrides,
    char *const *override, struct text *error);

/* The rules that bind several parameters (hidden against heads, layers against chunks, the MPI size, which
   must be a multiple of ranks, ...). mpi_size is the number of processes, or 0 where none were launched
   (`plan`, `deck`, `reference`). Puts numbers in the place of ffn=0 and ranks=0 (ranks stays 0 where mpi_size
   is 0). False with one line in *error: rule, values, nearest legal setting. */
bool deck_check(struct deck *deck, int mpi_size, struct text *error);

/* Appends the effective deck: every parameter, group by group, itself a valid deck that reads to the same
 * values. */
void deck_echo(const struct deck *deck, struct text *out);

/* Appends the documentation of all parameters: group, name, type, default, range, help. */
void deck_document(struct text *out);

/* SHA-256, in hexadecimal, of the canonical text of what the bits depend on: model, sequences a step
   (microbatches * microbatch_size), seed, arithmetic, and the number of steps that are digested (warmup_steps
   + steps + 1). Not on ranks, chunks, schedule or its file, device, machine, target, output, nor (but in
   vendor mode) the split into microbatches. Call after deck_check. */
void deck_identity(const struct deck *deck, char hex[65]);

void deck_free(struct deck *deck);
