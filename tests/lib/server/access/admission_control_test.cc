// Places are held as long as their tickets, and never more of them than there are.
#include "lib/server/access/admission_control.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace nvllm::server;

namespace {

using Ticket = AdmissionControl::Ticket;

std::shared_ptr<AdmissionControl> control_of(int64_t sequences, int64_t tokens, int status = 429) {
    return std::make_shared<AdmissionControl>(AdmissionLimits{
        .max_sequences = sequences, .max_prompt_tokens = tokens, .overload_status = status});
}

std::optional<Ticket> enter(const std::shared_ptr<AdmissionControl>& control, int64_t count) {
    ApiError error;
    auto ticket = AdmissionControl::enter(control, count, error);
    CHECK(ticket.has_value() == error.message.empty());
    return ticket;
}

}  // namespace

TEST_CASE("admission: sequences up to the limit, and again when one has gone") {
    const auto control = control_of(4, 100);
    auto one = enter(control, 3);
    REQUIRE(one);
    CHECK(!enter(control, 2));
    auto other = enter(control, 1);
    REQUIRE(other);
    CHECK(control->open_sequences() == 4);
    CHECK(!enter(control, 1));
    one.reset();
    CHECK(control->open_sequences() == 1);
    CHECK(enter(control, 3));
    other->release();
    other->release();
    CHECK(control->open_sequences() == 0);
}

TEST_CASE("admission: a single request is never too much") {
    const auto control = control_of(4, 100);
    auto large = enter(control, 1000);
    REQUIRE(large);
    CHECK(!large->add_prompt_tokens(100'000));
    CHECK(!enter(control, 1));
    large.reset();
    CHECK(enter(control, 1));
}

TEST_CASE("admission: prompt tokens of all together") {
    const auto control = control_of(10, 100);
    auto one = enter(control, 1);
    auto other = enter(control, 1);
    CHECK(!one->add_prompt_tokens(60));
    const auto refused = other->add_prompt_tokens(41);
    REQUIRE(refused);
    CHECK(refused->status == 429);
    CHECK(!other->add_prompt_tokens(40));
    CHECK(control->open_prompt_tokens() == 100);
    one.reset();
    CHECK(control->open_prompt_tokens() == 40);
    other.reset();
    CHECK(control->open_prompt_tokens() == 0);
}

TEST_CASE("admission: a refusal says what is full and when to ask again") {
    const auto control = control_of(1, 100, 503);
    const auto held = enter(control, 1);
    ApiError error;
    CHECK(!AdmissionControl::enter(control, 1, error));
    CHECK(error.status == 503);
    CHECK(error.code == "queue_full");
    CHECK(error_type(error) == "overloaded_error");
    CHECK(error.retry_after_s == 1);
    CHECK(error.message.find("at most 1") != std::string::npos);
}

TEST_CASE("admission: tickets move") {
    const auto control = control_of(10, 100);
    auto one = enter(control, 2);
    (void)one->add_prompt_tokens(5);
    Ticket moved = std::move(*one);
    one.reset();
    CHECK(control->open_sequences() == 2);
    auto other = enter(control, 3);
    moved = std::move(*other);
    CHECK(control->open_sequences() == 3);
    CHECK(control->open_prompt_tokens() == 0);
    moved = Ticket();
    CHECK(control->open_sequences() == 0);
}

TEST_CASE("admission: many threads leave nothing behind and never pass the limit") {
    const auto control = control_of(8, 1000);
    std::atomic<int64_t> highest = 0;
    std::atomic<int> entered = 0;
    const auto work = [&] {
        for (int i = 0; i < 5000; ++i) {
            ApiError error;
            const auto ticket = AdmissionControl::enter(control, 1 + i % 3, error);
            if (!ticket) continue;
            ++entered;
            const int64_t open = control->open_sequences();
            int64_t before = highest.load();
            while (open > before && !highest.compare_exchange_weak(before, open)) {
            }
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    CHECK(entered > 0);
    CHECK(highest <= 8);
    CHECK(control->open_sequences() == 0);
}
