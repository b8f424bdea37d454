// Outputs and their listeners: one last output for each request.
#include "lib/engine/loop/output_delivery.h"

#include <doctest/doctest.h>

#include "tests/lib/engine/loop/loop_testing.h"

using namespace nvllm;
using namespace nvllm::test;

TEST_CASE("a refused request ends each of its choices with the fault") {
    LoopParts parts;
    Request request;
    request.id = 9;
    request.prompt_token_ids = {1, 2, 3};
    request.sampling.n = 2;
    std::vector<RequestOutput> outputs;
    parts.delivery.open(9, [&](RequestOutput&& output) { outputs.push_back(std::move(output)); });
    parts.delivery.refuse(request, Fault{ErrorKind::unavailable, "no"});
    REQUIRE(outputs.size() == 1);
    CHECK(outputs[0].finished);
    CHECK(outputs[0].num_prompt_tokens == 3);
    REQUIRE(outputs[0].continuations.size() == 2);
    for (const ContinuationOutput& choice : outputs[0].continuations) {
        CHECK(choice.finish_reason == FinishReason::error);
        CHECK(choice.fault->message == "no");
    }
    CHECK(parts.delivery.take_num_finished() == 1);
    CHECK(parts.delivery.take_num_finished() == 0);
}

TEST_CASE("a finished request is delivered once, and later outputs go nowhere") {
    LoopParts parts;
    const RequestId id = parts.add(3, 5);
    parts.delivery.finish(id, FinishReason::cancelled);
    parts.delivery.emit(id);
    parts.delivery.emit(id);
    CHECK(parts.received[id].num_last == 1);
    CHECK(parts.received[id].finish == FinishReason::cancelled);
    CHECK(parts.delivery.take_num_finished() == 1);
}

TEST_CASE("every open request ends with the fault of the engine") {
    LoopParts parts;
    const RequestId first = parts.add(3, 5);
    const RequestId second = parts.add(3, 5);
    parts.delivery.finish_all(Fault{ErrorKind::unavailable, "dead"});
    for (const RequestId id : {first, second}) {
        CHECK(parts.received[id].finish == FinishReason::error);
        CHECK(parts.received[id].fault->message == "dead");
    }
    CHECK(parts.delivery.take_num_finished() == 2);
}

TEST_CASE("dropped listeners are destroyed without a call") {
    LoopParts parts;
    const auto owned = std::make_shared<int>(1);
    int num_calls = 0;
    parts.delivery.open(4, [owned, &num_calls](RequestOutput&&) { ++num_calls; });
    CHECK(owned.use_count() == 2);
    parts.delivery.drop_listeners();
    CHECK(owned.use_count() == 1);
    CHECK(num_calls == 0);
}
