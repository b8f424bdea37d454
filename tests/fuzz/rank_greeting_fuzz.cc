// Bytes as what a rank says when it comes, as many at a time as they happen to come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/parallel/rank_greeting.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace nvllm;
    const std::string secret = "abc";
    const std::span<const uint8_t> said(data, std::min(size, greeting_bytes(secret)));
    RankGreeting greeting;
    Heard before = Heard::part;
    for (size_t count = 0; count <= said.size(); ++count) {
        const Heard heard = read_greeting(said.first(count), secret, greeting);
        // What was wrong is not mended by more.
        if (before == Heard::wrong && heard != Heard::wrong) std::abort();
        before = heard;
    }
    if (before == Heard::whole &&
        write_greeting(greeting, secret) != std::vector<uint8_t>(said.begin(), said.end())) {
        std::abort();
    }
    return 0;
}
