// Launches: the checks of a device, and the blocks one after another.
#include "kernels/cuda_emulation/launch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/barrier.h"
#include "kernels/cuda_emulation/bulk_copy.h"
#include "kernels/cuda_emulation/collective.h"
#include "kernels/cuda_emulation/copies.h"
#include "kernels/cuda_emulation/counters.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shared_memory.h"
#include "kernels/cuda_emulation/transaction_barrier.h"
#include "kernels/cuda_emulation/warpgroup.h"

namespace nvllm::gpu::emulation {

namespace {

std::atomic<Recorder> launch_recorder{nullptr};

std::mutex one_at_a_time;  // of grids, and of their number

std::map<std::string, uint64_t>& num_grids() {
    static std::map<std::string, uint64_t> numbers;
    return numbers;
}

void check_shape(const Launch& shape) {
    const Extent& block = shape.block;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (threads > kMaxThreads || block.z > 64) {
        throw Fault("a block has at most 1024 threads, 64 along z; this launch asks for " +
                    std::to_string(threads));
    }
    if (shape.grid.y > 65535 || shape.grid.z > 65535) {
        throw Fault("a grid has at most 65535 blocks along y and z");
    }
    if (shape.shared_bytes > max_shared_bytes()) {
        throw Fault("a block has at most " + std::to_string(max_shared_bytes() / 1024) +
                    " KiB of shared memory; this launch asks for " +
                    std::to_string(shape.shared_bytes) + " bytes");
    }
}

std::vector<uint64_t> block_order(const Launch& shape, Scheduler& scheduler) {
    std::vector<uint64_t> order(uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z);
    std::iota(order.begin(), order.end(), 0);
    const Order wanted = scheduler.settings().order;
    if (wanted == Order::reverse) std::reverse(order.begin(), order.end());
    if (wanted == Order::random || wanted == Order::greedy) {
        std::shuffle(order.begin(), order.end(), scheduler.random());
    }
    return order;
}

void thread_body(void* of_grid) {
    const auto* call = static_cast<const Call*>(of_grid);
    call->run(call->arguments);
    check_copies_at_end();
    check_products_at_end();
}

// What kernels were compiled as, where tests say so.
std::mutex versions_mutex;
std::map<const void*, CompiledVersion> versions;

bool waits_for_work_before(const void* kernel) {
    const std::lock_guard lock(versions_mutex);
    const auto found = versions.find(kernel);
    return found == versions.end() || gpu::waits_for_work_before(found->second);
}

// Threads of the block that have waited for the work before, in a kernel whose code does.
uint64_t num_waited = 0;
bool is_waiting_code = true;

void check_waits(const Launch& shape) {
    const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
    if (!shape.overlaps || num_waited == threads) return;
    throw Fault(std::to_string(threads - num_waited) +
                " threads of a block have not called wait_for_work_before(), though the launch "
                "may overlap the one before");
}

void run_one_block(Scheduler& scheduler, const Launch& shape, uint64_t number, const Call& call) {
    const uint3 index{static_cast<unsigned>(number % shape.grid.x),
                      static_cast<unsigned>(number / shape.grid.x % shape.grid.y),
                      static_cast<unsigned>(number / shape.grid.x / shape.grid.y)};
    begin_shared_memory(shape.shared_bytes);
    reset_block_barrier();
    reset_collectives();
    reset_copies();
    reset_transaction_barriers();
    reset_bulk_copies();
    reset_warpgroup_products();
    races::begin_block();
    num_waited = 0;
    scheduler.run_block(index, thread_body, const_cast<Call*>(&call));
    check_waits(shape);
    check_shared_memory();
    check_bulk_copies();
    if (counting()) finish_counting_block();
}

}  // namespace

void note_wait_for_work_before() { num_waited += is_waiting_code ? 1 : 0; }

void set_compiled_version(const void* kernel, CompiledVersion version) {
    const std::lock_guard lock(versions_mutex);
    versions[kernel] = version;
}

Launch as_compiled(const Launch& shape, const void* kernel) {
    Launch launched = shape;
    launched.overlaps = shape.overlaps && waits_for_work_before(kernel);
    return launched;
}

void set_launch_recorder(Recorder recorder) { launch_recorder = recorder; }

void submit(void* stream, std::function<void()> run) {
    if (const Recorder recorder = launch_recorder) {
        recorder(stream, std::move(run));
    } else {
        run();
    }
}

std::map<std::string, uint64_t> grids_by_type() {
    const std::lock_guard lock(one_at_a_time);
    return num_grids();
}

void run_grid(const Launch& shape, const Call& call) {
    const std::lock_guard lock(one_at_a_time);
    ++num_grids()[call.type];
    check_shape(shape);
    is_waiting_code = waits_for_work_before(call.kernel);
    Scheduler& scheduler = Scheduler::instance();
    scheduler.begin_launch(settings(), dim3(shape.grid.x, shape.grid.y, shape.grid.z),
                           dim3(shape.block.x, shape.block.y, shape.block.z));
    scheduler.set_idle_work(perform_bulk_copy);
    scheduler.set_arguments(call.arguments, call.bytes);
    races::begin_launch();
    for (const uint64_t number : block_order(shape, scheduler))
        run_one_block(scheduler, shape, number, call);
}

}  // namespace nvllm::gpu::emulation

namespace nvllm::gpu {

size_t max_shared_bytes() { return emulation::settings().max_shared_bytes; }

}  // namespace nvllm::gpu
