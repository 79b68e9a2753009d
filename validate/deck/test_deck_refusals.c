/* A deck that is wrong is refused with one line that says where, the value, the rule and the nearest legal
 * value. */
#include "../check.h"
#include "deck/deck.h"
#include <string.h>

struct refusal {
    const char *deck;
    const char *message; /* after "bad.nml:" or, for an override, "override '...': " */
};

#define SCHEDULES                                                                                            \
    "'interleaved-1f1b', '1f1b', 'gpipe', 'looped-bfs', 'zb-h1', 'interleaved-zb', 'zb-v' or 'file'"
static const struct refusal text_refusals[] = {
    { "&modle layers=8 /", "1:2: there is no group 'modle'; nearest 'model'" },
    { "&xyzzy /", "1:2: there is no group 'xyzzy'; there are model, batch, pipeline, arithmetic, run, "
                  "machine, verify, target, output" },
    { "& model layers=8 /", "1:1: & has no group's name after it, such as &model" },
    { "&model layrs=8 /", "1:8: &model has no parameter 'layrs'; nearest 'layers'" },
    { "&model microbatches=8 /", "1:8: &model has no parameter 'microbatches'; &batch has" },
    { "&model hidden=64\n  zz=8 /",
        "2:3: &model has no parameter 'zz'; it has layers, hidden, heads, ffn, sequence" },
    { "&model layers=8 layers=9 /", "1:17: model.layers was given already at line 1" },
    { "&model layers=8 /\n&model hidden=64 /", "2:1: &model was given already at line 1" },
    { "&model layers=8\n&batch microbatches=8 /",
        "2:1: &model of line 1 has no / to end it before this group" },
    { "&model layers=8\n", "2:1: &model of line 1 has no / to end it before the end of the file" },
    { "&model layers=8 / &batch microbatches=8 /",
        "1:19: a group must begin a line of its own: Fortran does not see one after a /" },
    { "&model layers=8 / more", "1:19: unexpected 'more' after the / that ends a group" },
    { "\n  layers=8",
        "2:3: unexpected 'layers=8' outside a group: must be &, such as &model, or a comment after !" },
    { "&model layers= /", "1:15: model.layers has no value: write one after the =, such as 8" },
    { "&model layers= hidden=64 /", "1:15: model.layers has no value: write one after the =, such as 8" },
    { "&model layers=,hidden=64 /", "1:15: model.layers has an empty value before this comma" },
    { "&model layers=8,,hidden=64 /", "1:17: model.layers has an empty value before this comma" },
    { "&model layers=8 9 /", "1:17: model.layers takes one value, and '9' is a second one" },
    { "&model layers 8 /", "1:15: model.layers must be followed by =" },
    { "&model layers(1)=8 /", "1:14: model.layers takes no index: write layers = and all its values" },
    { "&model 8 /", "1:8: unexpected '8': must be a parameter's name, or / to end the group" },
    { "&model, layers=8 /", "1:7: &model must be followed by a blank" },
    { "&model layers=8!no blank\n/", "1:16: a comment after a value needs a blank before its !" },
    { "&model layers=8=9 /", "1:16: unexpected '=9' after a value: put a blank or a comma between values" },
    { "&model layers=eight /", "1:15: model.layers=eight: must be an integer from 1 to 65536, such as 8" },
    { "&model layers='8' /", "1:15: model.layers='8': must be an integer from 1 to 65536, such as 8" },
    { "&model layers=8.6 /", "1:15: model.layers=8.6: must be an integer from 1 to 65536; nearest 9" },
    { "&model layers=1e3 /", "1:15: model.layers=1e3: must be an integer from 1 to 65536; nearest 1000" },
    { "&model layers=2*8 /", "1:15: model.layers=2*8: must be an integer from 1 to 65536, such as 8" },
    { "&model layers=0 /", "1:15: model.layers=0: must be an integer from 1 to 65536; nearest 1" },
    { "&model layers=-1 /", "1:15: model.layers=-1: must be an integer from 1 to 65536; nearest 1" },
    { "&pipeline channel_ctas=0 /",
        "1:24: pipeline.channel_ctas=0: must be an integer from 1 to 64; nearest 1" },
    { "&model layers=65537 /",
        "1:15: model.layers=65537: must be an integer from 1 to 65536; nearest 65536" },
    { "&model layers=99999999999999999999 /",
        "1:15: model.layers=99999999999999999999: must be an integer from 1 to 65536; nearest 65536" },
    { "&run seed=9223372036854775808 /", "1:11: run.seed=9223372036854775808: must be an integer from 0 to "
                                         "9223372036854775807; nearest 9223372036854775807" },
    { "&run seed=-99999999999999999999 /",
        "1:11: run.seed=-99999999999999999999: must be an integer from 0 to 9223372036854775807; nearest 0" },
    { "&run timeout=nan /", "1:14: run.timeout=nan: must be a real from 0.001 to 1e+09, such as 300.0" },
    { "&run timeout=inf /", "1:14: run.timeout=inf: must be a real from 0.001 to 1e+09, such as 300.0" },
    { "&run timeout=1e999 /", "1:14: run.timeout=1e999: must be a real from 0.001 to 1e+09; nearest 1e+09" },
    { "&run timeout=1e /", "1:14: run.timeout=1e: must be a real from 0.001 to 1e+09, such as 300.0" },
    { "&run timeout=. /", "1:14: run.timeout=.: must be a real from 0.001 to 1e+09, such as 300.0" },
    { "&run timeout=0.0 /", "1:14: run.timeout=0.0: must be a real from 0.001 to 1e+09; nearest 0.001" },
    { "&run timeout=-5. /", "1:14: run.timeout=-5.: must be a real from 0.001 to 1e+09; nearest 0.001" },
    { "&machine latency=-1.0 /", "1:18: machine.latency=-1.0: must be a real from 0 to 1e+06; nearest 0" },
    { "&machine flop_rate=0.0 /", "1:20: machine.flop_rate=0.0: must be a real from 1 to 1e+30; nearest 1" },
    { "&target fom=-1.0 /", "1:13: target.fom=-1.0: must be a real from 0 to 1e+30; nearest 0" },
    { "&target bubble_max=1.5 /", "1:20: target.bubble_max=1.5: must be a real from 0 to 1; nearest 1" },
    { "&machine speed=1.0 /", "1:10: &machine has no parameter 'speed'; it has forward, backward, input, "
                              "weight, flop_rate, latency, "
                              "bandwidth" },
    { "&machine bandwith=1e9 /", "1:10: &machine has no parameter 'bandwith'; nearest 'bandwidth'" },
    { "&run device='rehersal' /",
        "1:13: run.device='rehersal': must be 'auto', 'host', 'cuda', 'definition' or "
        "'rehearsal'; nearest 'rehearsal'" },
    { "&pipeline schedule='file' schedule_file='' /",
        "1:41: pipeline.schedule_file='': must have 1 to 1023 characters, not 0" },
    { "&pipeline schedule_dialect='old' /",
        "1:28: pipeline.schedule_dialect='old': must be 'current' or 'older'; nearest 'older'" },
    { "&pipeline overlap=yes /", "1:19: pipeline.overlap=yes: must be .true. or .false." },
    { "&pipeline overlap=1 /", "1:19: pipeline.overlap=1: must be .true. or .false." },
    { "&pipeline overlap=.true /", "1:19: pipeline.overlap=.true: must be .true. or .false." },
    { "&pipeline schedule=gpipe /",
        "1:20: pipeline.schedule=gpipe: must be a string in quotes, such as 'interleaved-1f1b'" },
    { "&pipeline schedule='gpip' /",
        "1:20: pipeline.schedule='gpip': must be " SCHEDULES "; nearest 'gpipe'" },
    { "&pipeline schedule='' /", "1:20: pipeline.schedule='': must be " SCHEDULES },
    { "&pipeline schedule='x' /", "1:20: pipeline.schedule='x': must be " SCHEDULES },
    { "&output directory='out\n/", "1:19: this string is not closed: must end with ' on its line" },
    { "&output directory='it's' /",
        "1:23: unexpected 's'' after a value: put a blank or a comma between values" },
    { "&output directory='' /", "1:19: output.directory='': must have 1 to 1023 characters, not 0" },
    { "&output directory='a&model layers=9 /' /", "1:19: output.directory=a&model layers=9 /: must not hold "
                                                  "'&model', which Fortran would take for the group" },
    { "&output directory=out/tiny /",
        "1:19: output.directory=out: must be a string in quotes, such as 'out'" },
    { "&pipeline layers_per_chunk=1,,2 /",
        "1:30: pipeline.layers_per_chunk has an empty value before this comma" },
    { "&pipeline layers_per_chunk=1, ! one\n 2 /",
        "1:31: a comment after a comma is an empty value to Fortran: leave the comma out, or put it on the "
        "next line" },
    { "&pipeline layers_per_chunk=3* /",
        "1:28: pipeline.layers_per_chunk=3*: must be a count, a star and an integer, such as 3*2" },
    { "&pipeline layers_per_chunk=0*3 /",
        "1:28: pipeline.layers_per_chunk=0*3: must be a count, a star and an integer, such as 3*2" },
    { "&pipeline layers_per_chunk=65000*1 537*1 /",
        "1:36: pipeline.layers_per_chunk has more than 65536 numbers: must be one a chunk, at most 65536" },
    { "&pipeline layers_per_chunk=2 x /",
        "1:30: pipeline.layers_per_chunk=x: must be an integer from 0 to 65536, such as 2" },
    { "&model layers=8 /\n\x01", "2:1: a byte 0x01: a deck is plain text" },
    { "&model layers=\xff\xfe /",
        "1:15: model.layers=\xff\xfe: must be an integer from 1 to 65536, such as 8" },
    { "\xef\xbb\xbf&model layers=8 /", "1:1: a byte order mark: save the deck as UTF-8 without one" },
    { "&verify against='\x7f' /", "1:18: a byte 0x7f: a deck is plain text" },
};

