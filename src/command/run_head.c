#include "command/run_state.h"
#include "base/cpus.h"
#include "command/show.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* All ranks' places on all ranks, this rank's being *mine: those of all pipelines, which may share hosts. */
static void exchange_places(struct run *run, const struct place *mine)
{
    const size_t size = (size_t)run->world.size;
    struct place *gathered = job_gather(&run->world, mine, sizeof *mine, NULL, NULL);
    if (!run->all_places) run->all_places = allocate(size, sizeof *run->all_places);
    run->places = run->all_places + (size_t)run->job.part * (size_t)run->job.size;
    if (gathered) memcpy(run->all_places, gathered, size * sizeof *run->all_places);
    free(gathered);
    job_broadcast(&run->world, run->all_places, size * sizeof *run->all_places, 0);
}

/* Threads of a rank where neither the deck nor OMP_NUM_THREADS says: its mask's CPUs, shared with the ranks
 * that have the same mask. */
static int fair_threads(const struct run *run)
{
    const struct place *mine = &run->all_places[run->world.rank];
    int sharing = 0;
    for (int r = 0; r < run->world.size; r++)
        sharing += strcmp(run->all_places[r].host, mine->host) == 0 &&
                   CPU_EQUAL(&run->all_places[r].cpus, &mine->cpus);
    const int threads = CPU_COUNT(&mine->cpus) / (sharing > 0 ? sharing : 1);
    return threads > 0 ? threads : 1;
}

static bool host_oversubscribed(const struct run *run, const char *host)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    int threads = 0;
    for (int r = 0; r < run->world.size; r++)
        if (strcmp(run->all_places[r].host, host) == 0) {
            CPU_OR(&all, &all, &run->all_places[r].cpus);
            threads += run->all_places[r].threads;
        }
    return threads > CPU_COUNT(&all);
}

void share_processors(struct run *run)
{
    struct place mine = { .planned = (double)run->planned.total };
    snprintf(mine.host, sizeof mine.host, "%s", run->job.host);
    process_cpus(&mine.cpus);
    exchange_places(run, &mine);
    run->threads = run->rehearses ? 1 : setup_threads(&run->deck, fair_threads(run));
    for (int r = 0; r < run->world.size; r++)
        if (strcmp(run->all_places[r].host, mine.host) == 0)
            run->planned_on_host += run->all_places[r].planned;
}

void compare_places(struct run *run)
{
    const struct device *device = run->device;
    struct place mine = run->places[run->job.rank];
    run->threads = mine.threads = device->threads;
    snprintf(mine.device, sizeof mine.device, "%s", device->name);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", device->uuid);
    snprintf(mine.where, sizeof mine.where, "%s", device->place);
    if (device->is_host && !run->rehearses) team_cpus(device->threads, &mine.cpus);
    exchange_places(run, &mine);
    const struct place *all = run->all_places;
    if (run->rehearses) return; /* where every rank sleeps no CPU is short */
    for (int r = 0; r < run->world.size; r++) {
        const bool new_host = r == 0 || strcmp(all[r].host, all[r - 1].host) != 0;
        run->oversubscribed = run->oversubscribed || (new_host && host_oversubscribed(run, all[r].host));
        for (int other = 0; other < r && all[r].uuid[0]; other++)
            run->shared_gpu = run->shared_gpu || strcmp(all[r].uuid, all[other].uuid) == 0;
    }
}

void measure_rates(struct run *run)
{
    struct place mine = run->places[run->job.rank];
    struct device *device = run->device;
    mine.peak = mine.copy_rate = NAN;
    const int turns = (int)job_max(&run->world, run->world.host_ranks);
    for (int turn = 0; turn < turns && !run->oversubscribed; turn++) {
        if (run->world.host_rank == turn) {
            mine.peak = device->measure_peak(device);
            if (!device->is_host) mine.copy_rate = device->measure_copy(device);
        }
        job_barrier(&run->world);
    }
    run->peak = mine.peak;
    exchange_places(run, &mine);
}

void measure_beside(struct run *run, int step)
{
    if (!run->peaks) return;
    const double before = step > 1 ? run->records[step - 2].seconds : 0.0;
    const double seconds = fmin(0.02, fmax(0.0002, before / 50));
    run->peaks[step - (int)run->deck.run.warmup_steps - 1] = run->device->measure_now(run->device, seconds);
}

void prepare_directory(struct run *run)
{
    many_prepare(run);
    if (run->job.rank == 0) {
        directory_prepare(run->deck.output.directory, "recheck.json"); /* of an earlier run's files */
        directory_prepare(run->deck.output.directory, "result.json");
    }
    identity_card_fill(&run->card, &run->deck, &run->model, "run", run->job.library);
    job_broadcast(&run->job, run->card.run_id, sizeof run->card.run_id, 0);
    struct facts *facts = &run->card.facts;
    facts->host = run->job.host;
    facts->device = run->device->name;
    facts->device_uuid = run->device->uuid;
    facts->ranks = run->job.size;
    facts->rank = run->job.rank;
    facts->chunks_per_rank = (int)run->deck.pipeline.chunks_per_rank;
    facts->threads = run->threads;
    facts->rank_of_layer = run->rank_of_layer;
    run->listing.speaks = run->job.rank == 0;
    run->listing.only_kept = run->deck.run.quiet || run->many != NULL;
    run->outcome = (struct outcome){ .verdict = NOT_PERFORMED,
        .code = EXIT_FAILED,
        .injected = run->injection.active,
        .fom = NAN,
        .step = NAN,
        .bubble = NAN,
        .wrong_rank = -1 };
    snprintf(run->outcome.run_id, sizeof run->outcome.run_id, "%s", run->card.run_id);
    if (run->job.rank == 0) write_result(run);
}

