/* A schedule in PyTorch's CSV is read for what it says, in the dialect that is asked for; one that is broken
   is refused with the row and the column of the cell that shows it.

       test_csv FOLDER     of the files written by hand, p=2 each */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void load(const char *name, struct text *text)
{
    struct text path = { 0 }, error = { 0 };
    text_add(&path, "%s/%s", folder, name);
    if (!text_read_file(text, path.data, &error)) fail("%s", error.data);
    text_free(&path);
}

static bool reads(
    struct schedule *schedule, const struct text *text, enum csv_dialect dialect, int microbatches)
{
    struct text error = { 0 };
    const bool good =
        schedule_read_csv(schedule, "a.csv", text->data, text->length, dialect, 2, microbatches, &error);
    CHECK(good && error.length == 0, "%s", error.length ? error.data : "refused without a word");
    text_free(&error);
    return good;
}

static void same_schedule(const struct schedule *a, const struct schedule *b, const char *what)
{
    CHECK(a->ranks == b->ranks && a->chunks == b->chunks && a->microbatches == b->microbatches, "%s: sizes",
        what);
    if (a->ranks != b->ranks || a->chunks != b->chunks) return;
    for (int chunk = 0; chunk < a->chunks; chunk++)
        CHECK(a->rank_of[chunk] == b->rank_of[chunk], "%s: chunk %d", what, chunk);
    for (int rank = 0; rank < a->ranks; rank++) {
        CHECK(a->count[rank] == b->count[rank] &&
                  memcmp(a->order[rank], b->order[rank], (size_t)a->count[rank] * sizeof **a->order) == 0,
            "%s: the order of rank %d", what, rank);
    }
}

/* Both files say the same. */
static void say_the_same(
    const char *one, enum csv_dialect one_dialect, const char *other, enum csv_dialect dialect)
{
    struct text a = { 0 }, b = { 0 };
    struct schedule x, y;
    load(one, &a);
    load(other, &b);
    if (reads(&x, &a, one_dialect, 4)) {
        if (reads(&y, &b, dialect, 4)) {
            same_schedule(&x, &y, other);
            schedule_free(&y);
        }
        schedule_free(&x);
    }
    text_free(&a);
    text_free(&b);
}

static void files_say_what_their_generator_makes(void)
{
    struct text text = { 0 }, error = { 0 };
    struct schedule read, made;
    load("interleaved.csv", &text);
    if (reads(&read, &text, CSV_CURRENT, 4)) {
        CHECK(schedule_make(&made, "interleaved-1f1b", 2, 2, 4, 0, &error), "%s", error.data);
        same_schedule(&read, &made, "interleaved.csv");
        schedule_free(&made);
        schedule_free(&read);
    }
    text_free(&text);
    say_the_same("interleaved.csv", CSV_CURRENT, "interleaved-older.csv", CSV_OLDER);
    say_the_same("interleaved.csv", CSV_CURRENT, "interleaved-communication.csv", CSV_CURRENT);
    say_the_same("zero-bubble.csv", CSV_CURRENT, "zero-bubble-older.csv", CSV_OLDER);
}

/* CRLF, blanks around an action and a missing end of the last line change nothing. */
static void endings_and_blanks_do_not_matter(void)
{
    struct text text = { 0 }, crlf = { 0 };
    struct schedule a, b;
    load("zero-bubble.csv", &text);
    for (size_t i = 0; i + 1 < text.length; i++)
        text_add(&crlf, text.data[i] == '\n' ? "\r\n" : text.data[i] == ',' ? "\t , " : "%c", text.data[i]);
    if (reads(&a, &text, CSV_CURRENT, 4)) {
        if (reads(&b, &crlf, CSV_CURRENT, 4)) {
            same_schedule(&a, &b, "with CRLF and blanks");
            schedule_free(&b);
        }
        schedule_free(&a);
    }
    text_free(&text);
    text_free(&crlf);
}

