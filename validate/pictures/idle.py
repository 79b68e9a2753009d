"""Why each rank's compute stood still in each step: what the timeline's slices say, from the files of the ranks.

A gap before an action, and the one before the step's end, is cut into, in this order:
bubble: the schedule implies it: the input was not made yet, for as long as the plan stands still there;
late input: nor was it after that: the rank that makes it was late;
other: compute need not have waited: the host between two actions, or the end of a step;
message wait: exposed communication: the input was made but not here, or the way for the output was not free."""

import numpy

CAUSES = ("bubble", "late input", "other", "message wait")


class Steps:
    """The bounds of the steps whose actions are kept: [steps] seconds on rank 0's clock."""

    def __init__(self, run):
        ranks = run.ranks.values()
        first = max(rank.first_step for rank in ranks)
        records = [rank.steps[first:] for rank in ranks]
        self.number, self.timed = records[0]["step"], records[0]["timed"] != 0
        self.begin = numpy.min([steps["start"] for steps in records], axis=0)
        self.end = numpy.max([steps["start"] + steps["seconds"] for steps in records], axis=0)
        self.seconds = numpy.max([steps["seconds"] for steps in records], axis=0)


def outputs(run, steps):
    """When each output was made, and on which rank: [steps][F, or B and I][chunk][microbatch]."""
    shape = (len(steps.number), 2, run.result["ranks"] * run.result["chunks_per_rank"], run.result["model"]["microbatches"])
    end, maker = numpy.full(shape, -numpy.inf), numpy.full(shape[1:], -1)
    for rank in run.ranks.values():
        of_step = rank.actions[0]
        makes = of_step["kind"] != 3  # a W's output stays on its rank
        at = (of_step["kind"] != 0).astype(int)[makes], of_step["chunk"][makes], of_step["microbatch"][makes]
        end[(slice(None), *at)] = rank.actions["end"][:, makes]
        maker[at] = rank.number
    return end, maker


def cuts(run, steps, rank, end, maker):
    """[steps][computes + 1][5]: cause i of a gap lies from cut i to cut i + 1."""
    of_step = rank.actions[0]
    computes, chunks = len(of_step), end.shape[2]
    backward = (of_step["kind"] != 0).astype(int)
    source = of_step["chunk"] + numpy.where(backward, 1, -1)
    has_input = (of_step["kind"] != 3) & (source >= 0) & (source < chunks)
    source = numpy.where(has_input, source, 0)
    elsewhere = has_input & (maker[backward, source, of_step["microbatch"]] != rank.number)

    start, stop = rank.actions["start"], numpy.maximum.accumulate(rank.actions["end"], axis=1)
    gap_from = numpy.concatenate([steps.begin[:, None], stop], axis=1)
    gap_to = numpy.maximum(numpy.concatenate([start, steps.end[:, None]], axis=1), gap_from)
    made = numpy.full(gap_from.shape, -numpy.inf)
    made[:, :computes] = numpy.where(elsewhere, end[:, backward, source, of_step["microbatch"]], -numpy.inf)
    made[:, computes] = last_end(run)
    made = numpy.clip(made, gap_from, gap_to)
    waited = numpy.zeros(gap_from.shape)
    waited[:, :computes] = numpy.maximum(rank.actions["waited"], 0)
    planned_from = numpy.concatenate([[0], rank.planned["end"]])
    planned_to = numpy.concatenate([rank.planned["start"], [makespan(run)]])
    planned = numpy.maximum(planned_to - planned_from, 0)
    return numpy.stack(
        [gap_from, numpy.minimum(gap_from + planned, made), made, numpy.maximum(made, gap_to - waited), gap_to], axis=-1
    )


def makespan(run):
    """Seconds of the planned step."""
    return max(rank.planned["end"].max() for rank in run.ranks.values())


def last_end(run):
    return numpy.max([rank.actions["end"].max(axis=1) for rank in run.ranks.values()], axis=0)


class Idle:
    """cuts: {rank: [steps][computes + 1][5]}; of the timed steps' mean, seconds: busy {rank}, idle {rank: [causes]}."""

    def __init__(self, run):
        self.steps = steps = Steps(run)
        end, maker = outputs(run, steps)
        self.cuts = {number: cuts(run, steps, rank, end, maker) for number, rank in run.ranks.items()}
        self.makespan = makespan(run)
        self.step = (steps.end - steps.begin)[steps.timed].mean()
        self.busy = {
            number: (rank.actions["end"] - rank.actions["start"])[steps.timed].sum(axis=1).mean()
            for number, rank in run.ranks.items()
        }
        self.idle = {
            number: numpy.diff(of_rank[steps.timed], axis=-1).sum(axis=1).mean(axis=0) for number, of_rank in self.cuts.items()
        }

    def median_step(self):
        """The index of the timed step nearest to the median."""
        timed = numpy.flatnonzero(self.steps.timed)
        seconds = self.steps.seconds[timed]
        return int(timed[numpy.argmin(numpy.abs(seconds - numpy.median(seconds)))])

    def planned_idle(self, number):
        """Seconds that the plan has a rank idle, its compute times being the measured means."""
        return self.makespan - self.busy[number]
