// Traces: reading, refusing, and replays whose outcome is known.
#include "lib/view/trace/trace_replay.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "kernels/error.h"
#include "lib/view/trace/trace_runs.h"

using namespace nvllm;
using namespace nvllm::view;

namespace {

struct TraceFile {
    explicit TraceFile(const std::string& text) { std::ofstream(path) << text; }
    ~TraceFile() { std::filesystem::remove(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("trace_test_" + std::to_string(::getpid()));
};

Trace trace_of(const std::string& text) { return read_trace(TraceFile(text).path); }

std::string fault_of(const std::string& text) {
    try {
        trace_of(text);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
        return error.what();
    }
    return "";
}

TraceRequest request_of(double arrival_s, std::vector<int32_t> pieces, int32_t answer = 4) {
    TraceRequest request;
    request.arrival_s = arrival_s;
    request.pieces = std::move(pieces);
    // One token beyond the last whole piece: every whole one may be found.
    request.num_prompt_tokens = (std::ssize(request.pieces) - 1) * kPieceTokens + 1;
    request.num_answer_tokens = answer;
    return request;
}

ReplayConfig config_of(int32_t num_blocks, const std::string& eviction = "lru") {
    ReplayConfig config;
    config.num_blocks = num_blocks;
    config.block_size = kPieceTokens;
    config.eviction_policy = eviction;
    return config;
}

}  // namespace

TEST_CASE("both kinds of trace are read") {
    const Trace hashed = trace_of(
        R"({"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [90, 91]})"
        "\n"
        R"({"timestamp": 1000, "input_length": 512, "output_length": 2, "hash_ids": [90]})"
        "\n\n");
    REQUIRE(hashed.requests.size() == 2);
    CHECK(hashed.has_hashes);
    CHECK(hashed.requests[0].arrival_s == 1.0);
    CHECK(hashed.requests[1].num_answer_tokens == 7);
    const auto one = prompt_of(hashed.requests[0]);
    const auto other = prompt_of(hashed.requests[1]);
    REQUIRE(other.size() == 600);
    CHECK(std::equal(one.begin(), one.end(), other.begin()));
    CHECK(std::set<int32_t>(other.begin(), other.end()).size() == 600);

    const Trace plain =
        trace_of(R"({"arrival_s": 0, "prompt_tokens": [5, 6, 7], "max_tokens": 3, "priority": -1})"
                 "\n"
                 R"({"arrival_s": 0.5, "prompt_tokens": 3, "max_tokens": 3})"
                 "\n"
                 R"({"arrival_s": 0.5, "prompt_tokens": 3, "max_tokens": 3})");
    REQUIRE(plain.requests.size() == 3);
    CHECK(prompt_of(plain.requests[0]) == std::vector<int32_t>{5, 6, 7});
    CHECK(plain.requests[0].priority == -1);
    CHECK(prompt_of(plain.requests[1]) != prompt_of(plain.requests[2]));
}

TEST_CASE("hostile traces are refused with file and line") {
    const std::string good =
        R"({"timestamp": 0, "input_length": 5, "output_length": 7, "hash_ids": [1]})"
        "\n";
    const auto second = [&](const std::string& line) { return fault_of(good + line); };
    CHECK(fault_of("").find("has no request") != std::string::npos);
    CHECK(second("{\"timestamp\": 0, \"inp").find(":2: ") != std::string::npos);
    CHECK(second("[1]").find(":2: is not an object") != std::string::npos);
    CHECK(second(R"({"arrival_s": 0, "prompt_tokens": 3, "max_tokens": 3})")
              .find(":2: is of another kind") != std::string::npos);
    CHECK(second(R"({"timestamp": 0, "input_length": 5, "hash_ids": [1]})")
              .find("\"output_length\" is missing") != std::string::npos);
    CHECK(second(R"({"timestamp":-1,"input_length":5,"output_length":1,"hash_ids":[1]})")
              .find("\"timestamp\"") != std::string::npos);
    CHECK(second(R"({"timestamp":0,"input_length":1e9,"output_length":1,"hash_ids":[1]})")
              .find("\"input_length\"") != std::string::npos);
    CHECK(second(R"({"timestamp":0,"input_length":99999999999,"output_length":1,"hash_ids":[1]})")
              .find("\"input_length\"") != std::string::npos);
    CHECK(second(R"({"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1]})")
              .find("a list of 2 hashes") != std::string::npos);
    CHECK(second(R"({"timestamp":0,"input_length":5,"output_length":1,"hash_ids":["x"]})")
              .find("\"hash_ids\"") != std::string::npos);
    CHECK(fault_of(R"({"arrival_s": 0, "prompt_tokens": [], "max_tokens": 3})").find(":1: ") !=
          std::string::npos);
    CHECK(fault_of(R"({"arrival_s": 0, "prompt_tokens": [-4], "max_tokens": 3})").find(":1: ") !=
          std::string::npos);
    CHECK(fault_of(std::string(100000, '[')).find(":1: ") != std::string::npos);
}

