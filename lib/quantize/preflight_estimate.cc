// What a run takes, from shapes alone.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "kernels/ops/linalg.h"
#include "lib/base/units.h"
#include "lib/quantize/activation_store.h"
#include "lib/quantize/pipeline.h"
#include "lib/system/memory_info.h"

namespace nvllm::quantize {
namespace {

// Of what is available, the share that is used by default.
constexpr double kShareOfMemory = 0.75;

// Temporaries of a Gram matrix of x [rows, size].
uint64_t gram_scratch_bytes(int64_t rows, int64_t size, DType compute_type, int num_threads) {
    const DryRun dry({}, DType::f32, num_threads);
    ops::add_gram(dry.context(), dry.view(DType::f32, {rows, size}), compute_type,
                  dry.view(DType::f32, {size, size}));
    return dry.scratch_bytes();
}

uint64_t square_bytes(int64_t size) { return static_cast<uint64_t>(size * size) * sizeof(float); }

// Existing folder that a path lies in.
std::filesystem::path existing_parent(std::filesystem::path path) {
    path = std::filesystem::absolute(path);
    while (!path.empty() && !std::filesystem::exists(path)) path = path.parent_path();
    return path;
}

// About what one value of a linear takes in the output, in bits.
double planned_bits(const LinearPlan& plan, DType stored) {
    const auto kept = [&](double bits) { return plan.is_sparse ? bits / 2.0 + 1.0 : bits; };
    if (plan.scheme == nullptr) return kept(8.0 * static_cast<double>(dtype_bytes(stored)));
    const QuantizationArguments& weights = *plan.scheme->weights;
    const double group = static_cast<double>(weights.group_size.value_or(0));
    return kept(weights.bits) + (group > 0.0 ? 16.0 / group : 0.0);
}

}  // namespace

void Pipeline::plan_stage(int32_t stage, uint64_t forward_bytes) {
    ResourcePlan& plan = resources_;
    const double tokens = calibration_ ? static_cast<double>(calibration_->num_tokens) : 0.0;
    uint64_t kept = 0, copies = 0, largest = 0, moments = 0, factor = 0, gram_scratch = 0;
    std::map<size_t, int64_t> sites;
    std::map<size_t, uint64_t> ranges;  // by site: what static scales are made of
    for (const size_t index : linears_of_stage(stage)) {
        const LinearSpec& name = model_.linears()[index].name;
        if (!changes(index)) continue;
        const auto values = static_cast<double>(name.in) * static_cast<double>(name.out);
        const auto count = static_cast<uint64_t>(values);
        const DType stored = model_.dense_type(index);
        // While it is solved: float32 as it was, as it becomes and as it is judged.
        largest = std::max(largest, 3 * count * sizeof(float));
        // Mapped values, and codes.
        kept += count * (dtype_bytes(stored) + 1);
        copies += count * dtype_bytes(model_.compute_type());
        plan.output_bytes +=
            static_cast<uint64_t>(values * planned_bits(plan_.linear(index), stored) / 8.0);
        // The embedding stays beside what was tied to it.
        if (name.tied_to.empty()) plan.output_bytes -= model_.stored_bytes(index);
        plan.operations += 4.0 * values * tokens + 2.0 * values * static_cast<double>(name.in);
        const size_t site = model_.linears()[index].site;
        sites[site] = name.in;
        const QuantizationArguments* const inputs = plan_.linear(index).static_inputs();
        if (inputs != nullptr && calibration_) {
            const size_t rows = inputs->range_share ? calibration_->samples.size() : 1;
            ranges[site] = std::max(ranges[site], SampleRanges::planned_bytes(name.in, rows));
        }
        if (plan_.linear(index).needs_gram()) factor = std::max(factor, square_bytes(name.in));
    }
    if (!calibration_) {
        plan.block_bytes = std::max(plan.block_bytes, kept + largest);
        return;
    }
    for (const auto& [site, in] : sites) {
        moments += square_bytes(in);
        gram_scratch = std::max(gram_scratch,
                                gram_scratch_bytes(calibration_->longest, in, model_.compute_type(),
                                                   threads_.num_threads()));
        plan.operations += static_cast<double>(in) * static_cast<double>(in) * tokens;
    }
    for (const auto& [site, bytes] : ranges) moments += bytes;
    moments += factor;
    // What gives the next block its inputs is made when moments are gone.
    const uint64_t beyond_moments = copies - std::min(copies, moments);
    plan.block_bytes = std::max(plan.block_bytes, kept + std::max(largest, beyond_moments));
    plan.moments_bytes = std::max(plan.moments_bytes, moments);
    // A factor is computed in the memory of the forward pass.
    plan.forward_bytes =
        std::max({plan.forward_bytes, forward_bytes + gram_scratch, factor + factor / 2});
}

void Pipeline::plan_resources() {
    ResourcePlan& plan = resources_;
    plan.output_bytes = model_.checkpoint().data_bytes();
    const uint64_t forward =
        calibration_ ? BlockForward::planned_bytes(model_.model(), calibration_->longest,
                                                   threads_.num_threads())
                     : 0;
    for (int32_t stage = 0; stage < num_stages(); ++stage) plan_stage(stage, forward);
    plan.disk_bytes = 3 * plan.output_bytes;
    if (!calibration_) return;
    plan.activation_bytes =
        ActivationStore::bytes_of(calibration_->num_tokens, model_.model().config().hidden_size);
    const uint64_t limit = options_.memory_limit_bytes.value_or(
        static_cast<uint64_t>(kShareOfMemory * static_cast<double>(available_memory_bytes())));
    plan.spills = plan.peak_bytes() > limit;
    if (plan.spills && options_.offload_folder.empty()) plan.disk_bytes += plan.activation_bytes;
}

void Pipeline::check_resources() const {
    const uint64_t available = available_memory_bytes();
    const uint64_t limit = std::min(options_.memory_limit_bytes.value_or(available), available);
    if (resources_.peak_bytes() > limit) {
        throw Error(ErrorKind::does_not_fit,
                    fmt::format("{} of memory are needed even with activations on disk, and {} may "
                                "be taken; a shorter --max-seq-length takes less, --method rtn the "
                                "least",
                                describe_bytes(resources_.peak_bytes()), describe_bytes(limit)));
    }
    const std::filesystem::path folder = existing_parent(options_.output);
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (error || space.available >= resources_.disk_bytes) return;
    throw Error(ErrorKind::does_not_fit,
                fmt::format("{}: {} are free, and up to {} are needed while the output is written",
                            folder.string(), describe_bytes(space.available),
                            describe_bytes(resources_.disk_bytes)));
}

}  // namespace nvllm::quantize
