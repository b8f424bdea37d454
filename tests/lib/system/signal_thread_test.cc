// Signals as calls, where the system allows no thread for them.
#include "lib/system/signal_thread.h"

#include <doctest/doctest.h>

#include <csignal>

#include "tests/error_of.h"
#include "tests/few_threads.h"

namespace nvllm {
namespace {

TEST_CASE("a signal thread that cannot be started is an error") {
    const test::FewThreads none(0);
    test::error_of(ErrorKind::unavailable,
                   [] { const SignalThread signals({SIGUSR2}, [](int) {}); });
}

}  // namespace
}  // namespace nvllm
