// Traces: shared beginnings, times, scales.
#include "lib/measure/serving/trace.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace nvllm;

TEST_CASE("equal hash ids are equal tokens, and times are scaled from the first request") {
    const auto path = std::filesystem::temp_directory_path() / "nvllm_trace_test.jsonl";
    std::ofstream(path)
        << R"({"timestamp": 2000, "input_length": 10, "output_length": 4, "hash_ids": [1, 2, 3]})"
        << "\n"
        << R"({"timestamp": 1000, "input_length": 9, "output_length": 0, "hash_ids": [1, 2, 5]})"
        << "\n"
        << R"({"timestamp": 3000, "input_length": 6, "output_length": 1})"
        << "\n";
    TraceOptions options;
    options.block_tokens = 4;
    options.time_scale = 0.5;
    const auto items = read_trace(path, options, 1000);
    REQUIRE(items.size() == 3);
    CHECK(items[0].send_at_s == 0.0);
    CHECK(items[1].send_at_s == 0.5);
    CHECK(items[0].num_output_tokens == 1);
    CHECK(items[0].prompt_ids.size() == 9);
    CHECK(std::equal(items[0].prompt_ids.begin(), items[0].prompt_ids.begin() + 8,
                     items[1].prompt_ids.begin()));
    CHECK(items[0].prompt_ids[8] != items[1].prompt_ids[8]);
    CHECK(items[2].prompt_ids.size() == 6);
    CHECK(reusable_share(items, 4) == doctest::Approx(8.0 / 25.0));
    CHECK(reusable_share({}, 4) == 0.0);
    options.length_scale = 0.5;
    CHECK(read_trace(path, options, 1000)[0].prompt_ids.size() == 5);
    std::filesystem::remove(path);
}
