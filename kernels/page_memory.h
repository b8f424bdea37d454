// Memory straight from the system: zeroed, committed page by page when it is first touched, given
// back when it is freed.
//
// What is large enough to hold a huge page begins at one and asks for them, which spares most of
// the address translation of a cache or an arena that is read from end to end. So the first touch
// anywhere in two such MiB makes all of them resident; the system shows them as AnonHugePages.
#pragma once

#include <cstddef>
#include <memory>

namespace nvllm {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct PageDeleter {
    size_t bytes = 0;
    void operator()(std::byte* memory) const;
};
using PageMemory = std::unique_ptr<std::byte[], PageDeleter>;

// Null when the system has none. `bytes` may be 0.
PageMemory take_pages(size_t bytes);

}  // namespace nvllm