static void halves_shards_overlaps_and_placement_are_read(void)
{
    struct text text = { 0 };
    struct schedule s;
    load("zero-bubble.csv", &text);
    if (reads(&s, &text, CSV_CURRENT, 4)) {
        static const struct compute start[] = { { COMPUTE_F, 1, 0 }, { COMPUTE_I, 1, 0 }, { COMPUTE_F, 1, 1 },
            { COMPUTE_I, 1, 1 }, { COMPUTE_W, 1, 0 } };
        CHECK(s.count[1] == 12 && memcmp(s.order[1], start, sizeof start) == 0, "the halves");
        schedule_free(&s);
    }
    text_free(&text);
    load("sharded.csv", &text);
    if (reads(&s, &text, CSV_CURRENT, 2)) {
        static const struct compute all[] = { { COMPUTE_F, 1, 0 }, { COMPUTE_B, 1, 0 }, { COMPUTE_F, 1, 1 },
            { COMPUTE_I, 1, 1 }, { COMPUTE_W, 1, 1 } };
        CHECK(s.count[1] == 5 && memcmp(s.order[1], all, sizeof all) == 0, "shards are left out");
        schedule_free(&s);
    }
    text_free(&text);
    load("overlapped-v.csv", &text);
    if (reads(&s, &text, CSV_CURRENT, 2)) {
        static const struct compute all[] = { { COMPUTE_F, 0, 0 }, { COMPUTE_F, 0, 1 }, { COMPUTE_F, 3, 0 },
            { COMPUTE_B, 3, 0 }, { COMPUTE_F, 3, 1 }, { COMPUTE_B, 0, 0 }, { COMPUTE_B, 3, 1 },
            { COMPUTE_B, 0, 1 } };
        static const int rank_of[] = { 0, 1, 1, 0 };
        CHECK(s.count[0] == 8 && memcmp(s.order[0], all, sizeof all) == 0, "an overlap is its two actions");
        CHECK(s.chunks == 4 && memcmp(s.rank_of, rank_of, sizeof rank_of) == 0, "the placement is the rows'");
        schedule_free(&s);
    }
    text_free(&text);
}

/* The file with its first `from` made `to`; from "": `to` is appended; to NULL: the file ends before `from`.
 */
struct variant {
    const char *file, *from, *to;
    enum csv_dialect dialect;
    int ranks, microbatches;
    const char *message; /* after "a.csv:" */
};

