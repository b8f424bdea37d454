// The scheduler refuses a resize for now if blocks beyond the new size are in use.
#include "lib/engine/loop/pending_resizes.h"

#include <exception>
#include <utility>

#include "kernels/error.h"

namespace nvllm {

void PendingResizes::run(Scheduler& scheduler, double now_s) {
    while (!waiting_.empty()) {
        ResizeMessage& resize = waiting_.front();
        try {
            if (!scheduler.resize_cache(resize.num_blocks, now_s)) return;
            done_.push_back(std::move(resize.done));
        } catch (const Error&) {
            resize.done.set_exception(std::current_exception());
        }
        waiting_.pop_front();
    }
}

void PendingResizes::report_done() {
    for (std::promise<void>& done : std::exchange(done_, {})) done.set_value();
}

}  // namespace nvllm
