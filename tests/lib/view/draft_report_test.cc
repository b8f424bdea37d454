// Trees of a step log, as text and as a picture.
#include "lib/view/draft_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm::view {
namespace {

constexpr auto kLog =
    R"({"plan_number":1,"num_tokens":4}
{"plan_number":2,"drafts":[{"sequence":3,"token_ids":[7,8,9,5],"parents":[0,0,2,1],"accepted_rows":[2,3]}]}
{"plan_number":3,"drafts":[{"sequence":3,"token_ids":[1],"parents":[0],"accepted_rows":[]}]}
)";

std::string log_text() { return kLog; }

DraftReport report_of(const std::string& text, uint64_t plan_number) {
    const test::TemporaryFolder folder;
    folder.write("steps.jsonl", text);
    return read_draft_report(folder.path() / "steps.jsonl", plan_number);
}

TEST_CASE("draft report: a tree with the path that was accepted") {
    const DraftReport report = report_of(log_text(), 2);
    CHECK(report.num_steps == 3);
    CHECK(report.num_verified == 2);
    CHECK(report.num_drafts == 5);
    CHECK(report.num_accepted == 2);
    const std::string text = draft_text(report, nullptr);
    CAPTURE(text);
    CHECK(text.find("plan 2, sequence 3: 4 proposed, 2 deep, 2 accepted\n"
                    "  - 7\n    - 5\n  * 8\n    * 9\n") != std::string::npos);
    const auto json = draft_json(report, nullptr);
    CHECK(json["schema"] == "nvllm-inspect.drafts/1");
    CHECK(json["drafts"][0]["accepted_rows"] == std::vector<int>{2, 3});
    const std::string svg = draft_svg(report, nullptr);
    CHECK(svg.find("row 3: token 9, accepted") != std::string::npos);
    CHECK(svg.find("row 4: token 5<") != std::string::npos);
}

TEST_CASE("draft report: without a number the last step that has drafts") {
    CHECK(report_of(log_text() + "{\"plan_number\":4}\n", 0).shown.at(0).plan_number == 3);
    CHECK(report_of(log_text(), 1).shown.empty());
    CHECK(report_of("", 0).num_steps == 0);
}

TEST_CASE("draft report: more rows than any step verifies are refused") {
    std::vector<int> chain(100000);
    std::iota(chain.begin(), chain.end(), 0);
    const nlohmann::json drafts = {
        {"sequence", 1}, {"token_ids", chain}, {"parents", chain}, {"accepted_rows", {1}}};
    const nlohmann::json step = {{"plan_number", 9}, {"drafts", {drafts}}};
    CHECK_THROWS_WITH_AS(report_of(step.dump() + "\n", 0), doctest::Contains("line 1"), Error);
}

TEST_CASE("draft report: what is no record of a step is refused with its line") {
    for (
        const char* line :
        {"nonsense", R"({"plan_number":9,"drafts":[{"sequence":1}]})",
         R"({"plan_number":9,"drafts":[{"sequence":1,"token_ids":[1,2],"parents":[0,2],"accepted_rows":[]}]})",
         R"({"plan_number":9,"drafts":[{"sequence":1,"token_ids":[1,2],"parents":[0],"accepted_rows":[]}]})",
         R"({"plan_number":9,"drafts":[{"sequence":1,"token_ids":[1,2],"parents":[0,0],"accepted_rows":[1,2]}]})"}) {
        CAPTURE(line);
        CHECK_THROWS_WITH_AS(report_of(log_text() + line + "\n", 0), doctest::Contains("line 4"),
                             Error);
    }
}

}  // namespace
}  // namespace nvllm::view
