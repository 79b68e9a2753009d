/* Says what a deck means, one value a line in a form that any language can print, so that other readers of
   namelists can be compared with this one; and writes the Fortran program that prints the same, from the one
   table.

       dump_deck DECK           the values of DECK
       dump_deck --echo DECK    its effective deck
       dump_deck --defaults     the values of an empty deck
       dump_deck --fortran      the Fortran program, on standard output

   Reals are printed as the 16 hexadecimal digits of their bits. */
#include "deck/parameter.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_values(const struct deck *deck, struct text *out)
{
    for (size_t i = 0; i < deck_parameter_count; i++) {
        const struct deck_parameter *p = &deck_parameters[i];
        const void *const field = (const char *)deck + p->offset;
        uint64_t bits;
        switch (p->type) {
        case DECK_INTEGER:
            text_add(out, "%s.%s=%" PRId64 "\n", p->group, p->name, *(const int64_t *)field);
            break;
        case DECK_LOGICAL:
            text_add(out, "%s.%s=%c\n", p->group, p->name, *(const bool *)field ? 'T' : 'F');
            break;
        case DECK_WORD: text_add(out, "%s.%s=[%s]\n", p->group, p->name, (const char *)field); break;
        case DECK_REAL:
            memcpy(&bits, field, sizeof bits);
            text_add(out, "%s.%s=%016" PRIX64 "\n", p->group, p->name, bits);
            break;
        case DECK_INTEGERS:
            for (int64_t k = 0; k < deck->pipeline.layers_per_chunk_count; k++)
                text_add(out, "%s.%s(%" PRId64 ")=%" PRId32 "\n", p->group, p->name, k + 1,
                    deck->pipeline.layers_per_chunk[k]);
            break;
        }
    }
}

static void print_declaration(const struct deck_parameter *p)
{
    switch (p->type) {
    case DECK_INTEGER: printf("    integer(int64) :: %s = %s_int64\n", p->name, p->initial); break;
    case DECK_LOGICAL: printf("    logical :: %s = %s\n", p->name, p->initial); break;
    case DECK_WORD: printf("    character(%d) :: %s = '%s'\n", DECK_STRING - 1, p->name, p->initial); break;
    case DECK_REAL: printf("    real(real64) :: %s = %s_real64\n", p->name, p->initial); break;
    case DECK_INTEGERS: printf("    integer(int32) :: %s(%d) = -1\n", p->name, DECK_CHUNKS); break;
    }
}

static void print_statement(const struct deck_parameter *p)
{
    switch (p->type) {
    case DECK_INTEGER: printf("    print '(a,i0)', '%s.%s=', %s\n", p->group, p->name, p->name); break;
    case DECK_LOGICAL: printf("    print '(a,l1)', '%s.%s=', %s\n", p->group, p->name, p->name); break;
    case DECK_WORD: printf("    print '(3a)', '%s.%s=[', trim(%s), ']'\n", p->group, p->name, p->name); break;
    case DECK_REAL:
        printf("    print '(a,z16.16)', '%s.%s=', transfer(%s, 0_int64)\n", p->group, p->name, p->name);
        break;
    case DECK_INTEGERS:
        printf("    do i = 1, size(%s)\n      if (%s(i) /= -1) print '(a,i0,a,i0)', '%s.%s(', i, ')=', "
               "%s(i)\n    end do\n",
            p->name, p->name, p->group, p->name, p->name);
        break;
    }
}

/* A subroutine for each group, because two groups may have a parameter of the same name. */
static void print_fortran(void)
{
    printf("program read_decks\n  use, intrinsic :: iso_fortran_env\n  implicit none\n"
           "  character(4096) :: path, message\n  integer :: unit, status, i\n"
           "  call get_command_argument(1, path)\n"
           "  open (newunit=unit, file=trim(path), status='old', action='read')\n");
    for (int group = 0; group < DECK_GROUPS; group++) printf("  call read_%s()\n", deck_groups[group]);
    printf("contains\n"
           "  subroutine check(group)\n    character(*), intent(in) :: group\n"
           "    if (status == 0 .or. status == iostat_end) return ! the end: no such group in this deck\n"
           "    print '(3a)', group, ': ', trim(message)\n    error stop 1\n  end subroutine\n");
    for (int group = 0; group < DECK_GROUPS; group++) {
        const char *const name = deck_groups[group];
        printf("  subroutine read_%s()\n", name);
        for (size_t i = 0; i < deck_parameter_count; i++)
            if (strcmp(deck_parameters[i].group, name) == 0) print_declaration(&deck_parameters[i]);
        for (size_t i = 0; i < deck_parameter_count; i++)
            if (strcmp(deck_parameters[i].group, name) == 0)
                printf("    namelist /%s/ %s\n", name, deck_parameters[i].name);
        printf("    rewind (unit)\n    read (unit, nml=%s, iostat=status, iomsg=message)\n    call "
               "check('%s')\n",
            name, name);
        for (size_t i = 0; i < deck_parameter_count; i++)
            if (strcmp(deck_parameters[i].group, name) == 0) print_statement(&deck_parameters[i]);
        printf("  end subroutine\n");
    }
    printf("end program\n");
}

int main(int count, char **argument)
{
    if (count < 2) fail("usage: dump_deck DECK | --echo DECK | --defaults | --fortran");
    const bool echo = strcmp(argument[1], "--echo") == 0 && count == 3;
    const char *const path = argument[echo ? 2 : 1];
    if (strcmp(argument[1], "--fortran") == 0) {
        print_fortran();
        return 0;
    }
    struct text text = { 0 }, error = { 0 };
    struct deck deck;
    if (strcmp(path, "--defaults") != 0 && !text_read_file(&text, path, &error)) fail("%s", error.data);
    if (!deck_read(&deck, path, text.data, text.length, 0, NULL, &error)) fail("%s", error.data);
    struct text out = { 0 };
    if (echo)
        deck_echo(&deck, &out);
    else
        add_values(&deck, &out);
    fputs(out.data, stdout);
    text_free(&out);
    deck_free(&deck);
    text_free(&text);
    return 0;
}
