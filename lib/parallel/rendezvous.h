// How ranks that a launcher started find the process that plans for them: over TCP, at an address
// and with a secret that both were given.
//
// A rank sends its handshake (rank_handshake.h); a connection that says something else is closed.
// The connection then carries the frames of serve_plans(). It is not encrypted, as the data between
// ranks is not: both belong into a network of the ranks' own.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

struct RankAddress {
    std::string host;
    uint16_t port = 0;
};
// "host:5000", "[::1]:5000". Throws usage.
RankAddress parse_rank_address(const std::string& text);
std::string format_rank_address(const RankAddress& address);

// Of 32 random bytes, in hexadecimal. Throws unavailable.
std::string make_rank_secret();

class RankListener {
  public:
    // Listens; port 0: any. Throws unavailable.
    RankListener(const RankAddress& address, const std::string& secret);

    // With the port that it listens on.
    const RankAddress& address() const { return address_; }
    // Readable when take() may have news.
    int descriptor() const { return poll_.get(); }

    // From now on `num_ranks` ranks are expected; those that are there are closed.
    void expect(int num_ranks);
    // Takes connections that wait, and what they have said. True when all ranks are there.
    bool take();
    // Their sockets in the order of the ranks, blocking. REQUIRES: take() was true.
    std::vector<OwnedDescriptor> ranks();

  private:
    struct Caller {
        OwnedDescriptor socket;
        std::vector<uint8_t> said;
        std::chrono::steady_clock::time_point until;
    };
    void accept_callers();
    // False when the caller is to be closed; its socket is taken when it has said all.
    bool hear(Caller& caller);

    RankAddress address_;
    std::string secret_;
    OwnedDescriptor socket_;
    OwnedDescriptor poll_;
    std::vector<Caller> callers_;
    std::vector<OwnedDescriptor> ranks_;
};

// Connects to the listener and says who this is, again and again until `patience` is over. Throws
// unavailable.
OwnedDescriptor join_as_rank(const RankAddress& address, const std::string& secret, int rank,
                             int num_ranks, std::chrono::milliseconds patience);

// A connection whose other end vanishes without a word (a host that is gone, a cable) is found
// broken within about ten seconds.
void notice_lost_peer(int socket);

}  // namespace nvllm