/* Where each rank is and what it has there, for whoever hunts one. */
static void print_places(struct run *run)
{
    struct listing *out = &run->listing;
    listing_banner_differs(out, "ranks");
    listing_print(out, "%6s %-27s %7s  %-20s %s\n", "rank", "host", "threads", "CPUs", "device");
    for (int r = 0; r < run->job.size; r++) {
        const struct place *place = &run->places[r];
        char host[28], cpus[21], device[36], where[88];
        struct text list = { 0 };
        cpu_set_text(&place->cpus, &list);
        listing_print(out, "%6d %-27s %7d  %-20s %s\n", r, cut_text(place->host, sizeof host - 1, host),
            place->threads, cut_text(list.data ? list.data : "", sizeof cpus - 1, cpus),
            cut_text(place->device, sizeof device - 1, device));
        text_free(&list);
        if (!place->uuid[0]) continue;
        struct text gpu = { 0 };
        text_add(&gpu, "%s at %s", place->uuid, place->where);
        listing_print(out, "%6s %s\n", "", cut_text(gpu.data, sizeof where - 1, where));
        text_free(&gpu);
    }
    if (run->shared_gpu)
        listing_line(
            out, 8, "SHARED: ranks share a GPU; times and shares of peak are not those of a GPU a rank");
    if (run->oversubscribed)
        listing_line(out, 16,
            "OVERSUBSCRIBED: more threads than CPUs in the ranks' affinity masks; shares of peak are NOT "
            "MEASURED");
}

/* What each rank computes. */
static void print_partition(struct run *run)
{
    struct listing *out = &run->listing;
    listing_banner(out, "chunks and layers of the ranks");
    listing_print(out, "%6s %12s  %-24s | %s\n", "rank", "memory", "chunks (from 0)", "layers (from 1)");
    for (int r = 0; r < run->job.size; r++) {
        struct text chunks = { 0 }, layers = { 0 };
        char bytes[32];
        show_chunks(&run->program, r, &chunks);
        show_layers(&run->partition, &run->program, r, &layers);
        listing_line(out, 21, "%6d %12s  %-24s | %s", r, bytes_text(run->places[r].planned, bytes),
            chunks.data, layers.data);
        text_free(&chunks);
        text_free(&layers);
    }
}

static void print_plan(struct run *run)
{
    struct listing *out = &run->listing;
    const struct memory_plan *plan = &run->planned;
    char bytes[32];
    listing_banner(out, "plan");
    show_schedule(out, &run->deck, &run->model, &run->partition, &run->program);
    if (run->rehearses)
        listing_print(out, "%-28s %d, none allocated (rank 0)\n", "activation slots", plan->slot_count);
    else
        listing_print(out, "%-28s %d of %s (rank 0)\n", "activation slots", plan->slot_count,
            bytes_text((double)plan->slot_bytes, bytes));
    listing_print(out, "%-28s %s (rank 0)\n", "channel buffers", bytes_text((double)plan->buffers, bytes));
    struct text lines = { 0 };
    channels_describe(run->channels, &lines);
    if (lines.length) listing_block(out, lines.data);
    text_free(&lines);
    listing_print(out, "%-28s %s\n", "overlap", run->deck.pipeline.overlap ? "on" : "off");
    listing_print(out, "%-28s %d warm-up, %d timed, 1 recorded (step %d)\n", "steps",
        (int)run->deck.run.warmup_steps, (int)run->deck.run.steps, run->steps);
}

void print_head(struct run *run)
{
    struct listing *out = &run->listing;
    if (run->many) many_print_head(run);
    if (!out->speaks) return;
    listing_print(
        out, "Pipeleaf %s (%s): run of %s\n", pipeleaf_version, pipeleaf_commit, run->words.deck_path);
    if (run->many)
        listing_print(out, "pipeline  %d of %d side by side, on ranks %d to %d of the job\n", run->job.part,
            run->job.parts, run->world.rank, run->world.rank + run->job.size - 1);
    if (run->injection.active) listing_line(out, 10, "INJECTED  %s", run->words.inject);
    if (run->rehearses)
        listing_line(out, 11,
            "REHEARSAL: nothing is computed; every action waits for the time that %s gives it, every message "
            "is stamped and checked",
            run->words.from ? run->words.from : "&machine");
    show_build(out, &run->card);
    listing_banner(out, "effective deck");
    listing_verbatim(out, run->card.deck.data);
    print_partition(run);
    print_plan(run);
    listing_banner_differs(out, "this run");
    listing_print(out, "%-28s %s\n", "run id", run->card.run_id);
    print_places(run);
}
