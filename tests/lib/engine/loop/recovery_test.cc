// Workers that are lost, and those that come after them.
#include "lib/engine/loop/recovery.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;

namespace {

using Clock = Recovery::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Starts as the test says.
class FakeExecutor : public StepExecutor {
  public:
    void start() override {
        ++num_starts;
        if (!can_spawn) throw Error(ErrorKind::unavailable, "no program");
    }
    std::optional<WorkerReady> ready(bool) override {
        if (!can_load) throw Error(ErrorKind::bad_data, "no weights");
        if (dies) throw WorkerDied("died");
        if (is_ready) return WorkerReady{};
        return std::nullopt;
    }
    std::optional<int> readable_descriptor() const override { return 0; }
    std::optional<std::string> check_alive() override { return std::nullopt; }
    StepResult execute(const BatchPlan&) override { return {}; }
    void forget() override {}
    std::optional<int> process_id() const override { return std::nullopt; }
    bool kill(const std::string&) override { return false; }

    int num_starts = 0;
    bool can_spawn = true;
    bool can_load = true;
    bool dies = false;
    bool is_ready = true;
};

struct Started {
    Started() {
        REQUIRE(recovery.start_first([] { return true; }));
        REQUIRE(recovery.ready());
        executor.num_starts = 0;
    }
    // Attends until nothing more happens by itself; the time it took on the test's own clock.
    milliseconds settle() {
        const Clock::time_point begin = now;
        while (!recovery.ready() && !recovery.failed()) {
            if (const auto wait = recovery.wake_after(now)) now += *wait;
            recovery.attend(now);
        }
        return std::chrono::duration_cast<milliseconds>(now - begin);
    }
    FakeExecutor executor;
    Recovery recovery{executor};
    Clock::time_point now = Clock::now();
};

}  // namespace

TEST_CASE("a lost worker is started again at once, and is ready when it says so") {
    Started test;
    test.executor.is_ready = false;
    test.recovery.replace(test.now);
    CHECK(test.executor.num_starts == 1);
    CHECK_FALSE(test.recovery.ready());
    CHECK_FALSE(test.recovery.wake_after(test.now));
    CHECK_FALSE(test.recovery.attend(test.now));
    test.executor.is_ready = true;
    CHECK(test.recovery.attend(test.now));
    CHECK(test.recovery.ready());
    CHECK_FALSE(test.recovery.attend(test.now));
}

TEST_CASE("three starts that fail are the end, however they fail") {
    for (const int way : {0, 1, 2}) {
        Started test;
        test.executor.can_spawn = way != 0;
        test.executor.can_load = way != 1;
        test.executor.dies = way == 2;
        test.recovery.replace(test.now);
        test.settle();
        CHECK(test.recovery.failed());
        CHECK(test.executor.num_starts == 3);
        CHECK_FALSE(test.recovery.wake_after(test.now));
        const char* const why[] = {"no program", "no weights", "died"};
        CHECK(test.recovery.start_fault() == why[way]);
    }
}

TEST_CASE("starts that failed long ago, with a good one since, do not count") {
    Started test;
    for (int round = 0; round < 5; ++round) {
        test.executor.can_load = false;
        test.recovery.replace(test.now);
        test.recovery.attend(test.now);
        test.executor.can_load = true;
        test.settle();
        CHECK(test.recovery.ready());
        test.recovery.note_step();
        test.now += seconds(40);
    }
    // Three within the time.
    test.now += seconds(100);
    for (int round = 0; round < 3; ++round) {
        CHECK_FALSE(test.recovery.failed());
        test.executor.can_load = false;
        test.recovery.replace(test.now);
        test.recovery.attend(test.now);
        test.executor.can_load = true;
        if (!test.recovery.failed()) test.settle();
        test.recovery.note_step();
        test.now += seconds(1);
    }
    CHECK(test.recovery.failed());
}

TEST_CASE("workers that are lost without a step come after ever longer pauses; a step ends that") {
    Started test;
    std::vector<int64_t> pauses_ms;
    for (int round = 0; round < 10; ++round) {
        test.recovery.replace(test.now);
        pauses_ms.push_back(test.settle().count());
    }
    CHECK(std::vector(pauses_ms.begin(), pauses_ms.begin() + 4) ==
          std::vector<int64_t>{0, 100, 200, 400});
    CHECK(pauses_ms.back() == 5000);
    test.recovery.note_step();
    test.recovery.replace(test.now);
    CHECK(test.settle().count() == 0);
}
