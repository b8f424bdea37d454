"""The chat page: its status view and the values its settings show, with a server that says what a test gave it."""

import unittest

from page_testing import BrowserTest, say_if_not_run, scripted_only

setUpModule = say_if_not_run


@scripted_only
class StatusTest(BrowserTest):
    def test_the_speed_has_a_scale_and_times(self):
        self.assertEqual(self.page.evaluate("[0, 0.4, 1, 1.1, 3, 7, 10, 11, 99, 130, 2400].map(round_scale)"), [1, 1, 1, 2, 5, 10, 10, 20, 100, 200, 5000])
        self.page.click("#status_tab")
        self.page.wait_until("document.querySelector('#spark_line').getAttribute('d')")
        self.server.status = dict(self.server.status, tokens={"prompt_total": 182044, "generated_total": 96310 + 130})
        self.page.wait_until("speeds.at(-1) > 50")
        self.assertEqual(self.page.text("#spark_most"), "200" if self.page.evaluate("Math.max(...speeds)") > 100 else "100")
        self.assertRegex(self.page.text("#spark_box .times"), r"2 min ago\s+1 min ago\s+now")

    def test_what_keys_have_used(self):
        self.page.click("#status_tab")
        self.page.wait_until("document.querySelector('#spark_line').getAttribute('d')")
        self.assertEqual(self.page.all("#keys_card", "one.hidden"), [True])
        self.server.metrics = """nvllm_key_requests_total{key="lab"} 12
nvllm_key_requests_refused_total{key="lab"} 2
nvllm_key_tokens_total{key="lab",kind="generated"} 5120
nvllm_key_tokens_total{key="lab",kind="prompt"} 81920
nvllm_key_requests_total{key="a \\"<b>\\""} 3
nvllm_other_total{key="lab"} 7
"""
        self.page.evaluate("void show_keys()")
        self.page.wait_until("!document.querySelector('#keys_card').hidden")
        self.assertEqual(self.page.all("#keys tr", "Array.from(one.cells, (cell) => cell.innerText)"),
                         [["lab", "12", "2", "81,920", "5,120"], ['a "<b>"', "3", "0", "0", "0"]])

    def test_settings_show_the_values_in_force(self):
        placeholders = """Object.fromEntries(Array.from(document.querySelectorAll('#numbers input'), (one) => [one.name, one.placeholder]))"""
        self.page.click("#open_settings")
        self.page.wait_until("!document.querySelector('#defaults_note').hidden")
        self.assertEqual(self.page.evaluate(placeholders), {"temperature": "0.7", "top_p": "0.95", "top_k": "0 (all)", "min_p": "0", "repetition_penalty": "1",
                                                           "max_tokens": "all there is room for", "seed": "a new one each time"})
        self.page.press("Escape")
        models = [{"name": "other", "names": ["other"], "sampling_defaults": {"temperature": 0.1}},
                  {"name": "its name", "names": ["its name", "fake/model"], "sampling_defaults": {"temperature": 0.35, "max_tokens": 99}}]
        self.server.status = dict(self.server.status, models=models)
        self.page.click("#open_settings")
        self.page.wait_until("document.querySelector('[name=temperature]').placeholder === '0.35'")
        self.assertEqual(self.page.evaluate(placeholders)["max_tokens"], "99")
        self.page.press("Escape")
        self.server.status = {"state": "ready"}
        self.page.click("#open_settings")
        self.page.wait_until("document.querySelector('[name=temperature]').placeholder === \"server's choice\"")
        self.assertEqual(self.page.all("#defaults_note", "one.hidden"), [True])


if __name__ == "__main__":
    unittest.main()
