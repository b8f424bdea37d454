// Sampling on the GPU: one block of 512 threads a row, no sorting (sampling_row.h).
//
// Shared memory: 32 KiB of bins and gathered candidates. Passes over a row of float32, of which all
// but the first find it in the second-level cache where rows are few: one for the best score, which
// is all that greedy choice takes; two for a cut by top-k, three for one by top-p (its total beside
// the search), three for the draw; min-p takes none.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/sampling_row.h"
#include "kernels/random.h"

namespace nvllm::cuda {
namespace {

constexpr float kLog2OfE = 1.44269504f;

__global__ void __launch_bounds__(kMaxThreads)
    forbid_others_kernel(const uint32_t* __restrict__ allowed, int64_t words, Rows<float> logits) {
    for_my_run(logits.layout, [&](int64_t row, int64_t column, int64_t count) {
        // A run lies within one word: both are powers of two.
        const uint32_t bits = allowed[row * words + column / 32] >> (column % 32);
        float* const scores = logits.row(row) + column;
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            if (i < count && (bits >> i & 1u) == 0) scores[i] = -INFINITY;
        }
    });
}

__device__ __forceinline__ float* score_at(const Rows<float>& logits, int row, int token) {
    if (row < 0 || row >= logits.layout.count || token < 0 || token >= logits.layout.width) {
        return nullptr;
    }
    return logits.row(row) + token;
}

__global__ void __launch_bounds__(kMaxThreads)
    add_biases_kernel(const ops::LogitBias* __restrict__ biases, int64_t count,
                      Rows<float> logits) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const ops::LogitBias bias = biases[i];
    if (float* const score = score_at(logits, bias.row, bias.token)) *score += bias.bias;
}

__global__ void __launch_bounds__(kMaxThreads)
    punish_kernel(const ops::SeenScore* __restrict__ seen, int64_t count,
                  const ops::LogitPenalties* __restrict__ penalties, Rows<float> logits) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const ops::SeenScore token = seen[i];
    float* const place = score_at(logits, token.row, token.token);
    if (place == nullptr) return;
    const ops::LogitPenalties penalty = penalties[token.row];
    float score = *place;
    score = score < 0.0f ? score * penalty.repetition : score / penalty.repetition;
    score = gpu::fma(-penalty.frequency, static_cast<float>(token.num_generated), score);
    if (token.num_generated > 0) score -= penalty.presence;
    *place = score;
}

__device__ __forceinline__ SamplingScores scores_of(const Rows<const float>& logits, int64_t row) {
    SamplingScores scores{};
    scores.scores = logits.row(row);
    scores.vocab = static_cast<int>(logits.layout.width);
    scores.aligned = logits.layout.aligned;
    scores.factor = kLog2OfE;
    scores.limit = kNoLimit;
    return scores;
}

// Worse scores than `lowest` are cut away.
__device__ __forceinline__ void keep_from(float lowest, SamplingScores& row) {
    const uint64_t limit = quantized_of_value(lowest, 0) | 0xffffffffu;
    if (limit < row.limit) row.limit = limit;
}

__device__ __forceinline__ void cut(const ops::SamplingRow& how, const SamplingShared& shared,
                                    SamplingScores& row) {
    if (how.top_k > 0) {
        const Selected last = select(row, shared, SelectBy::count, uint64_t(how.top_k) - 1);
        if (last.found) keep_from(score_of(last.code), row);
    }
    if (how.top_p < 1.0f) {
        const Weight total = total_weight(row, shared.weights);
        __syncthreads();
        auto wanted = static_cast<Weight>(ceil(double{how.top_p} * static_cast<double>(total)));
        if (wanted < 1) wanted = 1;
        const Selected last = select(row, shared, SelectBy::weight, wanted - 1);
        if (last.found) row.limit = last.code;
    }
    if (how.min_p > 0.0f) keep_from(row.best + logf(how.min_p) * how.temperature, row);
}

__global__ void __launch_bounds__(kSamplingThreads, kAnyOccupancy)
    sample_kernel(Rows<const float> logits, const ops::SamplingRow* __restrict__ rows,
                  int32_t* __restrict__ tokens) {
    NVLLM_SAMPLING_SHARED(shared);
    const int64_t index = blockIdx.x;
    const ops::SamplingRow how = rows[index];
    SamplingScores row = scores_of(logits, index);
    const BestScore best = find_best(row, shared.codes);
    if (!best.valid || how.temperature == 0.0f) {
        if (threadIdx.x == 0) tokens[index] = best.valid ? token_of(best.code) : ops::kNoToken;
        return;
    }
    row.best = score_of(best.code);
    row.factor = fminf(1.0f / how.temperature, 2e38f) * kLog2OfE;
    cut(how, shared, row);
    const Weight total = total_weight(row, shared.weights);
    __syncthreads();
    const double point = token_point(how.seed, how.num_generated, how.continuation_index);
    const Selected drawn = select(row, shared, SelectBy::weight,
                                  static_cast<Weight>(point * static_cast<double>(total)));
    // The best weighs 2^40: the sum passes every point below the total.
    if (threadIdx.x == 0) tokens[index] = drawn.found ? token_of(drawn.code) : token_of(best.code);
}

