"""Quality of nvllm-quantize beside llm-compressor: the same model, recipes, samples and held-out text, one program that measures.

Usage: compare.py MODEL SAMPLES.jsonl HELDOUT.txt WORK --python PYTHON [--recipes NAME,...] [--context 512] [--output NAME]
PYTHON runs llm_compressor.py beside this file. Quantized models stay in WORK and are not made again. Writes NAME.json and NAME.md.

Excess loss is the mean over windows of a quantized model's loss less the dense model's, in nats a token; its standard error is
that of the windows' differences. The goal of each row: our excess at most 1.05 times theirs plus two standard errors of the
windows' differences between the two.
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--python", default="python3", help="of an environment with llm-compressor")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--recipes", help="files' names in recipes/ without .yaml; default: all")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def made(folder, command):
    """Runs the command unless its model is there; seconds, or None."""
    if (folder / "config.json").exists():
        return None
    begin = time.monotonic()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - begin


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


def row(recipe, dense, options):
    ours, theirs = options.work / f"ours-{recipe.stem}", options.work / f"theirs-{recipe.stem}"
    seconds = {
        "ours": made(ours, [options.bin / "nvllm-quantize", "-m", options.model, "--recipe", recipe, "--calibration", options.samples,
                            "--no-shuffle", "--no-concatenate", "-o", ours]),
        "theirs": made(theirs, [options.python, HERE / "llm_compressor.py", options.model, recipe, options.samples, theirs])}
    losses = {name: window_losses(folder, options) for name, folder in (("ours", ours), ("theirs", theirs))}
    excess = {name: mean_and_error(differences(loss, dense)) for name, loss in losses.items()}
    _, paired = mean_and_error(differences(losses["ours"], losses["theirs"]))
    return {"recipe": recipe.stem, "seconds": seconds, "excess": excess, "paired_error": paired,
            "met": excess["ours"][0] <= 1.05 * excess["theirs"][0] + 2 * paired}


def table(rows, dense, tokens, options):
    lines = [f"{options.model.name}: {tokens} held-out tokens in windows of {options.context}, dense loss {statistics.fmean(dense):.5f} "
             "nats a token", "", "| recipe | our excess loss | llm-compressor's | paired error | at most 1.05 x theirs + 2 errors |",
             "|---|---|---|---|---|"]
    for r in rows:
        ours, theirs = r["excess"]["ours"], r["excess"]["theirs"]
        lines.append(f"| {r['recipe']} | {ours[0]:.5f} ± {ours[1]:.5f} | {theirs[0]:.5f} ± {theirs[1]:.5f} | {r['paired_error']:.5f} | "
                     f"{'yes' if r['met'] else 'no'} |")
    return "\n".join(lines) + "\n"


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    recipes = sorted((HERE / "recipes").glob("*.yaml"))
    if options.recipes:
        recipes = [recipe for recipe in recipes if recipe.stem in options.recipes.split(",")]
    dense = window_losses(options.model, options)
    tokens = len(dense) * (options.context - 1)
    rows = []
    for recipe in recipes:
        rows.append(row(recipe, dense, options))
        print(rows[-1], file=sys.stderr, flush=True)
    text = table(rows, dense, tokens, options)
    print(text, end="")
    if options.output:
        pathlib.Path(f"{options.output}.md").write_text(text)
        pathlib.Path(f"{options.output}.json").write_text(
            json.dumps({"model": options.model.name, "tokens": tokens, "context": options.context, "date": time.strftime("%Y-%m-%d"),
                        "dense_loss": statistics.fmean(dense), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
