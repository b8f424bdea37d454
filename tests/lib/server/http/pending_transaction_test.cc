// Exchanges between handlers' threads and the I/O thread: who is told what, and who lets go of
// whom.
#include "lib/server/http/pending_transaction.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

namespace {

// As a call under way: it holds its exchange, which holds it.
struct HoldingSource : EventSource {
    explicit HoldingSource(std::shared_ptr<HttpTransaction> given)
        : transaction(std::move(given)) {}
    StreamState take(std::vector<StreamEvent>&) override { return StreamState::complete; }
    std::shared_ptr<HttpTransaction> transaction;
};

struct Fixture {
    boost::asio::io_context io;
    std::atomic<int64_t> num_under_way{0};
    std::shared_ptr<PendingTransaction> transaction =
        std::make_shared<PendingTransaction>(io, HttpRequest{}, num_under_way);
};

}  // namespace

TEST_CASE("a settled exchange lets go of its source and of whoever waited") {
    Fixture fixture;
    std::weak_ptr<EventSource> source;
    {
        auto holding = std::make_shared<HoldingSource>(fixture.transaction);
        source = holding;
        fixture.transaction->stream(holding);
        fixture.transaction->on_disconnect([holding](DisconnectReason) {});
    }
    CHECK(!source.expired());
    CHECK(fixture.transaction->source() != nullptr);
    fixture.transaction->settle();
    CHECK(source.expired());
}

TEST_CASE("what is said after the end is not kept") {
    Fixture fixture;
    fixture.transaction->settle();
    std::weak_ptr<EventSource> source;
    {
        auto late = std::make_shared<HoldingSource>(fixture.transaction);
        source = late;
        fixture.transaction->stream(late);
        fixture.transaction->on_disconnect([late](DisconnectReason) {});
        fixture.transaction->respond({});
    }
    CHECK(source.expired());
    CHECK(!fixture.transaction->has_responded());
}

TEST_CASE("whoever asks late is told that the client has gone, ended or not") {
    Fixture fixture;
    fixture.transaction->disconnected(DisconnectReason::stalled);
    fixture.transaction->settle();
    std::optional<DisconnectReason> told;
    fixture.transaction->on_disconnect([&](DisconnectReason why) { told = why; });
    fixture.io.run();
    CHECK(told == DisconnectReason::stalled);
}

TEST_CASE("the first answer counts, and the first departure") {
    Fixture fixture;
    int calls = 0;
    fixture.transaction->on_disconnect([&](DisconnectReason) { ++calls; });
    HttpResponse first;
    first.status = 201;
    fixture.transaction->respond(std::move(first));
    fixture.transaction->respond({});
    CHECK(fixture.transaction->take_response()->status == 201);
    fixture.transaction->disconnected(DisconnectReason::closed);
    fixture.transaction->disconnected(DisconnectReason::shut_down);
    CHECK(calls == 1);
    CHECK(fixture.transaction->departed() == DisconnectReason::closed);
}

TEST_CASE("exchanges under way are counted until they are settled or gone") {
    Fixture fixture;
    CHECK(fixture.num_under_way == 1);
    {
        PendingTransaction dropped(fixture.io, HttpRequest{}, fixture.num_under_way);
        CHECK(fixture.num_under_way == 2);
    }
    CHECK(fixture.num_under_way == 1);
    fixture.transaction->settle();
    fixture.transaction->settle();
    CHECK(fixture.num_under_way == 0);
    fixture.transaction.reset();
    CHECK(fixture.num_under_way == 0);
}
