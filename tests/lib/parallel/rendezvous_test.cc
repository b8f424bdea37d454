// Ranks that come, and others who call.
#include "lib/parallel/rendezvous.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "kernels/error.h"
#include "lib/parallel/rank_handshake.h"

using namespace nvllm;

namespace {

constexpr std::chrono::seconds kPatience{20};

std::future<OwnedDescriptor> join(const RankListener& listener, const std::string& secret, int rank,
                                  int num_ranks) {
    return std::async(std::launch::async, [&listener, secret, rank, num_ranks] {
        return join_as_rank(listener.address(), secret, rank, num_ranks, kPatience);
    });
}

// Until all ranks are there, or nothing has come for a while.
bool take_all(RankListener& listener) {
    for (int quiet = 0; quiet < 10; ++quiet) {
        if (listener.take()) return true;
        pollfd one{listener.descriptor(), POLLIN, 0};
        if (::poll(&one, 1, 50) > 0) quiet = 0;
    }
    return false;
}

char receive(const OwnedDescriptor& socket) {
    char letter = 0;
    return ::recv(socket.get(), &letter, 1, 0) == 1 ? letter : '-';
}

}  // namespace

TEST_CASE("ranks come in any order and are handed over in theirs") {
    RankListener listener({"127.0.0.1", 0}, "secret");
    listener.expect(3);
    std::vector<std::future<OwnedDescriptor>> joined;
    for (const int rank : {2, 0, 1}) joined.push_back(join(listener, "secret", rank, 3));
    REQUIRE(take_all(listener));
    const std::vector<OwnedDescriptor> ranks = listener.ranks();
    REQUIRE(ranks.size() == 3);
    for (int i = 0; i < 3; ++i) {
        const char letter = static_cast<char>('a' + i);
        REQUIRE(::send(ranks[static_cast<size_t>(i)].get(), &letter, 1, 0) == 1);
    }
    CHECK(receive(joined[0].get()) == 'c');
    CHECK(receive(joined[1].get()) == 'a');
    CHECK(receive(joined[2].get()) == 'b');
}

TEST_CASE("others are closed: who does not know the secret, a rank twice, one of another number") {
    RankListener listener({"127.0.0.1", 0}, "secret");
    listener.expect(2);
    auto first = join(listener, "secret", 0, 2);
    CHECK(!take_all(listener));
    auto wrong_secret = join(listener, "Secret", 1, 2);
    auto short_secret = join(listener, "s", 1, 2);
    auto twice = join(listener, "secret", 0, 2);
    auto other_size = join(listener, "secret", 1, 3);
    auto no_such_rank = join(listener, "secret", 2, 2);
    CHECK(!take_all(listener));
    CHECK(receive(wrong_secret.get()) == '-');
    CHECK(receive(short_secret.get()) == '-');
    CHECK(receive(twice.get()) == '-');
    CHECK(receive(other_size.get()) == '-');
    CHECK(receive(no_such_rank.get()) == '-');
    auto second = join(listener, "secret", 1, 2);
    CHECK(take_all(listener));
}

TEST_CASE("addresses are HOST:PORT") {
    const RankAddress named = parse_rank_address("node1:5000");
    CHECK(named.host == "node1");
    CHECK(named.port == 5000);
    const RankAddress numbers = parse_rank_address("[::1]:7");
    CHECK(numbers.host == "::1");
    CHECK(format_rank_address(numbers) == "[::1]:7");
    CHECK(parse_rank_address(":80").host.empty());
    for (const char* text : {"node1", "node1:", "node1:x", "::1:5", "node1:70000", ""}) {
        CHECK_THROWS_AS(parse_rank_address(text), Error);
    }
    CHECK(make_rank_secret().size() == 64);
    CHECK(make_rank_secret() != make_rank_secret());
}

TEST_CASE("a handshake is read as far as it is right") {
    const std::vector<uint8_t> said = write_handshake({1, 4}, "abc");
    CHECK(said.size() == handshake_bytes("abc"));
    RankHandshake handshake;
    for (size_t size = 0; size < said.size(); ++size) {
        CHECK(read_handshake(std::span(said).first(size), "abc", handshake) ==
              HandshakeState::incomplete);
    }
    CHECK(read_handshake(said, "abc", handshake) == HandshakeState::complete);
    CHECK(handshake.rank == 1);
    CHECK(handshake.num_ranks == 4);
    CHECK(read_handshake(said, "abd", handshake) == HandshakeState::wrong);
    std::vector<uint8_t> other = said;
    other[8] ^= 2;  // the version
    CHECK(read_handshake(other, "abc", handshake) == HandshakeState::wrong);
}
