// The engine with a real small model: streaming, stopping, cancelling, refusing, many threads of
// callers.
#include "lib/engine/engine.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "lib/engine/input_processor.h"
#include "tests/lib/engine/engine_testing.h"

using namespace nvllm;
using namespace nvllm::test;

TEST_CASE("an answer streams token by token and ends by length") {
    Engine engine(small_config());
    Collector answer;
    run(engine, completion("Once upon a time", 20), answer);
    CHECK(answer.ids().size() == 20);
    CHECK(answer.finish() == FinishReason::length);
    CHECK(answer.num_outputs() > 10);
    CHECK(answer.text() == engine.tokenizer()->decode(answer.ids(), true));
    const RequestTimes& times = answer.last().times;
    REQUIRE(times.first_scheduled_s);
    REQUIRE(times.first_token_s);
    REQUIRE(times.finished_s);
    CHECK(times.arrival_s <= *times.first_scheduled_s);
    CHECK(*times.first_scheduled_s <= *times.first_token_s);
    CHECK(*times.first_token_s <= *times.finished_s);
    engine.wait_idle();
    const EngineStats stats = engine.stats();
    CHECK(stats.cache.blocks.used == 0);
    CHECK(stats.scheduler.stalled_steps == 0);
}

TEST_CASE("a stop string cuts the text wherever token borders lie, and never shows") {
    Engine engine(small_config());
    Collector whole;
    run(engine, completion("Once upon a time", 60), whole);
    const std::string& text = whole.text();
    REQUIRE(text.size() > 60);
    for (size_t begin = 5; begin + 7 < 60; begin += 9) {
        const std::string stop = text.substr(begin, 7);
        RequestInput input = completion("Once upon a time", 60);
        input.sampling.stop = {stop};
        Collector stopped;
        run(engine, input, stopped);
        CHECK(stopped.finish() == FinishReason::stop);
        CHECK(stopped.text() == text.substr(0, text.find(stop)));
        CHECK(stopped.ids().size() < whole.ids().size());
        input.sampling.include_stop_in_output = true;
        Collector shown;
        run(engine, input, shown);
        CHECK(shown.text() == text.substr(0, text.find(stop) + stop.size()));
    }
}

TEST_CASE("several continuations differ by their index and repeat by their seed") {
    Engine engine(small_config());
    RequestInput input = completion("Once upon a time there was a", 12);
    input.sampling.temperature = 1.0f;
    input.sampling.n = 4;
    input.sampling.seed = 5;
    Collector first;
    Collector again;
    run(engine, input, first);
    run(engine, input, again);
    REQUIRE(first.num_continuations() == 4);
    for (size_t index = 0; index < 4; ++index) {
        CHECK(first.ids(index).size() == 12);
        CHECK(first.ids(index) == again.ids(index));
        if (index > 0) CHECK(first.ids(index) != first.ids(0));
    }
}

TEST_CASE("a cancelled request ends, and gives its blocks back") {
    Engine engine(small_config());
    auto request = engine.prepare(completion("Once upon a time", 400));
    REQUIRE(request);
    Collector answer;
    const RequestId id = engine.submit(std::move(*request), answer.listener());
    answer.wait_for_outputs(3);
    engine.cancel(id);
    answer.wait();
    CHECK(answer.finish() == FinishReason::cancelled);
    CHECK(answer.ids().size() < 400);
    engine.cancel(id);  // finished meanwhile: no error
    Collector next;
    run(engine, completion("Once", 3), next);
    engine.wait_idle();
    CHECK(engine.stats().cache.blocks.used == 0);
}

TEST_CASE("faults end their own request only") {
    Engine engine(small_config());
    RequestInput empty;
    empty.prompt = std::vector<int32_t>{};
    CHECK_FALSE(engine.prepare(empty));
    RequestInput outside = completion("", 5);
    outside.prompt = std::vector<int32_t>{1, 1'000'000};
    CHECK_FALSE(engine.prepare(outside));
    RequestInput too_long = completion("", 5);
    too_long.prompt = std::vector<int32_t>(512, 300);
    const auto refused = engine.prepare(too_long);
    REQUIRE_FALSE(refused);
    CHECK(refused.fault().message.find("512") != std::string::npos);
    Collector answer;
    run(engine, completion("Once", 4), answer);
    CHECK(answer.ids().size() == 4);
}