static const struct refusal override_refusals[] = {
    { "layers", "must be group.name=value, such as model.layers=8" },
    { "nothing", "must be group.name=value, such as model.layers=8" },
    { "layers=9", "must be group.name=value, such as model.layers=8" },
    { "modle.layers=9", "there is no group 'modle'; nearest 'model'" },
    { "model.layrs=9", "&model has no parameter 'layrs'; nearest 'layers'" },
    { "model.layers", "model.layers must be followed by =" },
    { "model.layers=", "model.layers has no value: write one after the =, such as 8" },
    { "model.layers=0", "model.layers=0: must be an integer from 1 to 65536; nearest 1" },
    { "model.layers=9 hidden=8", "unexpected 'hidden=8' after the value" },
    { "model.layers=9/", "unexpected '/' after the value" },
    { "pipeline.schedule=gpip", "pipeline.schedule='gpip': must be " SCHEDULES "; nearest 'gpipe'" },
    { "pipeline.schedule='gpipe", "this string is not closed: must end with ' on its line" },
    { "pipeline.schedule='gpipe' x", "pipeline.schedule takes one value, and 'x' is a second one" },
    { "pipeline.schedule=",
        "pipeline.schedule has no value: write one after the =, such as 'interleaved-1f1b'" },
    { "pipeline.overlap=maybe", "pipeline.overlap=maybe: must be .true. or .false." },
    { "pipeline.layers_per_chunk=1,x",
        "pipeline.layers_per_chunk=x: must be an integer from 0 to 65536, such as 2" },
    { "output.directory=a\nb", "a byte 0x0a: a value is plain text" },
};

