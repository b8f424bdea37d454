#!/usr/bin/env python3
"""Quality of nvllm-quantize beside llm-compressor: the same model, recipes, samples and held-out text, one program that measures.

Usage: compare.py MODEL SAMPLES HELDOUT.txt WORK --python PYTHON [--recipes NAME,...] [--context 512] [--output NAME] [--results FILE]
PYTHON runs llm_compressor.py beside this file. SAMPLES has one sample a line: JSON with "text" (.jsonl), or the text itself. Both
sides are given the same samples, none of them joined. Recipes are names below recipes/: gptq-w4a16, channel/gptq-w4a16.
Quantized models stay in WORK and are not made again. Writes NAME.json and NAME.md, the raw record; --results FILE appends a line for
each recipe, such as to docs/results.csv.

Excess loss is the mean over windows of a quantized model's loss less the dense model's, in nats a token; its standard error is
that of the windows' differences. The goal of each row: our excess at most 1.05 times theirs plus two standard errors of the
windows' differences between the two. A row whose folder has rtn-SCHEME beside METHOD-SCHEME also says by how much we beat that.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
import results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--python", default="python3", help="of an environment with llm-compressor")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--recipes", help="names below recipes/ without .yaml, with commas; default: all of recipes/ itself")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    return parser.parse_args()


def samples_file(options):
    """The samples as JSON lines."""
    if options.samples.suffix == ".jsonl":
        return options.samples
    lines = [line for line in options.samples.read_text().splitlines() if line.strip()]
    file = options.work / "samples.jsonl"
    file.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return file


def recipe_files(options):
    names = options.recipes.split(",") if options.recipes else sorted(file.stem for file in (HERE / "recipes").glob("*.yaml"))
    files = {name: HERE / "recipes" / f"{name}.yaml" for name in names}
    missing = [str(file) for file in files.values() if not file.exists()]
    if missing:
        raise SystemExit("no such recipe: " + ", ".join(missing))
    return files


def make(folder, command):
    """Runs the command unless its model is there."""
    if (folder / "config.json").exists():
        return
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def window_losses(model, options):
    """Mean loss of each window, nats a token."""
    result = options.work / "perplexity.json"
    subprocess.run([options.bin / "nvllm-bench", "perplexity", "-m", model, "-f", options.heldout, "-c", str(options.context),
                    "--output-json", result], check=True, capture_output=True)
    running = json.loads(result.read_text())["running"]
    totals = [math.log(value) * (i + 1) for i, value in enumerate(running)]
    return [after - before for before, after in zip([0.0, *totals], totals)]


def mean_and_error(values):
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def differences(left, right):
    return [a - b for a, b in zip(left, right, strict=True)]


def row(name, recipe, dense, options):
    ours, theirs = (options.work / f"{side}-{name.replace('/', '-')}" for side in ("ours", "theirs"))
    samples = samples_file(options)
    make(ours, [options.bin / "nvllm-quantize", "-m", options.model, "--recipe", recipe, "--calibration", samples, "--no-shuffle",
                "--no-concatenate", "-t", "2", "-o", ours])
    make(theirs, [options.python, HERE / "llm_compressor.py", options.model, recipe, samples, theirs])
    losses = {side: window_losses(folder, options) for side, folder in (("ours", ours), ("theirs", theirs))}
    excess = {side: mean_and_error(differences(loss, dense)) for side, loss in losses.items()}
    _, paired = mean_and_error(differences(losses["ours"], losses["theirs"]))
    return {"recipe": name, "excess": excess, "paired_error": paired,
            "met": excess["ours"][0] <= excess["theirs"][0] + 0.05 * abs(excess["theirs"][0]) + 2 * paired}, losses["ours"]


def beaten(name, losses):
    """By how much our row is better than rounding to nearest with the same scheme, and the error of that; None for others."""
    folder, _, stem = name.rpartition("/")
    method, _, scheme = stem.partition("-")
    baseline = f"{folder}/rtn-{scheme}".lstrip("/")
    if method == "rtn" or baseline not in losses:
        return None
    return mean_and_error(differences(losses[baseline], losses[name]))


def table(rows, dense, tokens, options):
    lines = [f"{options.model.name}: {tokens} held-out tokens in windows of {options.context}, dense loss {statistics.fmean(dense):.5f} "
             "nats a token", "",
             "| recipe | our excess loss | llm-compressor's | paired error | at most 1.05 x theirs + 2 errors | ours better than rtn by |",
             "|---|---|---|---|---|---|"]
    for r in rows:
        ours, theirs = r["excess"]["ours"], r["excess"]["theirs"]
        better = "{:.5f} ± {:.5f}".format(*r["beats_rtn_by"]) if r["beats_rtn_by"] else ""
        lines.append(f"| {r['recipe']} | {ours[0]:.5f} ± {ours[1]:.5f} | {theirs[0]:.5f} ± {theirs[1]:.5f} | {r['paired_error']:.5f} | "
                     f"{'yes' if r['met'] else 'no'} | {better} |")
    return "\n".join(lines) + "\n"


def result_lines(rows, options):
    for r in rows:
        ours, theirs = r["excess"]["ours"], r["excess"]["theirs"]
        yield results.line(date=time.strftime("%Y-%m-%d"), commit=results.commit(), machine=results.processor(), model=options.model.name,
                           workload=f"quantize {r['recipe']}", metric="excess loss", unit="nats/token", ours=f"{ours[0]:.5f}",
                           ours_range=f"+- {ours[1]:.5f}", peer="llm-compressor", theirs=f"{theirs[0]:.5f}",
                           theirs_range=f"+- {theirs[1]:.5f}",
                           note=f"paired error {r['paired_error']:.5f}; goal (1.05 x theirs + 2 errors) {'met' if r['met'] else 'missed'}")


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    recipes = recipe_files(options)
    dense = window_losses(options.model, options)
    tokens = len(dense) * (options.context - 1)
    rows, losses = [], {}
    for name, recipe in recipes.items():
        result, losses[name] = row(name, recipe, dense, options)
        rows.append(result)
        print(result, file=sys.stderr, flush=True)
    for result in rows:
        result["beats_rtn_by"] = beaten(result["recipe"], losses)
    text = table(rows, dense, tokens, options)
    print(text, end="")
    if options.results:
        results.append(options.results, result_lines(rows, options))
    if options.output:
        pathlib.Path(f"{options.output}.md").write_text(text)
        pathlib.Path(f"{options.output}.json").write_text(
            json.dumps({"model": options.model.name, "tokens": tokens, "context": options.context, "date": time.strftime("%Y-%m-%d"),
                        "dense_loss": statistics.fmean(dense), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
