#include "command/help.h"
#include "base/page.h"
#include "command/options.h"
#include "deck/parameter.h"
#include <string.h>

/* A row of a table of words. commands: the names, each between blanks, of those that it is about; NULL: all.
 */
struct row {
    const char *commands, *term, *text;
};

/* clang-format off */
static const struct row general_options[] = {
    { NULL, "--help, -h", "this text; after a command, of that command" },
    { NULL, "--version", "version and commit (pipeleaf --version alone)" },
    { NULL, "--man PAGE", "the source of a manual page: pipeleaf.1 or pipeleaf-deck.5 (pipeleaf --man alone)" },
};

static const struct row exit_codes[] = {
    { NULL, "0", "done; where a verdict was asked for, it is SUCCESSFUL" },
    { NULL, "1", "failed: bad command line, deck or file, no device, MPI or NCCL error; one line says what is wrong, where, the "
        "value, the rule and the nearest legal value" },
    { " run recheck ", "2", "wrong answer: VERIFICATION = UNSUCCESSFUL, or wrong messages in a rehearsal" },
    { " run recheck ", "3", "VERIFICATION = NOT PERFORMED though one was asked for by name" },
    { " run recheck ", "4", "timeout: the watchdog stopped a run that no longer moved; each rank says what it waited for" },
    { " run ", "5", "right answer, but below the deck's &target" },
};

static const struct row files[] = {
    { NULL, "DECK", "a Fortran namelist file; its parameters: pipeleaf deck, pipeleaf-deck(5). Decks to begin with are installed in "
        "share/pipeleaf/input" },
    { " run ", "listing.txt", "in output.directory, as all of the following: what was printed. But for the blocks whose banners say that they "
        "differ from run to run, and the FOM, it is the same in every run of a deck (see EXAMPLES)" },
    { " run ", "rank00000.h5, ...", "a rank's tensors of the recorded step, and the times of its actions and steps" },
    { " run ", "run.h5", "the whole model under one roof, by links to the ranks' files" },
    { " run ", "digest.txt", "a line a step and tensor: two 64-bit sums over its bits" },
    { " run ", "result.json", "figures, verdict, exit code, files" },
    { " run ", "timeline.json", "Chrome trace events: opens in Perfetto" },
    { " run ", "metrics.txt, nodecheck.txt", "figures as name=value, and a line a host: PASS, FAIL, HW-FAIL or PERF-FAIL; for test harnesses" },
    { " run ", "pipeline0000/, ...", "of several pipelines side by side: the files of each; output.directory itself then holds listing.txt, "
        "result.json, metrics.txt and nodecheck.txt of them all" },
    { " run recheck ", "recheck.txt, recheck.json", "in the run's directory: what a recheck found, as text and as JSON" },
    { " reference ", "reference.txt", "in output.directory: what was printed" },
    { " reference ", "reference.h5, reference.digest, reference.json", "as run.h5, digest.txt and result.json of a run" },
    { " run ", "share/pipeleaf/reference", "digests of the decks that are shipped, found by what the bits depend on" },
};

static const struct row environment[] = {
    { " run recheck reference ", "OMP_NUM_THREADS", "CPU threads of a rank, where run.threads=0; neither given: the rank's share of its CPUs. A run is refused where OpenMP gives fewer, as "
        "OMP_THREAD_LIMIT and OMP_DYNAMIC may make it" },
    { " run recheck reference ", "PIPELEAF_INSTRUCTION_SET", "avx512, avx2 or generic: the host's kernels, else the fastest that the CPU has; "
        "the bits are the same" },
    { " run ", "PIPELEAF_REFERENCE", "the folder of digest files that verify.against='auto' looks in, instead of share/pipeleaf/reference" },
    { " plan ", "NO_COLOR, TERM", "the picture has no colours where NO_COLOR is set, where TERM is dumb or not set, and where it does "
        "not go to a terminal" },
    { " run recheck reference ", "CUDA_VISIBLE_DEVICES", "the GPUs that a process sees; ranks of a host are spread over them" },
    { " run ", "CUDA_DEVICE_MAX_CONNECTIONS", "hardware queues of a GPU: over NCCL one for compute and one for each channel are needed" },
    { " run ", "NCCL_LAUNCH_ORDER_IMPLICIT", "refused where it would run the transfers of all channels one after the other (before CUDA "
        "12.3); the listing shows all NCCL_ variables; run.share_device sets NCCL_HOSTID" },
    { " run ", "OMPI_COMM_WORLD_SIZE", "or PMI_SIZE, MV2_COMM_WORLD_SIZE, JSM_NAMESPACE_SIZE, SLURM_STEP_NUM_TASKS: what a launcher "
        "says of the number of processes; a run of one rank is refused where it says more, for then the launcher is not that of this "
        "program's MPI library" },
    { " reference ", "OMPI_COMM_WORLD_SIZE", "or PMI_SIZE, MPI_LOCALNRANKS: refused where it is more than 1, a reference being one process" },
};

