// Closing, once.
#include "lib/base/owned_descriptor.h"

#include <unistd.h>

#include <utility>

namespace nvllm {

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
    if (this == &other) return *this;
    reset();
    descriptor_ = other.release();
    return *this;
}

int OwnedDescriptor::release() { return std::exchange(descriptor_, -1); }

void OwnedDescriptor::reset() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace nvllm