static const struct refusal joint_refusals[] = {
    { "&model hidden=64 heads=5 /",
        "model.hidden=64 must be a multiple of model.heads=5; nearest model.heads=4 or model.hidden=65" },
    { "&model hidden=4 heads=9 /",
        "model.hidden=4 must be a multiple of model.heads=9; nearest model.heads=4 or model.hidden=9" },
    { "&model hidden=63 heads=8 /",
        "model.hidden=63 must be a multiple of model.heads=8; nearest model.heads=7 or model.hidden=64" },
    { "&pipeline ranks=3 /",
        "the MPI size, which is 4, must be a multiple of pipeline.ranks=3: launch 3 or 6 "
        "processes, or set pipeline.ranks=2 (0 takes the MPI size)" },
    { "&pipeline ranks=5 /", "the MPI size, which is 4, must be a multiple of pipeline.ranks=5: launch 5 "
                             "processes, or set pipeline.ranks=4 (0 takes the MPI size)" },
    { "&pipeline schedule='gpipe' /",
        "pipeline.schedule='gpipe' must have pipeline.chunks_per_rank=1, not 2; nearest "
        "pipeline.chunks_per_rank=1, or pipeline.schedule='looped-bfs'" },
    { "&pipeline schedule='zb-h1' chunks_per_rank=2 /",
        "pipeline.schedule='zb-h1' must have pipeline.chunks_per_rank=1, not 2; nearest "
        "pipeline.chunks_per_rank=1, or pipeline.schedule='interleaved-zb'" },
    { "&pipeline schedule='zb-v' chunks_per_rank=1 /",
        "pipeline.schedule='zb-v' must have pipeline.chunks_per_rank=2, not 1; nearest "
        "pipeline.chunks_per_rank=2, or pipeline.schedule='interleaved-zb'" },
    { "&pipeline schedule='zb-v' chunks_per_rank=3 /",
        "pipeline.schedule='zb-v' must have pipeline.chunks_per_rank=2, not 3; nearest "
        "pipeline.chunks_per_rank=2, or pipeline.schedule='interleaved-zb'" },
    { "&pipeline schedule='file' /",
        "pipeline.schedule='file' must have pipeline.schedule_file='PATH', which is not given; nearest "
        "pipeline.schedule='interleaved-1f1b'" },
    { "&pipeline schedule_file='a.csv' /",
        "pipeline.schedule_file='a.csv' is for pipeline.schedule='file', not 'interleaved-1f1b'; nearest "
        "pipeline.schedule_file='none'" },
    { "&pipeline schedule_dialect='older' /",
        "pipeline.schedule_dialect='older' is for pipeline.schedule='file', not 'interleaved-1f1b'; nearest "
        "pipeline.schedule_dialect='current'" },
    { "&pipeline schedule='file' schedule_file='a.csv' group=4 /",
        "pipeline.group=4 is for pipeline.schedule='interleaved-1f1b' or 'interleaved-zb', not 'file'; "
        "nearest "
        "pipeline.group=0" },
    { "&pipeline schedule='interleaved-zb' group=3 /",
        "pipeline.group=3 must be 4 to 8 and leave batch.microbatches=8 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=4 (0: chosen by the schedule)" },
    { "&run device='rehearsal' transport='nccl' /",
        "run.transport='nccl' must have run.device='cuda', not 'rehearsal'; nearest run.transport='auto'" },
    { "&pipeline schedule='1f1b' chunks_per_rank=3 /",
        "pipeline.schedule='1f1b' must have pipeline.chunks_per_rank=1, not 3; nearest "
        "pipeline.chunks_per_rank=1, or pipeline.schedule='interleaved-1f1b'" },
    { "&model layers=7 /", "model.layers=7 must be at least one for each of pipeline.ranks=4 * "
                           "pipeline.chunks_per_rank=2 chunks; nearest pipeline.chunks_per_rank=1 or "
                           "pipeline.ranks=3 or model.layers=8; pipeline.layers_per_chunk may hold zeros" },
    { "&model layers=3 /",
        "model.layers=3 must be at least one for each of pipeline.ranks=4 * pipeline.chunks_per_rank=2 "
        "chunks; nearest pipeline.ranks=1 or model.layers=8; pipeline.layers_per_chunk may hold zeros" },
    { "&model layers=2 /\n&pipeline chunks_per_rank=3 /",
        "model.layers=2 must be at least one for each of pipeline.ranks=4 * pipeline.chunks_per_rank=3 "
        "chunks; nearest pipeline.ranks=1 with pipeline.chunks_per_rank=2 or model.layers=12; "
        "pipeline.layers_per_chunk may hold zeros" },
    { "&pipeline layers_per_chunk=7*1 /", "pipeline.layers_per_chunk must have pipeline.ranks=4 * "
                                          "pipeline.chunks_per_rank=2 numbers, not 7; nearest 8" },
    { "&pipeline layers_per_chunk=4*1, 4*2 /", "pipeline.layers_per_chunk must sum to model.layers=8, not "
                                               "12; nearest model.layers=12, or 4 layers fewer in the list" },
    { "&pipeline layers_per_chunk=7*1, 0 /", "pipeline.layers_per_chunk must sum to model.layers=8, not 7; "
                                             "nearest model.layers=7, or 1 layers more in the list" },
    { "&pipeline group=3 /",
        "pipeline.group=3 must be 4 to 8 and leave batch.microbatches=8 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=4 (0: chosen by the schedule)" },
    { "&pipeline group=5 /",
        "pipeline.group=5 must be 4 to 8 and leave batch.microbatches=8 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=4 (0: chosen by the schedule)" },
    { "&pipeline group=9 /",
        "pipeline.group=9 must be 4 to 8 and leave batch.microbatches=8 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=8 (0: chosen by the schedule)" },
    { "&batch microbatches=2 /\n&pipeline group=1 /",
        "pipeline.group=1 must be 2 to 2 and leave batch.microbatches=2 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=2 (0: chosen by the schedule)" },
    { "&batch microbatches=9 /\n&pipeline group=4 /",
        "pipeline.group=4 must be 4 to 9 and leave batch.microbatches=9 a remainder of 0 or at least "
        "pipeline.ranks=4; nearest pipeline.group=5 (0: chosen by the schedule)" },
    { "&pipeline schedule='gpipe' chunks_per_rank=1 group=4 /",
        "pipeline.group=4 is for pipeline.schedule='interleaved-1f1b' or 'interleaved-zb', not 'gpipe'; "
        "nearest "
        "pipeline.group=0" },
    { "&arithmetic mode='vendor' /", "arithmetic.mode='vendor' must have run.device='cuda', not 'auto'; "
                                     "nearest arithmetic.mode='portable'" },
    { "&arithmetic precision='bf16' /", "arithmetic.precision='bf16' must have arithmetic.mode='vendor', not "
                                        "'portable'; nearest arithmetic.precision='fp32'" },
    { "&arithmetic precision='tf32' /\n&run device='cuda' /",
        "arithmetic.precision='tf32' must have arithmetic.mode='vendor', not 'portable'; nearest "
        "arithmetic.precision='fp32'" },
    { "&arithmetic precision='bf16' mode='vendor' /\n&run device='host' /",
        "arithmetic.mode='vendor' with precision='bf16' must have run.device='cuda', not 'host'; nearest "
        "arithmetic.mode='portable' with arithmetic.precision='fp32'" },
    { "&run share_device=t /", "run.share_device=.true. is for NCCL: run.device='cuda' with "
                               "run.transport='nccl' or 'auto', not 'auto' with "
                               "'auto'; nearest run.share_device=.false." },
    { "&run transport='nccl' /",
        "run.transport='nccl' must have run.device='cuda', not 'auto'; nearest run.transport='auto'" },
    { "&model sequence=1048576 /\n&batch microbatch_size=65536 /",
        "a microbatch must have at most 2147483647 tokens: batch.microbatch_size=65536 sequences of "
        "model.sequence=1048576 are more; nearest batch.microbatch_size=2047" },
    { "&model hidden=1048576 sequence=1048576 /\n&batch microbatches=1048576 /",
        "a step must have at most 2^53 output elements: batch.microbatches=1048576 of "
        "batch.microbatch_size=2 * model.sequence=1048576 * model.hidden=1048576 are more; nearest "
        "batch.microbatches=4096" },
    { "&model layers=65536 /\n&pipeline chunks_per_rank=16384 /\n&batch microbatches=1048576 /",
        "batch.microbatches=1048576 times 65536 chunks must be at most 67108864; nearest "
        "batch.microbatches=1024" },
};

