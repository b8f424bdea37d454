// The service of the program nvllm-worker: a worker for the engine at the other end of a socket.
#pragma once

#include "lib/system/unix_socket.h"

namespace nvllm {

// The descriptor by which the program knows its socket.
inline constexpr int kWorkerSocket = 3;

// Reads a setup, makes the worker, and carries out plans until the other end closes the socket. The
// exit code: not zero when the worker could not be made, which the other end was told. Throws
// bad_data when what comes is no message.
int serve_plans(OwnedDescriptor socket);

}  // namespace nvllm