#define CURRENT "F B I W SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD"
#define OLDER "F BW B W SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD"
static const struct variant variants[] = {
    /* cells */
    { "interleaved.csv", "2F1,", "2F1xyz,", CSV_CURRENT, 2, 4,
        "1:4: '2F1xyz': 'xyz' after the action: must be a comma or the end of the row" },
    { "interleaved.csv", "2F1,", "F1,", CSV_CURRENT, 2, 4,
        "1:4: 'F1': must begin with the number of a stage, as 0F0 does" },
    { "interleaved.csv", "2F1,", "2F,", CSV_CURRENT, 2, 4,
        "1:4: '2F': F must have a microbatch after it, as in 2F0" },
    { "interleaved.csv", "2F1,", "2X1,", CSV_CURRENT, 2, 4,
        "1:4: '2X1': 'X' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2f1,", CSV_CURRENT, 2, 4,
        "1:4: '2f1': 'f' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2F 1,", CSV_CURRENT, 2, 4,
        "1:4: '2F 1': 'F ' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2-F1,", CSV_CURRENT, 2, 4,
        "1:4: '2-F1': '-F' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2,", CSV_CURRENT, 2, 4,
        "1:4: '2': '' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2Fx1,", CSV_CURRENT, 2, 4,
        "1:4: '2Fx1': 'Fx' after the stage is no action: must be one of " CURRENT },
    { "interleaved.csv", "2F1,", "2F0x1f,", CSV_CURRENT, 2, 4,
        "1:4: '2F0x1f': 'x1f' after the action: must be a comma or the end of the row" },
    { "interleaved.csv", "2F1,", "\"2F1\",", CSV_CURRENT, 2, 4,
        "1:4: '\"2F1\"': must begin with the number of a stage, as 0F0 does" },
    { "interleaved.csv", "2F1,", "2F99999999999999999999,", CSV_CURRENT, 2, 4,
        "1:4: '2F99999999999999999999': batch.microbatches=4 has the microbatches 0 to 3" },
    { "interleaved.csv", "2F1,", "99999999999999999999F1,", CSV_CURRENT, 2, 4,
        "1:4: '99999999999999999999F1': the number of the stage is too great: stages are numbered from 0 "
        "without gaps" },
    { "interleaved.csv", "0F0",
        "\xef\xbb\xbf"
        "0F0",
        CSV_CURRENT, 2, 4, "1:1: '\\xef\\xbb\\xbf0F0': must begin with the number of a stage, as 0F0 does" },
    { "interleaved.csv", "2F1,", "2F1\r,", CSV_CURRENT, 2, 4,
        "1:4: '2F1\\x0d': '\\x0d' after the action: must be a comma or the end of the row" },
    { "interleaved.csv", "2F1,", "2BW1,", CSV_CURRENT, 2, 4,
        "1:4: '2BW1': 'BW' after the stage is no action: must be one of " CURRENT
        "; pipeline.schedule_dialect='older' has it" },
    { "zero-bubble-older.csv", "0B0", "0I0", CSV_OLDER, 2, 4,
        "1:4: '0I0': 'I' after the stage is no action: must be one of " OLDER
        "; pipeline.schedule_dialect='current' has it" },
    { "interleaved-older.csv", "0BW0", "0REDUCE_GRAD", CSV_OLDER, 2, 4,
        "1:10: '0REDUCE_GRAD': 'REDUCE_GRAD' after the stage is no action: must be one of " OLDER
        "; pipeline.schedule_dialect='current' has it" },
    { "sharded.csv", "0RESHARD", "0RESHARD0", CSV_CURRENT, 2, 2,
        "1:10: '0RESHARD0': RESHARD has no microbatch; nearest 0RESHARD" },
    { "interleaved-communication.csv", "2RECV_F0", "2RECV_F", CSV_CURRENT, 2, 4,
        "1:5: '2RECV_F': RECV_F must have a microbatch after it, as in 2RECV_F0" },
    { "overlapped-v.csv", ")OVERLAP_F_B", ")OVERLAP", CSV_CURRENT, 2, 2,
        "1:5: '(3F1;0B0)OVERLAP': must be an F and a backward in the form (0F1;1B0)OVERLAP_F_B" },
    { "overlapped-v.csv", "(3F1;", "(3F1", CSV_CURRENT, 2, 2,
        "1:5: '(3F10B0)OVERLAP_F_B': must be an F and a backward in the form (0F1;1B0)OVERLAP_F_B" },
    { "overlapped-v.csv", "(3F1;0B0)", "(0B0;3F1)", CSV_CURRENT, 2, 2,
        "1:5: '(0B0;3F1)OVERLAP_F_B': must be an F and then a B or I, as in (0F1;1B0)OVERLAP_F_B" },
    { "overlapped-v.csv", "(3F1;0B0)", "(3B1;0B0)", CSV_CURRENT, 2, 2,
        "1:5: '(3B1;0B0)OVERLAP_F_B': must be an F and then a B or I, as in (0F1;1B0)OVERLAP_F_B" },
    { "overlapped-v.csv", "(3F1;0B0)", "(3F1;)", CSV_CURRENT, 2, 2,
        "1:5: '(3F1;)OVERLAP_F_B': must begin with the number of a stage, as 0F0 does" },
    { "overlapped-v.csv", "(3F1;0B0)", "(3F1;0B0;3B1)", CSV_CURRENT, 2, 2,
        "1:5: '(3F1;0B0;3B1)OVERLAP_F_B': ';3B1' after the action: must be a comma or the end of the row" },
    { "overlapped-v.csv", "(3F1;0B0)", "(3F1;0X0)", CSV_CURRENT, 2, 2,
        "1:5: '(3F1;0X0)OVERLAP_F_B': 'X' after the stage is no action: must be one of " CURRENT },
    { "overlapped-v.csv", "B,3B1", "Bx,3B1", CSV_CURRENT, 2, 2,
        "1:5: '(3F1;0B0)OVERLAP_F_Bx': must be an F and a backward in the form (0F1;1B0)OVERLAP_F_B" },
    { "overlapped-v.csv", "0F0", "0F0", CSV_OLDER, 2, 2,
        "1:5: '(3F1;0B0)OVERLAP_F_B': older files have no OVERLAP_F_B; pipeline.schedule_dialect='current' "
        "has it" },
    /* rows and stages */
    { "interleaved.csv", "", ",,", CSV_CURRENT, 2, 4,
        "3:1: the file has 3 rows: must be one for each of pipeline.ranks=2; nearest pipeline.ranks=3" },
    { "interleaved.csv", "", "", CSV_CURRENT, 3, 4,
        "3:1: the file has 2 rows: must be one for each of pipeline.ranks=3; nearest pipeline.ranks=2" },
    { "interleaved.csv", "", "0F9\n", CSV_CURRENT, 2, 4,
        "3:1: '0F9': batch.microbatches=4 has the microbatches 0 to 3; nearest batch.microbatches=10" },
    { "interleaved.csv", "\n,1F0", NULL, CSV_CURRENT, 2, 4,
        "2:1: the file has 1 row: must be one for each of pipeline.ranks=2; nearest pipeline.ranks=1" },
    { "interleaved.csv", "0F0", NULL, CSV_CURRENT, 2, 4,
        "1:1: the file has 0 rows: must be one for each of pipeline.ranks=2" },
    { "interleaved.csv", "1B3", "0B3", CSV_CURRENT, 2, 4,
        "2:17: 0B3: stage 0 is of row 1 already, whose cell 1 has it; a stage has one row" },
    { "interleaved.csv", "3B3,", "5B3,", CSV_CURRENT, 2, 4,
        "2:15: 5B3: no row has stage 4: stages must be numbered from 0 without gaps" },
    { "interleaved.csv", "3B3,", "2000000000B3,", CSV_CURRENT, 2, 4,
        "2:15: 2000000000B3: no row has stage 4: stages must be numbered from 0 without gaps" },
    { "zero-bubble.csv", "\n,1F0", "\n,,\n,1F0", CSV_CURRENT, 3, 4,
        "2:1: a row without actions: each rank must hold a stage" },
    /* each action once, and all of them */
    { "interleaved.csv", "2F1,", "2F0,", CSV_CURRENT, 2, 4, "1:4: 2F0: is in column 3 already" },
    { "interleaved.csv", "2F1,", ",", CSV_CURRENT, 2, 4,
        "1:19: the row ends without 2F1: batch.microbatches=4 has the microbatches 0 to 3" },
    { "interleaved.csv", "2B1,", ",", CSV_CURRENT, 2, 4, "1:19: the row ends without 2B1, or I and W" },
    { "interleaved.csv", "2B1,", "2B0,", CSV_CURRENT, 2, 4, "1:8: 2B0: is in column 6 already" },
    { "interleaved.csv", "2B1,", "2I1,", CSV_CURRENT, 2, 4,
        "1:19: the row ends without 2W1, the other half of its backward" },
    { "interleaved.csv", "2B1,", "2W1,", CSV_CURRENT, 2, 4,
        "1:19: the row ends without 2I1, the other half of its backward" },
    { "interleaved.csv", "2B1,", "2B4,", CSV_CURRENT, 2, 4,
        "1:8: '2B4': batch.microbatches=4 has the microbatches 0 to 3; nearest batch.microbatches=5" },
    { "interleaved.csv", "", "", CSV_CURRENT, 2, 5,
        "1:19: the row ends without 0F4: batch.microbatches=5 has the microbatches 0 to 4" },
    { "interleaved.csv", "", "", CSV_CURRENT, 2, 3,
        "1:7: '0F3': batch.microbatches=3 has the microbatches 0 to 2; nearest batch.microbatches=4" },
    { "zero-bubble.csv", "0W1", "", CSV_CURRENT, 2, 4,
        "1:15: the row ends without 0W1, the other half of its backward" },
    { "zero-bubble.csv", "0I1", "", CSV_CURRENT, 2, 4,
        "1:15: the row ends without 0I1, the other half of its backward" },
    { "zero-bubble.csv", "0W1", "0B1", CSV_CURRENT, 2, 4,
        "1:7: 0I1: the B in column 8 is the whole backward, and this would be done twice (to "
        "pipeline.schedule_dialect='older' B is a half)" },
    { "zero-bubble.csv", "0W1", "0I2", CSV_CURRENT, 2, 4,
        "1:15: the row ends without 0W1, the other half of its backward" },
    { "zero-bubble-older.csv", "", "", CSV_CURRENT, 2, 4,
        "1:5: 0W0: the B in column 4 is the whole backward, and this would be done twice (to "
        "pipeline.schedule_dialect='older' B is a half)" },
    { "interleaved-older.csv", "", "", CSV_CURRENT, 2, 4,
        "1:6: '2BW0': 'BW' after the stage is no action: must be one of " CURRENT
        "; pipeline.schedule_dialect='older' has it" },
    { "interleaved.csv", "", "", CSV_OLDER, 2, 4,
        "1:19: the row ends without 0W0, the other half of its backward (to "
        "pipeline.schedule_dialect='current' B is the whole)" },
    { "zero-bubble-older.csv", "0W1", "0BW1", CSV_OLDER, 2, 4,
        "1:7: 0B1: the BW in column 8 is the whole backward, and this would be done twice" },
    { "zero-bubble-older.csv", "0W1", "", CSV_OLDER, 2, 4,
        "1:15: the row ends without 0W1, the other half of its backward (to "
        "pipeline.schedule_dialect='current' B is the whole)" },
    { "interleaved-older.csv", "0BW1", "", CSV_OLDER, 2, 4, "1:19: the row ends without 0BW1, or B and W" },
    /* in an order that can be run */
    { "interleaved.csv", "0F0,0F1,2F0,2F1,0F2,2B0", "0F0,0F1,2B0,2F1,0F2,2F0", CSV_CURRENT, 2, 4,
        "1:3: 2B0: must come after 2F0, which is in column 6" },
    { "zero-bubble.csv", "0I0,0W0", "0W0,0I0", CSV_CURRENT, 2, 4,
        "1:4: 0W0: must come after 0I0, which is in column 5" },
    { "interleaved-communication.csv", "2RECV_F0,2F0", "2F0,2RECV_F0", CSV_CURRENT, 2, 4,
        "1:5: 2F0: must come after 2RECV_F0, which is in column 6" },
    { "interleaved-communication.csv", "0F0,0SEND_F0", "0SEND_F0,0F0", CSV_CURRENT, 2, 4,
        "1:1: 0SEND_F0: must come after 0F0, which is in column 2" },
    { "interleaved-communication.csv", "2RECV_B0,2B0", "2B0,2RECV_B0", CSV_CURRENT, 2, 4,
        "1:13: 2B0: must come after 2RECV_B0, which is in column 14" },
    { "interleaved-communication.csv", "2B0,2SEND_B0", "2SEND_B0,2B0", CSV_CURRENT, 2, 4,
        "1:14: 2SEND_B0: must come after 2B0, which is in column 15" },
    { "zero-bubble.csv", "1F0,1I0", "1I0,1F0", CSV_CURRENT, 2, 4,
        "2:2: 1I0: must come after 1F0, which is in column 3" },
    { "sharded.csv", "0RECV_B1,0B1", "0I1,0RECV_B1,0W1", CSV_CURRENT, 2, 2,
        "1:8: 0I1: must come after 0RECV_B1, which is in column 9" },
    { "sharded.csv", "1I1,1SEND_B1", "1SEND_B1,1I1", CSV_CURRENT, 2, 2,
        "2:10: 1SEND_B1: must come after 1I1, which is in column 11" },
    /* sends and receives */
    { "interleaved-communication.csv", "2RECV_F0,", "", CSV_CURRENT, 2, 4,
        "1:40: the row ends without 2RECV_F0: a message must be sent and received" },
    { "interleaved-communication.csv", "0SEND_F0,", "", CSV_CURRENT, 2, 4,
        "1:40: the row ends without 0SEND_F0: a message must be sent and received" },
    { "interleaved-communication.csv", "2SEND_B3,", "", CSV_CURRENT, 2, 4,
        "1:40: the row ends without 2SEND_B3: a message must be sent and received" },
    { "interleaved-communication.csv", "0RECV_B3,", "", CSV_CURRENT, 2, 4,
        "1:40: the row ends without 0RECV_B3: a message must be sent and received" },
    { "interleaved-communication.csv", "0F1", "0F1,0SEND_F0", CSV_CURRENT, 2, 4,
        "1:4: 0SEND_F0: is in column 2 already" },
    { "interleaved-communication.csv", "1F1", "0RECV_F0", CSV_CURRENT, 2, 4,
        "2:5: 0RECV_F0: stage 0 is of row 1 already, whose cell 1 has it; a stage has one row" },
    { "interleaved-communication.csv", "0F1", "0RECV_F1,0F1", CSV_CURRENT, 2, 4,
        "1:3: 0RECV_F1: stage 0 is the first: it has no such message" },
    { "interleaved-communication.csv", "3F1", "3F1,3SEND_F1", CSV_CURRENT, 2, 4,
        "2:13: 3SEND_F1: stage 3 is the last: it has no such message" },
    { "interleaved-communication.csv", "2F1", "2F1,", CSV_CURRENT, 2, 4,
        "1:10: an empty cell: a file with sends, receives or shards has no idle steps" },
    { "overlapped-v.csv", "3F0,", "3F0,3SEND_B0,", CSV_CURRENT, 2, 2,
        "1:9: the row ends without 0SEND_F0: a message must be sent and received" },
    { "v-communication.csv", "1F0,2F0", "1F0,1SEND_F0,2F0", CSV_CURRENT, 2, 2,
        "2:3: 1SEND_F0: stages 1 and 2 are both of row 2: what one rank hands to itself is no message" },
    { "v-communication.csv", "2B0,", "2B0,2SEND_B0,", CSV_CURRENT, 2, 2,
        "2:11: 2SEND_B0: stages 2 and 1 are both of row 2: what one rank hands to itself is no message" },
    { "interleaved-communication.csv", "2RECV_F0,2F0,2SEND_F0,2RECV_F1", "2RECV_F1,2RECV_F0,2F0,2SEND_F0",
        CSV_CURRENT, 2, 4,
        "1:5: 2RECV_F1: takes the message of 1SEND_F0 (row 2, column 3), which rank 1 sends rank 0 at this "
        "place" },
    { "interleaved-communication.csv", "1RECV_F0,1F0,1SEND_F0,1RECV_F1", "1RECV_F1,1RECV_F0,1F0,1SEND_F0",
        CSV_CURRENT, 2, 4,
        "2:1: 1RECV_F1: takes the message of 0SEND_F0 (row 1, column 2), which rank 0 sends rank 1 at this "
        "place" },
    { "interleaved-communication.csv", "0RECV_B0,0B0,2RECV_F3,2F3,2SEND_F3,0RECV_B1",
        "0RECV_B1,0RECV_B0,0B0,2RECV_F3,2F3,2SEND_F3", CSV_CURRENT, 2, 4,
        "1:24: 0RECV_B1: takes the message of 1SEND_B0 (row 2, column 20), which rank 1 sends rank 0 at this "
        "place" },
    /* shards */
    { "sharded.csv", "0UNSHARD", "0UNSHARD,0UNSHARD", CSV_CURRENT, 2, 2,
        "1:2: 0UNSHARD: its stage is unsharded already" },
    { "sharded.csv", "0UNSHARD,0F0", "0F0,0UNSHARD", CSV_CURRENT, 2, 2,
        "1:2: 0UNSHARD: must come before the first compute of its stage" },
    { "sharded.csv", "0RESHARD", "0RESHARD,0RESHARD", CSV_CURRENT, 2, 2,
        "1:11: 0RESHARD: must come after an UNSHARD of its stage" },
    { "sharded.csv", "1RESHARD,1UNSHARD,", "1RESHARD,", CSV_CURRENT, 2, 2,
        "2:8: 1F1: must come after an UNSHARD of its stage: a RESHARD is before it" },
    { "sharded.csv", "0UNSHARD,", "", CSV_CURRENT, 2, 2,
        "1:9: 0RESHARD: must come after an UNSHARD of its stage" },
    { "sharded.csv", "0B1,0RESHARD,0REDUCE_GRAD", "0REDUCE_GRAD,0B1,0RESHARD", CSV_CURRENT, 2, 2,
        "1:9: 0REDUCE_GRAD: must come after all backwards of its stage" },
    { "sharded.csv", "0REDUCE_GRAD", "0REDUCE_GRAD,0REDUCE_GRAD", CSV_CURRENT, 2, 2,
        "1:12: 0REDUCE_GRAD: must be once a stage, and is in its row already" },
    { "sharded.csv", "0F1", "", CSV_CURRENT, 2, 2,
        "1:4: an empty cell: a file with sends, receives or shards has no idle steps" },

};