/* Checks what was said, or, asked to, prints it as a line of the tables above. */
static void compare(const struct refusal *refusal, bool read, const struct text *error, const char *prefix)
{
    CHECK(!read, "this was not refused: %s", refusal->deck);
    if (read) return;
    CHECK(error->length && !strchr(error->data, '\n'), "not one line: %s", error->data);
    const size_t length = strlen(prefix);
    CHECK(strncmp(error->data, prefix, length) == 0 && strcmp(error->data + length, refusal->message) == 0,
        "of %s: said\n    %s\n  and not\n    %s%s", refusal->deck, error->data, prefix, refusal->message);
}

int main(void)
{
    struct deck deck;
    for (size_t i = 0; i < sizeof text_refusals / sizeof *text_refusals; i++) {
        struct text error = { 0 };
        const struct refusal *const refusal = &text_refusals[i];
        compare(refusal, deck_read(&deck, "bad.nml", refusal->deck, strlen(refusal->deck), 0, NULL, &error),
            &error, "bad.nml:");
        text_free(&error);
    }
    for (size_t i = 0; i < sizeof override_refusals / sizeof *override_refusals; i++) {
        struct text error = { 0 }, prefix = { 0 };
        const struct refusal *const refusal = &override_refusals[i];
        char override[100];
        strcpy(override, refusal->deck);
        char *const list[] = { override };
        text_add(&prefix, "override '%s': ", strchr(override, '\n') ? "output.directory=a\\x0ab" : override);
        compare(refusal, deck_read(&deck, "good.nml", "", 0, 1, list, &error), &error, prefix.data);
        text_free(&error);
        text_free(&prefix);
    }
    for (size_t i = 0; i < sizeof joint_refusals / sizeof *joint_refusals; i++) {
        struct text error = { 0 };
        const struct refusal *const refusal = &joint_refusals[i];
        const bool read = deck_read(&deck, "bad.nml", refusal->deck, strlen(refusal->deck), 0, NULL, &error);
        CHECK(read, "%s", read ? "" : error.data);
        if (!read) continue;
        compare(refusal, deck_check(&deck, 4, &error), &error, "");
        deck_free(&deck);
        text_free(&error);
    }

    /* A zero byte ends nothing. */
    /* Where nobody has launched ranks and the deck names none, what one rank needs is asked for. */
    struct text error = { 0 };
    char nine[] = "pipeline.chunks_per_rank=9";
    char *const chunks[] = { nine };
    const struct refusal alone = { "",
        "model.layers=8 must be at least one for each of pipeline.chunks_per_rank=9 chunks; nearest "
        "pipeline.chunks_per_rank=8 or model.layers=9; pipeline.layers_per_chunk may hold zeros" };
    if (deck_read(&deck, "bad.nml", "", 0, 1, chunks, &error)) {
        compare(&alone, deck_check(&deck, 0, &error), &error, "");
        deck_free(&deck);
    }
    text_free(&error);

    const struct refusal zero = { "&model layers=8 /\\0", "1:18: a byte 0x00: a deck is plain text" };
    compare(&zero, deck_read(&deck, "bad.nml", "&model layers=8 /\0more", 22, 0, NULL, &error), &error,
        "bad.nml:");
    text_free(&error);

    /* A name and a value of any length make a short line. */
    static char longest[100000];
    memcpy(longest, "&model ", 7);
    memset(longest + 7, 'x', sizeof longest - 7);
    CHECK(!deck_read(&deck, "bad.nml", longest, sizeof longest, 0, NULL, &error) && error.length < 200, "%s",
        error.data);
    text_free(&error);
    memcpy(longest, "&output directory='", 19);
    longest[sizeof longest - 2] = '\'';
    longest[sizeof longest - 1] = '/';
    CHECK(!deck_read(&deck, "bad.nml", longest, sizeof longest, 0, NULL, &error) &&
              strstr(error.data, "must have 1 to 1023 characters, not 99979"),
        "%s", error.data);
    text_free(&error);

    /* The same override twice, and a parameter that the deck names too, which is what overrides are for. */
    char first[] = "model.layers=9", second[] = "model.LAYERS=10";
    char *const twice[] = { first, second };
    CHECK(!deck_read(&deck, "good.nml", "", 0, 2, twice, &error) &&
              strcmp(error.data, "override 'model.LAYERS=10': model.layers was overridden already") == 0,
        "%s", error.length ? error.data : "was read");
    text_free(&error);
    return check_result();
}
