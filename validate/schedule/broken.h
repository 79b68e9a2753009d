/* How a test breaks a program: operations found, taken out and put in, and what the check then says. */
#pragma once
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static inline struct compute F(int chunk, int microbatch) { return (struct compute){ COMPUTE_F, chunk, microbatch }; }
static inline struct compute B(int chunk, int microbatch) { return (struct compute){ COMPUTE_B, chunk, microbatch }; }
static inline struct compute I(int chunk, int microbatch) { return (struct compute){ COMPUTE_I, chunk, microbatch }; }
static inline struct compute W(int chunk, int microbatch) { return (struct compute){ COMPUTE_W, chunk, microbatch }; }
/* clang-format on */

static inline struct program
sound_program(const char *name, int p, int v, int m)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, name, p, v, m, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    CHECK(program_check(&program, &error), "it is sound before it is broken: %s", error.data);
    schedule_free(&schedule);
    return program;
}

/* Where the rank does this to that compute. */
static inline int find(
    const struct program *program, int rank, enum operation_kind kind, struct compute compute)
{
    for (int i = 0; i < program->rank[rank].count; i++) {
        const struct operation *o = &program->rank[rank].operations[i];
        const bool same = o->compute.kind == compute.kind && o->compute.chunk == compute.chunk &&
                          o->compute.microbatch == compute.microbatch;
        if (o->kind == kind && same) return i;
    }
    CHECK(false, "rank %d has no such operation", rank);
    return 0;
}

static inline struct operation *get(
    const struct program *program, int rank, enum operation_kind kind, struct compute compute)
{
    return &program->rank[rank].operations[find(program, rank, kind, compute)];
}

static inline struct operation take_out(struct program *program, int rank, int at)
{
    struct rank_program *r = &program->rank[rank];
    const struct operation taken = r->operations[at];
    memmove(&r->operations[at], &r->operations[at + 1], (size_t)(r->count - at - 1) * sizeof taken);
    r->count--;
    return taken;
}

static inline void put_in(struct program *program, int rank, int at, struct operation operation)
{
    struct rank_program *r = &program->rank[rank];
    r->operations = realloc(r->operations, (size_t)(r->count + 1) * sizeof operation);
    memmove(&r->operations[at + 1], &r->operations[at], (size_t)(r->count - at) * sizeof operation);
    r->operations[at] = operation;
    r->count++;
}

/* The program is refused, and with these words; then it is freed. */
static inline void refused(const char *what, struct program *program, const char *expected)
{
    struct text error = { 0 };
    const bool sound = program_check(program, &error);
    CHECK(!sound, "%s: passed", what);
    CHECK(error.data && !strcmp(error.data, expected), "%s: '%s' is not '%s'", what, error.data, expected);
    text_free(&error);
    program_free(program);
}

/* A schedule by hand, lowered. */
static inline struct program by_hand(
    int p, int chunks, int *rank_of, int m, struct compute **order, int *count)
{
    const struct schedule schedule = { p, chunks, m, 0, rank_of, order, count };
    struct program program;
    program_make(&program, &schedule, 2, 0, false);
    return program;
}

static inline void sound(const char *what, struct program program)
{
    struct text error = { 0 };
    CHECK(program_check(&program, &error), "%s: %s", what, error.data);
    program_free(&program);
    text_free(&error);
}
