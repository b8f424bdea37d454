// The service of the program nvllm-worker: a worker for the engine at the other end of a socket.
#pragma once

#include <string>
#include <vector>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// The descriptor by which the program knows its first rank's socket; the others' follow.
inline constexpr int kWorkerSocket = 3;

// The secret of ranks that join, in their environment.
inline constexpr const char* kRankSecretVariable = "NVLLM_RANK_SECRET";

// Reads a setup, makes the worker, and carries out plans until the other end closes the socket. The
// exit code: not zero when the worker could not be made, which the other end was told. Throws
// bad_data when what comes is no message.
// Of several ranks the one that does not choose tokens is sent what the other one chose.
int serve_plans(OwnedDescriptor socket);

// The same for as many ranks, each on a thread of its own; this process ends with the first of
// them that ends.
int serve_plans(std::vector<OwnedDescriptor> sockets);

// Joins as the rank that the launcher's variables name, and serves as one of the program's threads;
// when the other end is gone this process ends, whatever it waits for. `address`: HOST:PORT, or
// :PORT where the launcher names the host. Throws usage, unavailable, and what serve_plans()
// throws.
int join_and_serve(const std::string& address);

}  // namespace nvllm
