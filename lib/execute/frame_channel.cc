// send() and recv() until all is through.
#include "lib/execute/frame_channel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace nvllm {
namespace {

// What is read of a payload before memory for more of it is taken.
constexpr size_t kPieceBytes = size_t{1} << 20;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::io, what); }

}  // namespace

std::pair<OwnedDescriptor, OwnedDescriptor> make_socket_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw Error(ErrorKind::unavailable,
                    std::string("cannot make a pair of sockets: ") + std::strerror(errno));
    }
    return {OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1])};
}

void FrameChannel::send_bytes() {
    for (size_t done = 0; done < sent_.size();) {
        const ssize_t count =
            ::send(socket_.get(), sent_.data() + done, sent_.size() - done, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail(fmt::format("cannot send: {}", std::strerror(errno)));
        done += static_cast<size_t>(count);
    }
    bytes_sent_ += sent_.size();
}

size_t FrameChannel::receive_bytes(uint8_t* target, size_t size) {
    size_t done = 0;
    while (done < size) {
        const ssize_t count = ::recv(socket_.get(), target + done, size - done, 0);
        if (count < 0 && errno == EINTR) continue;
        // An end that is killed with unread bytes before it resets the connection.
        if (count < 0 && errno != ECONNRESET) {
            fail(fmt::format("cannot receive: {}", std::strerror(errno)));
        }
        if (count <= 0) break;
        done += static_cast<size_t>(count);
    }
    bytes_received_ += done;
    return done;
}

std::optional<FrameHead> FrameChannel::receive() {
    std::array<uint8_t, kFrameHeadBytes> bytes{};
    const size_t got = receive_bytes(bytes.data(), bytes.size());
    if (got == 0) return std::nullopt;
    if (got < bytes.size()) fail("the connection ended in the middle of a message");
    const FrameHead head = read_frame_head(bytes);
    payload_.clear();
    while (payload_.size() < head.payload_bytes) {
        const size_t before = payload_.size();
        const size_t piece = std::min(kPieceBytes, head.payload_bytes - before);
        payload_.resize(before + piece);
        if (receive_bytes(payload_.data() + before, piece) < piece) {
            fail("the connection ended in the middle of a message");
        }
    }
    return head;
}

}  // namespace nvllm
