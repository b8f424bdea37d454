// Bytes as what a rank says when it comes, as many at a time as they happen to come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/parallel/rank_handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace nvllm;
    const std::string secret = "abc";
    const std::span<const uint8_t> said(data, std::min(size, handshake_bytes(secret)));
    RankHandshake handshake;
    HandshakeState before = HandshakeState::incomplete;
    for (size_t count = 0; count <= said.size(); ++count) {
        const HandshakeState state = read_handshake(said.first(count), secret, handshake);
        // What was wrong is not mended by more.
        if (before == HandshakeState::wrong && state != HandshakeState::wrong) std::abort();
        before = state;
    }
    if (before == HandshakeState::complete &&
        write_handshake(handshake, secret) != std::vector<uint8_t>(said.begin(), said.end())) {
        std::abort();
    }
    return 0;
}
