// A device computes one plan while the next one is handed over: what cancels, hangs or fails then
// finds both under way.
#ifdef NVLLM_TEST_EMULATED
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/fault_points.h"
#include "tests/lib/engine/engine_testing.h"
#include "tests/lib/engine/worker_faults.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

constexpr int32_t kNumTokens = 10;
constexpr std::array kPrompts = {"Once upon a time", "The dog", "A bird sang to"};

// The emulated device does nothing before somebody waits for it.
const bool kLate = (::setenv("NVLLM_EMULATED_CUDA", "late", 1),
                    ::setenv("NVLLM_BACKEND_PATH", NVLLM_TEST_MODULES, 1), true);

EngineConfig on_device(Isolation isolation, bool ahead) {
    EngineConfig config = small_config();
    config.compute.isolation = isolation;
    config.compute.device = "cuda_emulated";
    config.scheduling.async_scheduling = ahead;
    config.memory.max_model_len = 128;
    return config;
}

using Answers = std::vector<std::vector<int32_t>>;

Answers answers_of(Engine& engine) {
    std::array<Collector, kPrompts.size()> collectors;
    for (size_t i = 0; i < kPrompts.size(); ++i) {
        auto request = engine.prepare(completion(kPrompts[i], kNumTokens));
        REQUIRE(request);
        engine.submit(std::move(*request), collectors[i].listener());
    }
    Answers answers;
    for (Collector& collector : collectors) {
        collector.wait();
        answers.push_back(collector.ids());
    }
    return answers;
}

// Of plans that wait for each other. To be called before another engine is made: the emulated
// device is used by one engine of a process at a time.
const Answers& expected() {
    static const Answers answers = [] {
        Engine engine(on_device(Isolation::thread, false));
        return answers_of(engine);
    }();
    return answers;
}

}  // namespace

TEST_CASE("who cancels while a plan that names it is under way leaves the others as they were") {
    const Answers& undisturbed = expected();
    for (const Isolation isolation : {Isolation::thread, Isolation::process}) {
        Engine engine(on_device(isolation, true));
        for (int outputs = 1; outputs < 4; ++outputs) {
            CAPTURE(outputs);
            auto request = engine.prepare(completion("Two friends", 100));
            REQUIRE(request);
            Collector cancelled;
            // On the engine's thread: the plan after the one that is emitted is under way.
            const OutputListener collect = cancelled.listener();
            engine.submit(std::move(*request), [&](RequestOutput&& output) {
                const RequestId id = output.request_id;
                collect(std::move(output));
                if (cancelled.num_outputs() == outputs) engine.cancel(id);
            });
            CHECK(answers_of(engine) == undisturbed);
            cancelled.wait();
            CHECK(cancelled.finish() == FinishReason::cancelled);
        }
        engine.wait_idle();
        CHECK(engine.stats().cache.blocks.used == 0);
        CHECK(engine.stats().faults.step_faults == 0);
    }
}

TEST_CASE("a worker that hangs or ends with two plans is replaced, and no token is another") {
    const Answers& undisturbed = expected();
    for (const std::string fault : {"sleep=60000", "abort"}) {
        CAPTURE(fault);
        EngineConfig config = on_device(Isolation::process, true);
        // Long enough for a healthy step of the emulated device in a sanitized build beside others.
        config.compute.watchdog_timeout_s = fault == "abort" ? 60.0 : 8.0;
        std::unique_ptr<Engine> engine;
        {
            const Faults faults(Isolation::process, "worker.step:6=" + fault);
            engine = std::make_unique<Engine>(config);
        }
        CHECK(answers_of(*engine) == undisturbed);
        engine->wait_idle();
        CHECK(engine->stats().faults.worker_restarts >= 1);
        CHECK(engine->stats().cache.blocks.used == 0);
        const bool by_watchdog =
            engine->health().last_fault.find("--watchdog-timeout") != std::string::npos;
        CHECK(by_watchdog == (fault != "abort"));
    }
}
#endif
