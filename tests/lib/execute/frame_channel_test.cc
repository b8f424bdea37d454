// Frames over a socket, and what becomes of a connection that ends.
#include "lib/execute/frame_channel.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

using namespace nvllm;

namespace {

struct Ends {
    Ends() : Ends(make_socket_pair()) {}
    explicit Ends(std::pair<OwnedDescriptor, OwnedDescriptor> pair)
        : ours(std::move(pair.first)), theirs(std::move(pair.second)) {}
    FrameChannel ours;
    OwnedDescriptor theirs;
};

}  // namespace

TEST_CASE("frames arrive whole and in order, larger than any buffer between") {
    Ends ends;
    FrameChannel other(std::move(ends.theirs));
    StepResult large;
    large.sequences.resize(100'000);
    std::thread sender([&] {
        ends.ours.send(large);
        ends.ours.send(ForgetSequences{});
    });
    const auto first = other.receive();
    REQUIRE(first);
    CHECK(first->kind == MessageKind::result);
    CHECK(read_payload<StepResult>(other.payload()).sequences.size() == 100'000);
    const auto second = other.receive();
    REQUIRE(second);
    CHECK(second->kind == MessageKind::forget);
    CHECK(other.payload().empty());
    sender.join();
    CHECK(ends.ours.bytes_sent() == other.bytes_received());
}

TEST_CASE("an end between two frames is the end, one within a frame is a fault") {
    Ends clean;
    clean.theirs.reset();
    CHECK_FALSE(clean.ours.receive());
    CHECK_THROWS_AS(clean.ours.send(ForgetSequences{}), Error);
    Bytes frame;
    write_frame(WorkerFault{ErrorKind::io, "cut off", false}, frame);
    for (size_t size = 1; size < frame.size(); ++size) {
        Ends cut;
        REQUIRE(::send(cut.theirs.get(), frame.data(), size, 0) == static_cast<ssize_t>(size));
        cut.theirs.reset();
        CHECK_THROWS_AS(cut.ours.receive(), Error);
    }
}

TEST_CASE("what is no frame is refused before anything is read of it") {
    Ends ends;
    const std::array<uint8_t, 8> words = {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'};
    REQUIRE(::send(ends.theirs.get(), words.data(), words.size(), 0) == 8);
    CHECK_THROWS_AS(ends.ours.receive(), Error);
}
