"""Dashboards and alerts ask only for what a server tells: names, labels and values are compared with the metrics text of
a server that saw one of everything."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import plain_yaml
import promql
from programs import BIN, SOURCE, TIMEOUT_S, environment

DEPLOY = SOURCE / "deploy"
DASHBOARD = DEPLOY / "grafana" / "nanovllm.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"

# What Prometheus itself adds: to every series, and as a series of its own.
ADDED_LABELS = {"job", "instance"}
ADDED_SERIES = {"up": [{}]}
# What Grafana puts in.
VARIABLES = {"$__rate_interval": "1m", "$model_name": ".+"}


def metrics_text():
    """Written by the doctest program that counts one of everything."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "metrics.txt"
        subprocess.run([str(BIN / "test_lib_server"), "--test-case=one of everything"], check=True, capture_output=True,
                       timeout=TIMEOUT_S, env=environment(NVLLM_METRICS_TEXT=str(file)))
        return file.read_text()


def read_series(text):
    """Label sets by the name of the sample."""
    series = dict(ADDED_SERIES)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels = re.fullmatch(r'([\w:]+)(?:\{(.*)\})? \S+', line).groups()
        found = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        series.setdefault(name, []).append(dict(found))
    return series


def mistakes_of(expression, series, job="nanovllm"):
    """What the expression asks for that no series has."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    if "$" in expression:
        return [f"an unknown variable in {expression}"]
    mistakes = []
    query = promql.parse(expression)
    known_labels = set(ADDED_LABELS)
    for selector in query.selectors:
        if selector.metric not in series:
            mistakes.append(f"no metric {selector.metric}")
            continue
        children = [{"job": job, "instance": "x", **labels} for labels in series[selector.metric]]
        known_labels.update(*children)
        for label, operator, value in selector.matchers:
            if not any(label in child for child in children):
                mistakes.append(f"{selector.metric} has no label {label}")
            elif operator == "=" and not any(child.get(label) == value for child in children):
                mistakes.append(f"{selector.metric} never has {label}={value}")
            elif operator == "=~" and not any(re.fullmatch(value, child.get(label, "")) for child in children):
                mistakes.append(f"{selector.metric} never has {label} like {value}")
    mistakes += [f"no metric of {expression} has the label {label}" for label in query.grouping - known_labels]
    return mistakes


def legend_labels(text):
    return set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text))


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.series = read_series(metrics_text())
        cls.dashboard = json.loads(DASHBOARD.read_text())
        cls.panels = [panel for panel in cls.dashboard["panels"] if panel["type"] != "row"]
        cls.groups = plain_yaml.load(ALERTS.read_text())["groups"]
        cls.rules = [rule for group in cls.groups for rule in group["rules"]]

    def check(self, expression, where):
        self.assertEqual(mistakes_of(expression, self.series), [], where)

    def test_every_query_of_the_dashboard_finds_its_metrics(self):
        self.assertGreater(len(self.panels), 40)
        for panel in self.panels:
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                with self.subTest(panel["title"]):
                    self.check(target["expr"], panel["title"])

    def test_legends_name_labels_that_are_left(self):
        for panel in self.panels:
            for target in panel["targets"]:
                query = promql.parse(target["expr"].replace("$__rate_interval", "1m"))
                left = query.grouping
                if not re.search(r"\b(sum|max|avg)\b", target["expr"]):
                    left = ADDED_LABELS.union(*(child for selector in query.selectors for child in self.series[selector.metric]))
                self.assertLessEqual(legend_labels(target["legendFormat"]), left, panel["title"])

    def test_the_dashboard_has_its_variables_and_its_panels_a_place(self):
        variables = {variable["name"]: variable for variable in self.dashboard["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        metric, label = re.fullmatch(r"label_values\(([\w:]+), (\w+)\)", variables["model_name"]["definition"]).groups()
        self.assertTrue(all(label in child for child in self.series[metric]))
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        cells = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            covered = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                       for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & covered, panel["title"])
            cells |= covered
        for panel in self.panels:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            for target in panel["targets"]:
                self.assertEqual(target["datasource"]["uid"], "${datasource}")

    def test_alerts_find_their_metrics_and_say_what_to_do(self):
        self.assertGreater(len(self.rules), 10)
        names = [rule["alert"] for rule in self.rules]
        self.assertEqual(len(names), len(set(names)))
        for rule in self.rules:
            with self.subTest(rule["alert"]):
                self.assertLessEqual(set(rule), {"alert", "expr", "for", "labels", "annotations"})
                self.check(rule["expr"], rule["alert"])
                self.assertIn(rule["labels"]["severity"], ("page", "ticket", "notice"))
                self.assertTrue(rule["annotations"]["summary"] and rule["annotations"]["description"])
                self.assertRegex(rule.get("for", "0s"), r"^\d+[smh]$")

    def test_alerts_quote_labels_that_their_query_leaves(self):
        for rule in self.rules:
            query = promql.parse(rule["expr"])
            left = set(ADDED_LABELS)
            for selector in query.selectors:
                left.update(*self.series[selector.metric])
            if re.search(r"\b(sum|max) by\b", rule["expr"]):
                left = query.grouping
            quoted = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
            self.assertLessEqual(quoted, left, rule["alert"])

    def test_prometheus_scrapes_the_job_that_is_asked_for(self):
        config = plain_yaml.load(PROMETHEUS.read_text())
        jobs = [job["job_name"] for job in config["scrape_configs"]]
        self.assertEqual(jobs, ["nanovllm"])
        for file in config["rule_files"]:
            self.assertTrue((PROMETHEUS.parent / file).exists(), file)
        self.assertEqual(config["scrape_configs"][0]["metrics_path"], "/metrics")

    def test_every_family_of_ours_is_on_the_dashboard_or_an_alert(self):
        asked = " ".join(target["expr"] for panel in self.panels for target in panel["targets"])
        asked += " ".join(rule["expr"] for rule in self.rules)
        # Twins of what is shown, and what is looked up and not watched.
        unwatched = {"nvllm_build_info", "nvllm_request_inference_seconds", "nvllm_prefill_seconds_per_token",
                     "nvllm_request_seconds_per_token", "nvllm_cached_prompt_tokens_total", "nvllm_prompt_tokens_by_source_total",
                     "nvllm_prompt_tokens_without_state_total", "process_virtual_memory_bytes", "process_threads"}
        families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in self.series if not name.startswith("vllm:")}
        missing = {family for family in families if not re.search(rf"\b{family}(_bucket|_sum|_count)?\b", asked)}
        self.assertEqual(missing, unwatched)


class TheCheckItself(unittest.TestCase):
    SERIES = {"a_total": [{"model_name": "m", "reason": "stop"}], "b_bucket": [{"le": "1"}], "up": [{}]}

    def test_what_is_right_passes(self):
        for expression in ('sum by (reason) (rate(a_total{model_name=~"$model_name",reason="stop"}[$__rate_interval]))',
                           "histogram_quantile(0.9, sum(rate(b_bucket[5m])) by (le)) > 1e-3",
                           'up{job="nanovllm"} == 0 or a_total{instance!="x"} offset 5m'):
            self.assertEqual(mistakes_of(expression, self.SERIES), [], expression)

    def test_what_is_wrong_does_not(self):
        for expression in ("rate(c_total[5m])", 'a_total{kind="x"}', 'a_total{reason="none"}', 'a_total{reason=~"n.*"}',
                           "sum by (kind) (a_total)", "a_total / on (kind) up", 'up{job="other"}', "rate(a_total[$interval])",
                           'b_bucket{model_name="m"}'):
            self.assertNotEqual(mistakes_of(expression, self.SERIES), [], expression)

    def test_what_is_no_query_or_no_yaml_is_refused(self):
        for expression in ("sum(a_total", "a_total{reason}", "a_total}", "5 + 3", "a_total ? 1", 'a_total{x>"1"}'):
            with self.assertRaises(promql.PromqlError, msg=expression):
                promql.parse(expression)
        for text in ("a: 1\na: 2", "a: 1\n  b: 2", "\ta: 1", "a: 'x'", "a: b: c", 'a: "x', "- 1\nb: 2", "a"):
            with self.assertRaises(plain_yaml.YamlError, msg=text):
                plain_yaml.load(text)

    def test_yaml_is_read_as_it_is_meant(self):
        text = '# x\na:\n  - b: 1\n    c: "q: \\"d\\""\n\n  - b: >-\n      one\n      two\nd: true\ne:\n  f: text here\ng: 1.5\n'
        self.assertEqual(plain_yaml.load(text), {"a": [{"b": 1, "c": 'q: "d"'}, {"b": "one two"}], "d": True,
                                                 "e": {"f": "text here"}, "g": 1.5})


if __name__ == "__main__":
    unittest.main()
