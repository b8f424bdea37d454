// The service of the program nvllm-worker: a worker for the engine at the other end of a socket.
#pragma once

#include <vector>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// The descriptor by which the program knows its first rank's socket; the others' follow.
inline constexpr int kWorkerSocket = 3;

// Reads a setup, makes the worker, and carries out plans until the other end closes the socket. The
// exit code: not zero when the worker could not be made, which the other end was told. Throws
// bad_data when what comes is no message.
// Of several ranks the one that does not choose tokens is sent what the other one chose.
int serve_plans(OwnedDescriptor socket);

// The same for as many ranks, each on a thread of its own; this process ends with the first of
// them that ends.
int serve_plans(std::vector<OwnedDescriptor> sockets);

}  // namespace nvllm
