#!/usr/bin/env python3
"""How fast Cleave is, commit by commit, in figures that no busy machine changes.

    scripts/record.py build              # measure, add to bench/record.csv, draw it
    scripts/record.py build --compare    # name what got slower since the last record

Two kinds: instructions of a run on the CPU, by function (valgrind's cachegrind, one
thread; it knows no AVX-512), and times of simulated devices and of their kernels
(virtual nanoseconds).
"""

import argparse
import collections
import concurrent.futures
import csv
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORD = os.path.join(ROOT, "bench", "record.csv")
PICTURE = os.path.join(ROOT, "docs", "record.svg")

SLOWER = 1.03  # than the last record: is named
SHARE = 0.01   # of a run's instructions: such functions are recorded

TYPES = ["q8_0", "q4_0", "f16"]
# Options, model, and the devices whose kernels are recorded, each alone.
SIMULATED = {
    "phone": (["--conf", "conf/soc/snapdragon-8gen3.ini"], "qwen1.5-1.8b:w4a16",
              ("npu_sim:hexagon", "npu_sim:adreno")),
    "card": (["--conf", "conf/soc/small-card.ini", "--set", "npu_sim:card.memory=1024",
              "--set", "npu_sim:card.copy_queues=1"], "llama3.2-3b:q8_0",
             ("npu_sim:cpu",)),
}


def run(args, **options):
    done = subprocess.run(args, cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        sys.exit("record: %s failed: %s" % (" ".join(args), done.stderr.strip()[-400:]))
    return done.stdout


# ---------------------------------------------------------------------------
# Measuring


def read_counts(path):
    """Instructions by function, of a file that cachegrind wrote."""
    counts, name = collections.Counter(), ""
    with open(path) as f:
        for line in f:
            if line.startswith("fn="):
                name = line[3:].strip()
            elif line[0].isdigit() and name:
                counts[name] += int(line.split()[1])
    return counts


def count_instructions(cleave, kind, folder):
    print("record: counting instructions, %s" % kind, file=sys.stderr)
    model = os.path.join(ROOT, "models", "nano-q8_0.gguf")
    if kind != "q8_0":
        made = os.path.join(folder, kind + ".gguf")
        run([cleave, "quantize", model, made, kind])
        model = made
    out = os.path.join(folder, "counts")
    run(["valgrind", "--tool=cachegrind", "--cache-sim=no",
         "--cachegrind-out-file=" + out, cleave, "bench", "-m", model, "-p", "64",
         "-n", "4", "-r", "1", "--no-warmup", "--devices", "cpu", "-t", "1",
         "--set", "core.profile=off", "--set", "core.probe=off"],
        env=dict(os.environ, XDG_CACHE_HOME=folder))
    counts = read_counts(out)
    all_of_them = sum(counts.values())
    case = "instructions, %s, " % kind
    yield case + "all", all_of_them
    for name, n in counts.items():
        if n >= SHARE * all_of_them:
            yield case + name, n


def bench_simulated(cleave, name, folder, *more):
    args, model = SIMULATED[name][:2]
    return json.loads(run(
        [cleave, "bench", *args, "-m", "synth:%s:zero" % model, "--set",
         "npu_sim.compute=off", "-p", "256", "-r", "1", "-o", "json", *more],
        env=dict(os.environ, XDG_CACHE_HOME=folder)))


def simulate(cleave, name, folder):
    print("record: simulating the %s" % name, file=sys.stderr)
    for row in bench_simulated(cleave, name, folder, "-n", "4"):
        n = row["n_prompt"] + row["n_gen"]
        what = "prompt" if row["n_prompt"] else "generation"
        yield "virtual ns a token, %s, %s" % (name, what), row["avg_ns"] // n
    for device in SIMULATED[name][2]:
        for row in bench_simulated(cleave, name, folder, "-n", "0", "--kernels",
                                   "--devices", device):
            if row["share"] >= SHARE:
                yield ("virtual ns, %s, %s, %s" % (name, device, row["kernel"]),
                       row["ns"])


def measure(build):
    cleave = os.path.join(os.path.abspath(build), "tools", "cleave")

    def figures(task):
        function, what = task
        with tempfile.TemporaryDirectory() as folder:
            return list(function(cleave, what, folder))

    tasks = [(count_instructions, kind) for kind in TYPES]
    tasks += [(simulate, name) for name in SIMULATED]
    # Other work on the machine changes no figure.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {case: value for found in pool.map(figures, tasks)
                for case, value in found}


