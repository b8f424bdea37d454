// Exchanges between handlers' threads and the I/O thread: who is told what, and who lets go of
// whom.
#include "lib/server/http/pending_transaction.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

namespace {

// As a call under way: it holds its exchange, which holds it.
struct HoldingSource : EventSource {
    explicit HoldingSource(std::shared_ptr<HttpTransaction> given) : exchange(std::move(given)) {}
    StreamState take(std::vector<std::string>&) override { return StreamState::complete; }
    std::shared_ptr<HttpTransaction> exchange;
};

struct Fixture {
    boost::asio::io_context io;
    std::atomic<int64_t> num_under_way{0};
    std::shared_ptr<PendingTransaction> exchange =
        std::make_shared<PendingTransaction>(io, HttpRequest{}, num_under_way);
};

}  // namespace

TEST_CASE("a settled exchange lets go of its source and of whoever waited") {
    Fixture fixture;
    std::weak_ptr<EventSource> source;
    {
        auto holding = std::make_shared<HoldingSource>(fixture.exchange);
        source = holding;
        fixture.exchange->stream(holding);
        fixture.exchange->on_disconnect([holding](DisconnectReason) {});
    }
    CHECK(!source.expired());
    CHECK(fixture.exchange->source() != nullptr);
    fixture.exchange->settle();
    CHECK(source.expired());
}

TEST_CASE("what is said after the end is not kept") {
    Fixture fixture;
    fixture.exchange->settle();
    std::weak_ptr<EventSource> source;
    {
        auto late = std::make_shared<HoldingSource>(fixture.exchange);
        source = late;
        fixture.exchange->stream(late);
        fixture.exchange->on_disconnect([late](DisconnectReason) {});
        fixture.exchange->respond({});
    }
    CHECK(source.expired());
    CHECK(!fixture.exchange->is_answered());
}

TEST_CASE("whoever asks late is told that the client has gone, ended or not") {
    Fixture fixture;
    fixture.exchange->depart(DisconnectReason::stalled);
    fixture.exchange->settle();
    std::optional<DisconnectReason> told;
    fixture.exchange->on_disconnect([&](DisconnectReason why) { told = why; });
    fixture.io.run();
    CHECK(told == DisconnectReason::stalled);
}

TEST_CASE("the first answer counts, and the first departure") {
    Fixture fixture;
    int calls = 0;
    fixture.exchange->on_disconnect([&](DisconnectReason) { ++calls; });
    HttpResponse first;
    first.status = 201;
    fixture.exchange->respond(std::move(first));
    fixture.exchange->respond({});
    CHECK(fixture.exchange->take_response()->status == 201);
    fixture.exchange->depart(DisconnectReason::closed);
    fixture.exchange->depart(DisconnectReason::shut_down);
    CHECK(calls == 1);
    CHECK(fixture.exchange->departed() == DisconnectReason::closed);
}

TEST_CASE("exchanges under way are counted until they are settled or gone") {
    Fixture fixture;
    CHECK(fixture.num_under_way == 1);
    {
        PendingTransaction dropped(fixture.io, HttpRequest{}, fixture.num_under_way);
        CHECK(fixture.num_under_way == 2);
    }
    CHECK(fixture.num_under_way == 1);
    fixture.exchange->settle();
    fixture.exchange->settle();
    CHECK(fixture.num_under_way == 0);
    fixture.exchange.reset();
    CHECK(fixture.num_under_way == 0);
}
