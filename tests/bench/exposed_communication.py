"""Prints the waiting for other ranks as a share of the step, from the logs of a run. Started by exposed_communication.sh."""

import json
import os
import pathlib
import statistics
import sys

WARM_UP = 2  # steps: pages are touched and kernels are made


def steps_of(log):
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in events if event["event"] == "step" and event["step"] > WARM_UP]


def main():
    logs = sorted((pathlib.Path(sys.argv[1]) / "logs").glob("rank-*.jsonl"))
    ranks = [steps_of(log) for log in logs]
    if not ranks or not all(ranks):
        sys.exit(f"no steps after the first {WARM_UP} in {sys.argv[1]}")
    waits = [[step["exposed_communication_seconds"] / step["seconds"] for step in rank] for rank in ranks]
    for number, rank in enumerate(ranks):
        seconds = statistics.median(step["seconds"] for step in rank)
        print(f"rank {number}: step {seconds:.3f} s, of it waiting {100 * statistics.median(waits[number]):.1f} % "
              f"(from {100 * min(waits[number]):.1f} to {100 * max(waits[number]):.1f} %)")
    both = [min(shares) for shares in zip(*waits)]
    print(f"exposed communication: {100 * statistics.median(both):.1f} % of the step (the rank that waits less), "
          f"{100 * statistics.median(max(shares) for shares in zip(*waits)):.1f} % (the one that waits more); "
          f"{len(both)} steps, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