static void broken_files_are_refused(void)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const struct variant *v = &variants[i];
        struct text whole = { 0 }, text = { 0 }, error = { 0 };
        struct schedule schedule;
        load(v->file, &whole);
        const char *at = *v->from ? strstr(whole.data, v->from) : whole.data + whole.length;
        if (!at) fail("%s has no '%s'", v->file, v->from);
        text_add(&text, "%.*s%s%s", (int)(at - whole.data), whole.data, v->to ? v->to : "",
            v->to ? at + strlen(v->from) : "");
        /* A copy of the exact size, so that a sanitizer sees a byte read beyond it. */
        char *exact = malloc(text.length + !text.length);
        memcpy(exact, text.data, text.length);
        const bool read = schedule_read_csv(
            &schedule, "a.csv", exact, text.length, v->dialect, v->ranks, v->microbatches, &error);
        CHECK(!read, "%s with '%s' for '%s' was read", v->file, v->to ? v->to : "the end", v->from);
        if (read) schedule_free(&schedule);
        CHECK(!read && strncmp(error.data, "a.csv:", 6) == 0 && strcmp(error.data + 6, v->message) == 0,
            "%s with '%s' for '%s': said\n    %s\n  and not\n    a.csv:%s", v->file,
            v->to ? v->to : "the end", v->from, read ? "nothing" : error.data, v->message);
        free(exact);
        text_free(&whole);
        text_free(&text);
        text_free(&error);
    }
}

