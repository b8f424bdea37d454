"""Medians, ratios, tables, the chart, and lines of docs/results.csv."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import results


def summary(row, turns):
    """One side's turns: the median of the figure that counts, its range, its share of the limit, and further medians."""
    values = [turn["value"] for turn in turns]
    limits = [row.limit(turn) for turn in turns]
    shares = [value / limit for value, limit in zip(values, limits) if limit]
    return {"median": statistics.median(values), "least": min(values), "most": max(values),
            "share_of_limit": statistics.median(shares) if shares else None, "others": max(turn["others"] for turn in turns),
            "further": {key: statistics.median(turn[key] for turn in turns) for key in row.further
                        if all(turn.get(key) is not None for turn in turns)}, "turns": turns}


def row_result(row, turns, failures):
    """All sides of a row, and the ratio of ours to the best of the peers: above 1 ours is better."""
    sides = {name: summary(row, list_of) for name, list_of in turns.items() if list_of}
    result = {"unit": row.unit, "lower_is_better": row.lower, "sides": sides, "failures": failures, "best_peer": None, "ratio": None}
    peers = {name: sides[name]["median"] for name in row.peers() if name in sides}
    ours = next((side for name, side in sides.items() if name not in row.peers()), None)
    if peers and ours:
        best = (min if row.lower else max)(peers, key=peers.get)
        result["best_peer"] = best
        result["ratio"] = peers[best] / ours["median"] if row.lower else ours["median"] / peers[best]
    return result


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def cell(side):
    if side is None:
        return ""
    share = "" if side["share_of_limit"] is None else f", {100 * side['share_of_limit']:.0f} %"
    return f"{number(side['median'])} ({number(side['least'])} to {number(side['most'])}){share}"


def line(name, result, names, most_others):
    others = max((side["others"] for side in result["sides"].values()), default=0.0)
    mark = "" if others <= most_others else " (not quiet)"
    ratio = "" if result["ratio"] is None else f"{result['ratio']:.2f} to {result['best_peer']}"
    unit = f"{name}, {result['unit']}" + (", less is better" if result["lower_is_better"] else "")
    cells = [cell(result["sides"].get(side)) for side in names]
    return f"| {unit} | {' | '.join(cells)} | {ratio} | {100 * others:.1f} %{mark} |"


def table(rows, most_others):
    names = list(dict.fromkeys(name for result in rows.values() for name in result["sides"]))
    lines = [f"| row | {' | '.join(names)} | ours to the best | others at most |", "|---" * (len(names) + 3) + "|"]
    lines += [line(name, result, names, most_others) for name, result in rows.items()]
    return "\n".join(lines) + "\n\nMedian (range), share of the machine's limit. Above 1 ours is better.\n" + notes(rows)


def notes(rows):
    text = ""
    if "batch1" in rows and "batch2" in rows:
        one, two = rows["batch1"]["sides"], rows["batch2"]["sides"]
        growth = [f"{name} {two[name]['median'] / one[name]['median']:.2f}" for name in two if name in one]
        text += f"batch2 to batch1: {', '.join(growth)}.\n"
    for name, result in rows.items():
        for side, values in result["sides"].items():
            if values["further"]:
                said = ", ".join(f"{key} {number(value)}" for key, value in values["further"].items())
                text += f"{name}, {side}: {said}.\n"
        if result["sides"]:
            text += f"{name}, ns of a cache line to another core and back: {handovers(result['sides'])}.\n"
        text += "".join(f"{name}, {side} failed: {error}\n" for side, error in result["failures"].items())
    return "\n" + text if text else ""


def handovers(sides):
    """The least and most of each side's turns: some machines' cores share a cache at one moment and none at the next."""
    taken = {name: [ns for turn in side["turns"] for ns in turn["handover_ns"]] for name, side in sides.items()}
    return ", ".join(f"{name} {min(times):.0f} to {max(times):.0f}" for name, times in taken.items())


def chart(rows):
    """Ratios to the best peer as bars, with a line at 1."""
    rows = {name: result for name, result in rows.items() if result["ratio"] is not None}
    width, bar, left = 680, 26, 150
    scale = (width - left - 150) / max([1.2, *(result["ratio"] for result in rows.values())])
    height = bar * len(rows) + 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="13">'
             f'<rect width="{width}" height="{height}" fill="#fff"/><text x="10" y="20">nanovllm to the best peer of each row, '
             'medians; above 1 nanovllm is better</text>']
    for place, (name, result) in enumerate(rows.items()):
        y, end = 34 + place * bar, result["ratio"] * scale
        colour = "#3b7dd8" if result["ratio"] >= 1 else "#c65d3b"
        parts.append(f'<text x="10" y="{y + 15}">{name}</text><rect x="{left}" y="{y}" width="{end:.1f}" height="{bar - 6}" '
                     f'fill="{colour}"/><text x="{left + end + 6:.1f}" y="{y + 15}">{result["ratio"]:.2f} {result["best_peer"]}</text>')
    parts.append(f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="30" y2="{34 + bar * len(rows)}" stroke="#444" '
                 'stroke-dasharray="4 3"/></svg>')
    return "".join(parts) + "\n"


METRICS = {"start": "process start to exit after one token", "nanovllm": "generated tokens", "prefix": "requests", "server32": "all tokens"}
METRICS_BY_PREFIX = {"pp": "prefill", "tg": "decode", "batch": "generated tokens", "memory": "peak resident memory",
                     "load40": "slowdown x share left"}
UNITS = {"_ms": "ms", "_mib": "MiB", "slots": "count"}


def metric_of(row):
    return METRICS.get(row) or next(metric for prefix, metric in METRICS_BY_PREFIX.items() if row.startswith(prefix))


def unit_of(key):
    return next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "ratio")


def values_of(side, prefix):
    """The columns of one side."""
    if side is None:
        return {}
    return {prefix: results.number(side["median"]), f"{prefix}_range": results.span(side["least"], side["most"]),
            f"{prefix}_limit": results.percent(side["share_of_limit"])}


def further_lines(base, ours, theirs):
    sides = {"ours": (ours or {}).get("further", {}), "theirs": (theirs or {}).get("further", {})}
    for key in dict.fromkeys([*sides["ours"], *sides["theirs"]]):
        yield results.line(**base, metric=key, unit=unit_of(key),
                           **{column: results.number(further.get(key)) for column, further in sides.items()})


def result_lines(machine, rows, max_others):
    """A line for each row and peer, and for each further value of these."""
    named = {"date": machine["date"], "commit": machine["commit"], "machine": machine["name"], "model": machine["model"]}
    for name, result in rows.items():
        sides = result["sides"]
        if not sides:
            continue
        ours = "nanovllm"
        others = max(side["others"] for side in sides.values())
        notes = [f"not quiet: others took {100 * others:.1f} % of the CPU time"] if others > max_others else []
        notes += [f"{side} failed" for side in result["failures"]]
        for peer in [side for side in sides if side != ours] or [None]:
            base = {**named, "workload": name, "peer": peer or "", "turns": len(sides[peer or ours]["turns"]), "note": "; ".join(notes)}
            yield results.line(**base, metric=metric_of(name), unit=result["unit"], **values_of(sides.get(ours), "ours"),
                               **values_of(sides.get(peer), "theirs"))
            yield from further_lines(base, sides.get(ours), sides.get(peer))
