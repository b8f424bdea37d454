// Keys for the hash.
#include "lib/cache/prefix/siphash.h"

#include <random>

namespace nvllm {

HashKey HashKey::random() {
    std::random_device device;
    const auto word = [&] { return (uint64_t{device()} << 32) | device(); };
    return {word(), word()};
}

}  // namespace nvllm
