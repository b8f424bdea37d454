#include "lib/grammar/engine/engine_watch.h"

#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include "lib/base/units.h"

namespace nvllm {
namespace {

// Of the stack, from where the watch begins: threads have 8 MiB, and callers have used some.
constexpr size_t kStackBytes = size_t{3} << 20;

}  // namespace

EngineWatch::EngineWatch(ThreadTime end, double limit, size_t mask_bytes)
    : end_(end), limit_(limit), allowed_bytes_(mask_bytes) {
    xgrammar::SetCheckpoint(&EngineWatch::check, this, kStackBytes);
}

EngineWatch::~EngineWatch() { xgrammar::SetCheckpoint(nullptr, nullptr, 0); }

void EngineWatch::check(void* data, unsigned long bytes) {
    auto& watch = *static_cast<EngineWatch*>(data);
    if (bytes == xgrammar::kStackUsedUp) throw EngineLimit{"it is nested too deeply"};
    watch.bytes_ += bytes;
    if (watch.bytes_ > watch.allowed_bytes_) {
        throw EngineLimit{
            fmt::format("it takes more than {} of memory", describe_bytes(watch.allowed_bytes_))};
    }
    if (thread_time() > watch.end_)
        throw EngineLimit{fmt::format("it takes more than {} s", watch.limit_)};
}

}  // namespace nvllm
