"""A run's timeline.json as actions and messages, and the step they would make: who waits for whom, with what costs."""
import collections
import json

Action = collections.namedtuple("Action", "rank kind chunk microbatch start end waited")  # seconds


class Step:
    """One step: every rank's actions in their order, and when each message had arrived at the action that takes it."""

    def __init__(self):
        self.actions = collections.defaultdict(list)  # rank -> [Action]
        self.arrival = {}  # (kind, chunk, microbatch) of the taker -> seconds

    def seconds(self):
        return {(a.kind, a.chunk, a.microbatch): a.end - a.start for rank in self.actions.values() for a in rank}

    def order(self):
        return {rank: [(a.kind, a.chunk, a.microbatch) for a in actions] for rank, actions in self.actions.items()}

    def delays(self):
        """From the end of each action to the arrival of its output at the rank that takes it."""
        end = {(a.kind, a.chunk, a.microbatch): a.end for rank in self.actions.values() for a in rank}
        last = max(chunk for _, chunk, _ in end)
        return {taker: max(0.0, at - end[source(taker, last)]) for taker, at in self.arrival.items()}


def source(action, last):
    """What must be computed before the action: (kind, chunk, microbatch), or None."""
    kind, chunk, microbatch = action
    if kind == "F":
        return ("F", chunk - 1, microbatch) if chunk > 0 else None
    return ("B", chunk + 1, microbatch) if chunk < last else ("F", last, microbatch)


def read(path):
    """{step: Step} of a timeline.json whose program has whole backward passes."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    gradients = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and "gradients" in e["args"]["name"]}
    steps = collections.defaultdict(Step)
    for e in events:
        if e.get("cat") == "compute":
            about = e["args"]
            steps[about["step"]].actions[e["pid"]].append(Action(
                e["pid"], about["kind"], about["chunk"], about["microbatch"], e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6,
                about["waited"] * 1e-6))
        elif e.get("cat") == "transfer" and e["name"].startswith("receive"):
            words = e["name"].split()
            kind = "B" if (e["pid"], e["tid"]) in gradients else "F"
            steps[e["args"]["step"]].arrival[kind, int(words[2]), int(words[4])] = (e["ts"] + e["dur"]) * 1e-6
    for step in steps.values():
        for actions in step.actions.values():
            actions.sort(key=lambda action: action.start)
    return dict(steps)


def simulate(order, seconds, delay=lambda taker: 0.0, transfer=None):
    """Seconds of a step. order: rank -> its actions; seconds: action -> its time; delay: of the message that an action takes.

    transfer: instead of delays, the seconds that a message keeps the wire between two ranks; each direction is one wire,
    which carries messages in the order in which they were made."""
    last = max(chunk for actions in order.values() for _, chunk, _ in actions)
    rank_of = {action: rank for rank, actions in order.items() for action in actions}
    taker_of = {}
    for action in rank_of:
        maker = source(action, last)
        if maker and rank_of[maker] != rank_of[action]:
            taker_of[maker] = action
    end, arrival, wire = {}, {}, collections.defaultdict(float)
    clock, position = dict.fromkeys(order, 0.0), dict.fromkeys(order, 0)
    moved = True
    while moved:
        moved = False
        for rank, actions in order.items():
            while position[rank] < len(actions):
                action = actions[position[rank]]
                maker = source(action, last)
                if maker and maker not in end:
                    break
                ready = 0.0 if not maker else end[maker] if rank_of[maker] == rank else arrival[action]
                clock[rank] = end[action] = max(clock[rank], ready) + seconds[action]
                position[rank] += 1
                moved = True
                taker = taker_of.get(action)
                if taker is None:
                    continue
                if transfer is None:
                    arrival[taker] = end[action] + delay(taker)
                else:
                    way = rank, rank_of[taker]
                    arrival[taker] = wire[way] = max(wire[way], end[action]) + transfer
    if any(position[rank] < len(actions) for rank, actions in order.items()):
        raise SystemExit("the timeline's order of actions cannot be: one waits for another that comes after it")
    return max(clock.values())


def mean_seconds(steps):
    """Each chunk's mean F and B over the steps, as {action: seconds} of one step."""
    total, count = collections.Counter(), collections.Counter()
    for step in steps:
        for (kind, chunk, _), seconds in step.seconds().items():
            total[kind, chunk] += seconds
            count[kind, chunk] += 1
    return {action: total[action[:2]] / count[action[:2]] for action in steps[0].seconds()}
