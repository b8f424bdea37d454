// Unix sockets that only their owner can use.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// Listens at `path`, which only this user can open: mode 0600 from the first moment on, in a folder
// where no other user can replace it. An existing socket is replaced if no process
// listens on it. Not blocking. Throws cannot_create with what is wrong.
OwnedDescriptor listen_on_unix_socket(const std::filesystem::path& path);

// The next connection of this user (or root), not blocking; none when no client waits.
OwnedDescriptor accept_own_connection(int listener);

// Throws unavailable when no process listens there, or it does not take the connection within
// `timeout`, not_found when there is no such file.
OwnedDescriptor connect_to_unix_socket(const std::filesystem::path& path,
                                       std::optional<std::chrono::milliseconds> timeout = {});

}  // namespace nvllm
