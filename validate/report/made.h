/* Outputs made up for the tests: a model of a few hundred numbers a tensor, whose values are a function of
   what and where they are, so that two makings agree bit for bit unless a test changes something. */
#pragma once
#include "report/result.h"

struct making {
    const char *directory, *kind, *run_id, *identity;
    struct model model;
    int ranks, steps;        /* the last step is the recorded one */
    bool data, digests;      /* what is written: rank files or reference.h5; the digest file */
    const char *activations; /* the level in the deck; 'boundary' writes data of every second layer only */
    const char *gradients;
    /* Leaves a tensor out of everything, where it says so; or NULL. */
    bool (*skip)(int step, struct tensor tensor);
    /* Changes the values before they are written or hashed; or NULL. first: the index of data[0] in the whole
     * batch. */
    void (*change)(int step, struct tensor tensor, uint64_t first, float *data, size_t count);
};

/* A run of 2 ranks, 3 steps and 4 layers, all of it written, into DIRECTORY; kind "reference" makes a
 * reference of it. */
struct making usual(const char *directory, const char *kind);

/* Creates the directory and writes the output: as a run (rank files, run.h5, digest.txt, result.json) or as a
 * reference. */
void make_output(const struct making *making);

/* The facts that make_output writes for a rank. */
struct facts facts_of(const struct making *making, int rank);

/* Value of one element of a tensor; index counts over the whole batch. */
float made_value(int step, struct tensor tensor, uint64_t index);

/* Flips a bit of one element of a data set, through HDF5. */
void flip_bit(const char *path, const char *dataset, size_t element, int bit);
void remove_dataset(const char *path, const char *dataset);
void move_dataset(const char *path, const char *from, const char *to);
/* Puts a data set of one element in the place of another. */
void replace_dataset(const char *path, const char *dataset);
void set_int(const char *path, const char *attribute, int value);
void set_string(const char *path, const char *attribute, const char *value);

/* DIRECTORY/NAME in a static buffer, good until 31 more were asked for. */
const char *in(const char *directory, const char *name);
/* A fresh directory of this name in the current one, empty. */
const char *fresh_directory(const char *name);

/* Runs BODY in a process of its own: its exit code and what it wrote to standard error. */
struct ended {
    int code;
    char *said; /* owned */
};
struct ended run_apart(void (*body)(void *context), void *context);
