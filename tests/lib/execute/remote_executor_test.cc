// A worker in a process of its own: it computes what one in this process does, and whatever becomes
// of it is told.
#include "lib/execute/remote_executor.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>

#include "lib/execute/local_executor.h"
#include "tests/lib/base/captured_process.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/shared_data.h"

using namespace nvllm;

namespace {

// Fault points of the workers that are started while it lives.
struct WorkerFaults {
    explicit WorkerFaults(const char* rules) { ::setenv("NVLLM_FAULTS", rules, 1); }
    ~WorkerFaults() { ::unsetenv("NVLLM_FAULTS"); }
};

WorkerSetup small_setup() {
    WorkerSetup setup;
    setup.model.directory = test::source_path("models/demo-draft");
    setup.model.num_threads = 2;
    setup.placement = free_placement(2);
    const ModelMetadata metadata = model_metadata(setup.model);
    setup.kv_groups = metadata.kv_groups;
    setup.vocab_size = metadata.config.vocab_size;
    setup.worker.num_blocks = {32};
    setup.worker.kv_dtype = metadata.compute_type;
    return setup;
}

BatchPlan prefill() {
    BatchPlan plan;
    plan.number = 1;
    AddedSequence& added = plan.added.emplace_back();
    added.sequence = 1;
    added.token_ids = {300, 301, 302, 303};
    added.num_prompt_tokens = 4;
    added.sampling.temperature = 0.0f;
    added.sampling.logprobs = 3;
    added.sampling.seed = 1;
    added.block_tables = {{}};
    PlanEntry& entry = plan.entries.emplace_back();
    entry.sequence = 1;
    entry.count = 4;
    entry.output = OutputKind::sample;
    entry.new_blocks = {{0}};
    return plan;
}

BatchPlan decode(uint64_t number) {
    BatchPlan plan;
    plan.number = number;
    PlanEntry& entry = plan.entries.emplace_back();
    entry.sequence = 1;
    entry.first = static_cast<int32_t>(number) + 2;
    entry.count = 1;
    entry.output = OutputKind::sample;
    return plan;
}

std::vector<int32_t> first_tokens(StepExecutor& executor, uint64_t count) {
    std::vector<int32_t> tokens;
    for (uint64_t number = 1; number <= count; ++number) {
        const StepResult result = executor.execute(number == 1 ? prefill() : decode(number));
        tokens.push_back(result.sequences.at(0).token_ids.at(0));
    }
    return tokens;
}

std::string cause_of_loss(RemoteExecutor& executor, const BatchPlan& plan) {
    try {
        executor.execute(plan);
    } catch (const WorkerDied& lost) {
        return lost.what();
    }
    return "not lost";
}

// Like check_alive(), for at most a few seconds.
std::string wait_for_loss(RemoteExecutor& executor) {
    for (int i = 0; i < 500; ++i) {
        if (const auto cause = executor.check_alive()) return *cause;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "not lost";
}

// Or is a zombie, of which only the number is left.
bool has_ended(pid_t process) {
    for (int i = 0; i < 500; ++i) {
        std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
        std::string id;
        std::string name;
        std::string state;
        if (!(stat >> id >> name >> state) || state == "Z") return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

}  // namespace

TEST_CASE("a worker in another process computes what one in this process does") {
    const WorkerSetup setup = small_setup();
    LocalExecutor local(setup);
    local.start();
    CHECK(local.ready(true));
    const std::vector<int32_t> expected = first_tokens(local, 12);
    RemoteExecutor remote(setup, find_worker_program());
    CHECK_FALSE(remote.process_id());
    remote.start();
    REQUIRE(remote.ready(true));
    CHECK(remote.process_id());
    CHECK(first_tokens(remote, 12) == expected);
    remote.forget();
    CHECK(first_tokens(remote, 12) == expected);
    CHECK_FALSE(remote.check_alive());
    remote.start();
    REQUIRE(remote.ready(true));
    CHECK(first_tokens(remote, 3) == std::vector(expected.begin(), expected.begin() + 3));
}

TEST_CASE("a worker that is killed is found out, and another one goes on") {
    RemoteExecutor remote(small_setup(), find_worker_program());
    remote.start();
    REQUIRE(remote.ready(true));
    const std::vector<int32_t> expected = first_tokens(remote, 2);
    const pid_t first = remote.process_id().value();
    ::kill(first, SIGKILL);
    const std::string cause = cause_of_loss(remote, decode(3));
    CAPTURE(cause);
    CHECK(cause.find("killed by signal 9") != std::string::npos);
    CHECK(cause.find(std::to_string(first)) != std::string::npos);
    CHECK_FALSE(remote.process_id());
    CHECK(cause_of_loss(remote, decode(3)) == "there is none");
    remote.start();
    REQUIRE(remote.ready(true));
    CHECK(first_tokens(remote, 2) == expected);
    // With nothing to do.
    ::kill(remote.process_id().value(), SIGABRT);
    CHECK(wait_for_loss(remote).find("signal 6") != std::string::npos);
}

TEST_CASE("a worker that hangs is killed from another thread, and says why it was") {
    const WorkerFaults faults("worker.step:2=sleep=60000");
    RemoteExecutor remote(small_setup(), find_worker_program());
    remote.start();
    REQUIRE(remote.ready(true));
    first_tokens(remote, 1);
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(remote.kill("took too long"));
    });
    const std::string cause = cause_of_loss(remote, decode(2));
    other.join();
    CHECK(cause.find("took too long") != std::string::npos);
    CHECK_FALSE(remote.kill("once more"));
}

TEST_CASE("a step that fails is told, and the worker goes on") {
    const WorkerFaults faults("worker.step:1=throw;worker.step:2=bad_alloc");
    RemoteExecutor remote(small_setup(), find_worker_program());
    remote.start();
    REQUIRE(remote.ready(true));
    CHECK_THROWS_AS(remote.execute(prefill()), Error);
    remote.forget();
    CHECK_THROWS_AS(remote.execute(prefill()), std::bad_alloc);
    remote.forget();
    CHECK(first_tokens(remote, 2).size() == 2);
}

TEST_CASE("a worker that cannot start says why") {
    WorkerSetup setup = small_setup();
    setup.vocab_size += 1;
    RemoteExecutor other_model(setup, find_worker_program());
    other_model.start();
    CHECK_THROWS_WITH_AS(other_model.ready(true), doctest::Contains("another model than the one"),
                         Error);
    const WorkerFaults faults("worker.start:*=abort");
    RemoteExecutor aborts(small_setup(), find_worker_program());
    aborts.start();
    CHECK_THROWS_AS(aborts.ready(true), WorkerDied);
    RemoteExecutor missing(small_setup(), "/no/such/nvllm-worker");
    CHECK_THROWS_AS(missing.start(), Error);
}

TEST_CASE("a program that talks nonsense is no worker") {
    const test::TemporaryFolder folder;
    const std::filesystem::path program = folder.path() / "talks";
    for (const char* words : {"printf 'HTTP/1.1 200 OK and more' >&3; exec sleep 60",
                              // A result that nobody asked for, of no bytes.
                              "printf '\\0\\0\\0\\0\\1\\0\\4\\0' >&3; exec sleep 60",
                              // The head of a gigabyte, and then nothing.
                              "printf '\\0\\0\\0\\100\\1\\0\\2\\0' >&3", "exit 3"}) {
        CAPTURE(words);
        std::ofstream(program) << "#!/bin/sh\n" << words << "\n";
        std::filesystem::permissions(program, std::filesystem::perms::owner_all);
        RemoteExecutor remote(small_setup(), program);
        CHECK_THROWS_AS((remote.start(), remote.ready(true)), WorkerDied);
    }
}

TEST_CASE("a worker ends with the process that started it, even when it is busy") {
    const WorkerFaults faults("worker.step:1=sleep=60000");
    const test::CapturedProcess parent = test::run_captured([] {
        RemoteExecutor remote(small_setup(), find_worker_program());
        remote.start();
        remote.ready(true);
        std::fprintf(stderr, "%d", remote.process_id().value());
        std::thread other([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            ::raise(SIGKILL);
        });
        remote.execute(prefill());
        return 0;
    });
    CHECK(parent.exit_code == 128 + SIGKILL);
    const pid_t worker = std::stoi(parent.output);
    REQUIRE(worker > 0);
    CHECK(has_ended(worker));
}