TEST_CASE("answers do not depend on the threads that ask") {
    Engine engine(small_config());
    std::vector<std::string> prompts;
    for (int i = 0; i < 12; ++i)
        prompts.push_back("Story number " + std::to_string(i) + " begins with");
    std::vector<std::vector<int32_t>> alone;
    for (const std::string& prompt : prompts) {
        Collector answer;
        run(engine, completion(prompt, 16), answer);
        alone.push_back(answer.ids());
    }
    std::vector<Collector> answers(prompts.size());
    std::vector<std::thread> callers;
    for (size_t i = 0; i < prompts.size(); ++i) {
        callers.emplace_back([&, i] { run(engine, completion(prompts[i], 16), answers[i]); });
    }
    for (std::thread& caller : callers) caller.join();
    for (size_t i = 0; i < prompts.size(); ++i) CHECK(answers[i].ids() == alone[i]);
}

TEST_CASE("the cache shrinks and grows under 32 running requests, and no text changes") {
    std::vector<std::string> expected;
    for (const bool resizing : {false, true}) {
        EngineConfig config = small_config();
        config.scheduling.scheduler.max_num_seqs = 32;
        config.memory.kv_cache_bytes = uint64_t{1} << 20;  // 2,048 tokens
        config.memory.swap_bytes = uint64_t{2} << 20;
        config.scheduling.scheduler.defrag_threshold = 0.4;
        Engine engine(config);
        std::vector<Collector> collectors(32);
        for (int i = 0; i < 32; ++i) {
            auto request =
                engine.prepare(completion("Story number " + std::to_string(i), 60 + 5 * i));
            REQUIRE(request.ok());
            engine.submit(*request, collectors[static_cast<size_t>(i)].listener());
        }
        const int64_t planned = engine.stats().cache.blocks.total;
        if (resizing) {
            for (const double share : {0.5, 0.25, 1.0, 0.3, 0.7, 0.2, 1.0}) {
                collectors[0].wait_for_outputs(collectors[0].num_outputs() + 3);
                engine.resize_cache(share);
            }
            CHECK_THROWS_AS(engine.resize_cache(0.0), Error);
            CHECK_THROWS_AS(engine.resize_cache(1.5), Error);
        }
        engine.wait_idle();
        for (size_t i = 0; i < 32; ++i) {
            collectors[i].wait();
            if (!resizing) expected.push_back(collectors[i].text());
            CHECK(collectors[i].text() == expected[i]);
        }
        const EngineStats stats = engine.stats();
        CHECK(stats.cache.blocks.used == 0);
        CHECK(stats.cache.blocks.free + stats.cache.blocks.cached == stats.cache.blocks.total);
        CHECK((planned == 0 || stats.cache.blocks.total == planned));
        CHECK(stats.scheduler.stalled_steps == 0);
        if (resizing) CHECK(stats.scheduler.preemptions > 0);
    }
}

TEST_CASE("an engine that ends with work left calls nobody afterwards") {
    std::atomic<int> calls{0};
    {
        Engine engine(small_config());
        for (int i = 0; i < 8; ++i) {
            auto request = engine.prepare(completion("Once upon a time", 300));
            REQUIRE(request);
            engine.submit(std::move(*request), [&](RequestOutput&&) { ++calls; });
        }
        engine.stop();
        const int at_stop = calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(calls == at_stop);
    }
}

TEST_CASE("dummy weights need a config only, and the plan is the one announced") {
    EngineConfig config = small_config();
    config.model.load_format = "dummy";
    const MemoryPlan announced = Engine::plan(config);
    Engine engine(config);
    CHECK(engine.memory_plan().kv_bytes == announced.kv_bytes);
    CHECK(engine.memory_plan().weight_bytes == announced.weight_bytes);
    Collector answer;
    run(engine, completion("Once", 3), answer);
    CHECK(answer.ids().size() == 3);
}
