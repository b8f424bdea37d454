// Engines whose worker is killed, hangs, runs out of memory or computes what are no numbers: every
// answer is that of an undisturbed run, or fails alone.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "lib/base/fault_points.h"
#include "tests/lib/engine/engine_testing.h"
#include "tests/lib/engine/worker_faults.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

using std::chrono::milliseconds;

EngineConfig config_of(Isolation isolation) {
    EngineConfig config = small_config();
    config.compute.isolation = isolation;
    return config;
}

// Told apart by their first token, by which fault points know them.
RequestInput tokens_from(int32_t first, int32_t max_tokens) {
    RequestInput input = completion("", max_tokens);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 24; ++i) ids.push_back(first + 7 * i);
    input.prompt = ids;
    return input;
}

// Every third one samples.
RequestInput request_number(int32_t number, int32_t max_tokens) {
    RequestInput input = tokens_from(400 + number, max_tokens);
    input.sampling.seed = static_cast<uint64_t>(number);
    if (number % 3 == 1) input.sampling.temperature = 0.9f;
    return input;
}

void submit(Engine& engine, const RequestInput& input, Collector& collector) {
    auto request = engine.prepare(input);
    REQUIRE(request);
    engine.submit(std::move(*request), collector.listener());
}

using Answers = std::vector<std::unique_ptr<Collector>>;

Answers submit_all(Engine& engine, int32_t count, int32_t max_tokens) {
    Answers answers;
    for (int32_t number = 0; number < count; ++number) {
        submit(engine, request_number(number, max_tokens),
               *answers.emplace_back(std::make_unique<Collector>()));
    }
    return answers;
}

// What the same requests get when nothing happens.
const std::vector<std::vector<int32_t>>& undisturbed(int32_t count, int32_t max_tokens) {
    static std::map<std::pair<int32_t, int32_t>, std::vector<std::vector<int32_t>>> known;
    auto& expected = known[{count, max_tokens}];
    if (!expected.empty()) return expected;
    Engine engine(config_of(Isolation::thread));
    for (const auto& answer : submit_all(engine, count, max_tokens)) {
        answer->wait();
        expected.push_back(answer->ids());
    }
    return expected;
}

void check_all_as_undisturbed(const Answers& answers, int32_t max_tokens) {
    const auto& expected = undisturbed(static_cast<int32_t>(answers.size()), max_tokens);
    for (size_t i = 0; i < answers.size(); ++i) {
        answers[i]->wait();
        CHECK(answers[i]->ids() == expected[i]);
        CHECK(answers[i]->finish() == FinishReason::length);
        CHECK_FALSE(answers[i]->fault());
    }
}

