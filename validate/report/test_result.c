/* result.json, the timeline, the run id, and the directory before a run. Leaves files in DIRECTORY (the
   argument) for a JSON reader to read. */
#include "../check.h"
#include "made.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void touch(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file) fail("a test cannot write '%s'", path);
    fputs(text, file);
    fclose(file);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void only_what_was_listed_is_removed(void)
{
    const char *d = fresh_directory("prepared");
    const struct making run = usual(d, "run");
    make_output(&run);
    touch(in(d, "notes.txt"), "mine");
    touch(in(d, "rank00001.h5.part"), "half");
    directory_prepare(d, "result.json");
    CHECK(!there(in(d, "rank00000.h5")) && !there(in(d, "rank00001.h5")) && !there(in(d, "run.h5")) &&
              !there(in(d, "digest.txt")),
        "listed files");
    CHECK(
        !there(in(d, "result.json")) && !there(in(d, "rank00001.h5.part")), "the list, and the half-written");
    CHECK(there(in(d, "notes.txt")), "what was not listed stays");
    directory_prepare("prepared/a/b//c/", "result.json");
    CHECK(there("prepared/a/b/c"), "parents are made");
    directory_prepare("prepared/a/b/c", "result.json");
}

static void prepare(void *context)
{
    directory_prepare(context, "result.json");
}

static void refused(const char *directory, const char *words)
{
    char place[256];
    snprintf(place, sizeof place, "%s", directory);
    struct ended ended = run_apart(prepare, place);
    CHECK(ended.code == EXIT_FAILED && strstr(ended.said, words), "exit %d: %s", ended.code, ended.said);
    free(ended.said);
}

static void nothing_outside_is_touched(void)
{
    const char *d = fresh_directory("guarded");
    const char *const names[] = { "../victim", "/tmp/victim", "sub/victim", "..", ".", "" };
    touch("victim", "dear");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char json[300];
        snprintf(json, sizeof json, "{\"format\":\"pipeleaf result\",\"files\":[\"good\",\"%s\"]}", names[i]);
        touch(in(d, "result.json"), json);
        touch(in(d, "good"), "");
        refused(d, "not the name of a file in this directory");
        CHECK(there(in(d, "good")) && there("victim"), "nothing is removed for '%s'", names[i]);
    }
    touch(in(d, "result.json"), "{\"format\":\"pipeleaf result\",\"files\":[7]}");
    refused(d, "not the name of a file");
    touch(in(d, "result.json"), "{\"files\":[\"good\"]}");
    refused(d, "was not written by pipeleaf");
    touch(in(d, "result.json"), "{\"format\":\"another\",\"files\":[\"good\"]}");
    refused(d, "was not written by pipeleaf");
    touch(in(d, "result.json"), "half of a fi");
    refused(d, "was not written by pipeleaf");
    CHECK(there(in(d, "good")), "nothing is removed");
    /* A link is removed, not what it leads to. */
    touch(in(d, "result.json"), "{\"format\":\"pipeleaf result\",\"files\":[\"link\"]}");
    CHECK(symlink("../victim", in(d, "link")) == 0, "a link");
    directory_prepare(d, "result.json");
    CHECK(there("victim") && !there(in(d, "link")), "the link alone");
    touch("plain_file", "");
    refused("plain_file", "no directory");
    refused("plain_file/below", "cannot create directory");
    refused("", "must name a directory");
}

/* A job of two pipelines: both are emptied of what their own lists name; what is left keeps its directory. */
static void pipelines_are_removed_as_listed(void)
{
    const char *d = fresh_directory("job");
    static const char list[] = "{\"format\":\"pipeleaf result\",\"files\":[\"listing.txt\",\"result.json\"],"
                               "\"directories\":[\"pipeline0000\",\"pipeline0001\",\"pipeline0002\"]}";
    static const char below[] = "{\"format\":\"pipeleaf result\",\"files\":[\"run.h5\",\"result.json\"],"
                                "\"directories\":[\"deeper\"]}";
    CHECK(!mkdir(in(d, "pipeline0000"), 0777) && !mkdir(in(d, "pipeline0001"), 0777) &&
              !mkdir(in(d, "pipeline0000/deeper"), 0777) && !mkdir(in(d, "pipeline0009"), 0777),
        "directories");
    touch(in(d, "result.json"), list);
    touch(in(d, "listing.txt"), "");
    for (int k = 0; k < 2; k++) {
        touch(in(d, k ? "pipeline0001/result.json" : "pipeline0000/result.json"), below);
        touch(in(d, k ? "pipeline0001/run.h5" : "pipeline0000/run.h5"), "");
    }
    touch(in(d, "pipeline0000/deeper/result.json"), below);
    touch(in(d, "pipeline0001/run.h5.part"), "half");
    directory_prepare(d, "result.json");
    CHECK(!there(in(d, "pipeline0001")), "a pipeline's directory goes with its files");
    CHECK(!there(in(d, "pipeline0000/run.h5")) && !there(in(d, "pipeline0000/result.json")), "its files go");
    CHECK(there(in(d, "pipeline0000/deeper/result.json")), "a list below is not followed further");
    CHECK(there(in(d, "pipeline0009")), "a directory that was not listed stays");
    CHECK(!there(in(d, "result.json")) && !there(in(d, "listing.txt")), "and what is the job's own");

    touch(in(d, "result.json"),
        "{\"format\":\"pipeleaf result\",\"files\":[],\"directories\":[\"../victims\"]}");
    mkdir("victims", 0777);
    touch("victims/result.json", below);
    touch("victims/run.h5", "");
    refused(d, "not the name of a file in this directory");
    CHECK(there("victims/run.h5"), "nothing outside is touched");
}