struct example {
    const char *commands, *line;
};
static const struct example examples[] = {
    { " plan ", "pipeleaf plan input/tiny.nml pipeline.schedule=zb-v --picture" },
    { " reference ", "pipeleaf reference input/tiny.nml" },
    { " run ", "mpirun -n 4 pipeleaf run input/tiny.nml" },
    { " run ", "mpirun -n 2 pipeleaf run input/tiny.nml pipeline.ranks=2 verify.against=out/tiny/reference.h5" },
    { " run ", "srun -n 8 pipeleaf run input/tiny.nml pipeline.ranks=8 pipeline.chunks_per_rank=1 run.device=rehearsal" },
    { " run ", "mpirun -n 4 pipeleaf run input/tiny.nml \\\n"
        "    --inject step=5,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3" },
    { " run ", "sed '/^-- .* differs from run to run --$/,/^$/d; /^FOM = /d' out/tiny/listing.txt" },
    { " run ", "mpirun -n 8 pipeleaf run input/tiny.nml      # two pipelines of 4 ranks side by side" },
    { " run ", "mpirun -n 4 pipeleaf run input/tiny.nml verify.against=recheck" },
    { " recheck ", "mpirun -n 4 pipeleaf recheck out/tiny" },
    { " deck ", "pipeleaf deck input/tiny.nml run.seed=7 >effective.nml" },
    { " run reference ", "pipeleaf-validate out/tiny" },
};
/* clang-format on */
#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool is_about(const char *list, const struct command *command)
{
    const char *found = !list || !command ? NULL : strstr(list, command->name);
    return !list || !command || (found && found[-1] == ' ' && found[strlen(command->name)] == ' ');
}

static void add_rows(const struct page *page, const char *title, const struct row *rows, size_t count,
    const struct command *command)
{
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_about(rows[i].commands, command)) continue;
        if (!begun) page_section(page, title);
        begun = true;
        page_term(page, rows[i].term, rows[i].text);
    }
}

/* "pipeleaf plan DECK [group.name=value ...] [--picture] ..." */
static void add_synopsis(struct text *out, const struct command *command)
{
    text_add(out, "pipeleaf %s %s", command->name, command->words);
    for (size_t i = 0; i < command_option_count; i++) {
        const struct option *o = &command_options[i];
        if (strcmp(o->command, command->name) == 0)
            text_add(out, " [%s%s%s]", o->name, o->value ? " " : "", o->value ? o->value : "");
    }
}

static void add_usage(const struct page *page, const struct command *command)
{
    page_section(page, page->form == PAGE_MAN ? "SYNOPSIS" : "USAGE");
    for (size_t i = 0; i < command_count; i++) {
        if (command && command != &commands[i]) continue;
        struct text line = { 0 };
        add_synopsis(&line, &commands[i]);
        page_paragraph(page, line.data);
        text_free(&line);
    }
    if (!command) page_paragraph(page, "pipeleaf --help | --version | --man PAGE");
}

