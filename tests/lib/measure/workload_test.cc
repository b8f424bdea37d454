// Workloads: sizes, ranges, and that they repeat.
#include "lib/measure/workload.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "kernels/error.h"

using namespace nvllm;

namespace {

std::filesystem::path file_with(const std::string& text) {
    const auto path = std::filesystem::temp_directory_path() / "nvllm_workload_test.jsonl";
    std::ofstream(path) << text;
    return path;
}

std::string message_of(const WorkloadOptions& options) {
    try {
        static_cast<void>(make_workload(options, {100}));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("random prompts have the lengths asked for and repeat with the seed") {
    const WorkloadOptions options = {
        .num_prompts = 50, .input_len = 20, .output_len = 10, .random_range_ratio = 0.5, .seed = 3};
    const auto items = make_workload(options, {100});
    const auto again = make_workload(options, {100});
    REQUIRE(items.size() == 50);
    for (size_t i = 0; i < items.size(); ++i) {
        CHECK(items[i].prompt_ids == again[i].prompt_ids);
        CHECK((items[i].prompt_ids.size() >= 10 && items[i].prompt_ids.size() <= 30));
        CHECK((items[i].num_output_tokens >= 5 && items[i].num_output_tokens <= 15));
        CHECK(items[i].ignore_eos);
        for (const int32_t id : items[i].prompt_ids) CHECK((id >= 0 && id < 100));
    }
    CHECK(make_workload({.num_prompts = 1, .seed = 4}, {100})[0].prompt_ids !=
          make_workload({.num_prompts = 1, .seed = 5}, {100})[0].prompt_ids);
}

TEST_CASE("prefixes come again in turn") {
    const auto items = make_workload({.dataset = "prefix_repetition",
                                      .num_prompts = 6,
                                      .input_len = 4,
                                      .prefix_len = 32,
                                      .num_prefixes = 3},
                                     {1000});
    const auto prefix = [&](size_t i) {
        return std::vector<int32_t>(items[i].prompt_ids.begin(), items[i].prompt_ids.begin() + 32);
    };
    CHECK(prefix(0) == prefix(3));
    CHECK(prefix(0) != prefix(1));
    CHECK(items[0].prompt_ids.size() == 36);
    CHECK(items[0].prompt_ids != items[3].prompt_ids);
}

TEST_CASE("nano-vllm's bench has 256 requests of 100 to 1024 tokens") {
    const auto items = make_workload({.dataset = "nano-vllm"}, {100});
    CHECK(items.size() == 256);
    for (const WorkItem& item : items) {
        CHECK((item.prompt_ids.size() >= 100 && item.prompt_ids.size() <= 1024));
        CHECK((item.num_output_tokens >= 100 && item.num_output_tokens <= 1024));
    }
}

TEST_CASE("lines say what is wrong with them") {
    const auto path = file_with(
        "{\"prompt_token_ids\": [1, 2], \"max_tokens\": 3}\n\n"
        "{\"prompt_token_ids\": [5], \"ignore_eos\": true}\n");
    const auto items = make_workload({.dataset = "jsonl", .path = path, .output_len = 9}, {100});
    REQUIRE(items.size() == 2);
    CHECK(items[0].num_output_tokens == 3);
    CHECK(items[1].num_output_tokens == 9);
    CHECK(!items[0].ignore_eos);
    CHECK(items[1].ignore_eos);
    for (const char* bad :
         {"[]", "{", "{\"prompt_token_ids\": []}", "{\"prompt_token_ids\": [100]}",
          "{\"prompt_token_ids\": [1], \"max_tokens\": 0}", "{\"prompt\": 3}",
          "{\"prompt_token_ids\": [1], \"ignore_eos\": 1}", "{\"prompt_token_ids\": [1e300]}",
          "{\"prompt_token_ids\": [18446744073709551615]}"}) {
        const std::string lines = std::string("{\"prompt_token_ids\": [1]}\n") + bad + "\n";
        const auto broken = file_with(lines);
        CHECK(message_of({.dataset = "jsonl", .path = broken}).find(".jsonl:2") !=
              std::string::npos);
    }
    CHECK(message_of({.dataset = "jsonl", .path = "/no/such/file"}) != "");
    CHECK(message_of({.dataset = "sonnet"}).find("prefix_repetition") != std::string::npos);
    std::filesystem::remove(path);
}
