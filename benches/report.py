"""What the benches in Python share: how a figure is stated, and the memory of a run."""
import json
import os
import statistics
import subprocess
import time

# Environment variable with the file that the figures are added to, for `benches/all`.
ROWS = "MCPDECK_BENCH_ROWS"


def state(what, values, goal, unit="", against=""):
    """Prints a figure that should be at most `goal`: the median of what was measured, its middle half, and
    what they say about the goal; nothing where the goal lies within that half. With `ROWS`, adds it to
    that file."""
    values = sorted(values)
    quarter = len(values) // 4
    low, middle, high = values[quarter], statistics.median(values), values[-1 - quarter]
    verdict = "met" if high <= goal else "missed" if low > goal else \
        "no verdict, the spread is wider than the difference"
    over = f" over {against}" if against else ""
    print(f"{what}{over}: {middle:.2f} {unit} ({low:.2f} to {high:.2f}, {len(values)} runs); "
          f"goal <= {goal}: {verdict}", flush=True)
    if rows := os.environ.get(ROWS):
        row = {"what": what, "against": against, "unit": unit, "median": middle, "low": low,
               "high": high, "runs": len(values), "goal": f"<= {goal}", "verdict": verdict}
        with open(rows, "a") as file:
            file.write(json.dumps(row) + "\n")


def peak(command):
    """Largest resident set of one run, in MB. Linux."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    most = 0
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status") as status:
                line = next((l for l in status if l.startswith("VmHWM")), "0 0")
                most = max(most, int(line.split()[1]))
        except (OSError, ValueError):
            pass
        time.sleep(0.002)
    return most / 1024
