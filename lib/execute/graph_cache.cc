// Captures, launches, and what makes graphs useless.
#include "lib/execute/graph_cache.h"

#include <fmt/format.h>

#include <bit>

#include "lib/base/log.h"

namespace nvllm {
namespace {

constexpr int32_t kRowsStep = 8;  // between sizes, from 8 on

}  // namespace

std::optional<int32_t> graph_rows_for(int32_t rows, int32_t most) {
    const auto power = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows)));
    const int32_t filled =
        rows <= kRowsStep ? power : (rows + kRowsStep - 1) / kRowsStep * kRowsStep;
    if (rows < 1 || filled > most) return std::nullopt;
    return filled;
}

GraphCache::GraphCache(const ComputeDevice& device) : device_(device) {
    NVLLM_CHECK(!device.is_cpu(), "the CPU keeps no graphs");
}

GraphCache::~GraphCache() {
    try {
        forget();
    } catch (const Error&) {  // of a device that is lost nothing can be given back
    }
}

void GraphCache::forget() {
    for (auto& [shape, entry] : entries_) {
        if (entry.graph != nullptr) device_.backend()->end_graph(device_.id().index, entry.graph);
        entry.graph = nullptr;
    }
    entries_.clear();
}

void GraphCache::forget_what_moved(const Context& context, int64_t address_version) {
    const size_t growths = context.scratch->num_growths();
    if (address_version == address_version_ && growths == num_growths_) return;
    if (!entries_.empty()) {
        device_.synchronize(context.stream);  // graphs in flight end first
        forget();
    }
    address_version_ = address_version;
    num_growths_ = growths;
}

void GraphCache::abandon(const Context& context) {
    try {
        const BackendTable& backend = *device_.backend();
        const DeviceGraph part = backend.end_capture(device_.id().index, context.stream);
        if (part != nullptr) backend.end_graph(device_.id().index, part);
    } catch (const DeviceLost&) {
        throw;
    } catch (const Error&) {  // what was begun is over either way
    }
}

GraphCache::Entry* GraphCache::capture(const Context& context, Entry& entry,
                                       const std::function<ComputedStep()>& compute) {
    const BackendTable& backend = *device_.backend();
    const int index = device_.id().index;
    try {
        backend.begin_capture(index, context.stream);
    } catch (const DeviceLost&) {
        throw;
    } catch (const Error& error) {
        is_usable_ = false;
        if (error.kind() != ErrorKind::unavailable) {
            log_warning(fmt::format("steps run without graphs: {}", error.what()));
        }
        return nullptr;
    }
    try {
        entry.computed = compute();
        entry.scratch_bytes = context.scratch->bytes_in_use();
        entry.graph = backend.end_capture(index, context.stream);
    } catch (const DeviceLost&) {
        throw;
    } catch (const Error& error) {
        is_usable_ = false;
        log_warning(fmt::format("steps run without graphs: {}", error.what()));
        abandon(context);
        return nullptr;
    }
    ++counts_.captures;
    return &entry;
}

ComputedStep GraphCache::run(const Context& context, const GraphShape& shape,
                             int64_t address_version,
                             const std::function<ComputedStep()>& compute) {
    NVLLM_CHECK(context.scratch->bytes_in_use() == 0, "a step's results begin at one address");
    if (!is_usable_) return compute();
    forget_what_moved(context, address_version);
    const auto [found, is_new] = entries_.try_emplace(shape);
    if (is_new) return compute();
    Entry& entry = found->second;
    if (entry.graph == nullptr) {
        if (capture(context, entry, compute) == nullptr) {
            context.scratch->reset();
            return compute();
        }
    } else {
        context.scratch->take(entry.scratch_bytes);
    }
    device_.backend()->launch(device_.id().index, entry.graph, context.stream);
    ++counts_.launches;
    return entry.computed;
}

}  // namespace nvllm