// Whether it comes true within a time that is long beside what it should take.
template <typename Condition>
bool comes_true(const Condition& condition) {
    for (int i = 0; i < 10'000; ++i) {
        if (condition()) return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

int total_outputs(const Answers& answers) {
    int total = 0;
    for (const auto& answer : answers) total += answer->num_outputs();
    return total;
}

constexpr std::array kBoth = {Isolation::thread, Isolation::process};

// One fails, without any token but those it has already, and with this kind of fault.
void check_all_but(size_t failing, const Answers& answers,
                   const std::vector<std::vector<int32_t>>& expected, ErrorKind kind) {
    for (size_t i = 0; i < answers.size(); ++i) {
        answers[i]->wait();
        if (i == failing) {
            CHECK(answers[i]->finish() == FinishReason::error);
            CHECK(answers[i]->fault().value().kind == kind);
        } else {
            CHECK(answers[i]->ids() == expected[i]);
            CHECK_FALSE(answers[i]->fault());
        }
    }
}

// REQUIRES: it is idle.
void check_well(const Engine& engine) {
    CHECK(engine.stats().scheduler.stalled_steps == 0);
    CHECK(engine.stats().cache.blocks.used == 0);
    CHECK(engine.health().state == EngineState::running);
}

void kill_worker(const Engine& engine, int signal = SIGKILL) {
    ::kill(engine.health().worker_pid.value(), signal);
}

}  // namespace

TEST_CASE(
    "twenty kills of the worker under sixteen requests: every answer is as if none had been") {
    const int32_t max_tokens = 300;
    undisturbed(16, max_tokens);
    // So that answers are not done before all the kills are.
    const Faults slow(Isolation::process, "worker.step:*=sleep=3");
    Engine engine(config_of(Isolation::process));
    const Answers answers = submit_all(engine, 16, max_tokens);
    double slowest_ms = 0.0;
    for (int kill = 1; kill <= 20; ++kill) {
        CAPTURE(kill);
        CAPTURE(total_outputs(answers));
        CAPTURE(std::string(engine_state_name(engine.health().state)));
        const int before = total_outputs(answers);
        REQUIRE(comes_true([&] { return total_outputs(answers) > before + 100; }));
        REQUIRE(comes_true([&] { return engine.health().worker_pid.has_value(); }));
        const int at_kill = total_outputs(answers);
        const auto begin = std::chrono::steady_clock::now();
        kill_worker(engine);
        REQUIRE(comes_true([&] { return engine.stats().faults.worker_restarts == kill; }));
        REQUIRE(comes_true([&] { return total_outputs(answers) > at_kill + 16; }));
        const std::chrono::duration<double, std::milli> passed =
            std::chrono::steady_clock::now() - begin;
        slowest_ms = std::max(slowest_ms, passed.count());
    }
    MESSAGE("from a kill to the next token of each of 16 sequences at most " << slowest_ms
                                                                             << " ms");
    check_all_as_undisturbed(answers, max_tokens);
    engine.wait_idle();
    CHECK(engine.stats().faults.worker_restarts == 20);
    check_well(engine);
    const EngineHealth health = engine.health();
    CHECK(health.worker_restarts == 20);
    CHECK(health.last_fault.find("killed by signal 9") != std::string::npos);
}

TEST_CASE("beams, several continuations and prompt logprobs survive kills too") {
    RequestInput beams = tokens_from(500, 60);
    beams.sampling.use_beam_search = true;
    beams.sampling.n = 4;
    RequestInput several = tokens_from(520, 60);
    several.sampling.n = 3;
    several.sampling.temperature = 1.0f;
    several.sampling.seed = 3;
    RequestInput scored = tokens_from(540, 60);
    scored.sampling.prompt_logprobs = 2;
    const std::vector<RequestInput> inputs = {beams, several, scored};
    std::vector<std::vector<std::vector<int32_t>>> expected(inputs.size());
    for (const bool disturbed : {false, true}) {
        Engine engine(config_of(disturbed ? Isolation::process : Isolation::thread));
        Answers answers;
        for (const RequestInput& input : inputs) {
            submit(engine, input, *answers.emplace_back(std::make_unique<Collector>()));
        }
        for (int kill = 0; disturbed && kill < 4; ++kill) {
            const int64_t steps = engine.stats().scheduler.steps;
            comes_true([&] { return engine.stats().scheduler.steps > steps + 8; });
            if (const auto worker = engine.health().worker_pid) ::kill(*worker, SIGKILL);
        }
        for (size_t i = 0; i < inputs.size(); ++i) {
            answers[i]->wait();
            for (size_t index = 0; index < answers[i]->num_continuations(); ++index) {
                if (!disturbed) expected[i].push_back(answers[i]->ids(index));
                CHECK(answers[i]->ids(index) == expected[i].at(index));
            }
        }
        CHECK(answers[2]->num_prompt_logprobs() == 23);
        if (disturbed) CHECK(engine.stats().faults.worker_restarts >= 2);
    }
}

TEST_CASE("a worker that is killed while there is nothing to do is replaced before it is wanted") {
    Engine engine(config_of(Isolation::process));
    CHECK(engine.health().worker_pid);
    kill_worker(engine);
    CHECK(comes_true([&] { return engine.stats().faults.worker_restarts == 1; }));
    CHECK(engine.health().state == EngineState::running);
    check_all_as_undisturbed(submit_all(engine, 2, 20), 20);
    CHECK(engine.stats().faults.step_faults == 0);
}

TEST_CASE("a worker that hangs is killed by the watchdog and replaced") {
    EngineConfig config = config_of(Isolation::process);
    config.compute.watchdog_timeout_s = 1.0;
    std::unique_ptr<Engine> engine;
    {
        const Faults faults(Isolation::process, "worker.step:10=sleep=60000");
        engine = std::make_unique<Engine>(config);
    }
    check_all_as_undisturbed(submit_all(*engine, 4, 40), 40);
    engine->wait_idle();
    const int64_t restarts = engine->stats().faults.worker_restarts;
    CHECK(restarts >= 1);
    CHECK(engine->stats().faults.step_faults == restarts);
    CHECK(engine->health().last_fault.find("--watchdog-timeout") != std::string::npos);
    // Nor does it help to stop it.
    const Answers answers = submit_all(*engine, 4, 300);
    CHECK(comes_true([&] { return total_outputs(answers) > 40; }));
    kill_worker(*engine, SIGSTOP);
    check_all_as_undisturbed(answers, 300);
    CHECK(engine->stats().faults.worker_restarts > restarts);
}

TEST_CASE("a start that hangs is ended by the watchdog, and tried again") {
    EngineConfig config = config_of(Isolation::process);
    config.compute.watchdog_timeout_s = 1.0;
    Engine engine(config);
    const Answers answers = submit_all(engine, 2, 200);
    {
        const Faults faults(Isolation::process, "worker.start:*=sleep=60000");
        kill_worker(engine);
        CHECK(comes_true([&] { return engine.health().state == EngineState::recovering; }));
        CHECK(comes_true([&] { return engine.health().worker_pid.has_value(); }));
    }
    check_all_as_undisturbed(answers, 200);
    CHECK(engine.health().state == EngineState::running);
}

TEST_CASE("the loop itself hanging shows as stalled, and passes") {
    EngineConfig config = config_of(Isolation::thread);
    config.compute.watchdog_timeout_s = 0.1;
    Engine engine(config);
    const Faults faults(Isolation::thread, "engine.step:5=sleep=600");
    const Answers answers = submit_all(engine, 2, 20);
    CHECK(comes_true([&] { return engine.health().state == EngineState::stalled; }));
    CHECK(engine.health().seconds_since_heartbeat > 0.09);
    check_all_as_undisturbed(answers, 20);
    CHECK(comes_true([&] { return engine.health().state == EngineState::running; }));
    engine.wait_idle();
    CHECK(engine.health().seconds_since_heartbeat == 0.0);
}

TEST_CASE("a request that ends every worker fails alone") {
    const auto& expected = undisturbed(8, 40);
    for (const Isolation isolation : kBoth) {
        const bool process = isolation == Isolation::process;
        const Faults faults(isolation,
                            std::string("worker.sequence@403:*=") + (process ? "abort" : "throw"));
        Engine engine(config_of(isolation));
        const Answers answers = submit_all(engine, 8, 40);
        check_all_but(3, answers, expected, ErrorKind::internal);
        engine.wait_idle();
        CHECK(engine.stats().faults.step_faults == 3);
        CHECK(engine.stats().faults.worker_restarts == (process ? 3 : 0));
        check_well(engine);
    }
}

TEST_CASE("a request that ends workers late fails alone, whatever it has got by then") {
    const auto& expected = undisturbed(8, 40);
    // Every worker ends the tenth time that it computes the sequence, and then at once.
    const Faults faults(Isolation::process, "worker.sequence@403:1+=abort");
    std::unique_ptr<Engine> engine;
    {
        const Faults later(Isolation::process, "worker.sequence@403:10+=abort");
        engine = std::make_unique<Engine>(config_of(Isolation::process));
    }
    ::setenv("NVLLM_FAULTS", "worker.sequence@403:1+=abort", 1);
    const Answers answers = submit_all(*engine, 8, 40);
    check_all_but(3, answers, expected, ErrorKind::internal);
    CHECK(answers[3]->ids().size() == 9);
    CHECK(std::equal(answers[3]->ids().begin(), answers[3]->ids().end(), expected[3].begin()));
    engine->wait_idle();
    check_well(*engine);
}

TEST_CASE(
    "logits that are no numbers end one of eight requests, which leaves nothing in the cache") {
    const auto& expected = undisturbed(8, 40);
    for (const Isolation isolation : kBoth) {
        const Faults faults(isolation, "worker.logits@403:1=nan;worker.logits@405:7=nan");
        Engine engine(config_of(isolation));
        const Answers answers = submit_all(engine, 8, 40);
        for (size_t i = 0; i < answers.size(); ++i) {
            answers[i]->wait();
            const bool struck = i == 3 || i == 5;
            CHECK(answers[i]->fault().has_value() == struck);
            if (!struck) CHECK(answers[i]->ids() == expected[i]);
        }
        CHECK(answers[3]->ids().empty());
        CHECK(answers[5]->ids().size() == 6);
        CHECK(answers[5]->fault().value().kind == ErrorKind::internal);
        engine.wait_idle();
        CHECK(engine.stats().faults.nonfinite_rows == 2);
        CHECK(engine.stats().faults.step_faults == 0);
        CHECK(engine.stats().faults.weight_reloads == 0);
        // The same prompts again: those of the well are found, those of the struck computed anew.
        const Answers again = submit_all(engine, 8, 40);
        for (size_t i = 0; i < again.size(); ++i) {
            again[i]->wait();
            CHECK(again[i]->ids() == expected[i]);
            CHECK(again[i]->last().num_cached_tokens == (i == 3 || i == 5 ? 0 : 16));
        }
        engine.wait_idle();
        check_well(engine);
    }
}

TEST_CASE("when no row is a number any more, the weights are read again, and answers are right") {
    const auto& expected = undisturbed(8, 40);
    for (const Isolation isolation : kBoth) {
        std::unique_ptr<Engine> engine;
        {
            // As many rows as there are requests; what is read again is well.
            const Faults faults(isolation, "worker.logits@1:*=nan");
            engine = std::make_unique<Engine>(config_of(isolation));
            if (isolation == Isolation::thread) set_fault_points("worker.logits@401:*=nan");
            std::vector<std::unique_ptr<Collector>> struck;
            for (int i = 0; i < 4; ++i) {
                Collector& answer = *struck.emplace_back(std::make_unique<Collector>());
                submit(*engine, tokens_from(isolation == Isolation::thread ? 401 : 1, 20), answer);
                answer.wait();
                CHECK(answer.fault().value().kind == ErrorKind::internal);
            }
            CHECK(comes_true([&] { return engine->stats().faults.weight_reloads == 1; }));
        }
        if (isolation == Isolation::process) {
            CHECK(comes_true([&] { return engine->health().state == EngineState::running; }));
        }
        const Answers answers = submit_all(*engine, 8, 40);
        for (size_t i = 0; i < answers.size(); ++i) {
            answers[i]->wait();
            CHECK(answers[i]->ids() == expected[i]);
        }
        engine->wait_idle();
        CHECK(engine->stats().faults.nonfinite_rows == 4);
        CHECK(engine->health().weight_reloads == 1);
        CHECK(engine->stats().faults.worker_restarts == 0);
        check_well(*engine);
    }
}

TEST_CASE("a step without memory is tried again with fewer tokens") {
    const auto& expected = undisturbed(8, 40);
    for (const Isolation isolation : kBoth) {
        std::vector<StepRecord> steps;
        const Faults faults(isolation, "worker.step:1=bad_alloc;worker.step:6=bad_alloc");
        Engine engine(config_of(isolation));
        engine.set_step_listener([&](const StepRecord& step) { steps.push_back(step); });
        const Answers answers = submit_all(engine, 8, 40);
        for (size_t i = 0; i < answers.size(); ++i) {
            answers[i]->wait();
            CHECK(answers[i]->ids() == expected[i]);
        }
        engine.wait_idle();
        CHECK(engine.stats().faults.out_of_memory == 2);
        CHECK(engine.stats().faults.step_faults == 2);
        CHECK(engine.stats().faults.worker_restarts == 0);
        check_well(engine);
    }
}

TEST_CASE("a request whose steps never have enough memory fails alone, as unavailable") {
    const auto& expected = undisturbed(8, 40);
    for (const Isolation isolation : kBoth) {
        const Faults faults(isolation, "worker.sequence@406:*=bad_alloc");
        Engine engine(config_of(isolation));
        const Answers answers = submit_all(engine, 8, 40);
        check_all_but(6, answers, expected, ErrorKind::unavailable);
        engine.wait_idle();
        CHECK(engine.stats().faults.out_of_memory == 3);
        check_well(engine);
    }
}

TEST_CASE("when no worker can be started any more, every request ends as unavailable") {
    Engine engine(config_of(Isolation::process));
    const Answers answers = submit_all(engine, 8, 400);
    REQUIRE(comes_true([&] { return total_outputs(answers) > 40; }));
    {
        const Faults faults(Isolation::process, "worker.start:*=throw");
        kill_worker(engine);
        for (const auto& answer : answers) {
            answer->wait();
            CHECK(answer->finish() == FinishReason::error);
            CHECK(answer->fault().value().kind == ErrorKind::unavailable);
            CHECK(answer->fault()->message.find("engine dead") != std::string::npos);
        }
    }
    engine.wait_idle();
    CHECK(engine.health().state == EngineState::failed);
    CHECK(engine.health().last_fault.find("fault point worker.start") != std::string::npos);
    Collector late;
    submit(engine, request_number(0, 5), late);
    late.wait();
    CHECK(late.fault().value().kind == ErrorKind::unavailable);
    CHECK_THROWS_AS(engine.resize_cache(0.5), Error);
    CHECK(engine.snapshot(SnapshotDetail::full).get().cache.queried_tokens > 0);
    engine.wait_idle();
}

TEST_CASE("while the worker starts again, requests are taken, looked at and cancelled") {
    Engine engine(config_of(Isolation::process));
    const Answers answers = submit_all(engine, 2, 200);
    REQUIRE(comes_true([&] { return total_outputs(answers) > 20; }));
    RequestId id = 0;
    Collector cancelled;
    {
        const Faults faults(Isolation::process, "worker.start:*=sleep=1500");
        kill_worker(engine);
        REQUIRE(comes_true([&] { return engine.health().state == EngineState::recovering; }));
        REQUIRE(comes_true([&] { return engine.health().worker_pid.has_value(); }));
    }
    auto request = engine.prepare(request_number(5, 50));
    REQUIRE(request);
    id = engine.submit(std::move(*request), cancelled.listener());
    const Snapshot snapshot = engine.snapshot(SnapshotDetail::full).get();
    CHECK(snapshot.sequences.size() == 3);
    engine.cancel(id);
    cancelled.wait();
    CHECK(cancelled.finish() == FinishReason::cancelled);
    // All that happened before the worker was ready.
    CHECK(engine.health().state == EngineState::recovering);
    check_all_as_undisturbed(answers, 200);
}

TEST_CASE("an engine that ends while its worker computes, hangs or starts leaves no process") {
    for (const char* rules : {"", "worker.step:5=sleep=60000", "worker.start:2=sleep=60000"}) {
        CAPTURE(rules);
        int worker = 0;
        {
            const Faults faults(Isolation::process, rules);
            Engine engine(config_of(Isolation::process));
            const Answers answers = submit_all(engine, 4, 400);
            comes_true([&] { return total_outputs(answers) >= 16; });
            worker = engine.health().worker_pid.value();
            engine.stop();
        }
        CHECK(::kill(worker, 0) != 0);
    }
}

TEST_CASE("an engine whose worker cannot start says why") {
    const Faults faults(Isolation::process, "worker.start:*=abort");
    CHECK_THROWS_WITH_AS(Engine(config_of(Isolation::process)), doctest::Contains("signal 6"),
                         Error);
}
