// Ranks of several replicas that are started together.
#include "lib/execute/ranks/shared_ranks.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/execute/frame_channel.h"
#include "tests/error_of.h"

using namespace nvllm;

namespace {

// Ranks that do nothing, whose ends of the sockets are here.
struct FakeLauncher : RankLauncher {
    struct Log {
        int num_starts = 0;
        int num_burials = 0;
        std::vector<OwnedDescriptor> theirs;
        OwnedDescriptor news{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    };
    FakeLauncher(Log& log, int num_ranks) : log(log), num_ranks(num_ranks) {}

    void start() override { ++log.num_starts; }
    std::optional<std::vector<OwnedDescriptor>> connected(bool) override {
        eventfd_t count = 0;
        ::eventfd_read(log.news.get(), &count);
        std::vector<OwnedDescriptor> ours;
        log.theirs.clear();
        for (int rank = 0; rank < num_ranks; ++rank) {
            auto [our_end, their_end] = make_socket_pair();
            ours.push_back(std::move(our_end));
            log.theirs.push_back(std::move(their_end));
        }
        return ours;
    }
    std::optional<int> readable_descriptor() const override { return log.news.get(); }
    bool kill(const std::string&) override { return true; }
    RanksEnd bury(bool, const std::string& what_was_seen) override {
        ++log.num_burials;
        return {"they " + what_was_seen, true};
    }
    std::optional<int> process_id() const override { return 12; }

    Log& log;
    int num_ranks;
};

bool has_ended(const OwnedDescriptor& socket) {
    pollfd one{socket.get(), POLLRDHUP, 0};
    return ::poll(&one, 1, 0) > 0;
}

struct Test {
    FakeLauncher::Log log;
    std::shared_ptr<SharedRanks> ranks =
        std::make_shared<SharedRanks>(std::make_unique<FakeLauncher>(log, 4), 2, 2);
    std::unique_ptr<RankLauncher> first = ranks->launcher(0);
    std::unique_ptr<RankLauncher> second = ranks->launcher(1);
};

}  // namespace

TEST_CASE("the first start is for all, and each replica gets its own sockets") {
    Test test;
    test.second->start();
    const auto of_second = test.second->connected(false);
    test.first->start();
    const auto of_first = test.first->connected(false);
    CHECK(test.log.num_starts == 1);
    REQUIRE(of_first);
    REQUIRE(of_second);
    REQUIRE(of_first->size() == 2);
    REQUIRE(of_second->size() == 2);
    // The third of all ranks is the second replica's first.
    CHECK(::send(test.log.theirs[2].get(), "x", 1, 0) == 1);
    char byte = 0;
    CHECK(::recv(of_second->front().get(), &byte, 1, MSG_DONTWAIT) == 1);
    RankSetup setup;
    setup.sizes.tensor = 2;
    setup.sharing = {0, 2};
    const auto ids = test.first->group_ids(setup);
    setup.sharing.index = 1;
    CHECK(test.second->group_ids(setup) == ids);
    CHECK(test.second->process_id() == 12);
}

TEST_CASE("the replica that loses them ends them for all, and what was started since stays") {
    Test test;
    test.first->start();
    test.second->start();
    const auto before = test.second->connected(false);
    CHECK_FALSE(has_ended(before->front()));
    CHECK(test.first->bury(true, "closed").how == "they closed");
    CHECK(has_ended(before->front()));
    CHECK(has_ended(test.log.theirs[1]));
    test::error_of(ErrorKind::unavailable, [&] { test.second->connected(false); });
    test.first->start();
    const auto of_first = test.first->connected(false);
    // The second one finds out late.
    CHECK(test.second->bury(true, "were seen later").how == "they closed");
    CHECK_FALSE(has_ended(of_first->front()));
    test.second->start();
    const auto after = test.second->connected(false);
    REQUIRE(after);
    CHECK(after->size() == 2);
    CHECK(test.log.num_starts == 2);
    CHECK(test.log.num_burials == 1);
}

TEST_CASE("a replica that starts again what it has wants other ranks") {
    Test test;
    test.first->start();
    test.second->start();
    const auto before = test.second->connected(false);
    test.first->start();
    CHECK(test.log.num_starts == 2);
    CHECK(test.log.num_burials == 1);
    CHECK(has_ended(before->front()));
    CHECK(test.second->bury(true, "closed").how == "they started again");
    CHECK(test.second->bury(true, "closed").how.empty());
}

TEST_CASE(
    "the ranks wake every replica, and one that comes too late for them still has its event") {
    Test test;
    test.second->start();
    // It waits already when the first one starts, and when that takes the sockets of both.
    pollfd news{*test.second->readable_descriptor(), POLLIN, 0};
    CHECK(::poll(&news, 1, 0) == 0);
    test.first->start();
    CHECK(::eventfd_write(test.log.news.get(), 1) == 0);
    CHECK(::poll(&news, 1, 0) == 1);
    CHECK(test.first->connected(false));
    CHECK(::poll(&news, 1, 0) == 1);
    CHECK(test.second->connected(false));
    CHECK(::poll(&news, 1, 0) == 0);
}
