"""Times saving and loading beside dd, in turns. Started by checkpoint.sh."""

import os
import shutil
import statistics
import subprocess
import sys
import time

MODEL = ["--layers", "8", "--width", "512", "--heads", "8", "--hidden", "2048", "--vocabulary", "50304"]


class Worker:
    def __init__(self, program, folder):
        self.folder = folder
        self.process = subprocess.Popen([program, *MODEL, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        (self.bytes,) = self.answer("ready")
        self.step = None

    def answer(self, word):
        line = self.process.stdout.readline().split()
        if line[:1] != [word]:
            sys.exit(f"the worker ended early: {' '.join(line)}")
        return [float(number) for number in line[1:]]

    def ask(self, request, word):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.answer(word)

    def file(self):
        return f"{self.folder}/step-{self.step:08}/rank-00000.safetensors"

    def save(self, background=False, verify=False):
        """(seconds, seconds of stall); the step before is removed."""
        settle()
        step, seconds, stall = self.ask(f"save {int(background)} {int(verify)}", "saved")
        before, self.step = self.step, int(step)
        if before is not None:
            shutil.rmtree(f"{self.folder}/step-{before:08}")
        return seconds, stall

    def load(self):
        return self.ask(f"load {self.step}", "loaded")[0]


def settle():
    """Nothing is left to write when something is timed."""
    os.sync()


def warm(path):
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)


def timed(*command):
    start = time.monotonic()
    subprocess.run([*command, "status=none"], check=True)
    return time.monotonic() - start


def dd_write(worker):
    copy = worker.folder + "/copy"
    warm(worker.file())
    settle()
    seconds = timed("dd", f"if={worker.file()}", f"of={copy}", "bs=1M", "conv=fsync")
    os.remove(copy)
    return seconds


def in_turns(rounds, measures):
    """{name: seconds of every round}; every other round goes backwards."""
    results = {name: [] for name in measures}
    for number in range(rounds):
        order = list(measures) if number % 2 == 0 else list(reversed(measures))
        for name in order:
            results[name].append(measures[name]())
    return results


def spread(values, form):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def report(title, results, bytes_moved, against):
    print(f"\n{title}")
    for name, seconds in results.items():
        rates = [bytes_moved / 1e9 / value for value in seconds]
        ratios = [base / value for base, value in zip(results[against], seconds)]
        print(f"  {name:<28} GB/s {spread(rates, '{:.2f}')}   of {against}'s rate {spread(ratios, '{:.2f}')}")


def main():
    worker = Worker(sys.argv[1], sys.argv[2])
    rounds = int(sys.argv[3])
    worker.save()
    print(f"a checkpoint of {worker.bytes / 1e9:.2f} GB, {rounds} rounds, load average {os.getloadavg()[0]:.1f} at the start")
    report("saving", in_turns(rounds, {
        "dd": lambda: dd_write(worker),
        "save": lambda: worker.save()[0],
        "save, read back": lambda: worker.save(verify=True)[0],
    }), worker.bytes, "dd")
    warm(worker.file())
    report("loading from the page cache", in_turns(rounds, {
        "dd": lambda: timed("dd", f"if={worker.file()}", "of=/dev/null", "bs=1M"),
        "load": worker.load,
    }), worker.bytes, "dd")
    stalls = in_turns(rounds, {
        "synchronous": lambda: worker.save(verify=True)[1],
        "asynchronous": lambda: worker.save(background=True, verify=True)[1],
    })
    shares = [after / before for before, after in zip(stalls["synchronous"], stalls["asynchronous"])]
    print("\nstall of the training thread, read back")
    for name, seconds in stalls.items():
        print(f"  {name:<28} s {spread(seconds, '{:.3f}')}")
    print(f"  asynchronous over synchronous: {spread(shares, '{:.3f}')}; load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
