#!/usr/bin/env python3
"""What every scheme costs on a model: perplexity before and after, KL divergence with its 95 % interval, share of equal top tokens.

Usage: schemes.py MODEL SAMPLES HELDOUT.txt WORK [--context 512] [--schemes NAME,...] [--output NAME] [--results FILE]
SAMPLES has one sample a line: JSON with "text" (.jsonl), or the text itself. Every scheme is made by rtn, those with integer weights
or weights of 4 bits by gptq too, the coarsest by rotation and gptq as well (scales of keys and values in FP8 are a row of their own, of
a model whose weights stay dense), and evaluated by `nvllm-quantize --eval`. Nothing in WORK is made again. Writes NAME.json and NAME.md,
the raw record; --results FILE appends lines, such as to docs/results.csv.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from compare import SOURCE, results, samples_file

# One scale of x for all tokens, and the observer that finds its range.
STATIC = {"W8A8 static": "minmax", "W8A8 static_minmax": "static_minmax"}
SCHEMES = ["W8A16", "W4A16", "W4A16_ASYM", "W3A16", "W2A16", "W8A8", *STATIC, "W4A8", "W4A4", "FP8", "FP8_DYNAMIC", "FP8_BLOCK",
           "NVFP4", "NVFP4A16", "MXFP4", "MXFP4A16", "MXFP8", "FP8 keys and values"]
CACHE = "FP8 keys and values"
BY_RTN_ALONE = {"FP8", "FP8_DYNAMIC", "FP8_BLOCK", "MXFP8"}
ROTATED_TOO = {"W3A16", "W2A16", "W4A4", "NVFP4", "MXFP4"}
STATIC_W8A8 = """quant_stage:
  quant_modifiers:
    {modifier}:
      ignore: ["lm_head"]
      config_groups:
        group_0:
          targets: ["Linear"]
          weights: {{num_bits: 8, type: int, symmetric: true, strategy: channel}}
          input_activations: {{num_bits: 8, type: int, symmetric: true, strategy: tensor, dynamic: false, observer: {observer}}}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--context", type=int, default=512, help="tokens of a sample and of a window")
    parser.add_argument("--schemes", help="names with commas; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    options.schemes = options.schemes.split(",") if options.schemes else SCHEMES
    unknown = [name for name in options.schemes if name not in SCHEMES]
    if unknown:
        parser.error(f"no such scheme: {', '.join(unknown)}; known are {', '.join(SCHEMES)}")
    for file in (options.model / "config.json", options.samples, options.heldout):
        if not file.exists():
            parser.error(f"{file}: not there")
    return options


def what_to_make(scheme, method, options):
    """Options of nvllm-quantize that say it."""
    if scheme == CACHE:
        return ["--scheme", "none", "--kv-cache-scheme", "fp8"]
    if scheme not in STATIC:
        return ["--scheme", scheme, *(word for name in method.split("+") for word in ("--method", name))]
    recipe = options.work / f"w8a8-{STATIC[scheme]}-{method}.yaml"
    recipe.write_text(STATIC_W8A8.format(modifier="GPTQModifier" if method == "gptq" else "QuantizationModifier", observer=STATIC[scheme]))
    return ["--recipe", recipe]


def report_of(scheme, method, options):
    """The report of a model that is made unless it is there."""
    folder = options.work / f"{scheme.replace(' ', '-')}-{method}"
    program = options.bin / "nvllm-quantize"
    if not (folder / "config.json").exists():
        command = [program, "-m", options.model, *what_to_make(scheme, method, options), "--calibration", samples_file(options),
                   "--no-shuffle", "--no-concatenate", "--max-seq-length", options.context, "-t", options.threads,
                   "--eval", options.heldout, "--progress", "none", "--restart", "-o", folder]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{scheme} by {method}: nvllm-quantize ended with {done.returncode}:\n{done.stderr[-4000:]}")
    said = subprocess.run([program, "report", folder, "--json"], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def methods_of(scheme):
    if scheme == CACHE:
        return ["none"]
    if scheme in BY_RTN_ALONE:
        return ["rtn"]
    return ["rtn", "gptq", "rotation+gptq"] if scheme in ROTATED_TOO else ["rtn", "gptq"]


def row(scheme, method, options):
    report = report_of(scheme, method, options)
    evaluation = report["evaluation"]
    return {"scheme": scheme, "method": method, "bits_per_weight": report["bits_per_weight"], "tokens": evaluation["num_tokens"],
            "perplexity_before": evaluation["base_perplexity"], "perplexity_after": evaluation["perplexity"],
            "kl": evaluation["mean_kld"], "kl_interval": 1.96 * evaluation["mean_kld_error"], "same_top": evaluation["same_top"]}


def table(rows, options):
    lines = [f"{options.model.name}: {rows[0]['tokens']} held-out tokens in windows of {options.context}, perplexity "
             f"{rows[0]['perplexity_before']:.4f} before; KL divergence in nats a token with its 95 % interval", "",
             "| scheme | method | bits a weight | perplexity after | KL divergence | same top token |", "|---|---|---|---|---|---|"]
    for r in rows:
        bits = f"{r['bits_per_weight']:.3f}" if r["scheme"] != CACHE else "as it was"
        lines.append(f"| {r['scheme']} | {r['method']} | {bits} | {r['perplexity_after']:.4f} | {r['kl']:.6f} ± {r['kl_interval']:.6f} | "
                     f"{100 * r['same_top']:.2f} % |")
    return "\n".join(lines) + "\n"


def result_lines(rows, options):
    for r in rows:
        base = {"date": time.strftime("%Y-%m-%d"), "commit": results.commit(), "machine": results.processor(), "model": options.model.name,
                "workload": f"quantize {r['scheme']} by {r['method']}", "note": f"{r['bits_per_weight']:.3f} bits a weight"}
        yield results.line(**base, metric="perplexity", ours=f"{r['perplexity_after']:.4f}", peer="dense model",
                           theirs=f"{r['perplexity_before']:.4f}")
        yield results.line(**base, metric="KL divergence from the dense model", unit="nats/token", ours=f"{r['kl']:.6f}",
                           ours_range=f"+- {r['kl_interval']:.6f}")
        yield results.line(**base, metric="same top token", unit="ratio", ours=f"{r['same_top']:.4f}")


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for scheme in options.schemes:
        for method in methods_of(scheme):
            rows.append(row(scheme, method, options))
            print(rows[-1], file=sys.stderr, flush=True)
    text = table(rows, options)
    print(text, end="")
    if options.results:
        results.append(options.results, result_lines(rows, options))
    if options.output:
        pathlib.Path(f"{options.output}.md").write_text(text)
        pathlib.Path(f"{options.output}.json").write_text(json.dumps(
            {"model": options.model.name, "context": options.context, "date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