static void run_ids_differ(void)
{
    char id[100][80];
    for (int i = 0; i < 100; i++) {
        run_id_make(id[i]);
        CHECK(strlen(id[i]) > 20 && !strpbrk(id[i], " /\n"), "%s", id[i]);
        for (int j = 0; j < i; j++) CHECK(strcmp(id[i], id[j]), "%s twice", id[i]);
    }
}

static struct transfer_record transfer(
    int channel, bool is_send, int microbatch, double posted, double complete)
{
    return (struct transfer_record){ .step = 1,
        .channel = channel,
        .is_send = is_send,
        .chunk = channel,
        .microbatch = microbatch,
        .posted = posted,
        .complete = complete };
}

/* Two ranks, two channels, one step from 100 to 103.25, planned to take 2.5. Rank 1's first wait is said to
 * be longer than its gap; rank 0 waited only at the end of its own; the receive was posted early, the second
 * message before the first was complete, and the third of channel 0 arrived before it was sent. */
static void write_timeline(const char *d)
{
    const struct making run = usual(d, "run");
    const struct facts facts = facts_of(&run, -1);
    const struct action_record first[] = { { 1, COMPUTE_F, 0, 0, 100.0, 100.5, 0.0 },
        { 1, COMPUTE_F, 0, 1, 100.5, 101.0, 0.0 }, { 1, COMPUTE_B, 0, 0, 102.5, 103.0, 0.25 } };
    const struct action_record second[] = { { 1, COMPUTE_F, 1, 0, 100.75, 101.25, 1.75 },
        { 1, COMPUTE_B, 1, 0, 101.25, 102.0, 0.0 } };
    const struct planned_record first_planned[] = { { COMPUTE_F, 0, 0, 0, 0.0, 0.5 },
        { COMPUTE_F, 0, 1, 1, 0.5, 1.0 }, { COMPUTE_B, 0, 0, 0, 1.625, 2.125 } };
    const struct planned_record second_planned[] = { { COMPUTE_F, 1, 0, 0, 0.5, 1.0 },
        { COMPUTE_B, 1, 0, 0, 1.0, 1.75 } };
    const struct step_record first_step = { .step = 1, .timed = 1, .start = 100.0, .seconds = 3.25 },
                             second_step = { .step = 1, .timed = 1, .start = 100.125, .seconds = 3.0 };
    const struct transfer_record of_first[] = { transfer(0, true, 0, 100.5, 100.7),
        transfer(0, true, 1, 100.6, 101.2), transfer(0, true, 2, 102.5, 102.5),
        transfer(1, false, 0, 100.0, 102.25) };
    const struct transfer_record of_second[] = { transfer(0, false, 0, 100.0, 100.75),
        transfer(0, false, 1, 100.0, 101.25), transfer(0, false, 2, 102.25, 102.375),
        transfer(1, true, 0, 102.0, 102.25) };
    const struct rank_trace traces[] = { { 0, "node \"1\"", "host", &first_step, first_planned, first, 3,
                                             of_first, 4 },
        { 1, "node2", "host", &second_step, second_planned, second, 2, of_second, 4 } };
    const struct channel_plan channels[] = { { CHANNEL_ACTIVATION, 0, 1, false, 3, 2, 2 },
        { CHANNEL_GRADIENT, 1, 0, false, 1, 2, 2 } };
    const struct timeline timeline = { .facts = &facts,
        .ranks = traces,
        .rank_count = 2,
        .steps = 1,
        .chunks = 2,
        .microbatches = 2,
        .makespan = 2.5,
        .channels = channels,
        .channel_count = 2,
        .message_bytes = 64 };
    timeline_write(in(d, "timeline.json"), &timeline);
    CHECK(there(in(d, "timeline.json")) && !there(in(d, "timeline.json.part")), "written and renamed");
}

int main(int argc, char **argv)
{
    only_what_was_listed_is_removed();
    nothing_outside_is_touched();
    pipelines_are_removed_as_listed();
    run_ids_differ();
    const char *d = fresh_directory(argc > 1 ? argv[1] : "results");
    const struct making run = usual(d, "run");
    make_output(&run);
    write_timeline(d);
    return check_result();
}