static void add_options(const struct page *page, const struct command *command)
{
    bool begun = false;
    for (size_t i = 0; i < command_option_count; i++) {
        const struct option *o = &command_options[i];
        if (strcmp(o->command, command->name) != 0) continue;
        struct text term = { 0 };
        text_add(&term, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (!begun && page->form == PAGE_PLAIN) text_add(page->out, "\n");
        page_term(page, term.data, o->help);
        begun = true;
        text_free(&term);
    }
}

static void add_commands(const struct page *page, const struct command *command)
{
    page_section(page, command ? "DESCRIPTION" : "COMMANDS");
    for (size_t i = 0; i < command_count; i++) {
        if (command && command != &commands[i]) continue;
        struct text title = { 0 };
        text_add(&title, "pipeleaf %s: %s", commands[i].name, commands[i].summary);
        if (!command) page_subsection(page, title.data);
        page_paragraph(page, commands[i].about);
        add_options(page, &commands[i]);
        text_free(&title);
    }
}

static void add_examples(const struct page *page, const struct command *command)
{
    struct text lines = { 0 };
    for (size_t i = 0; i < COUNT(examples); i++)
        if (is_about(examples[i].commands, command)) text_add(&lines, "%s\n", examples[i].line);
    if (lines.length) {
        page_section(page, "EXAMPLES");
        page_literal(page, lines.data);
    }
    text_free(&lines);
}

static const char summary[] = "pipelined transformer training steps, verified to the last bit";
static const char description[] = "Runs training steps of a transformer-layer stack under a pipeline "
                                  "schedule, its layers cut into chunks over the "
                                  "ranks, and proves that the gradients of the distributed run equal, bit "
                                  "for bit, those of one device doing all the "
                                  "work alone. It gives a figure of merit and a verdict, the last two lines "
                                  "of its listing, and, when the verdict is "
                                  "bad, the rank, the layer and the element.";
static const char overrides[] = "Any parameter of the deck can be given on the command line, as "
                                "group.name=value. Which there are: pipeleaf deck. "
                                "While it runs, standard error says how far it is: run.progress; "
                                "run.quiet=.true. prints nothing but errors.";

static void add_all(const struct page *page, const struct command *command)
{
    add_usage(page, command);
    if (!command) {
        page_section(page, "DESCRIPTION");
        page_paragraph(page, description);
    }
    add_commands(page, command);
    if (page->form == PAGE_PLAIN) text_add(page->out, "\n");
    page_paragraph(page, overrides);
    add_rows(page, command ? "OPTIONS OF EVERY COMMAND" : "GENERAL OPTIONS", general_options,
        command ? 1 : COUNT(general_options), command);
    add_rows(page, "EXIT STATUS", exit_codes, COUNT(exit_codes), command);
    add_rows(page, "FILES", files, COUNT(files), command);
    add_rows(page, "ENVIRONMENT", environment, COUNT(environment), command);
    add_examples(page, command);
    page_section(page, "SEE ALSO");
    page_paragraph(page, "pipeleaf-validate(1), pipeleaf-deck(5), README.md");
}

void help_text(const struct command *command, struct text *out)
{
    const struct page page = { PAGE_PLAIN, out };
    text_add(out, "pipeleaf %s%s%s\n", command ? command->name : "", command ? ": " : "- ",
        command ? command->summary : summary);
    add_all(&page, command);
}

/* The deck as a file format: its syntax, and every parameter of the table. */
static void add_deck(const struct page *page)
{
    page_begin(page, "pipeleaf-deck", 5, "the input of pipeleaf: a Fortran namelist file");
    page_section(page, "DESCRIPTION");
    page_paragraph(page, "A deck is text: groups, each of which begins a line with & and its name, holds "
                         "settings name = value, with commas "
                         "or blanks between them, and ends with /. Case does not matter in names; ! begins a "
                         "comment; strings stand in "
                         "quotes; logicals are .true. and .false.; a repeat count, as in 3*2, stands for a "
                         "list of equal values. What is "
                         "not set has its default. An unknown or repeated name, a value of the wrong type or "
                         "out of range is refused with "
                         "file, line and column.");
    page_literal(page, "&model    layers = 8  hidden = 64  heads = 4  sequence = 32 /\n"
                       "&pipeline ranks = 4  chunks_per_rank = 2  schedule = 'interleaved-1f1b' /\n"
                       "&output   directory = 'out/tiny' /\n");
    page_section(page, "PARAMETERS");
    for (size_t i = 0; i < deck_parameter_count; i++) {
        const struct deck_parameter *p = &deck_parameters[i];
        const char *const quote = p->type == DECK_WORD ? "'" : "";
        struct text text = { 0 }, group = { 0 };
        text_add(&group, "&%s", p->group);
        if (i == 0 || strcmp(p->group, p[-1].group) != 0) page_subsection(page, group.data);
        text_add(
            &text, "%s. %c%s", p->help, deck_type_name[p->type][0] - 'a' + 'A', deck_type_name[p->type] + 1);
        if (p->type != DECK_INTEGERS) text_add(&text, ", default %s%s%s", quote, p->initial, quote);
        text_add(&text, "; legal: ");
        deck_range(&text, p);
        text_add(&text, ".");
        page_term(page, p->name, text.data);
        text_free(&group);
        text_free(&text);
    }
    page_section(page, "SEE ALSO");
    page_paragraph(page, "pipeleaf(1), pipeleaf-validate(1)");
}

bool help_man(const char *name, struct text *out)
{
    const struct page page = { PAGE_MAN, out };
    if (strcmp(name, "pipeleaf.1") == 0) {
        page_begin(&page, "pipeleaf", 1, summary);
        add_all(&page, NULL);
    } else if (strcmp(name, "pipeleaf-deck.5") == 0) {
        add_deck(&page);
    } else {
        return false;
    }
    return true;
}
