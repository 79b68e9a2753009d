/* A fibre finds its registers and its stack as it left them. (Values are kept live over the switch, more of
   them than there are registers to be kept; and with -DDOUBLE_UCONTEXT the same of the portable switch.) */
#include "../check.h"
#include "fibres.h"

static struct fibre host, *first, *second;
static unsigned long turns, wrong;

/* Read anew each time, so that the compiler can neither leave a value out nor work it out again. */
static volatile long integers[] = { 3, 1, 4, 15, 9, 2, 6, 53, 58, 97, 93, 23, 84 };
static volatile double reals[] = { 2.5, 7.25, 1.75, 8.5, 28.125, 4.5, 90.25, 45.5, 23.75, 53.5, 60.25, 28.5,
    74.75 };

__attribute__((noinline)) static void keep_over_switch(struct fibre *self, struct fibre *other)
{
    const unsigned long n = turns++ % 5;
    volatile long *const i = &integers[n];
    volatile double *const r = &reals[n];
    const long a = i[0], b = i[1], c = i[2], d = i[3], e = i[4], f = i[5], g = i[6], h = i[7];
    const double p = r[0], q = r[1], s = r[2], t = r[3], u = r[4], v = r[5], w = r[6], x = r[7];
    fibre_switch(self, other);
    wrong +=
        a != i[0] || b != i[1] || c != i[2] || d != i[3] || e != i[4] || f != i[5] || g != i[6] || h != i[7];
    wrong +=
        p != r[0] || q != r[1] || s != r[2] || t != r[3] || u != r[4] || v != r[5] || w != r[6] || x != r[7];
}

static void first_entry()
{
    for (;;) keep_over_switch(first, second);
}

static void second_entry()
{
    for (;;) keep_over_switch(second, turns < 1000 ? first : &host);
}

int main()
{
#if defined(__SANITIZE_THREAD__)
    printf("skipped: these fibres share variables, and nothing orders them\n");
    return 77;
#endif
    first = fibre_new(64 << 10, first_entry, "first");
    second = fibre_new(64 << 10, second_entry, "second");
    for (int round = 0; round < 3; round++) keep_over_switch(&host, first);
    CHECK(turns >= 1002, "%lu turns", turns);
    CHECK(wrong == 0, "%lu values changed", wrong);
    fibre_free(first);
    fibre_free(second);
    return check_result();
}
