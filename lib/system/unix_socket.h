// Unix sockets that only their owner can use.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// Listens at `path`, which only this user can open: mode 0600 from the first moment on, in a folder
// where nobody else can put something else in its place. A socket that is there already is replaced
// when nobody listens on it. Not blocking. Throws cannot_create with what is wrong.
OwnedDescriptor listen_on_unix_socket(const std::filesystem::path& path);

// The next connection of this user (or root), not blocking; none when nobody is there.
OwnedDescriptor accept_own_connection(int listener);

// Throws unavailable when nobody listens there, or does not take the connection within `timeout`,
// not_found when there is no such file.
OwnedDescriptor connect_to_unix_socket(const std::filesystem::path& path,
                                       std::optional<std::chrono::milliseconds> timeout = {});

}  // namespace nvllm