TEST_CASE("counts of a replay that can be worked out by hand") {
    Trace trace;
    trace.requests = {request_of(0.0, {0, 1, 2}), request_of(100.0, {0, 1, 3}),
                      request_of(200.0, {0, 4, 5})};
    const ReplayResult result = replay_trace(trace, config_of(64));
    CHECK(result.num_finished == 3);
    CHECK(result.prompt_tokens == 3 * 1025);
    CHECK(result.hit_tokens == 2 * 512 + 512);
    CHECK(result.preemptions == 0);
    CHECK(result.queue_s.mean == doctest::Approx(0.0));
    // Nobody waits; slowdowns differ by what the cache spared.
    CHECK(result.fairness > 0.8);
    const StepModel& step = result.config.step;
    CHECK(result.saved_prefill_s ==
          doctest::Approx((step.prefill_ms(0, 1024) + step.prefill_ms(0, 512)) / 1000.0));
    CHECK(result.whole_prefill_s == doctest::Approx(3 * step.prefill_ms(0, 1025) / 1000.0));
    // One step for the prompt, three for the other tokens of the answer.
    CHECK(result.steps == 12);
    CHECK(offline_optimum(trace, config_of(64)).hit_tokens == result.hit_tokens);
}

TEST_CASE("the optimum keeps what is used again, where lru does not") {
    // Room for two prompts' blocks and a little: A comes back after B and C, which do not.
    Trace trace;
    trace.requests = {request_of(0.0, {0, 1, 2}), request_of(100.0, {10, 11, 12}),
                      request_of(200.0, {20, 21, 22}), request_of(300.0, {0, 1, 3})};
    CHECK(replay_trace(trace, config_of(5)).hit_tokens == 0);
    CHECK(offline_optimum(trace, config_of(5)).hit_tokens == 2 * 512);
    CHECK(offline_optimum(trace, config_of(5)).saved_prefill_s ==
          doctest::Approx(StepModel{}.prefill_ms(0, 1024) / 1000.0));
    // Too large for the cache altogether: refused, and not in the bound.
    CHECK(replay_trace(trace, config_of(2)).num_refused == 4);
    CHECK(offline_optimum(trace, config_of(2)).hit_tokens == 0);
}

TEST_CASE("no policy finds more than the optimum, in any order of blocks or sizes") {
    for (unsigned seed = 1; seed <= 12; ++seed) {
        std::mt19937 random(seed);
        Trace trace;
        for (int i = 0; i < 150; ++i) {
            std::vector<int32_t> pieces;
            int32_t piece = 0;
            for (unsigned n = 1 + random() % 12; n > 0; --n) {
                piece = piece * 2 + 1 + static_cast<int32_t>(random() % 2);
                pieces.push_back(piece);
            }
            trace.requests.push_back(
                request_of(i * (seed % 2 == 0 ? 0.02 : 3.0), pieces, 1 + random() % 9));
        }
        for (const int32_t num_blocks : {16, 40, 200}) {
            const Optimum optimum = offline_optimum(trace, config_of(num_blocks));
            for (const std::string& eviction : eviction_policy_names()) {
                const ReplayResult result = replay_trace(trace, config_of(num_blocks, eviction));
                CHECK(result.num_finished == 150);
                CHECK(result.hit_tokens <= optimum.hit_tokens);
            }
        }
    }
}

TEST_CASE("a replay is the same on any number of threads, and with any policy all finish") {
    Trace trace;
    for (int i = 0; i < 60; ++i) {
        trace.requests.push_back(request_of(0.01 * i, {i % 5, 100 + i % 7, 1000 + i}, 1 + i % 20));
    }
    const ReplayChoices choices{scheduling_policy_names(), eviction_policy_names(), {24, 80}};
    const auto report = [&](int num_threads) {
        TraceReport made{&trace, config_of(24), 1, {}};
        made.tables = replay_all(trace, config_of(24), choices, num_threads);
        return made;
    };
    const TraceReport one = report(1);
    CHECK(trace_json(one) == trace_json(report(3)));
    REQUIRE(one.tables.size() == 2);
    CHECK(one.tables[0].runs.size() == 20);
    for (const ReplayTable& table : one.tables) {
        for (const ReplayResult& run : table.runs) {
            CHECK(run.num_finished == 60);
            CHECK(run.fairness > 0.0);
            CHECK(run.fairness <= 1.0 + 1e-12);
            CHECK(run.ttft_s.p50 <= run.ttft_s.p99);
        }
    }
    CHECK(trace_text(one).find("(optimum)") != std::string::npos);
    CHECK(trace_svg(one).find("</svg>") != std::string::npos);
}

TEST_CASE("names of policies") {
    CHECK(chosen_names("lru,cost", eviction_policy_names(), "--x").size() == 2);
    CHECK(chosen_names("all", eviction_policy_names(), "--x") == eviction_policy_names());
    CHECK_THROWS_AS(chosen_names("lru,", eviction_policy_names(), "--x"), Error);
    CHECK_THROWS_AS(chosen_names("", eviction_policy_names(), "--x"), Error);
}
