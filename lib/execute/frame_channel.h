// Frames (wire.h) over a connected socket: sends whole ones, receives whole ones.
//
// One thread sends and receives. What the other end announces is believed only as far as bytes
// really come.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/execute/wire.h"
#include "lib/system/unix_socket.h"

namespace nvllm {

// Two connected ends, closed on exec. Throws unavailable.
std::pair<OwnedDescriptor, OwnedDescriptor> make_socket_pair();

class FrameChannel {
  public:
    explicit FrameChannel(OwnedDescriptor socket) : socket_(std::move(socket)) {}

    int descriptor() const { return socket_.get(); }

    // Blocks until all of it is on its way. Throws io when the other end is gone.
    template <typename Message>
    void send(const Message& message) {
        write_frame(message, sent_);
        send_bytes();
    }

    // Blocks until a whole frame is there; its head, with the payload in payload(). Nothing when
    // the other end closed the connection between two frames. Throws io when it is cut off in the
    // middle of one, bad_data when it is no frame.
    std::optional<FrameHead> receive();

    // Of the last frame received; valid until the next one.
    std::span<const uint8_t> payload() const { return payload_; }

    uint64_t bytes_sent() const { return bytes_sent_; }
    uint64_t bytes_received() const { return bytes_received_; }

  private:
    void send_bytes();
    // As many as asked for, or fewer when the other end closed.
    size_t receive_bytes(uint8_t* target, size_t size);

    OwnedDescriptor socket_;
    Bytes sent_;
    Bytes payload_;
    uint64_t bytes_sent_ = 0;
    uint64_t bytes_received_ = 0;
};

}  // namespace nvllm