struct LogprobsTarget {
    float* logprobs;
    int32_t* ranks;
    int32_t* top_tokens;
    float* top_logprobs;
    int count;
};

// The best `target.count` of the row, best first, into its output.
__device__ __forceinline__ void write_top(SamplingScores row, const SamplingShared& shared,
                                          double log_total, int64_t index,
                                          const LogprobsTarget& target) {
    const Selected last =
        select(row, shared, SelectBy::count, static_cast<uint64_t>(target.count) - 1);
    if (last.found) row.limit = last.code;
    const int gathered = gather(row, shared, {});
    int32_t* const tokens = target.top_tokens + index * target.count;
    float* const values = target.top_logprobs + index * target.count;
    for (int i = static_cast<int>(threadIdx.x); i < target.count; i += kSamplingThreads) {
        if (i >= gathered) {
            tokens[i] = ops::kNoToken;
            values[i] = -INFINITY;
            continue;
        }
        const uint64_t own = shared.codes[i];
        int place = 0;
        for (int j = 0; j < gathered; ++j) place += shared.codes[j] < own ? 1 : 0;
        tokens[place] = token_of(own);
        values[place] = static_cast<float>(double{score_of(own)} - row.best - log_total);
    }
}

__global__ void __launch_bounds__(kSamplingThreads, kAnyOccupancy)
    logprobs_kernel(Rows<const float> logits, const int32_t* __restrict__ chosen,
                    LogprobsTarget target) {
    NVLLM_SAMPLING_SHARED(shared);
    const int64_t index = blockIdx.x;
    SamplingScores row = scores_of(logits, index);
    const BestScore best = find_best(row, shared.codes);
    row.best = score_of(best.code);
    const Weight total = best.code == kNoLimit ? 0 : total_weight(row, shared.weights);
    const double log_total = log(static_cast<double>(total) * 0x1.0p-40);
    const int token = chosen[index];
    const bool exists = token >= 0 && token < row.vocab && best.code != kNoLimit;
    const uint64_t own = exists ? quantized_of_value(row.scores[token], token) : 0;
    Weight better = 0;
    row.for_each_left([&](uint64_t code) { better += code < own ? 1 : 0; });
    better = gpu::block_sum(better, shared.weights);
    __syncthreads();
    if (threadIdx.x == 0) {
        target.logprobs[index] =
            exists ? static_cast<float>(double{row.scores[token]} - row.best - log_total) : NAN;
        target.ranks[index] = exists ? 1 + static_cast<int32_t>(better) : 0;
    }
    if (target.count > 0) write_top(row, shared, log_total, index, target);
}

template <typename Record>
const Record* records_of(const ConstTensorView& view) {
    return static_cast<const Record*>(view.data);
}

template <typename... Parameters, typename... Arguments>
void launch_over_records(const Context& context, void (*kernel)(Parameters...), int64_t count,
                         const Arguments&... arguments) {
    if (count == 0) return;
    gpu::launch(kernel,
                gpu::Launch{.grid = {blocks_for(count, kMaxThreads)},
                            .block = {kMaxThreads},
                            .stream = context.stream},
                arguments...);
}

gpu::Launch launch_of_rows(const Context& context, int64_t rows) {
    return {.grid = {rows}, .block = {kSamplingThreads}, .stream = context.stream};
}

}  // namespace

void change_scores(const Context& context, const ops::LogitsAdjustments& changes,
                   const TensorView& logits) {
    const Rows<float> rows = rows_of<float>(logits);
    if (changes.allowed.data != nullptr) {
        launch_over_runs(context, forbid_others_kernel, rows.layout, changes.allowed.as<uint32_t>(),
                         changes.allowed.dim(1), rows);
    }
    if (changes.biases.data != nullptr) {
        const int64_t count = changes.biases.dim(0);
        launch_over_records(context, add_biases_kernel, count,
                            records_of<ops::LogitBias>(changes.biases), count, rows);
    }
    if (changes.seen.data != nullptr) {
        const int64_t count = changes.seen.dim(0);
        launch_over_records(context, punish_kernel, count, records_of<ops::SeenScore>(changes.seen),
                            count, records_of<ops::LogitPenalties>(changes.penalties), rows);
    }
}

void sample(const Context& context, const ConstTensorView& logits, const ConstTensorView& rows,
            const TensorView& tokens) {
    if (logits.dim(0) == 0) return;
    gpu::launch(sample_kernel, launch_of_rows(context, logits.dim(0)), rows_of<float>(logits),
                records_of<ops::SamplingRow>(rows), tokens.as<int32_t>());
}

void logprobs(const Context& context, const ConstTensorView& logits, const ConstTensorView& chosen,
              const ops::LogprobsOutput& out) {
    if (logits.dim(0) == 0) return;
    gpu::launch(logprobs_kernel, launch_of_rows(context, logits.dim(0)), rows_of<float>(logits),
                chosen.as<int32_t>(),
                LogprobsTarget{out.logprobs.as<float>(), out.ranks.as<int32_t>(),
                               out.top_tokens.as<int32_t>(), out.top_logprobs.as<float>(),
                               static_cast<int>(out.top_tokens.dim(1))});
}

}  // namespace nvllm::cuda