/* A byte changed anywhere is read or refused in one line with a place, and never more. */
static void no_text_crashes_the_reader(void)
{
    static const char *const files[] = { "interleaved-communication.csv", "sharded.csv", "overlapped-v.csv" };
    static const char likely[] = "0123456789FBIWSENDRCV_(;),, \r\n\"\xff";
    unsigned long long state = 1;
    unsigned long read = 0, refused = 0;
    for (int round = 0; round < 6000; round++) {
        struct text text = { 0 }, error = { 0 };
        struct schedule schedule;
        load(files[round % 3], &text);
        for (int change = 0; change <= round % 4; change++) {
            state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
            text.data[(state >> 33) % text.length] = likely[(state >> 17) % (sizeof likely - 1)];
        }
        if (schedule_read_csv(&schedule, "a.csv", text.data, text.length, round % 5 ? CSV_CURRENT : CSV_OLDER,
                2, round % 3 ? 2 : 4, &error)) {
            read++;
            schedule_free(&schedule);
            CHECK(error.length == 0, "read, and yet: %s", error.data);
        } else {
            refused++;
            int row = 0, column = 0;
            CHECK(error.length && sscanf(error.data, "a.csv:%d:%d: ", &row, &column) == 2 && row > 0 &&
                      column > 0,
                "no place: %s", error.length ? error.data : "nothing");
            CHECK(error.length && !strchr(error.data, '\n') && error.length < 400, "not one line");
        }
        text_free(&text);
        text_free(&error);
    }
    CHECK(read > 10 && refused > 1000, "%lu read, %lu refused", read, refused);
}

int main(int count, char **argument)
{
    if (count != 2) fail("usage: test_csv FOLDER");
    folder = argument[1];
    files_say_what_their_generator_makes();
    endings_and_blanks_do_not_matter();
    halves_shards_overlaps_and_placement_are_read();
    broken_files_are_refused();
    no_text_crashes_the_reader();
    return check_result();
}