# ---------------------------------------------------------------------------
# The record


def read_record():
    """[(commit, {what: value})], the oldest first."""
    records = collections.OrderedDict()
    if os.path.exists(RECORD):
        with open(RECORD, newline="") as f:
            for row in csv.DictReader(f):
                records.setdefault(row["commit"], {})[row["what"]] = int(row["value"])
    return list(records.items())


def write_record(records):
    with open(RECORD, "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["commit", "what", "value"])
        for commit, values in records:
            for what in sorted(values):
                writer.writerow([commit, what, values[what]])


def compare(old, new):
    """Lines about what is slower, the worst first."""
    worse = [(new[what] / old[what], what) for what in old
             if what in new and new[what] > SLOWER * old[what]]
    for ratio, what in sorted(worse, reverse=True):
        yield "slower by %.1f%%: %s: %d, was %d" % (
            100 * (ratio - 1), what, new[what], old[what])


# ---------------------------------------------------------------------------
# The picture

WIDTH, HEIGHT, LEFT, TOP = 900, 360, 60, 20
COLOURS = ["#1b6ca8", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#16a085", "#566573"]


def draw(records):
    """Each total against its first value, record by record."""
    totals = sorted({what for _, values in records for what in values
                     if what.endswith(", all") or what.startswith("virtual ns a token")})
    lines, most, least = {}, 1.1, 0.9
    for what in totals:
        points = [(i, values[what]) for i, (_, values) in enumerate(records)
                  if what in values]
        lines[what] = [(i, value / points[0][1]) for i, value in points]
        most = max([most] + [y for _, y in lines[what]])
        least = min([least] + [y for _, y in lines[what]])
    step = (WIDTH - LEFT - 40) / max(len(records) - 1, 1)

    def place(i, y):
        return "%.1f,%.1f" % (LEFT + i * step,
                              TOP + (most - y) / (most - least) * HEIGHT)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="12">'
           % (WIDTH, HEIGHT + 60 + 18 * len(totals)),
           '<rect width="100%" height="100%" fill="white"/>']
    for y in (least, 1, most):
        at = place(0, y).split(",")[1]
        out.append('<text x="8" y="%s">%.2f</text>' % (at, y))
        out.append('<path d="M%d,%s H%d" stroke="#ddd"/>' % (LEFT, at, WIDTH - 40))
    for i, (commit, _) in enumerate(records):
        out.append('<text x="%.1f" y="%d">%s</text>'
                   % (LEFT + i * step - 20, HEIGHT + 45, commit))
    for k, what in enumerate(totals):
        colour = COLOURS[k % len(COLOURS)]
        points = " ".join(place(i, y) for i, y in lines[what])
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>'
                   % (points, colour))
        out += ['<circle cx="%s" cy="%s" r="3" fill="%s"/>'
                % (*point.split(","), colour) for point in points.split()]
        out.append('<text x="%d" y="%d" fill="%s">%s</text>'
                   % (LEFT, HEIGHT + 70 + 18 * k, colour, what))
    with open(PICTURE, "w") as f:
        f.write("\n".join(out + ["</svg>", ""]))


# ---------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the build directory")
    parser.add_argument("--compare", action="store_true",
                        help="record nothing; exit with 1 if something got slower")
    args = parser.parse_args()
    records = read_record()
    if args.compare and not records:
        sys.exit("record: %s has no record yet; make record" % RECORD)
    values = measure(args.build)
    slower = list(compare(records[-1][1], values)) if records else []
    for line in slower:
        print("record: " + line)
    if args.compare:
        print("record: %d of %d figures are more than %.0f%% worse than at %s"
              % (len(slower), len(values), 100 * SLOWER - 100, records[-1][0]))
        return bool(slower)
    commit = run(["git", "rev-parse", "--short=8", "HEAD"]).strip()
    records = [r for r in records if r[0] != commit] + [(commit, values)]
    write_record(records)
    draw(records)
    print("record: %d figures of %s" % (len(values), commit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
